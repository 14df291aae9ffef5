//! The page of a launch sequence that launches are timed by.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::model::{LogEntry, Place, Span};

/// Pages that the kernel's default readahead may read before or after the one that was asked for: 128 KiB.
const READAHEAD_PAGES: u64 = 32;

/// The page by which the completion block (paper §4.2) is known in later launches: the last page of file
/// data in the launch, which ended after `duration`, that no earlier read was near.
///
/// Every launch must read it last. With the default readahead, a page near an earlier read arrives with
/// that read, long before it is touched.
pub fn completion_page(log: &[LogEntry], duration: Duration) -> Option<Span> {
    // For each file, the ranges that were read so far, from start to end.
    let mut read: HashMap<u32, BTreeMap<u64, u64>> = HashMap::new();
    let mut last = None;
    for entry in log {
        let Place::Data { file } = entry.span.place else {
            continue;
        };
        if u128::from(entry.time_us) > duration.as_micros() {
            break;
        }
        let (start, end) = (entry.span.start, entry.span.end());
        let parts = read.entry(file).or_default();
        let reach = end + READAHEAD_PAGES;
        let near = parts
            .range(..reach)
            .next_back()
            .is_some_and(|(_, end)| end + READAHEAD_PAGES > start);
        if !near {
            last = Some(Span {
                len: 1,
                ..entry.span
            });
        }
        let known = parts.entry(start).or_insert(end);
        *known = end.max(*known);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file and page by which a launch is timed that makes these reads a microsecond apart (file, first
    /// page, number of pages), and ends after so many microseconds.
    fn completion(reads: &[(u32, u64, u64)], duration_us: u64) -> Option<(Place, u64)> {
        let entries = (0..)
            .zip(reads)
            .map(|(time_us, &(file, start, len))| LogEntry {
                span: Span {
                    place: Place::Data { file },
                    start,
                    len,
                },
                device: 0,
                lba: 0,
                time_us,
            });
        let log: Vec<LogEntry> = entries.collect();
        let span = completion_page(&log, Duration::from_micros(duration_us))?;
        assert_eq!(span.len, 1);
        Some((span.place, span.start))
    }

    #[test]
    fn the_completion_page_is_the_last_read_of_the_launch() {
        let reads = [(1, 0, 9), (2, 7, 5), (3, 0, 1)];
        let page = |file, page| Some((Place::Data { file }, page));
        assert_eq!(completion(&reads, 2), page(3, 0));
        assert_eq!(completion(&reads, 1), page(2, 7), "later reads are skipped");
        assert_eq!(completion(&[], 2), None);
    }

    #[test]
    fn pages_within_readahead_of_an_earlier_read_are_skipped() {
        let found = |last| completion(&[(0, 0, 1), (1, 100, 1), last], 9);
        let page = |page| Some((Place::Data { file: 1 }, page));
        for near in [(1, 101, 1), (1, 130, 2), (1, 69, 1), (1, 40, 35)] {
            assert_eq!(found(near), page(100), "{near:?}");
        }
        for far in [(1, 133, 1), (1, 60, 2)] {
            assert_eq!(found(far), page(far.1), "{far:?}");
        }
    }
}
