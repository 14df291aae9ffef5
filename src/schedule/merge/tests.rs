use proptest::prelude::*;

use super::super::generate::{
    GeneratedLaunch, check_merged, data, launch, launches, metadata, prefetch,
};
use super::super::{metadata_shift, schedule};
use super::*;
use crate::model::{PAGE_SIZE, Params, ReadOrder};

fn infill_merge(log: &[LogEntry], distance: u64, hole_pages: u64) -> Vec<LogEntry> {
    let pass = Infill {
        distance,
        hole_pages,
    };
    merge(log, |_| [Some(pass)])
}

fn range_merge(log: &[LogEntry], distance: u64) -> Vec<LogEntry> {
    infill_merge(log, distance, 0)
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
fn a_hole_is_filled_up_to_its_size_and_distance() {
    let log = [data(0, 0, 1, 100), metadata(3, 1), data(0, 3, 1, 103)];
    assert_eq!(
        infill_merge(&log, 2, 2),
        [data(0, 0, 4, 100), metadata(3, 1)]
    );
    assert_eq!(infill_merge(&log, 2, 1), log);
    assert_eq!(infill_merge(&log, 1, 2), log);
}

#[test]
fn contiguous_or_close_on_the_disk_is_not_enough() {
    let first = data(0, 0, 2, 100);
    let cases: [(&str, &[LogEntry]); 7] = [
        ("the file jumps", &[first, data(0, 9, 1, 102)]),
        ("the disk jumps", &[first, data(0, 2, 1, 300)]),
        ("another file", &[first, data(1, 2, 1, 102)]),
        ("another type", &[metadata(2, 1), data(0, 3, 1, 3)]),
        ("another hole on the disk", &[first, data(0, 3, 1, 104)]),
        // Page 2 lies elsewhere, so nothing stands between the other two on the disk.
        (
            "a needed page of a fragmented file in the hole",
            &[first, data(0, 2, 1, 900), data(0, 3, 1, 103)],
        ),
        (
            "overlapping entries",
            &[data(0, 0, 4, 100), data(0, 2, 4, 102), data(0, 0, 4, 100)],
        ),
    ];
    for (name, log) in cases {
        assert_eq!(range_merge(log, 8), log, "{name}");
        // A hole of 8 pages would hold six of the file's.
        assert_eq!(infill_merge(log, 8, 5), log, "{name}");
    }
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
        order: ReadOrder::Access,
    };
    assert_eq!(schedule(&log, &params(4)).len(), 3);
    assert_eq!(schedule(&log, &params(5)).len(), 2);
}

/// The properties below mean little if the generator makes nothing that can be joined or shifted, or for
/// which the order of the passes makes no difference.
#[test]
fn the_passes_and_their_order_matter_to_generated_launches() {
    const CASES: usize = 200;
    const SHIFT: u64 = 8 * PAGE_SIZE;
    let mut counts = [0; 6];
    for log in launches(CASES) {
        let near = range_merge(&log, 8);
        let joined =
            |e: &LogEntry| e.span.place.is_metadata() && !log.iter().any(|l| l.span == e.span);
        let shifted = metadata_shift(&near, SHIFT);
        let mattered = [
            near.len() < log.len(),
            infill_merge(&near, 8, 2).len() < near.len(),
            range_merge(&log, u64::MAX).len() < near.len(),
            near.iter().any(joined),
            shifted != near,
            shifted != range_merge(&metadata_shift(&log, SHIFT), 8),
        ];
        for (count, mattered) in counts.iter_mut().zip(mattered) {
            *count += usize::from(mattered);
        }
    }
    let names = [
        "range merge",
        "infill merge",
        "the distance",
        "metadata",
        "the shift",
        "its place",
    ];
    for (name, count) in names.into_iter().zip(counts) {
        assert!(count > CASES / 3, "{name} mattered in {count} of {CASES}");
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
    fn a_merge_keeps_pages_places_and_distance_and_invents_nothing_but_small_holes(
        launch in launch(),
        distance in distance(),
        hole_pages in 0..6u64,
    ) {
        let merged = infill_merge(&launch.log, distance, hole_pages);
        check_merged(&launch, &prefetch(&merged), distance, hole_pages)?;
        // Times grow with positions, so this says that every entry stands at its earliest member.
        prop_assert!(merged.is_sorted_by(|a, b| a.time_us < b.time_us));
        prop_assert_eq!(left_over(&launch, &merged, distance), None);
        prop_assert_eq!(&range_merge(&launch.log, 0), &launch.log);
    }

    /// A schedule is what all merges made, and then the shift; nothing is merged after it.
    #[test]
    fn a_schedule_is_merged_and_then_shifted(
        launch in launch(),
        merge_distance in distance(),
        infill in proptest::option::of((0..6u64, distance())),
        shift_bytes in 0..1u64 << 18,
    ) {
        let infill = infill.map(|(hole_pages, distance)| Infill { hole_pages, distance });
        let params = Params { merge_distance, shift_bytes, infill, order: ReadOrder::Access };
        let scheduled = schedule(&launch.log, &params);
        let distance = infill.map_or(merge_distance, |i| i.distance.max(merge_distance));
        let hole_pages = infill.map_or(0, |i| i.hole_pages);
        check_merged(&launch, &scheduled, distance, hole_pages)?;
        let range = Infill { distance: merge_distance, hole_pages: 0 };
        let merged = merge(&launch.log, |_| [Some(range), infill]);
        prop_assert_eq!(scheduled, prefetch(&metadata_shift(&merged, shift_bytes)));
    }

    /// The entries of each device are those that they would be if all devices had its thresholds.
    #[test]
    fn each_device_is_merged_by_its_own_thresholds(
        launch in launch(),
        passes in proptest::array::uniform2(proptest::option::of((0..6u64, distance()))),
    ) {
        let pass = |device: u16| passes[usize::from(device)];
        let pass = |device| pass(device).map(|(hole_pages, distance)| Infill { hole_pages, distance });
        let merged = merge(&launch.log, |device| [pass(device)]);
        for device in 0..2 {
            let alone = merge(&launch.log, |_| [pass(device)]);
            let of = |log: Vec<LogEntry>| log.into_iter().filter(move |entry| entry.device == device);
            prop_assert!(of(merged.clone()).eq(of(alone)), "device {device}");
        }
        prop_assert!(merged.is_sorted_by(|a, b| a.time_us < b.time_us));
    }
}
