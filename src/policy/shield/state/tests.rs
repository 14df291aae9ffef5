//! The state machine beside writers that a test makes up.

use proptest::prelude::*;

use super::*;

const USER: u32 = 1000;
const DRIVE: u64 = 0x800;
const MB: u64 = 1_000_000;

/// A drive that is written at this rate, in bytes per second; 0: it is quiet.
fn look(rate: u64) -> DriveLook {
    DriveLook {
        writes_in_flight: rate.min(1),
        written: Some(rate),
        scheduler: "none".to_owned(),
        schedulers: ["none", "mq-deadline"].map(str::to_owned).to_vec(),
        max_sectors_kb: 1280,
        one_command: false,
    }
}

/// A system whose drives are looked at when that is due.
#[derive(Default)]
struct WriterScene {
    state: ShieldState,
    now: Duration,
    logged_in: bool,
    /// What is set of each drive.
    set: BTreeMap<u64, WriteLimits>,
    released: Vec<ReleaseReason>,
    /// For how long something was set of any drive.
    in_force: Duration,
}

impl WriterScene {
    fn happens(&mut self, event: ShieldEvent) {
        let (state, actions) = std::mem::take(&mut self.state).step(event, self.now);
        self.state = state;
        for action in actions {
            match action {
                ShieldAction::Set { drive, limits, .. } => {
                    assert_ne!(self.set.insert(drive, limits.clone()), Some(limits));
                }
                ShieldAction::Release { drive, why, .. } => {
                    assert!(
                        self.set.remove(&drive).is_some(),
                        "nothing was set of {drive}"
                    );
                    self.released.push(why);
                }
            }
        }
    }

    fn launch(&mut self, uid: u32) {
        self.happens(ShieldEvent::Launch { uid, drive: DRIVE });
    }

    fn waits(&mut self, uid: Option<u32>) {
        self.happens(ShieldEvent::Waits { uid, drive: DRIVE });
    }

    /// Time passes, in which every drive is written at a rate that depends on what is set of it.
    fn passes(&mut self, time: Duration, rate: impl Fn(Option<&WriteLimits>) -> u64) {
        let end = self.now + time;
        while let Some(left) = self.state.next_look(self.now)
            && self.now + left <= end
        {
            let left = left.max(Duration::from_millis(1));
            if !self.set.is_empty() {
                self.in_force += left;
            }
            self.now += left;
            let looks = self.state.drives();
            let drives = looks.map(|drive| (drive, look(rate(self.set.get(&drive)))));
            let drives = drives.collect();
            let logged_in = self.logged_in;
            self.happens(ShieldEvent::Looked { drives, logged_in });
        }
        self.now = end;
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_launch_beside_a_writer_is_shielded_at_once_and_for_a_minute() {
    let mut scene = WriterScene::default();
    scene.launch(USER);
    scene.passes(Duration::from_millis(1), |_| 50 * MB);
    assert_eq!(scene.set.get(&DRIVE), WriteLimits::at(0, &look(1)).as_ref());
    scene.passes(seconds(58), |_| 50 * MB);
    assert!(scene.set.contains_key(&DRIVE), "{:?}", scene.released);
    scene.passes(seconds(3), |_| 50 * MB);
    // Once in between, what the writers get without it was measured.
    assert_eq!(
        scene.released,
        [ReleaseReason::Measured, ReleaseReason::NotNeeded]
    );
    assert_eq!(
        scene.state.next_look(scene.now),
        None,
        "nothing is looked at"
    );
}

#[test]
fn a_drive_that_is_quiet_is_left_alone_until_it_is_written() {
    let mut scene = WriterScene::default();
    scene.launch(USER);
    scene.passes(seconds(20), |_| 0);
    assert!(scene.set.is_empty());
    scene.passes(seconds(3), |_| 50 * MB);
    assert!(scene.set.contains_key(&DRIVE));
    scene.passes(seconds(5), |_| 0);
    assert_eq!(scene.released, [ReleaseReason::Quiet]);
}

#[test]
fn what_waits_has_its_writers_measured_first() {
    let mut scene = WriterScene {
        logged_in: true,
        ..WriterScene::default()
    };
    scene.waits(None);
    scene.passes(Duration::from_millis(900), |_| 50 * MB);
    assert!(scene.set.is_empty());
    scene.passes(seconds(3), |_| 50 * MB);
    assert!(scene.set.contains_key(&DRIVE));
    scene.passes(seconds(50), |_| 45 * MB);
    assert!(scene.released.is_empty(), "the writers keep enough");
}

#[test]
fn nothing_is_done_where_nobody_is() {
    let mut scene = WriterScene::default();
    scene.waits(Some(USER));
    scene.launch(0);
    scene.passes(seconds(50), |_| 50 * MB);
    assert!(scene.set.is_empty());
    scene.logged_in = true;
    scene.passes(seconds(2), |_| 50 * MB);
    assert!(scene.set.contains_key(&DRIVE));
    scene.logged_in = false;
    scene.passes(seconds(2), |_| 50 * MB);
    assert_eq!(scene.released, [ReleaseReason::NobodyThere]);
}

#[test]
fn the_limits_give_way_in_steps_to_writers_that_lose_too_much() {
    let mut scene = WriterScene {
        logged_in: true,
        ..WriterScene::default()
    };
    // The writers get less, the smaller the requests are.
    let rate = |limits: Option<&WriteLimits>| match limits.and_then(|limits| limits.max_sectors_kb)
    {
        Some(128) => 20 * MB,
        Some(256) => 45 * MB,
        _ => 50 * MB,
    };
    scene.waits(Some(USER));
    scene.passes(seconds(30), rate);
    assert_eq!(scene.set[&DRIVE].max_sectors_kb, Some(256));
    // They get the half at every step, which is too little.
    let mut scene = WriterScene {
        logged_in: true,
        ..WriterScene::default()
    };
    scene.waits(Some(USER));
    let rate = |limits: Option<&WriteLimits>| match limits.and_then(|limits| limits.async_depth) {
        Some(depth) => 6 * MB * depth,
        None => 50 * MB,
    };
    scene.passes(seconds(40), rate);
    assert_eq!(scene.released, [ReleaseReason::Throughput]);
    assert!(scene.set.is_empty());
}

#[test]
fn writers_that_become_slower_by_themselves_are_not_the_limits_fault() {
    let mut scene = WriterScene {
        logged_in: true,
        ..WriterScene::default()
    };
    scene.waits(Some(USER));
    scene.passes(seconds(8), |_| 50 * MB);
    scene.passes(seconds(40), |_| 20 * MB);
    assert_eq!(scene.set.get(&DRIVE), WriteLimits::at(0, &look(1)).as_ref());
    assert!(scene.released.is_empty());
}

#[test]
fn what_cannot_be_set_rests() {
    let mut scene = WriterScene::default();
    scene.launch(USER);
    scene.passes(seconds(2), |_| 50 * MB);
    scene.happens(ShieldEvent::Failed { drive: DRIVE });
    assert_eq!(scene.released, [ReleaseReason::Failed]);
    scene.launch(USER);
    scene.passes(seconds(50), |_| 50 * MB);
    assert!(scene.set.is_empty());
    scene.launch(USER);
    scene.passes(seconds(15), |_| 50 * MB);
    assert!(scene.set.contains_key(&DRIVE));
}

#[test]
fn a_drive_that_goes_away_is_forgotten() {
    let mut scene = WriterScene::default();
    scene.launch(USER);
    scene.passes(seconds(2), |_| 50 * MB);
    let drives = BTreeMap::new();
    scene.happens(ShieldEvent::Looked {
        drives,
        logged_in: true,
    });
    assert_eq!(scene.released, [ReleaseReason::Failed]);
    assert_eq!(
        scene.state,
        ShieldState {
            last_person: Some(Duration::ZERO),
            used: scene.state.used.clone(),
            ..ShieldState::default()
        }
    );
}

#[test]
fn one_users_launches_have_half_of_the_time_and_others_have_theirs() {
    let mut scene = WriterScene::default();
    let minutes = 60;
    for _ in 0..minutes * 6 {
        scene.launch(USER);
        scene.passes(seconds(10), |_| 50 * MB);
    }
    let half = seconds(minutes * 30);
    assert!(scene.in_force <= half + seconds(30), "{:?}", scene.in_force);
    assert!(scene.in_force >= half - SHARE, "{:?}", scene.in_force);
    assert!(scene.released.contains(&ReleaseReason::Account));
    assert!(scene.state.refused() > 0);
    // Whatever is left of his.
    scene.launch(USER + 1);
    scene.passes(seconds(2), |_| 50 * MB);
    assert!(scene.set.contains_key(&DRIVE));
}

/// What happens next, and how many tenths of a second pass then.
/// The state after a look at the drive, which is written at this rate, and what is released.
fn after_look(
    state: &ShieldState,
    now: Duration,
    rate: u64,
) -> (ShieldState, Option<ReleaseReason>) {
    let drives = BTreeMap::from([(DRIVE, look(rate))]);
    let logged_in = false;
    let looked = ShieldEvent::Looked { drives, logged_in };
    let (state, actions) = state.clone().step(looked, now);
    let released = actions.into_iter().find_map(|action| match action {
        ShieldAction::Release { why, .. } => Some(why),
        ShieldAction::Set { .. } => None,
    });
    (state, released)
}

#[test]
fn a_rate_is_that_of_the_time_in_which_the_drive_was_written() {
    let mut written = WrittenBytes::default();
    assert_eq!(written.rate(Duration::ZERO), None);
    written.add(&look(0), seconds(1));
    assert_eq!(written, WrittenBytes::default());
    written.add(&look(50 * MB), Duration::from_millis(1500));
    assert_eq!(written.bytes, 75 * u128::from(MB));
    assert_eq!(written.rate(Duration::from_millis(1500)), Some(50 * MB));
    assert_eq!(written.rate(Duration::from_millis(1501)), None);
    written.add(&look(20 * MB), Duration::from_millis(1500));
    assert_eq!(written.rate(seconds(3)), Some(35 * MB));
}

#[test]
fn a_launch_lasts_until_its_time_is_over() {
    let drive = Drive {
        last_launch: Some(seconds(5)),
        ..Drive::default()
    };
    assert!(drive.is_launching(seconds(5)));
    assert!(drive.is_launching(seconds(5) + LAUNCH - Duration::from_millis(1)));
    assert!(!drive.is_launching(seconds(5) + LAUNCH));
}

#[test]
fn a_drive_is_looked_at_more_often_while_a_launch_begins() {
    let launch = ShieldEvent::Launch {
        uid: USER,
        drive: DRIVE,
    };
    let (launched, _) = ShieldState::default().step(launch, Duration::ZERO);
    assert_eq!(launched.refused(), 0);
    let looked = |now: Duration, rate| after_look(&launched, now, rate).0.next_look(now);
    assert_eq!(looked(Duration::ZERO, 0), Some(LOOK_LAUNCH));
    let last = FIRST_MOMENTS - Duration::from_millis(1);
    assert_eq!(looked(last, 0), Some(LOOK_LAUNCH));
    assert_eq!(looked(FIRST_MOMENTS, 0), Some(LOOK));
    // Where limits are in force, nothing is to be found out soon.
    assert_eq!(looked(Duration::ZERO, 50 * MB), Some(LOOK));
}

#[test]
fn so_many_drives_and_accounts_are_kept_and_known_ones_go_on() {
    let mut state = ShieldState::default();
    for drive in 0..=MOST_DRIVES as u64 {
        state.reason(Some(USER), drive, seconds(1), true);
    }
    assert!(state.drives().eq(0..MOST_DRIVES as u64));
    for uid in 0..=MOST_ACCOUNTS as u32 {
        state.reason(Some(uid), 0, seconds(2), false);
    }
    let drive = &state.drives[&0];
    assert_eq!(drive.reasons.len(), MOST_ACCOUNTS);
    assert_eq!(drive.reasons[&Some(0)], seconds(2));
    state.reason(Some(0), 0, seconds(3), true);
    let drive = &state.drives[&0];
    assert_eq!(drive.reasons[&Some(0)], seconds(3));
    assert_eq!(drive.last_launch, Some(seconds(3)));
}

#[test]
fn a_reason_and_a_person_last_so_long_and_no_longer() {
    let mut state = ShieldState::default();
    state.reason(None, DRIVE, Duration::ZERO, false);
    let millisecond = Duration::from_millis(1);
    let (before, _) = after_look(&state, REASON_LASTS - millisecond, 0);
    assert!(before.drives().eq([DRIVE]));
    let (at, _) = after_look(&state, REASON_LASTS, 0);
    assert_eq!(at.drives().count(), 0);
    // Somebody was there, and the system still has a reason.
    state.last_person = Some(Duration::ZERO);
    state.reason(None, DRIVE, seconds(1), false);
    let measured = DrivePhase::Measuring(WrittenBytes::default());
    let (before, _) = after_look(&state, REASON_LASTS - millisecond, 50 * MB);
    assert_eq!(before.drives[&DRIVE].phase, measured);
    let (at, _) = after_look(&state, REASON_LASTS, 50 * MB);
    assert_eq!(at.drives[&DRIVE].phase, DrivePhase::Idle);
}

#[test]
fn limits_go_once_the_drive_has_been_quiet_for_a_while() {
    let launch = ShieldEvent::Launch {
        uid: USER,
        drive: DRIVE,
    };
    let (state, _) = ShieldState::default().step(launch, Duration::ZERO);
    let (state, _) = after_look(&state, Duration::ZERO, 50 * MB);
    assert!(state.drives[&DRIVE].is_in_force());
    let (state, released) = after_look(&state, seconds(1), 0);
    assert_eq!(released, None);
    let end = seconds(1) + QUIET;
    let (_, released) = after_look(&state, end - Duration::from_millis(1), 0);
    assert_eq!(released, None);
    let (_, released) = after_look(&state, end, 0);
    assert_eq!(released, Some(ReleaseReason::Quiet));
}

#[test]
fn what_rests_goes_on_to_rest_when_it_is_quiet_and_what_gave_way_may_begin_again() {
    let resting = DrivePhase::Resting { until: REST };
    for (phase, expected) in [
        (resting.clone(), resting),
        (DrivePhase::GivenWay, DrivePhase::Idle),
    ] {
        let mut state = ShieldState::default();
        state.reason(Some(USER), DRIVE, Duration::ZERO, true);
        state.drives.get_mut(&DRIVE).unwrap().phase = phase;
        let (state, _) = after_look(&state, seconds(1), 0);
        let (state, _) = after_look(&state, seconds(1) + QUIET, 0);
        assert_eq!(state.drives[&DRIVE].phase, expected);
    }
}

#[test]
fn a_drive_that_nobody_writes_is_not_measured() {
    let waits = ShieldEvent::Waits {
        uid: Some(USER),
        drive: DRIVE,
    };
    let (mut state, _) = ShieldState::default().step(waits, Duration::ZERO);
    state.last_person = Some(Duration::ZERO);
    let (state, _) = after_look(&state, seconds(1), 0);
    assert_eq!(state.drives[&DRIVE].phase, DrivePhase::Idle);
    let (state, _) = after_look(&state, seconds(2), MB);
    let measured = DrivePhase::Measuring(WrittenBytes::default());
    assert_eq!(state.drives[&DRIVE].phase, measured);
}

#[test]
fn an_account_is_open_until_its_share_is_used_and_again_in_its_next_window() {
    let after = |time| {
        let since = seconds(7);
        let used = BTreeMap::from([(Some(USER), WindowUse { since, time })]);
        ShieldState {
            used,
            ..ShieldState::default()
        }
    };
    let millisecond = Duration::from_millis(1);
    let end = seconds(7) + WINDOW;
    assert!(after(SHARE - millisecond).is_open(Some(USER), seconds(8)));
    assert!(!after(SHARE).is_open(Some(USER), end - millisecond));
    assert!(after(SHARE).is_open(Some(USER), end));
    assert!(after(SHARE).is_open(None, seconds(8)));
    // Nothing is kept of a window that is over.
    let kept = |now| {
        let mut state = after(SHARE);
        state.charge(Duration::ZERO, now);
        state.used.len()
    };
    assert_eq!([end - millisecond, end].map(kept), [1, 0]);
}

#[test]
fn each_reason_has_its_own_words() {
    use ReleaseReason::{Account, Failed, Measured, NobodyThere, NotNeeded, Quiet, Throughput};
    let all = [
        Quiet,
        NotNeeded,
        NobodyThere,
        Account,
        Throughput,
        Measured,
        Failed,
    ];
    let words: BTreeSet<&str> = all.into_iter().map(ReleaseReason::explanation).collect();
    assert_eq!(words.len(), all.len());
    assert!(words.iter().all(|words| !words.is_empty()));
}

fn events() -> impl Strategy<Value = Vec<(ShieldEvent, u64)>> {
    let drive = 1..12_u64;
    let uid = prop_oneof![Just(0), USER..USER + 20];
    let launch = (uid, drive.clone()).prop_map(|(uid, drive)| ShieldEvent::Launch { uid, drive });
    let uid = proptest::option::of(USER..USER + 20);
    let waits = (uid, drive.clone()).prop_map(|(uid, drive)| ShieldEvent::Waits { uid, drive });
    let failed = drive.prop_map(|drive| ShieldEvent::Failed { drive });
    let event = prop_oneof![4 => launch, 4 => waits, 1 => failed];
    proptest::collection::vec((event, 0..1500_u64), 0..60)
}

proptest! {
    /// Whatever happens, and however fast the writers are, and whoever is there.
    #[test]
    fn whatever_is_set_has_a_reason_and_an_end(
        events in events(),
        rates in proptest::collection::vec(prop_oneof![Just(0), 0..100 * MB], 60),
        logged_in in any::<[bool; 8]>(),
    ) {
        let mut scene = WriterScene::default();
        for (at, (event, tenths)) in events.into_iter().enumerate() {
            scene.logged_in = logged_in[at % logged_in.len()];
            scene.happens(event);
            scene.passes(Duration::from_millis(tenths * 100), |_| rates[at]);
            prop_assert!(scene.state.drives.len() <= MOST_DRIVES);
            for (number, drive) in &scene.state.drives {
                prop_assert!(drive.reasons.len() <= MOST_ACCOUNTS);
                prop_assert_eq!(drive.is_in_force(), scene.set.contains_key(number));
                prop_assert!(!drive.is_in_force() || !drive.reasons.is_empty());
            }
            let known = scene.set.keys().all(|drive| scene.state.drives.contains_key(drive));
            prop_assert!(known);
            // One window's share too many at most: the end of one window and the beginning of the next.
            for used in scene.state.used.values() {
                prop_assert!(used.time <= SHARE + LONGEST_LOOK);
            }
        }
        scene.passes(REASON_LASTS + seconds(2), |_| 50 * MB);
        prop_assert!(scene.set.is_empty());
        prop_assert_eq!(scene.state.next_look(scene.now), None);
    }
}
