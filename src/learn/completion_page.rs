//! The page of a launch sequence that launches are timed by.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use crate::model::ranges::RangeSet;
use crate::model::{LogEntry, Place, Span};

/// Pages that the kernel's default readahead may read before or after the one that was asked for: 128 KiB.
const READAHEAD_PAGES: u64 = 32;

/// The page by which the completion block (paper §4.2) is known in later launches: the last page of file
/// data in the launch, which ended after `duration`, that no earlier read was near.
///
/// Every launch must read it last. With the default readahead, a page near an earlier read arrives with
/// that read, long before it is touched.
pub fn completion_page(log: &[LogEntry], duration: Duration) -> Option<Span> {
    let mut read: HashMap<u32, RangeSet> = HashMap::new();
    let mut last = None;
    for entry in log {
        let Place::Data { file } = entry.span.place else {
            continue;
        };
        if u128::from(entry.time_us) > duration.as_micros() {
            break;
        }
        let Range { start, end } = entry.span.pages();
        let near = start.saturating_sub(READAHEAD_PAGES)..end + READAHEAD_PAGES;
        let read = read.entry(file).or_default();
        if read.overlapping(&near).next().is_none() {
            last = Some(Span {
                len: 1,
                ..entry.span
            });
        }
        read.insert(start..end);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file and page by which a launch is timed that makes these reads a microsecond apart (file, first
    /// page, number of pages), and ends after so many microseconds.
    fn completion(reads: &[(u32, u64, u64)], duration_us: u64) -> Option<(u32, u64)> {
        let entry = |(time_us, &(file, start, len)): (u64, &(u32, u64, u64))| LogEntry {
            span: Span::new(Place::Data { file }, start..start + len),
            device: 0,
            lba: 0,
            time_us,
        };
        let log: Vec<LogEntry> = (0..).zip(reads).map(entry).collect();
        let span = completion_page(&log, Duration::from_micros(duration_us))?;
        assert_eq!(span.len, 1);
        match span.place {
            Place::Data { file } => Some((file, span.start)),
            Place::Metadata { .. } => None,
        }
    }

    #[test]
    fn the_completion_page_is_the_last_read_of_the_launch_that_no_earlier_one_was_near() {
        let reads = [(1, 0, 9), (2, 7, 5), (3, 0, 1)];
        assert_eq!(completion(&reads, 2), Some((3, 0)));
        assert_eq!(
            completion(&reads, 1),
            Some((2, 7)),
            "later reads are skipped"
        );
        assert_eq!(completion(&[], 2), None);
        let found = |last| completion(&[(0, 0, 1), (1, 100, 1), last], 9);
        for near in [(1, 101, 1), (1, 130, 2), (1, 69, 1), (1, 40, 35)] {
            assert_eq!(found(near), Some((1, 100)), "{near:?}");
        }
        for far in [(1, 133, 1), (1, 60, 2)] {
            assert_eq!(found(far), Some((1, far.1)), "{far:?}");
        }
    }
}
