use proptest::prelude::*;

use super::super::generate::{check_merged, data, launch};
use super::*;
use crate::model::DriveClass;

const CLASSES: [DriveClass; 3] = [
    DriveClass::CommandQueuing,
    DriveClass::NoCommandQueuing,
    DriveClass::Rotational,
];

const ELEVATORS: [Elevator; 2] = [Elevator::Sorts, Elevator::FavoursReaders];

const HOLDINGS: [Holding; 3] = [Holding::Never, Holding::WhereItGains, Holding::Always];

fn chosen(log: &[LogEntry], class: DriveClass, holding: Holding) -> ChosenSchedule {
    chosen_beside(log, class, Elevator::Sorts, holding)
}

fn chosen_beside(
    log: &[LogEntry],
    class: DriveClass,
    elevator: Elevator,
    holding: Holding,
) -> ChosenSchedule {
    let params = Params::for_device(class, true);
    let choices = Choices {
        usual: &DeviceParams::uniform(params),
        params,
        learned: Learned::Live,
        over_at: None,
        elevator,
        holding,
    };
    choose(log, &[class, class].map(DriveModel::guess), &choices)
}

/// Reads all over a disk of 8 GiB, with little to compute between.
fn scattered() -> Vec<LogEntry> {
    (0..400)
        .map(|index: u64| LogEntry {
            time_us: index * 50,
            ..data(index as u32, 0, 1, index * 7919 % 997 * 2048)
        })
        .collect()
}

#[test]
fn a_disk_reads_in_its_own_order() {
    let log = scattered();
    let found = chosen(&log, DriveClass::Rotational, Holding::Always);
    assert!(
        matches!(found.plan, SchedulePlan::Regions(_)),
        "{:?}",
        found.plan
    );
    assert!(found.predicted_us <= found.usual_us * (1.0 - LEAST_GAIN));
    let free = chosen(&log, DriveClass::Rotational, Holding::Never);
    assert_eq!(free.held, 0);
    assert!(free.predicted_us >= found.predicted_us * 0.95);
}

#[test]
fn an_app_is_held_where_its_own_reads_would_keep_the_prefetch_from_the_drive() {
    let log = scattered();
    let disk = DriveClass::Rotational;
    let chosen = |elevator, holding| chosen_beside(&log, disk, elevator, holding);
    let held = chosen(Elevator::FavoursReaders, Holding::WhereItGains);
    assert!(held.held > 0, "{:?}", held.plan);
    assert!(held.held_us > 0.0 && held.held_us < held.predicted_us);
    assert!(held.predicted_us * 1.2 < held.unheld_us);
    let beside = chosen(Elevator::FavoursReaders, Holding::Never);
    assert_eq!((beside.held, beside.held_us), (0, 0.0));
    assert_eq!(beside.unheld_us, beside.predicted_us);
    assert!(held.predicted_us <= beside.predicted_us * (1.0 - LEAST_GAIN_OF_HOLDING));
    let sorted = chosen(Elevator::Sorts, Holding::WhereItGains);
    assert_eq!(sorted.held, 0);
    assert!(sorted.predicted_us < beside.predicted_us);
    assert!(held.predicted_us < sorted.predicted_us * 1.05);
    let flash = |holding| {
        let class = DriveClass::NoCommandQueuing;
        chosen_beside(&log, class, Elevator::FavoursReaders, holding)
    };
    assert_eq!(flash(Holding::WhereItGains), flash(Holding::Never));
}

/// A disk passes holes in any case: reading them along costs bytes, and saves little.
#[test]
fn a_disk_does_not_read_large_holes_along() {
    // Pages of one file of 400 MiB with holes of 1 to 99 pages.
    let mut page = 0;
    let log: Vec<LogEntry> = (0..2_000u64)
        .map(|index| {
            page += 2 + index * 7919 % 99;
            LogEntry {
                time_us: index * 20,
                ..data(0, page, 1, page)
            }
        })
        .collect();
    let found = chosen(&log, DriveClass::Rotational, Holding::Never);
    let read: u64 = found.entries.iter().map(|entry| entry.span.len).sum();
    assert!(read < 8_000, "{read} pages, {:?}", found.plan);
}

#[test]
fn a_drive_with_a_queue_keeps_its_schedule_unless_regions_gain_enough() {
    let log = scattered();
    let found = chosen(&log, DriveClass::CommandQueuing, Holding::Never);
    let params = Params::for_device(DriveClass::CommandQueuing, true);
    let usual = schedule_for(&log, &DeviceParams::uniform(params));
    match found.plan {
        SchedulePlan::Sequence(_) => assert_eq!(found.entries, usual),
        SchedulePlan::Regions(_) => {
            assert!(found.predicted_us <= found.usual_us * (1.0 - LEAST_GAIN_FLASH));
        }
    }
}

/// Pages of a large file in an order of its own: one request after the other costs the prefetch thread time, and in the
/// order of the file, they are few.
#[test]
fn a_drive_with_a_queue_takes_regions_that_save_many_requests() {
    let pages = 4_000;
    let log: Vec<LogEntry> = (0..pages)
        .map(|index: u64| {
            let page = index * 1_777 % pages;
            LogEntry {
                time_us: index * 2,
                ..data(0, page, 1, page)
            }
        })
        .collect();
    let found = chosen(&log, DriveClass::CommandQueuing, Holding::Never);
    assert!(
        matches!(found.plan, SchedulePlan::Regions(_)),
        "{:?} {} {}",
        found.plan,
        found.predicted_us,
        found.usual_us
    );
    assert!(found.entries.len() < 100, "{}", found.entries.len());
}

/// A few pages on another drive, such as the program that starts an app, change nothing for a disk.
#[test]
fn the_drive_that_most_is_read_from_says_what_is_tried() {
    let mut log = scattered();
    log[7].device = 1;
    let params = Params::for_device(DriveClass::Rotational, true);
    let choices = Choices {
        usual: &DeviceParams::uniform(params),
        params,
        learned: Learned::Live,
        over_at: None,
        elevator: Elevator::Sorts,
        holding: Holding::Never,
    };
    let models = [DriveClass::Rotational, DriveClass::CommandQueuing].map(DriveModel::guess);
    let found = choose(&log, &models, &choices);
    assert!(
        matches!(found.plan, SchedulePlan::Regions(_)),
        "{:?}",
        found.plan
    );
    assert!(found.predicted_us <= found.usual_us * (1.0 - LEAST_GAIN));
}

/// What is read after the launch is over does not decide: here, most of it, and in an order that a sweep would better.
#[test]
fn only_the_time_until_the_launch_is_over_counts() {
    let mut log: Vec<LogEntry> = (0..20u64)
        .map(|index| LogEntry {
            time_us: index * 50,
            ..data(index as u32, 0, 1, index * 2048)
        })
        .collect();
    let tail = scattered().into_iter().map(|entry| LogEntry {
        time_us: 1_000 + entry.time_us,
        ..entry
    });
    log.extend(tail.skip(20));
    let params = Params::for_device(DriveClass::Rotational, true);
    let models = [DriveClass::Rotational].map(DriveModel::guess);
    let chosen = |over_at| {
        let choices = Choices {
            usual: &DeviceParams::uniform(params),
            params,
            learned: Learned::Live,
            over_at,
            elevator: Elevator::Sorts,
            holding: Holding::Never,
        };
        choose(&log, &models, &choices)
    };
    let all = chosen(None);
    let early = chosen(Some(19));
    assert!(early.predicted_us < all.predicted_us / 4.0);
    let launch = LaunchSimulator::new(&log, &models, Learned::Live);
    let over = |chosen: &ChosenSchedule| launch.simulate(&chosen.entries, 0).accessed_us[19];
    assert_eq!(over(&early), early.predicted_us);
    assert!(over(&early) <= over(&all));
}

/// As from a lesson on a busy machine: behind so much computing, any number of requests seems to cost nothing.
#[test]
fn a_drive_without_heads_is_not_kept_longer_behind_what_the_app_is_said_to_compute() {
    let log: Vec<LogEntry> = (0..3_000u64)
        .map(|index| {
            let page = index * 1_777 % 3_000;
            LogEntry {
                time_us: index * 900,
                ..data(0, page, 1, page)
            }
        })
        .collect();
    let class = DriveClass::NoCommandQueuing;
    let found = chosen(&log, class, Holding::Never);
    let models = [DriveModel::guess(class)];
    let launch = LaunchSimulator::new(&log, &models, Learned::Live);
    let alone = |entries: &[PrefetchEntry]| launch.simulate(entries, entries.len()).held_us;
    let usual = schedule_for(
        &log,
        &DeviceParams::uniform(Params::for_device(class, true)),
    );
    assert!(alone(&found.entries) <= alone(&usual) * (1.0 + MORE_FOR_THE_DRIVE));
}

#[test]
fn holes_are_tried_once_each_and_small_ones_always() {
    assert!(holes(0).eq([0, 1, 2, 4, 8]));
    let of_a_disk: Vec<u64> = holes(256).collect();
    assert_eq!(of_a_disk, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
}

#[test]
fn an_empty_launch_has_an_empty_schedule() {
    let found = chosen(&[], DriveClass::Rotational, Holding::Always);
    assert_eq!(found.entries, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn what_is_chosen_reads_each_page_once_and_is_never_predicted_worse(
        launch in launch(),
        class in prop::sample::select(CLASSES.to_vec()),
        elevator in prop::sample::select(ELEVATORS.to_vec()),
        holding in prop::sample::select(HOLDINGS.to_vec()),
    ) {
        let found = chosen_beside(&launch.log, class, elevator, holding);
        check_merged(&launch, &found.entries, u64::MAX, u64::MAX)?;
        prop_assert!(found.predicted_us <= found.usual_us);
        prop_assert!(found.held <= found.entries.len());
        prop_assert!(holding != Holding::Never || found.held == 0);
        prop_assert!(found.held > 0 || (found.held_us, found.unheld_us) == (0.0, found.predicted_us));
        if holding == Holding::WhereItGains && found.held > 0 {
            prop_assert_eq!((elevator, class), (Elevator::FavoursReaders, DriveClass::Rotational));
            prop_assert!(found.predicted_us <= found.unheld_us * (1.0 - LEAST_GAIN_OF_HOLDING) + 1e-6);
        }
        let models = [class, class].map(DriveModel::guess);
        if !models[0].has_heads() {
            let simulator = LaunchSimulator::new(&launch.log, &models, Learned::Live);
            let alone = |entries: &[PrefetchEntry]| simulator.simulate(entries, entries.len()).held_us;
            let params = DeviceParams::uniform(Params::for_device(class, true));
            let usual = alone(&schedule_for(&launch.log, &params));
            prop_assert!(alone(&found.entries) <= usual * (1.0 + MORE_FOR_THE_DRIVE));
        }
        prop_assert_eq!(chosen_beside(&launch.log, class, elevator, holding), found);
    }
}
