//! The passes of pre-scheduling together: what is done, and in which order.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::generate::launch;
use super::*;
use crate::model::{Infill, PAGE_SIZE, Place, SECTORS_PER_PAGE, Span};

fn data(file: u32, page: u64, disk_page: u64) -> LogEntry {
    entry(Place::Data { file }, page, disk_page)
}

fn metadata(disk_page: u64) -> LogEntry {
    entry(Place::Metadata { device: 0 }, disk_page, disk_page)
}

fn entry(place: Place, start: u64, disk_page: u64) -> LogEntry {
    LogEntry {
        span: Span {
            place,
            start,
            len: 1,
        },
        device: 0,
        lba: disk_page * SECTORS_PER_PAGE,
        time_us: 0,
    }
}

fn spans(log: &[LogEntry]) -> Vec<Span> {
    log.iter().map(|entry| entry.span).collect()
}

fn scheduled(log: &[LogEntry], params: &Params) -> Vec<Span> {
    let entries = schedule(log, params);
    entries.iter().map(|entry| entry.span).collect()
}

#[test]
fn the_shift_comes_after_the_merge() {
    let log = [
        data(0, 0, 100),
        metadata(50),
        metadata(60),
        metadata(70),
        data(0, 1, 101),
    ];
    let params = |merge_distance| Params {
        merge_distance,
        shift_bytes: 2 * PAGE_SIZE,
        infill: None,
    };
    // The two pages of the file are 4 positions apart in the launch sequence, and 2 once the first
    // has been shifted back behind the metadata at 60.
    assert_eq!(
        scheduled(&log, &params(3)),
        spans(&[log[1], log[2], log[0], log[3], log[4]])
    );
    let mut joined = log[0];
    joined.span.len = 2;
    assert_eq!(
        scheduled(&log, &params(4)),
        spans(&[log[1], log[2], joined, log[3]])
    );
}

/// The properties below mean little for launches that the shift leaves as they are, or for which it
/// makes no difference whether it comes before or after the merge.
#[test]
fn the_order_of_the_passes_matters_to_generated_launches() {
    const CASES: usize = 200;
    const SHIFT: u64 = 8 * PAGE_SIZE;
    let mut runner = TestRunner::deterministic();
    let (mut shifted, mut ordered) = (0, 0);
    for _ in 0..CASES {
        let log = launch()
            .new_tree(&mut runner)
            .expect("no filters")
            .current()
            .log;
        let merged = range_merge(&log, 8);
        let right = metadata_shift(&merged, SHIFT);
        let wrong = range_merge(&metadata_shift(&log, SHIFT), 8);
        shifted += usize::from(right != merged);
        ordered += usize::from(right != wrong);
    }
    for (what, count) in [("the shift", shifted), ("its place", ordered)] {
        assert!(count > CASES / 3, "{what} mattered in {count} of {CASES}");
    }
}

proptest! {
    #[test]
    fn a_schedule_without_infill_is_range_merge_then_shift(
        launch in launch(),
        merge_distance in 0..24u64,
        shift_pages in 0..24u64,
    ) {
        let shift_bytes = shift_pages * PAGE_SIZE;
        let params = Params { merge_distance, shift_bytes, infill: None };
        let expected = metadata_shift(&range_merge(&launch.log, merge_distance), shift_bytes);
        prop_assert_eq!(scheduled(&launch.log, &params), spans(&expected));
    }

    /// The shift sees what the merges made, and nothing is merged after it.
    #[test]
    fn the_shift_is_applied_to_what_all_merges_made(
        launch in launch(),
        merge_distance in 0..24u64,
        shift_pages in 0..24u64,
        hole_pages in 0..6u64,
        distance in 0..64u64,
    ) {
        let shift_bytes = shift_pages * PAGE_SIZE;
        let infill = Some(Infill { hole_pages, distance });
        let params = Params { merge_distance, shift_bytes, infill };
        let merges = [
            Pass { distance: merge_distance, hole_pages: 0 },
            Pass { distance, hole_pages },
        ];
        let expected = metadata_shift(&merge::merge(&launch.log, &merges), shift_bytes);
        prop_assert_eq!(scheduled(&launch.log, &params), spans(&expected));
    }
}
