//! Appending to the launch sequence.

use crate::model::LogEntry;

/// Appends an entry; joins it to the last one if it continues that one in its file (or on its
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Place, Span};

    fn entry(place: Place, start: u64, len: u64, lba: u64, time_us: u64) -> LogEntry {
        LogEntry {
            span: Span { place, start, len },
            device: 0,
            lba,
            time_us,
        }
    }

    #[test]
    fn entries_that_follow_in_sequence_file_and_disk_are_joined() {
        let (file, other) = (Place::Data { file: 0 }, Place::Data { file: 1 });
        let mut log = Vec::new();
        for next in [
            entry(file, 0, 2, 80, 5),
            entry(file, 2, 1, 96, 7),
            entry(file, 3, 1, 8, 8),
            entry(other, 4, 1, 16, 9),
            entry(file, 4, 1, 16, 10),
            entry(file, 6, 1, 24, 11),
        ] {
            push(&mut log, next);
        }
        assert_eq!(
            log,
            [
                entry(file, 0, 3, 80, 5),
                entry(file, 3, 1, 8, 8),
                entry(other, 4, 1, 16, 9),
                entry(file, 4, 1, 16, 10),
                entry(file, 6, 1, 24, 11),
            ]
        );
    }
}
