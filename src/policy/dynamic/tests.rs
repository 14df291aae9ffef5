use super::*;
use crate::policy::well_prefetched;

mod properties;

/// A profile whose schedule is made as tuning asks, and launches of it.
struct SimulatedApp {
    tuning: Tuning,
    history: Vec<Revision>,
}

impl SimulatedApp {
    fn new(class: DriveClass, touched: bool) -> Self {
        let params = Params::for_device(class, touched);
        let history = vec![Revision { time: 0, params }];
        SimulatedApp {
            tuning: Tuning::new(class, &history),
            history,
        }
    }

    fn queued() -> Self {
        SimulatedApp::new(DriveClass::CommandQueuing, true)
    }

    /// A cold launch of so many microseconds with so many context switches, which makes 100 requests without
    /// prefetching. What tuning asks for is left undone.
    fn ask(&mut self, duration_us: u64, switches: u64) -> Option<Params> {
        self.tuning.next(
            &self.history,
            &figures(duration_us, switches),
            100,
            &TuningRules::default(),
        )
    }

    /// A launch as [`Self::ask`] has it; what tuning asks for is done.
    fn launch(&mut self, duration_us: u64, switches: u64) -> Option<Params> {
        let params = self.ask(duration_us, switches);
        params
            .into_iter()
            .for_each(|params| self.put_in_force(params));
        params
    }

    fn put_in_force(&mut self, params: Params) {
        let time = self.history.len() as u64;
        self.history.push(Revision { time, params });
    }

    fn in_force(&self) -> Params {
        self.history.last().expect("never empty").params
    }

    /// The metadata shift in force, in KiB.
    fn shift(&self) -> u64 {
        self.in_force().shift_bytes >> 10
    }
}

fn figures(duration_us: u64, switches: u64) -> LaunchFigures {
    LaunchFigures {
        exited_ns: Some(duration_us.saturating_mul(1000)),
        switches,
        ..well_prefetched()
    }
}

/// More context switches than prefetching in time has.
const LATE: u64 = 6;

/// Launches from a shift of 64 KiB on: their lengths in microseconds, their context switches, the shifts in
/// KiB after each of them, and why tuning ended.
#[track_caller]
fn check_launches<const N: usize>(
    lengths_us: [u64; N],
    switches: [u64; N],
    shifts: [u64; N],
    ended: Option<TuningEnd>,
) {
    let mut app = SimulatedApp::queued();
    let after = std::array::from_fn(|i| {
        app.launch(lengths_us[i], switches[i]);
        app.shift()
    });
    assert_eq!(after, shifts);
    assert_eq!(app.tuning.ended(), ended);
}

#[test]
fn the_shift_follows_the_launches() {
    use TuningEnd::{InTime, NoGain, Slower};
    // Each launch that waits raises it, until one does not. Then nothing changes any more.
    let lengths_us = [1000, 990, 980, 985, 5000];
    check_launches(
        lengths_us,
        [6, 6, 6, 5, 100],
        [80, 96, 112, 112, 112],
        Some(InTime),
    );
    // A step is taken back after two slower launches.
    check_launches(
        [1000, 1021, 1030, 1000],
        [6; 4],
        [80, 80, 64, 64],
        Some(Slower),
    );
    // One slower launch is forgiven.
    check_launches([1000, 1500, 1020], [6; 3], [80, 80, 96], None);
    // A slower level is not kept for being in time.
    check_launches([1000, 1500, 1500], [6, 5, 5], [80, 80, 64], Some(Slower));
    // Levels are held against the fastest and not the last.
    check_launches(
        [1000, 1015, 1030, 1030],
        [6; 4],
        [80, 96, 96, 64],
        Some(Slower),
    );
    // Three levels without gain end tuning with the fastest.
    check_launches(
        [1000, 990, 990, 995, 991],
        [6; 5],
        [80, 96, 112, 128, 80],
        Some(NoGain),
    );
}

#[test]
fn tuning_ends_at_the_end_of_the_range() {
    let mut app = SimulatedApp::queued();
    let mut duration_us = 10_000;
    while app.launch(duration_us, LATE).is_some() {
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
        assert_eq!(
            app.tuning
                .next(&app.history, &launch, 100, &TuningRules::default()),
            None
        );
    }
    assert_eq!(app.tuning, SimulatedApp::queued().tuning);
}

#[test]
fn steps_without_effect_are_skipped() {
    let mut app = SimulatedApp::queued();
    app.ask(1000, LATE);
    let params = app
        .tuning
        .no_effect(&TuningRules::default())
        .expect("96 KiB is in range");
    assert_eq!(params.shift_bytes, 96 << 10);
    app.put_in_force(params);
    app.launch(900, LATE);
    let levels = app.tuning.levels().iter();
    assert!(
        levels
            .map(|level| level.params.shift_bytes >> 10)
            .eq([64, 96])
    );
    // Up to the end of the range.
    let steps = std::iter::from_fn(|| app.tuning.no_effect(&TuningRules::default())).count();
    assert_eq!(steps, (256 - 112) / 16);
    assert_eq!(app.tuning.ended(), Some(TuningEnd::AtLimit));
}

#[test]
fn a_schedule_that_cannot_be_made_anew_is_kept() {
    let mut app = SimulatedApp::queued();
    app.ask(1000, LATE);
    app.tuning.not_rescheduled();
    assert_eq!(app.tuning.ended(), Some(TuningEnd::NotRescheduled));
    assert_eq!(app.launch(1000, LATE), None);
}

#[test]
fn a_step_that_a_crash_kept_from_being_made_is_asked_for_again() {
    let mut app = SimulatedApp::queued();
    let up = app.ask(1000, LATE);
    assert_eq!(app.tuning.wanted(), up);
    assert_eq!(app.ask(1000, LATE), up);
    app.launch(1000, LATE);
    app.launch(1100, LATE);
    let back = app.ask(1100, LATE);
    assert_eq!(back, Some(app.history[0].params));
    assert_eq!(app.ask(1100, LATE), back);
    assert_eq!(app.launch(1100, LATE), back);
    assert_eq!(app.launch(1000, LATE), None);
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
    let shift_bytes = 5 << 10;
    app.put_in_force(Params {
        shift_bytes,
        ..app.in_force()
    });
    app.launch(3000, LATE);
    assert_eq!(app.shift(), 21);
    assert_eq!(app.tuning.levels().len(), 1);
}

#[test]
fn nothing_is_tuned_on_disks_with_heads_or_without_parameters() {
    let mut app = SimulatedApp::new(DriveClass::Rotational, true);
    assert_eq!(app.tuning.ended(), Some(TuningEnd::NothingFree));
    assert_eq!(app.launch(1000, LATE), None);
    let mut none = Tuning::new(DriveClass::CommandQueuing, &[]);
    assert_eq!(none.ended(), Some(TuningEnd::NothingFree));
    assert_eq!(
        none.next(&[], &figures(1000, LATE), 100, &TuningRules::default()),
        None
    );
}
