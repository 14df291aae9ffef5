use proptest::prelude::*;

use super::super::generate::{data, launch, metadata, prefetch};
use super::drive_queue::{DriveQueue, QueuedRequest};
use super::*;
use crate::model::{DriveClass, NearCost, PAGE_SIZE, QueuedCost};
use crate::schedule::{RegionPlan, regional};

const CLASSES: [DriveClass; 3] = [
    DriveClass::CommandQueuing,
    DriveClass::NoCommandQueuing,
    DriveClass::Rotational,
];

fn models(class: DriveClass) -> [DriveModel; 2] {
    [class, class].map(DriveModel::guess)
}

fn simulate(log: &[LogEntry], class: DriveClass, schedule: &[PrefetchEntry]) -> Simulation {
    LaunchSimulator::new(log, &models(class), Learned::Live).simulate(schedule, 0)
}

/// Accesses so many µs apart.
fn timed<const N: usize>(mut log: [LogEntry; N], us: u64) -> [LogEntry; N] {
    for (entry, index) in log.iter_mut().zip(1..) {
        entry.time_us = index * us;
    }
    log
}

#[test]
fn without_a_schedule_the_app_reads_one_after_the_other() {
    let card = DriveModel::guess(DriveClass::NoCommandQueuing);
    let read_us = card.request_cost_us(PAGE_SIZE, None);
    let log = timed([metadata(5, 1), data(0, 0, 1, 50), data(0, 9, 1, 59)], 10);
    let done = simulate(&log, DriveClass::NoCommandQueuing, &[]);
    let expected_us = 3.0 * (10.0 + card.request_us + 4.0 * card.kib_us);
    assert!((done.end_us - expected_us).abs() < 1.0, "{done:?}");
    assert!((expected_us - 3.0 * read_us).abs() < 100.0);
    assert_eq!(done.waits.len(), 3);
    assert!(done.waits.iter().all(|wait| wait.own));
    let most = done.queue.iter().map(|queue| queue.requests).max();
    assert_eq!(most, Some(1));
}

#[test]
fn a_prefetched_launch_waits_for_what_is_late_alone() {
    // It computes for longer than a read takes.
    let log = timed([data(0, 0, 1, 50), data(0, 9, 1, 59)], 5000);
    let models = models(DriveClass::NoCommandQueuing);
    let launch = LaunchSimulator {
        compute_us: vec![5000.0; 2],
        ..LaunchSimulator::new(&log, &models, Learned::Live)
    };
    let done = launch.simulate(&prefetch(&log), 0);
    assert_eq!(done.end_us, 10_000.0);
    assert_eq!(done.waits, []);
    // It computes for less.
    let log = timed([data(0, 0, 1, 50), data(0, 9, 1, 59)], 600);
    let done = simulate(&log, DriveClass::NoCommandQueuing, &prefetch(&log));
    assert_eq!(done.waits.len(), 2);
    assert!(done.waits.iter().all(|wait| !wait.own));
}

#[test]
fn a_held_app_waits_for_nothing() {
    let log = timed([data(0, 0, 1, 50), data(0, 9, 1, 59)], 10);
    let models = models(DriveClass::NoCommandQueuing);
    let launch = LaunchSimulator::new(&log, &models, Learned::Live);
    let done = launch.simulate(&prefetch(&log), 2);
    assert_eq!(done.waits, []);
    assert!((done.end_us - done.held_us - 20.0).abs() < 1e-6, "{done:?}");
}

#[test]
fn the_prefetch_thread_waits_for_a_files_metadata() {
    let log = timed([metadata(5, 1), data(0, 0, 1, 50), data(1, 0, 1, 90)], 10);
    let [inode, first, second] = log;
    // In the other order the thread reads the inode for the first file before it goes on.
    let before = simulate(&log, DriveClass::CommandQueuing, &prefetch(&log));
    let behind = prefetch(&[first, second, inode]);
    let behind = simulate(&log, DriveClass::CommandQueuing, &behind);
    assert!(behind.end_us >= before.end_us, "{behind:?} {before:?}");
}

#[test]
fn on_a_disk_the_order_of_the_disk_is_faster_than_that_of_accesses() {
    // Back and forth between two places, 4 GiB apart.
    let log: Vec<LogEntry> = (0..200)
        .map(|index| {
            let at = index * 16 + (index % 2) * (1 << 20);
            LogEntry {
                time_us: index * 100,
                ..data(index as u32, 0, 1, at)
            }
        })
        .collect();
    let sorted = regional(&log, &RegionPlan::one(0)).entries;
    let end_us = |schedule: &[PrefetchEntry], class| simulate(&log, class, schedule).end_us;
    let disk = DriveClass::Rotational;
    assert!(end_us(&sorted, disk) * 1.5 < end_us(&[], disk));
    assert!(end_us(&sorted, disk) < end_us(&prefetch(&log), disk));
    // Flash has no way to go.
    let card = DriveClass::NoCommandQueuing;
    assert!(end_us(&sorted, card) >= end_us(&prefetch(&log), card) * 0.99);
}

/// 600 pages all over 8 GiB.
fn scattered() -> Vec<LogEntry> {
    let page = |index: u64| LogEntry {
        time_us: index * 50,
        ..data(index as u32, 0, 1, index * 7919 % 997 * 2048)
    };
    (0..600).map(page).collect()
}

#[test]
fn an_elevator_that_favours_readers_keeps_a_sweep_from_a_disk_unless_the_app_is_held() {
    let log = scattered();
    let sweep = regional(&log, &RegionPlan::one(0)).entries;
    let simulated = |class, elevator, schedule: &[PrefetchEntry], held| {
        let models = models(class);
        let launch = LaunchSimulator::new(&log, &models, Learned::Live).with_elevator(elevator);
        launch.simulate(schedule, held)
    };
    let end_us = |elevator, schedule: &[PrefetchEntry], held| {
        simulated(DriveClass::Rotational, elevator, schedule, held).end_us
    };
    let (sorts, favours) = (Elevator::Sorts, Elevator::FavoursReaders);
    assert!(end_us(favours, &sweep, 0) > 1.5 * end_us(sorts, &sweep, 0));
    let held = sweep.len();
    assert_eq!(end_us(favours, &sweep, held), end_us(sorts, &sweep, held));
    assert!(end_us(favours, &sweep, held) < 1.1 * end_us(sorts, &sweep, 0));
    // Alone, the app is served as it asks.
    assert_eq!(end_us(favours, &[], 0), end_us(sorts, &[], 0));
    for flash in [DriveClass::CommandQueuing, DriveClass::NoCommandQueuing] {
        let of = |elevator| simulated(flash, elevator, &sweep, 0);
        assert_eq!(of(favours), of(sorts));
    }
}

#[test]
fn a_disk_is_idle_behind_the_apps_own_read_until_its_next_or_for_8_ms() {
    let disk = DriveModel::guess(DriveClass::Rotational);
    let mut queue = DriveQueue::new(&disk, Elevator::FavoursReaders);
    let request = |id, by_app| QueuedRequest {
        id,
        start: u64::from(id) << 30,
        bytes: PAGE_SIZE,
        by_app,
    };
    for id in 1..4 {
        queue.push(request(id, false), 0.0);
    }
    queue.push(request(4, true), 1.0);
    let (_, under_way) = queue.complete().expect("the first is served at once");
    assert_eq!(under_way, 1);
    let (at, own) = queue.complete().expect("the app's goes before the others");
    assert_eq!(own, 4);
    assert_eq!(queue.next_completion(), at + 8_000.0);
    queue.push(request(5, true), at + 7_000.0);
    let (at, own) = queue.complete().expect("the app's next ends that");
    assert_eq!(own, 5);
    assert_eq!(queue.next_completion(), at + 8_000.0);
    assert_eq!(queue.complete(), None);
    assert!(queue.next_completion() > at + 8_000.0);
    assert!(queue.complete().is_some() && queue.complete().is_some());
    assert_eq!((queue.len(), queue.next_completion()), (0, f64::INFINITY));
}

#[test]
fn queues_help_drives_that_have_them() {
    let log: Vec<LogEntry> = (0..300)
        .map(|index| data(0, index * 8, 1, index * 999))
        .collect();
    let alone = |class| simulate(&log, class, &[]).end_us;
    let ahead = |class| simulate(&log, class, &prefetch(&log)).end_us;
    assert!(ahead(DriveClass::CommandQueuing) * 5.0 < alone(DriveClass::CommandQueuing));
    let card = DriveClass::NoCommandQueuing;
    assert!(ahead(card) > alone(card) * 0.95);
}

#[test]
fn random_reads_at_depth_take_what_the_model_says() {
    for class in CLASSES {
        let model = DriveModel::guess(class);
        let depth = model.useful_depth();
        let span = model.seeks.last().map_or(1 << 36, |seek| seek.distance) / PAGE_SIZE;
        let mut at = 1u64;
        let log: Vec<LogEntry> = (0..2000)
            .map(|index| {
                at = at
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                data(0, index * 8, 1, (at >> 8) % span)
            })
            .collect();
        let done = simulate(&log, class, &prefetch(&log));
        let each_us = done.end_us / 2000.0;
        let expected_us = model.queued_us(depth);
        assert!(
            (0.75..1.25).contains(&(each_us / expected_us)),
            "{class:?}: {each_us} instead of {expected_us}"
        );
    }
}

/// A drive with room for a part of its table of addresses.
fn forgetful() -> DriveModel {
    let near = |pages, alone_us, queued_us| NearCost {
        bytes: pages * PAGE_SIZE,
        alone_us,
        queued_us,
    };
    DriveModel {
        near: vec![near(1, 90.0, 20.0), near(32, 330.0, 150.0)],
        queue: vec![(1, 150.0), (8, 65.0), (32, 64.0)]
            .into_iter()
            .map(|(depth, request_us)| QueuedCost { depth, request_us })
            .collect(),
        ..DriveModel::guess(DriveClass::CommandQueuing)
    }
}

#[test]
fn near_reads_cost_less_than_far_ones_and_both_what_was_measured() {
    let models = [forgetful()];
    let larger = NearCost {
        bytes: 128 * PAGE_SIZE,
        alone_us: 700.0,
        queued_us: 390.0,
    };
    let near_costs = models[0].near.iter().copied().chain([larger]).collect();
    let measured_larger = [DriveModel {
        near: near_costs,
        ..forgetful()
    }];
    let reads = 1_000;
    let end_us = |models: &[DriveModel], positions: &dyn Fn(u64) -> u64, pages| {
        let log: Vec<LogEntry> = (0..reads)
            .map(|index| data(0, index * 200, pages, positions(index)))
            .collect();
        let launch = LaunchSimulator::new(&log, models, Learned::Live);
        launch.simulate(&prefetch(&log), 0).end_us / reads as f64
    };
    let near = |index: u64| index * 617 % 1024;
    let far = |index: u64| index * 1024;
    for (expected_us, us) in [
        (20.0, end_us(&models, &near, 1)),
        (64.0, end_us(&models, &far, 1)),
        (150.0, end_us(&models, &near, 32)),
        // Two parts, the largest that was measured and a page.
        (170.0, end_us(&models, &near, 33)),
        (230.0, end_us(&measured_larger, &near, 64)),
        (410.0, end_us(&measured_larger, &near, 129)),
    ] {
        assert!(
            (us / expected_us - 1.0).abs() < 0.03,
            "{us}, not {expected_us}"
        );
    }
}

/// One request at a time; the way to the drive and back takes 80 µs.
fn one_at_a_time() -> DriveModel {
    let near = |pages: u64, alone_us| NearCost {
        bytes: pages * PAGE_SIZE,
        alone_us,
        queued_us: alone_us - 80.0,
    };
    DriveModel {
        near: vec![near(1, 370.0), near(32, 1000.0)],
        queue: [1, 8, 32]
            .map(|depth| QueuedCost {
                depth,
                request_us: 370.0,
            })
            .to_vec(),
        ..DriveModel::guess(DriveClass::NoCommandQueuing)
    }
}

#[test]
fn the_way_to_a_drive_is_over_for_a_request_that_has_waited_for_another() {
    let models = [one_at_a_time()];
    let log: Vec<LogEntry> = (0..100)
        .map(|index| data(0, index * 40, 1, index * 617 % 1024))
        .collect();
    let launch = LaunchSimulator::new(&log, &models, Learned::Live);
    let prefetched = launch.simulate(&prefetch(&log), 0);
    // The thread asks for the first page, too, which the app is reading.
    assert_eq!(prefetched.end_us, 370.0 + 100.0 * 290.0);
    let cold = launch.simulate(&[], 0);
    assert_eq!(cold.end_us, 100.0 * 370.0);
}

fn class() -> impl Strategy<Value = DriveClass> {
    (0..CLASSES.len()).prop_map(|index| CLASSES[index])
}

proptest! {
    #[test]
    fn a_simulation_ends_is_repeatable_and_waits_for_no_longer_than_it_takes(
        launch in launch(),
        class in class(),
        held in 0..40usize,
        take in 0..60usize,
        favours_readers in any::<bool>(),
    ) {
        let log = &launch.log;
        // Any schedule: some of the entries, backwards.
        let mut schedule = prefetch(log);
        schedule.reverse();
        schedule.truncate(take);
        let models = models(class);
        let elevator = match favours_readers {
            true => Elevator::FavoursReaders,
            false => Elevator::Sorts,
        };
        let simulated = LaunchSimulator::new(log, &models, Learned::Live).with_elevator(elevator);
        let done = simulated.simulate(&schedule, held);
        prop_assert_eq!(&simulated.simulate(&schedule, held), &done);
        let computed: f64 = simulated.compute_us.iter().sum();
        let waited: f64 = done.waits.iter().map(|wait| wait.until_us - wait.from_us).sum();
        let expected = done.held_us + waited + computed;
        prop_assert!((done.end_us - expected).abs() < 1.0, "{} {}", done.end_us, expected);
        prop_assert!(done.waits.is_sorted_by_key(|wait| wait.access));
        prop_assert_eq!(done.accessed_us.len(), log.len());
        prop_assert!(done.accessed_us.is_sorted());
        prop_assert!(done.accessed_us.last().is_none_or(|last| *last <= done.end_us));
        prop_assert!(done.queue.is_sorted_by(|a, b| a.time_us <= b.time_us));
    }

    #[test]
    fn devices_without_a_model_cost_nothing(launch in launch()) {
        let simulated = LaunchSimulator::new(&launch.log, &[], Learned::Live);
        let done = simulated.simulate(&prefetch(&launch.log), 0);
        prop_assert_eq!(done.waits, []);
    }
}
