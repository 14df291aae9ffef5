use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::super::generate::{GeneratedLaunch, check_merged, launch};
use super::super::schedule;
use super::*;
use crate::model::PrefetchEntry;
use crate::model::{Params, Place, Span};

fn data(file: u32, start: u64, len: u64, disk_page: u64) -> LogEntry {
    LogEntry {
        span: Span {
            place: Place::Data { file },
            start,
            len,
        },
        device: 0,
        lba: disk_page * SECTORS_PER_PAGE,
        time_us: 0,
    }
}

fn metadata(disk_page: u64, len: u64) -> LogEntry {
    LogEntry {
        span: Span {
            place: Place::Metadata { device: 0 },
            start: disk_page,
            len,
        },
        device: 0,
        lba: disk_page * SECTORS_PER_PAGE,
        time_us: 0,
    }
}

fn prefetch(entries: &[LogEntry]) -> Vec<PrefetchEntry> {
    entries
        .iter()
        .map(|entry| PrefetchEntry {
            span: entry.span,
            time_us: entry.time_us,
        })
        .collect()
}

/// Built after the description of Figure 3 (the text of the paper does not carry its picture):
/// requests with consecutive LBAs, of one type, within an I/O distance of 3 are combined into the
/// preceding one; others are not.
#[test]
fn figure_3_threshold_of_3() {
    let log = [
        data(0, 0, 2, 100),
        metadata(50, 1),
        data(1, 0, 1, 200),
        data(0, 2, 1, 102), // distance 3 from its neighbour: joins
        metadata(51, 1),    // distance 3: joins
        data(2, 0, 1, 52),  // after the metadata on the disk, but of another type
        data(1, 1, 4, 201), // distance 4: stays
    ];
    assert_eq!(
        range_merge(&log, 3),
        [
            data(0, 0, 3, 100),
            metadata(50, 2),
            data(1, 0, 1, 200),
            data(2, 0, 1, 52),
            data(1, 1, 4, 201),
        ]
    );
}

#[test]
fn the_later_part_on_the_disk_may_come_first_in_the_sequence() {
    let log = [data(0, 1, 1, 101), data(1, 0, 1, 7), data(0, 0, 1, 100)];
    let expected = [data(0, 0, 2, 100), data(1, 0, 1, 7)];
    assert_eq!(range_merge(&log, 2), expected);
    assert_eq!(range_merge(&log, 1), log);
}

#[test]
fn a_run_that_grows_backwards_does_not_carry_its_members_beyond_the_distance() {
    let log = [data(0, 2, 1, 102), data(0, 1, 1, 101), data(0, 0, 1, 100)];
    // Joining all three would move the page at position 2 to position 0.
    assert_eq!(
        range_merge(&log, 1),
        [data(0, 2, 1, 102), data(0, 0, 2, 100)]
    );
}

#[test]
fn contiguous_on_the_disk_is_not_enough() {
    let file_jumps = [data(0, 0, 1, 100), data(0, 9, 1, 101)];
    assert_eq!(range_merge(&file_jumps, 8), file_jumps);
    let disk_jumps = [data(0, 0, 1, 100), data(0, 1, 1, 300)];
    assert_eq!(range_merge(&disk_jumps, 8), disk_jumps);
    let other_file = [data(0, 0, 2, 100), data(1, 2, 1, 102)];
    assert_eq!(range_merge(&other_file, 8), other_file);
    let other_type = [metadata(2, 1), data(0, 3, 1, 3)];
    assert_eq!(range_merge(&other_type, 8), other_type);
}

#[test]
fn a_hole_is_filled_up_to_its_size_and_distance() {
    let log = [data(0, 0, 1, 100), metadata(3, 1), data(0, 3, 1, 103)];
    let infill = |hole_pages, distance| {
        let infill = Infill {
            hole_pages,
            distance,
        };
        infill_merge(&log, &infill)
    };
    assert_eq!(infill(2, 2), [data(0, 0, 4, 100), metadata(3, 1)]);
    assert_eq!(infill(1, 2), log);
    assert_eq!(infill(2, 1), log);
}

#[test]
fn a_hole_must_be_the_same_on_the_disk_and_in_the_file() {
    let log = [data(0, 0, 1, 100), data(0, 2, 1, 103)];
    let infill = Infill {
        hole_pages: 8,
        distance: 8,
    };
    assert_eq!(infill_merge(&log, &infill), log);
}

#[test]
fn a_needed_page_of_a_fragmented_file_is_not_read_as_a_hole() {
    // Page 1 of the file lies elsewhere, so nothing stands between the other two on the disk.
    let log = [data(0, 0, 1, 100), data(0, 1, 1, 900), data(0, 2, 1, 102)];
    let infill = Infill {
        hole_pages: 8,
        distance: 8,
    };
    assert_eq!(infill_merge(&log, &infill), log);
}

#[test]
fn infill_counts_distances_in_the_original_sequence() {
    // Range merge makes one entry of positions 1 to 4, after which the two parts of file 0 would
    // seem to be 2 positions apart. They are 5 apart.
    let mut log = vec![data(0, 0, 1, 100)];
    log.extend((0..4).map(|page| data(1, page, 1, 200 + page)));
    log.push(data(0, 2, 1, 102));
    let params = |distance| Params {
        merge_distance: 8,
        shift_bytes: 0,
        infill: Some(Infill {
            hole_pages: 1,
            distance,
        }),
    };
    assert_eq!(schedule(&log, &params(4)).len(), 3);
    assert_eq!(schedule(&log, &params(5)).len(), 2);
}

#[test]
fn overlapping_entries_stay_apart() {
    let log = [data(0, 0, 4, 100), data(0, 2, 4, 102), data(0, 0, 4, 100)];
    assert_eq!(range_merge(&log, 8), log);
}

/// The properties below mean little if the generator makes nothing that can be joined.
#[test]
fn generated_launches_merge() {
    const CASES: usize = 200;
    let mut runner = TestRunner::deterministic();
    let (mut ranged, mut filled, mut refused, mut metadata) = (0, 0, 0, 0);
    for _ in 0..CASES {
        let log = launch()
            .new_tree(&mut runner)
            .expect("no filters")
            .current();
        let near = range_merge(&log.log, 8);
        let infill = Infill {
            hole_pages: 2,
            distance: 8,
        };
        let far = range_merge(&log.log, u64::MAX);
        ranged += usize::from(near.len() < log.log.len());
        filled += usize::from(infill_merge(&near, &infill).len() < near.len());
        refused += usize::from(far.len() < near.len());
        let joined =
            |e: &LogEntry| e.span.place.is_metadata() && !log.log.iter().any(|l| l.span == e.span);
        metadata += usize::from(near.iter().any(joined));
    }
    for (what, count) in [
        ("range merge", ranged),
        ("infill merge", filled),
        ("the distance", refused),
        ("metadata", metadata),
    ] {
        assert!(count > CASES / 3, "{what} mattered in {count} of {CASES}");
    }
}

/// Whether range merge should have joined two neighbours of its own result.
fn left_over(
    launch: &GeneratedLaunch,
    merged: &[LogEntry],
    distance: u64,
) -> Option<(LogEntry, LogEntry)> {
    let positions = |outer: &LogEntry| -> Vec<u64> {
        (0u64..)
            .zip(&launch.log)
            .filter(|(_, e)| {
                e.span.place == outer.span.place
                    && e.span.start >= outer.span.start
                    && e.span.end() <= outer.span.end()
            })
            .map(|(position, _)| position)
            .collect()
    };
    let mut by_disk = merged.to_vec();
    by_disk.sort_by_key(|e| (e.device, e.lba));
    by_disk
        .windows(2)
        .map(|pair| (pair[0], pair[1]))
        .find(|(a, b)| {
            let mut all = positions(a);
            all.extend(positions(b));
            let (min, max) = (all.iter().min(), all.iter().max());
            a.device == b.device
                && a.span.place == b.span.place
                && a.lba_end() == b.lba
                && a.span.end() == b.span.start
                && max.zip(min).is_some_and(|(max, min)| max - min <= distance)
        })
}

fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..24u64, 1 => Just(u64::MAX)]
}

proptest! {
    #[test]
    fn range_merge_keeps_pages_places_and_distance(launch in launch(), distance in distance()) {
        let merged = range_merge(&launch.log, distance);
        check_merged(&launch, &prefetch(&merged), distance, 0)?;
        // Times grow with positions, so this says that every entry stands at its earliest member.
        prop_assert!(merged.is_sorted_by(|a, b| a.time_us < b.time_us));
        prop_assert_eq!(left_over(&launch, &merged, distance), None);
    }

    #[test]
    fn infill_merge_invents_nothing_but_small_holes(
        launch in launch(),
        distance in distance(),
        hole_pages in 0..6u64,
    ) {
        let infill = Infill { hole_pages, distance };
        let merged = infill_merge(&launch.log, &infill);
        check_merged(&launch, &prefetch(&merged), distance, hole_pages)?;
        prop_assert!(merged.is_sorted_by(|a, b| a.time_us < b.time_us));
        prop_assert_eq!(left_over(&launch, &merged, distance), None);
    }

    #[test]
    fn distance_0_leaves_the_sequence_as_it_is(launch in launch()) {
        prop_assert_eq!(&range_merge(&launch.log, 0), &launch.log);
    }

    #[test]
    fn a_schedule_keeps_pages_places_and_distance(
        launch in launch(),
        merge_distance in distance(),
        infill in proptest::option::of((0..6u64, distance())),
        shift_bytes in 0..1u64 << 18,
    ) {
        let infill = infill.map(|(hole_pages, distance)| Infill { hole_pages, distance });
        let params = Params { merge_distance, shift_bytes, infill };
        let distance = infill.map_or(merge_distance, |i| i.distance.max(merge_distance));
        let hole_pages = infill.map_or(0, |i| i.hole_pages);
        check_merged(&launch, &schedule(&launch.log, &params), distance, hole_pages)?;
    }
}
