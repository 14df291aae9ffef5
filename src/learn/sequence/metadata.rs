//! Missing metadata (paper §3.1): blocks that data depend on, but that the learned launch did not read
//! because they were still cached.

use std::ops::Range;

use super::Sequence;
use super::dependencies::Dependencies;
use crate::model::ranges::RangeSet;
use crate::model::{LogEntry, Place, SECTORS_PER_PAGE, Span};

/// Walks the sequence's log and inserts, just before each data entry, those pages of metadata that it
/// depends on and that the whole log lacks. Metadata that only come later than the data stay where they are, and
/// are counted. `dependencies` is indexed as the file table.
pub fn insert_missing(sequence: &mut Sequence, dependencies: &[&Dependencies]) {
    let log = std::mem::take(&mut sequence.log);
    let mut traced = vec![RangeSet::default(); sequence.devices.len()];
    for entry in log.iter().filter(|entry| entry.span.place.is_metadata()) {
        traced[usize::from(entry.device)].insert(entry.span.pages());
    }
    // Metadata in the output so far, and metadata that come only after data that depend on them.
    let mut present = vec![RangeSet::default(); traced.len()];
    let mut late = present.clone();
    for entry in log {
        let device = usize::from(entry.device);
        if let Place::Data { file } = entry.span.place {
            for needed in dependencies[file as usize].of(&entry.span.pages()) {
                for absent in present[device].missing(&needed) {
                    for coming in traced[device].overlapping(&absent) {
                        late[device].insert(coming);
                    }
                    for missing in traced[device].missing(&absent) {
                        present[device].insert(missing.clone());
                        let inserted = metadata_entry(entry.device, missing, entry.time_us);
                        sequence.report.missing_metadata += inserted.span.len;
                        sequence.unread.push(inserted.span);
                        push(&mut sequence.log, inserted);
                    }
                }
            }
        } else {
            present[device].insert(entry.span.pages());
        }
        sequence.log.push(entry);
    }
    sequence.report.late_metadata = late.iter().map(RangeSet::len).sum();
}

/// Appends an entry to a log; joins it to the last one if it continues that one in its file (or on its
/// device) and on the disk. The time of a joined entry is that of its first access.
pub fn push(log: &mut Vec<LogEntry>, entry: LogEntry) {
    match log.last_mut() {
        Some(last)
            if last.span.place == entry.span.place
                && last.device == entry.device
                && last.span.end() == entry.span.start
                && last.lba_end() == entry.lba =>
        {
            last.span.len += entry.span.len;
        }
        _ => log.push(entry),
    }
}

/// A log entry for pages of a device's metadata.
pub fn metadata_entry(device: u16, pages: Range<u64>, time_us: u64) -> LogEntry {
    LogEntry {
        lba: pages.start * SECTORS_PER_PAGE,
        span: Span::new(Place::Metadata { device }, pages),
        device,
        time_us,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::ext4::ExtentNode;
    use crate::learn::sequence::tests::{device, text};

    fn data(file: u32, pages: Range<u64>, time_us: u64) -> LogEntry {
        LogEntry {
            span: Span::new(Place::Data { file }, pages),
            device: 0,
            lba: 1 << 20,
            time_us,
        }
    }

    fn node(first: u64, len: u64, physical: u64, depth: u32) -> ExtentNode {
        ExtentNode {
            first,
            len,
            physical,
            depth,
        }
    }

    fn completed(log: &[LogEntry], dependencies: &[&Dependencies]) -> Sequence {
        let mut sequence = Sequence {
            devices: vec![(*device(1)).clone()],
            log: log.to_vec(),
            ..Sequence::default()
        };
        insert_missing(&mut sequence, dependencies);
        sequence
    }

    #[test]
    fn the_inode_and_the_nodes_that_cover_the_pages_come_first() {
        // Two levels: an index node at 60; leaves at 61 and 70, of which each maps 100 blocks.
        let nodes = [
            node(0, 200, 60, 0),
            node(0, 100, 61, 1),
            node(100, 100, 70, 1),
        ];
        let file = Dependencies::new(Some(50), &nodes, 4096);
        let done = completed(&[data(0, 10..15, 3), data(0, 99..101, 4)], &[&file]);
        let expected = "m:50+1@3 m:60+2@3 0:10+5@3 m:70+1@4 0:99+2@4";
        assert_eq!(text(&done.log, &[]), expected);
        assert_eq!(done.log[1].lba, 60 * SECTORS_PER_PAGE);
        let inserted: Vec<_> = done.unread.iter().map(Span::pages).collect();
        assert_eq!(inserted, [50..51, 60..61, 61..62, 70..71]);
        assert_eq!(done.report.late_metadata, 0);
    }

    #[test]
    fn metadata_that_come_too_late_are_counted_once_and_left_there() {
        let file = Dependencies::new(Some(50), &[], 4096);
        let late = metadata_entry(0, 50..51, 3);
        let log = [data(0, 0..1, 1), data(1, 5..6, 2), late];
        let done = completed(&log, &[&file, &file]);
        assert_eq!(done.log, log);
        assert_eq!((done.unread.len(), done.report.late_metadata), (0, 1));
        // Without it, the files of one inode block need it once.
        let done = completed(&log[..2], &[&file, &file]);
        assert_eq!(text(&done.log, &[]), "m:50+1@1 0:0+1@1 1:5+1@2");
    }

    #[test]
    fn entries_that_follow_in_sequence_file_and_disk_are_joined() {
        let entry = |file, pages, lba, time_us| LogEntry {
            lba,
            ..data(file, pages, time_us)
        };
        // Each but the second breaks one rule.
        let next = [
            entry(0, 0..2, 80, 5),
            entry(0, 2..3, 96, 7),
            entry(0, 3..4, 8, 8),
            entry(1, 4..5, 16, 9),
            entry(0, 4..5, 16, 10),
            entry(0, 6..7, 24, 11),
        ];
        let mut log = Vec::new();
        next.into_iter().for_each(|next| push(&mut log, next));
        assert_eq!(log[0], entry(0, 0..3, 80, 5));
        assert_eq!(log[1..], next[2..]);
    }
}
