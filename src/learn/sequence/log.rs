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

    #[test]
    fn entries_that_follow_in_sequence_file_and_disk_are_joined() {
        let entry = |file, pages, lba, time_us| LogEntry {
            span: Span::new(Place::Data { file }, pages),
            device: 0,
            lba,
            time_us,
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
