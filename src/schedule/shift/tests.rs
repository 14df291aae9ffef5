use proptest::prelude::*;

use super::super::generate::{self, launch, metadata};
use super::*;
use crate::model::PAGE_SIZE;

/// A metadata entry of one page.
fn m(block: u64) -> LogEntry {
    metadata(block, 1)
}

/// A data entry of one page.
fn d(file: u32) -> LogEntry {
    generate::data(file, 0, 1, 0)
}

/// Built after the caption of Figure 5 and its "shift size of 4KB" (the text at hand does not
/// carry the pictures): data behind the metadata that it depends on empties the queue twice; moving
/// each metadata block before one data request more keeps a request in flight beside it.
#[test]
fn figure_5_shift_of_4_kib() {
    let sequence = [m(1), d(1), m(2), d(2), m(3), d(3)];
    let shifted = [m(1), m(2), d(1), m(3), d(2), d(3)];
    assert_eq!(metadata_shift(&sequence, 4096), shifted);
}

#[test]
fn data_waits_for_as_much_metadata_as_the_shift() {
    let sequence = [m(1), d(1), d(2), m(2), m(3), d(3), m(4)];
    let shifted = [m(1), m(2), m(3), d(1), d(2), m(4), d(3)];
    assert_eq!(metadata_shift(&sequence, 8192), shifted);
    // Larger than all the metadata there is: it all goes first.
    let all_first = [m(1), m(2), m(3), m(4), d(1), d(2), d(3)];
    assert_eq!(metadata_shift(&sequence, u64::MAX), all_first);
}

#[test]
fn the_entry_that_crosses_the_line_passes_whole() {
    let big = metadata(100, 16);
    let sequence = [d(1), big, m(1)];
    assert_eq!(metadata_shift(&sequence, 4096), [big, d(1), m(1)]);
}

/// Where each entry of `log` went. Entries of a launch differ, as it names no page twice.
fn new_positions(log: &[LogEntry], shifted: &[LogEntry]) -> Vec<usize> {
    log.iter()
        .map(|entry| {
            let mut at = (0..shifted.len()).filter(|&i| shifted[i] == *entry);
            let (first, second) = (at.next(), at.next());
            assert_eq!(second, None, "an entry appears twice");
            first.expect("an entry is lost")
        })
        .collect()
}

fn shift() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0..40u64).prop_map(|pages| pages * PAGE_SIZE),
        0..40 * PAGE_SIZE,
    ]
}

proptest! {
    /// Neither among metadata nor among data does anything overtake, nor does data overtake metadata.
    #[test]
    fn only_metadata_overtakes_and_only_data(launch in launch(), shift_bytes in shift()) {
        let shifted = metadata_shift(&launch.log, shift_bytes);
        prop_assert_eq!(shifted.len(), launch.log.len());
        let at = new_positions(&launch.log, &shifted);
        let is_metadata = |i: usize| launch.log[i].span.place.is_metadata();
        for later in 0..at.len() {
            for earlier in (0..later).filter(|&i| is_metadata(i) || !is_metadata(later)) {
                prop_assert!(at[earlier] < at[later], "{later} overtook {earlier}");
            }
        }
        prop_assert_eq!(&metadata_shift(&launch.log, 0), &launch.log);
    }

    /// Exactly as much metadata passes a data entry as it takes to reach the shift: less than the
    /// shift before the entry that crosses the line, and the line is crossed unless the sequence
    /// ends first.
    #[test]
    fn the_shift_bounds_what_passes(launch in launch(), shift_bytes in shift()) {
        let shifted = metadata_shift(&launch.log, shift_bytes);
        let at = new_positions(&launch.log, &shifted);
        for i in (0..launch.log.len()).filter(|&i| !launch.log[i].span.place.is_metadata()) {
            let later: Vec<(bool, u64)> = (i + 1..launch.log.len())
                .filter(|&j| launch.log[j].span.place.is_metadata())
                .map(|j| (at[j] < at[i], launch.log[j].span.bytes()))
                .collect();
            let passed: Vec<u64> = later.iter().filter(|(p, _)| *p).map(|(_, b)| *b).collect();
            let before_crossing: u64 = passed.iter().rev().skip(1).sum();
            prop_assert!(passed.is_empty() || before_crossing < shift_bytes);
            let total: u64 = passed.iter().sum();
            prop_assert!(total >= shift_bytes || passed.len() == later.len());
        }
    }

    /// With metadata that always meets the line exactly, at most the shift passes in all.
    #[test]
    fn single_pages_never_pass_more_than_the_shift(
        kinds in proptest::collection::vec(any::<bool>(), 0..120),
        pages in 0..20u64,
    ) {
        let log: Vec<LogEntry> = kinds
            .iter()
            .zip(0u32..)
            .map(|(&metadata, i)| if metadata { m(i.into()) } else { d(i) })
            .collect();
        let shifted = metadata_shift(&log, pages * PAGE_SIZE);
        let at = new_positions(&log, &shifted);
        for i in (0..log.len()).filter(|&i| !log[i].span.place.is_metadata()) {
            let passed = (i + 1..log.len()).filter(|&j| at[j] < at[i]).count();
            prop_assert!(passed as u64 <= pages);
        }
    }
}
