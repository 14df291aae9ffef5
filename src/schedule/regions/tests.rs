use proptest::prelude::*;

use super::super::generate::{GeneratedLaunch, check_merged, data, launch, metadata};
use super::*;
use crate::model::Span;

/// The log with an access each millisecond.
fn timed<const N: usize>(mut log: [LogEntry; N]) -> [LogEntry; N] {
    for (entry, time) in log.iter_mut().zip(0..) {
        entry.time_us = time * 1000;
    }
    log
}

fn spans(log: &[LogEntry], plan: &RegionPlan) -> Vec<Span> {
    let schedule = regional(log, plan);
    schedule.entries.iter().map(|entry| entry.span).collect()
}

#[test]
fn one_region_has_metadata_and_then_data_in_the_order_of_the_disk() {
    let log = timed([
        metadata(90, 1),
        data(0, 0, 1, 500),
        metadata(20, 1),
        data(1, 0, 2, 100),
        data(0, 3, 1, 503),
    ]);
    let expected = [
        metadata(20, 1),
        metadata(90, 1),
        data(1, 0, 2, 100),
        data(0, 0, 4, 500),
    ];
    assert_eq!(
        spans(&log, &RegionPlan::one(2)),
        expected.map(|entry| entry.span)
    );
    // A hole that is too large stays.
    assert_eq!(spans(&log, &RegionPlan::one(1)).len(), 5);
}

#[test]
fn a_second_region_has_what_may_come_late() {
    let log = timed([
        metadata(50, 1),
        data(0, 0, 1, 500),
        data(1, 0, 1, 100),
        metadata(40, 1),
        data(2, 0, 1, 200),
        data(3, 0, 1, 150),
    ]);
    let mut plan = RegionPlan {
        first_us: 3000,
        shift_bytes: 0,
        ..RegionPlan::one(0)
    };
    let in_regions = [0, 2, 1, 3, 5, 4].map(|index: usize| log[index].span);
    assert_eq!(spans(&log, &plan), in_regions);
    assert_eq!(regional(&log, &plan).first, 3);
    plan.shift_bytes = 4096;
    let shifted = [0, 3, 2, 1, 5, 4].map(|index: usize| log[index].span);
    assert_eq!(spans(&log, &plan), shifted);
    assert_eq!(regional(&log, &plan).first, 4);
    plan.shift_bytes = RegionPlan::ALL_METADATA;
    let all_first = [3, 0, 2, 1, 5, 4].map(|index: usize| log[index].span);
    assert_eq!(spans(&log, &plan), all_first);
}

#[test]
fn what_lies_in_a_hole_of_an_earlier_region_joins_it() {
    let log = timed([
        data(0, 0, 1, 100),
        data(0, 6, 1, 106),
        data(0, 3, 1, 103),
        data(0, 9, 1, 109),
    ]);
    let plan = RegionPlan {
        first_us: 2000,
        ..RegionPlan::one(5)
    };
    let expected = [data(0, 0, 7, 100), data(0, 9, 1, 109)];
    assert_eq!(spans(&log, &plan), expected.map(|entry| entry.span));
    let small = RegionPlan {
        hole_pages: 4,
        ..plan
    };
    assert_eq!(spans(&log, &small), log.map(|entry| entry.span));
}

fn plan() -> impl Strategy<Value = RegionPlan> {
    let shift = prop_oneof![Just(0), Just(16 << 10), Just(RegionPlan::ALL_METADATA)];
    (0..20_000u64, 1..20_000u64, 0..6u64, shift).prop_map(
        |(first_us, length_us, hole_pages, shift_bytes)| RegionPlan {
            first_us,
            length_us,
            hole_pages,
            shift_bytes,
        },
    )
}

/// Position in the launch sequence of the earliest access that a schedule entry has. Times of generated launches differ.
fn earliest(launch: &GeneratedLaunch, entry: &PrefetchEntry) -> usize {
    let of_entry = |log: &LogEntry| log.time_us == entry.time_us;
    launch
        .log
        .iter()
        .position(of_entry)
        .expect("its time is recorded")
}

proptest! {
    #[test]
    fn regions_read_each_page_once_and_nothing_but_small_holes_besides(launch in launch(), plan in plan()) {
        let schedule = regional(&launch.log, &plan);
        check_merged(&launch, &schedule.entries, u64::MAX, plan.hole_pages)?;
        prop_assert_eq!(regional(&launch.log, &plan), schedule);
    }

    #[test]
    fn no_data_overtake_the_metadata_before_them(launch in launch(), plan in plan()) {
        let schedule = regional(&launch.log, &plan);
        for (at, entry) in schedule.entries.iter().enumerate() {
            if entry.span.place.is_metadata() {
                continue;
            }
            let accessed = earliest(&launch, entry);
            for late in schedule.entries[at..].iter().filter(|late| late.span.place.is_metadata()) {
                prop_assert!(earliest(&launch, late) > accessed);
            }
        }
    }

    #[test]
    fn the_first_region_is_in_front(launch in launch(), plan in plan()) {
        let schedule = regional(&launch.log, &plan);
        for entry in &schedule.entries[schedule.first..] {
            prop_assert!(entry.time_us >= plan.first_us);
        }
        if let Some(last) = schedule.first.checked_sub(1) {
            let entry = &schedule.entries[last];
            let is_first = entry.time_us < plan.first_us || plan.shift_bytes == RegionPlan::ALL_METADATA;
            prop_assert!(is_first);
        }
    }
}
