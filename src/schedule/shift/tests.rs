use proptest::prelude::*;

use super::super::generate::{self, launch, metadata};
use super::*;
use crate::model::DriveClass::{CommandQueuing, NoCommandQueuing, Rotational};
use crate::model::{Device, PAGE_SIZE};

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

/// Algorithm 1 of the paper, for one drive.
fn algorithm_1(log: &[LogEntry], shift_bytes: u64) -> Vec<LogEntry> {
    let (mut shifted, mut waiting, mut out_meta) = (Vec::new(), VecDeque::new(), 0);
    for &entry in log {
        if entry.span.place.is_metadata() {
            shifted.push(entry);
            out_meta += entry.span.bytes();
        } else {
            waiting.push_back((out_meta + shift_bytes, entry));
        }
        while waiting
            .front()
            .is_some_and(|(expire, _)| *expire <= out_meta)
        {
            shifted.extend(waiting.pop_front().map(|(_, entry)| entry));
        }
    }
    shifted.extend(waiting.into_iter().map(|(_, entry)| entry));
    shifted
}

fn device(class: DriveClass) -> Device {
    Device {
        dev: 1,
        name: String::new(),
        fs: String::new(),
        fs_uuid: [0; 16],
        class,
    }
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

    /// Drives of one class share a sequence. The entries of each class are in the order that they would have alone;
    /// metadata keep their order, and no data overtake metadata that stood before them.
    #[test]
    fn each_class_is_shifted_by_its_own_parameters(
        launch in launch(),
        shift_bytes in shift(),
        main in prop::sample::select(vec![CommandQueuing, NoCommandQueuing, Rotational]),
        other in prop::sample::select(vec![CommandQueuing, NoCommandQueuing, Rotational]),
    ) {
        let devices = [main, other].map(device);
        let tuned = Params { shift_bytes, ..Params::for_device(main, true) };
        let params = DeviceParams::new(&devices, main, tuned);
        let class = |entry: &LogEntry| params.class(entry.device);
        let shifted = super::shift(&launch.log, |entry| entry.span, class, &params);
        if main == other {
            prop_assert_eq!(&shifted, &metadata_shift(&launch.log, shift_bytes));
        }
        for of_class in [main, other] {
            let alone = |log: &[LogEntry]| -> Vec<LogEntry> {
                log.iter().copied().filter(|entry| class(entry) == of_class).collect()
            };
            let shift_bytes = params.of(of_class).shift_bytes;
            prop_assert_eq!(alone(&shifted), metadata_shift(&alone(&launch.log), shift_bytes));
        }
        let at = new_positions(&launch.log, &shifted);
        let is_metadata = |i: usize| launch.log[i].span.place.is_metadata();
        for later in 0..at.len() {
            for earlier in (0..later).filter(|&i| is_metadata(i)) {
                prop_assert!(at[earlier] < at[later], "{later} overtook {earlier}");
            }
        }
    }

    /// As one class, the sequence comes out as Algorithm 1 has it, whatever the number of devices.
    #[test]
    fn one_class_is_shifted_as_algorithm_1_has_it(launch in launch(), shift_bytes in shift()) {
        prop_assert_eq!(metadata_shift(&launch.log, shift_bytes), algorithm_1(&launch.log, shift_bytes));
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
