use super::*;
use crate::model::{LaunchCounts, PrefetchReport};

mod properties;

/// A profile whose schedule is made as tuning asks, and launches of it.
struct SimulatedApp {
    tuning: Tuning,
    history: Vec<Revision>,
}

impl SimulatedApp {
    fn new(class: DriveClass, touched: bool) -> Self {
        let history = vec![Revision {
            time: 0,
            params: Params::for_device(class, touched),
        }];
        SimulatedApp {
            tuning: Tuning::new(class, &history),
            history,
        }
    }

    fn queued() -> Self {
        SimulatedApp::new(DriveClass::CommandQueuing, true)
    }

    /// A cold launch of so many microseconds with so many context switches for 100 entries.
    fn launch(&mut self, duration_us: u64, switches: u64) -> Step {
        let step = self
            .tuning
            .next(&self.history, &figures(duration_us, switches));
        if let Step::Raise(params) | Step::TakeBack(params) = step {
            self.put_in_force(params);
        }
        step
    }

    fn put_in_force(&mut self, params: Params) {
        let time = self.history.len() as u64;
        self.history.push(Revision { time, params });
    }

    /// The metadata shift in force, in KiB.
    fn shift(&self) -> u64 {
        self.history.last().expect("never empty").params.shift_bytes >> 10
    }
}

fn figures(duration_us: u64, switches: u64) -> LaunchFigures {
    LaunchFigures {
        counts: LaunchCounts {
            last_ns: duration_us.saturating_mul(1000),
            bytes: 100,
            ..LaunchCounts::default()
        },
        schedule_bytes: 100,
        report: Some(PrefetchReport {
            scheduled: 100,
            ..PrefetchReport::default()
        }),
        switches,
        ..LaunchFigures::default()
    }
}

/// More context switches than prefetching in time has.
const LATE: u64 = 6;
const IN_TIME: u64 = 5;

#[test]
fn each_launch_that_waits_raises_the_shift_until_one_does_not() {
    let mut app = SimulatedApp::queued();
    for (duration_us, shift) in [(1000, 80), (990, 96), (980, 112)] {
        assert!(matches!(app.launch(duration_us, LATE), Step::Raise(_)));
        assert_eq!(app.shift(), shift);
        assert_eq!(app.tuning.ended(), None);
    }
    assert_eq!(app.launch(985, IN_TIME), Step::Stay);
    assert_eq!(app.tuning.ended(), Some(TuningEnd::InTime));
    // Later launches change nothing any more.
    assert_eq!(app.launch(5000, 100), Step::Stay);
    assert_eq!(app.shift(), 112);
}

#[test]
fn a_step_is_taken_back_after_two_slower_launches() {
    let mut app = SimulatedApp::queued();
    app.launch(1000, LATE);
    assert_eq!(app.launch(1021, LATE), Step::Stay);
    assert!(matches!(app.launch(1030, LATE), Step::TakeBack(_)));
    assert_eq!(app.shift(), 64);
    assert_eq!(app.tuning.ended(), Some(TuningEnd::Slower));
    assert_eq!(app.launch(1000, LATE), Step::Stay);
}

#[test]
fn one_slower_launch_is_forgiven() {
    let mut app = SimulatedApp::queued();
    app.launch(1000, LATE);
    assert_eq!(app.launch(1500, LATE), Step::Stay);
    assert!(matches!(app.launch(1020, LATE), Step::Raise(_)));
    assert_eq!(app.shift(), 96);
}

/// In time or not, what is slower is not kept.
#[test]
fn a_slower_level_is_not_kept_for_being_in_time() {
    let mut app = SimulatedApp::queued();
    app.launch(1000, LATE);
    app.launch(1500, IN_TIME);
    assert!(matches!(app.launch(1500, IN_TIME), Step::TakeBack(_)));
    assert_eq!(app.shift(), 64);
}

#[test]
fn levels_are_held_against_the_fastest_and_not_the_last() {
    let mut app = SimulatedApp::queued();
    app.launch(1000, LATE);
    app.launch(1015, LATE);
    assert_eq!(app.launch(1030, LATE), Step::Stay);
    assert!(matches!(app.launch(1030, LATE), Step::TakeBack(_)));
    assert_eq!(app.shift(), 64);
}

#[test]
fn three_levels_without_gain_end_tuning_with_the_fastest() {
    let mut app = SimulatedApp::queued();
    app.launch(1000, LATE);
    app.launch(990, LATE);
    for duration_us in [990, 995] {
        assert!(matches!(app.launch(duration_us, LATE), Step::Raise(_)));
    }
    assert!(matches!(app.launch(991, LATE), Step::TakeBack(_)));
    assert_eq!(app.shift(), 80);
    assert_eq!(app.tuning.ended(), Some(TuningEnd::NoGain));
}

#[test]
fn tuning_ends_at_the_end_of_the_range() {
    let mut app = SimulatedApp::queued();
    let mut duration_us = 10_000;
    while let Step::Raise(_) = app.launch(duration_us, LATE) {
        duration_us -= 10;
    }
    assert_eq!(app.shift(), 256);
    assert_eq!(app.tuning.ended(), Some(TuningEnd::AtLimit));
    assert_eq!(app.tuning.levels().len(), 13);
}

#[test]
fn launches_not_cold_or_not_prefetched_change_nothing() {
    let mut app = SimulatedApp::queued();
    let cold = figures(1000, LATE);
    let (mut warm, mut withheld, mut refused) = (cold.clone(), cold.clone(), cold);
    warm.counts.bytes = 74;
    withheld.report = None;
    refused.report.as_mut().expect("a report").refused = Some("no memory".to_owned());
    for launch in [warm, withheld, refused] {
        assert_eq!(app.tuning.next(&app.history, &launch), Step::Stay);
    }
    assert_eq!(app.tuning, SimulatedApp::queued().tuning);
    assert!(matches!(app.launch(1000, LATE), Step::Raise(_)));
}

#[test]
fn steps_without_effect_are_skipped() {
    let mut app = SimulatedApp::queued();
    let history = app.history.clone();
    app.tuning.next(&history, &figures(1000, LATE));
    let Step::Raise(params) = app.tuning.no_effect() else {
        panic!("96 KiB is in range");
    };
    assert_eq!(params.shift_bytes, 96 << 10);
    app.put_in_force(params);
    app.launch(900, LATE);
    let shifts: Vec<u64> = app
        .tuning
        .levels()
        .iter()
        .map(|level| level.params.shift_bytes >> 10)
        .collect();
    assert_eq!(shifts, [64, 96]);
    // Up to the end of the range.
    let mut steps = 0;
    while let Step::Raise(_) = app.tuning.no_effect() {
        steps += 1;
    }
    assert_eq!(steps, (256 - 112) / 16);
    assert_eq!(app.tuning.ended(), Some(TuningEnd::AtLimit));
    assert_eq!(app.tuning.no_effect(), Step::Stay);
}

#[test]
fn a_schedule_that_cannot_be_made_anew_is_kept() {
    let mut app = SimulatedApp::queued();
    app.tuning.next(&app.history, &figures(1000, LATE));
    app.tuning.not_rescheduled();
    assert_eq!(app.tuning.ended(), Some(TuningEnd::NotRescheduled));
    assert_eq!(app.launch(1000, LATE), Step::Stay);
    assert_eq!(app.shift(), 64);
}

#[test]
fn a_step_that_a_crash_kept_from_being_made_is_asked_for_again() {
    let mut app = SimulatedApp::queued();
    let up = app.tuning.next(&app.history, &figures(1000, LATE));
    assert_eq!(app.tuning.next(&app.history, &figures(1000, LATE)), up);
    app.launch(1000, LATE);
    app.launch(1100, LATE);
    let back = app.tuning.next(&app.history, &figures(1100, LATE));
    assert!(matches!(back, Step::TakeBack(_)));
    assert_eq!(app.tuning.next(&app.history, &figures(1100, LATE)), back);
    assert_eq!(app.launch(1100, LATE), back);
    assert_eq!(app.launch(1000, LATE), Step::Stay);
}

#[test]
fn a_lost_state_starts_with_what_is_in_force() {
    let mut app = SimulatedApp::queued();
    app.launch(1000, LATE);
    app.tuning = Tuning::new(DriveClass::CommandQueuing, &app.history);
    assert_eq!(app.tuning.ended(), None);
    app.launch(1000, LATE);
    assert_eq!(app.shift(), 96);
    app.put_in_force(app.history[0].params);
    let again = Tuning::new(DriveClass::CommandQueuing, &app.history);
    assert_eq!(again.ended(), Some(TuningEnd::Before));
}

#[test]
fn a_schedule_made_by_others_starts_tuning_over() {
    let mut app = SimulatedApp::queued();
    app.launch(1000, LATE);
    let foreign = Params {
        shift_bytes: 5 << 10,
        ..app.history[0].params
    };
    app.put_in_force(foreign);
    assert!(matches!(app.launch(3000, LATE), Step::Raise(_)));
    assert_eq!(app.shift(), 21);
    assert_eq!(app.tuning.levels().len(), 1);
}

#[test]
fn nothing_is_tuned_on_disks_with_heads_or_without_parameters() {
    let mut app = SimulatedApp::new(DriveClass::Rotational, true);
    assert_eq!(app.tuning.ended(), Some(TuningEnd::NothingFree));
    assert_eq!(app.launch(1000, LATE), Step::Stay);
    let mut none = Tuning::new(DriveClass::CommandQueuing, &[]);
    assert_eq!(none.ended(), Some(TuningEnd::NothingFree));
    assert_eq!(none.next(&[], &figures(1000, LATE)), Step::Stay);
}
