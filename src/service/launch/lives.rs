//! Lives of launches on a fake system. Which state follows on which is in `states.md`; here is what the
//! table cannot say: times, figures, notes, and that nothing is left in the end.

use std::time::Duration;

use proptest::prelude::*;

use super::fakes::{SCHEDULE_BYTES, Scene, USER};
use super::table::MOST_OF_A_USER;
use super::{StateAction, StateEvent, TICK};
use crate::model::{EntryCount, PrefetchReport, Skipped, UserApp};
use crate::policy::Plan;
use crate::service::history::Kind;

const APP: &str = "/usr/bin/app";
const SECOND: Duration = Duration::from_secs(1);

fn report() -> PrefetchReport {
    PrefetchReport {
        scheduled: 5,
        ..PrefetchReport::default()
    }
}

#[test]
fn a_launch_is_recorded_from_its_call_and_learned() {
    let mut scene = Scene::with_profiles(&[]);
    scene.system.recorder_is_ready = true;
    scene.call(1, APP, Plan::Learn);
    assert!(scene.system.recordings.contains(&1));
    scene.execute(1, APP, Plan::Learn);
    // The recorder has the say, not the counts and not the exit.
    scene.pass(40 * SECOND);
    scene.launches.exited(1, 2_000_000, &mut scene.system);
    assert!(scene.launches.follows(1));
    scene.record(1, StateEvent::Recorded);
    let kept = StateAction::KeepProfile { alone: true };
    assert!(scene.system.done.contains(&kept));
    let row = scene.only_row();
    assert_eq!(row.kind, Kind::Learned);
    assert_eq!(row.note.as_deref(), Some("Recorded"));
    assert!(scene.system.is_at_rest() && scene.launches.is_empty());
}

#[test]
fn a_users_launch_of_an_app_is_one_job_and_no_other_users() {
    let mut scene = Scene::with_profiles(&[APP]);
    scene.call(1, APP, Plan::Prefetch);
    scene.call(2, APP, Plan::Prefetch);
    assert!(!scene.launches.follows(2), "one is under way");
    scene.call_by(USER + 1, 3, APP, Plan::Learn);
    assert!(scene.launches.follows(3));
    // The profile is another user's.
    let begun: Vec<u64> = scene.system.prefetches.keys().copied().collect();
    assert_eq!(begun, [1]);
    scene.happened(3, StateEvent::Executed);
    scene.record(3, StateEvent::NotRecorded);
    assert_eq!(scene.only_row().uid, USER + 1);
}

#[test]
fn a_launch_under_way_is_found_by_its_app_and_user() {
    let mut scene = Scene::with_profiles(&[]);
    scene.call(7, APP, Plan::Leave);
    let of = |scene: &Scene, uid| scene.launches.launch_of(&UserApp::new(uid, APP));
    assert_eq!((of(&scene, USER), of(&scene, USER + 1)), (Some(7), None));
    scene.end(7, StateEvent::Cancelled);
    assert_eq!(of(&scene, USER), None);
}

#[test]
fn a_user_who_launches_many_apps_at_once_leaves_room_for_others() {
    let mut scene = Scene::with_profiles(&[]);
    let most = MOST_OF_A_USER as u64;
    for launch in 1..=most + 1 {
        scene.call(launch, &format!("/usr/bin/{launch}"), Plan::Leave);
    }
    assert!(scene.launches.follows(most) && !scene.launches.follows(most + 1));
    scene.call_by(USER + 1, most + 2, APP, Plan::Leave);
    assert!(scene.launches.follows(most + 2));
    scene.end(1, StateEvent::ExecutedAnother);
    scene.call(most + 3, APP, Plan::Leave);
    assert!(scene.launches.follows(most + 3));
}

#[test]
fn a_launch_of_an_app_that_is_forgotten_meanwhile_is_not_written_down() {
    let mut scene = Scene::with_profiles(&[APP]);
    scene.execute(1, APP, Plan::Prefetch);
    scene.launches.forget(&[UserApp::new(USER + 1, APP)]);
    scene.launches.forget(&[UserApp::new(USER, APP)]);
    scene.end_prefetch(1, report());
    scene.pass(5 * SECOND);
    assert!(!scene.launches.follows(1));
    assert!(scene.system.is_at_rest() && scene.system.rows.is_empty());
}

#[test]
fn a_launch_that_is_learned_again_has_its_old_profile_prefetched() {
    let mut scene = Scene::with_profiles(&[APP]);
    scene.execute(1, APP, Plan::Learn);
    scene.end_prefetch(1, report());
    scene.record(1, StateEvent::Recorded);
    let kept = StateAction::KeepProfile { alone: false };
    assert!(scene.system.done.contains(&kept));
    assert_eq!(scene.only_row().entries, Some(5));
}

#[test]
fn a_prefetched_launch_is_over_when_it_is_quiet_behind_its_prefetch() {
    let mut scene = Scene::with_profiles(&[APP]);
    scene.execute(1, APP, Plan::Prefetch);
    scene.read(1, 50);
    scene.pass(5 * SECOND);
    assert!(scene.launches.follows(1), "its prefetch is under way");
    scene.end_prefetch(1, report());
    scene.pass(SECOND);
    assert_eq!(scene.only_row().kind, Kind::Prefetched);
    assert_eq!(scene.system.judged.len(), 1);
    assert_eq!(scene.system.judged[0].report, Some(report()));
    assert!(scene.system.is_at_rest() && !scene.system.waits_counted);
}

#[test]
fn a_launch_that_has_not_used_its_completion_pages_has_as_long_as_a_lesson() {
    for uses_it in [false, true] {
        let mut scene = Scene::with_profiles(&[APP]);
        scene.execute(1, APP, Plan::Withhold);
        scene.system.slots.get_mut(&1).unwrap().has_completion = true;
        scene.read(1, 50);
        scene.pass(2 * SECOND);
        assert!(scene.launches.follows(1));
        if uses_it {
            scene.system.slots.get_mut(&1).unwrap().completed_ns = 2_100_000_000;
            scene.pass(TICK);
            assert!(!scene.launches.follows(1), "it was quiet for long enough");
        }
        scene.pass(2 * SECOND);
        assert!(!scene.launches.follows(1));
        assert_eq!(scene.only_row().duration_us.is_some(), uses_it);
    }
}

#[test]
fn writes_are_kept_out_of_the_way_of_every_launch_that_is_not_left_alone() {
    for (plan, is_shielded) in [
        (Plan::Prefetch, true),
        (Plan::Learn, true),
        (Plan::Withhold, true),
        (Plan::Leave, false),
    ] {
        let mut scene = Scene::with_profiles(&[APP]);
        scene.call(1, APP, plan);
        assert_eq!(scene.system.shielded.contains(&1), is_shielded, "{plan:?}");
        let done = &scene.system.done;
        let at = |action| done.iter().position(|done| *done == action);
        let requests = at(StateAction::StartPrefetch);
        assert!(requests.is_none() || requests < at(StateAction::Shield));
        scene.execute(1, APP, plan);
        scene.end_prefetch(1, report());
        scene.record(1, StateEvent::NotRecorded);
        scene.end(1, StateEvent::Exited);
        let row = scene.only_row();
        assert_eq!(row.background_writes, is_shielded);
        assert!(scene.system.is_at_rest());
    }
}

#[test]
fn a_launch_is_judged_by_its_counts_whether_or_not_its_waits_were_among_them() {
    for (plan, no_waits) in [
        (Plan::Prefetch, true),
        (Plan::Withhold, true),
        (Plan::Withhold, false),
    ] {
        let mut scene = Scene::with_profiles(&[APP]);
        scene.system.no_waits = no_waits;
        scene.execute(1, APP, plan);
        scene.read(1, 50);
        scene.end_prefetch(1, report());
        scene.pass(2 * SECOND);
        let row = scene.only_row();
        assert!(row.warmth.is_some());
        assert_eq!(row.waiting_us.is_none(), no_waits);
        let [judged] = &scene.system.judged[..] else {
            panic!("{plan:?}: judged once");
        };
        assert_eq!(judged.report.is_some(), plan == Plan::Prefetch);
        assert_eq!(judged.counts.requests, 50);
        assert_eq!(judged.counts.waits_counted, !no_waits);
        assert!(scene.system.is_at_rest());
    }
}

#[test]
fn delayed_opens_are_judged_also_if_waits_could_not_be_counted() {
    let mut scene = Scene::with_profiles(&[APP]);
    scene.system.no_waits = true;
    scene.execute(1, APP, Plan::Prefetch);
    let slow_opens = Some(Duration::from_millis(2));
    let report = PrefetchReport {
        slow_opens,
        ..report()
    };
    scene.end_prefetch(1, report.clone());
    scene.pass(5 * SECOND);
    let judged = scene.system.judged.iter();
    let judged: Vec<_> = judged.map(|figures| figures.report.clone()).collect();
    assert_eq!(judged, [Some(report)]);
}

#[test]
fn calls_of_execve_that_fail_leave_nothing_behind() {
    let mut scene = Scene::with_profiles(&[APP]);
    scene.call(1, APP, Plan::Prefetch);
    scene.call_unknown(2);
    scene.call_unknown(3);
    scene.execute(3, "/usr/bin/other", Plan::Leave);
    scene.pass(6 * SECOND);
    assert!(scene.system.is_at_rest() && scene.launches.is_empty());
    assert_eq!(scene.only_row().app, "/usr/bin/other");
}

#[test]
fn an_app_that_exits_before_its_prefetch_is_written_down_and_not_judged() {
    let mut scene = Scene::with_profiles(&[APP]);
    scene.execute(1, APP, Plan::Prefetch);
    scene.launches.exited(1, 9_001_000, &mut scene.system);
    let row = scene.only_row();
    assert_eq!((row.duration_us, row.entries), (Some(9000), None));
    assert_eq!(row.warmth, None);
    assert!(scene.system.judged.is_empty() && scene.system.is_at_rest());
    // Its thread ends later.
    scene.end_prefetch(1, report());
    assert_eq!(scene.system.rows.len(), 1);
}

#[test]
fn slots_of_launches_whose_beginning_was_not_reported_are_unknown() {
    let mut scene = Scene::with_profiles(&[APP]);
    scene.call(1, APP, Plan::Prefetch);
    scene.call_unknown(2);
    assert_eq!(scene.launches.unknown([1, 2, 3].into_iter()), [3]);
}

#[test]
fn a_launch_that_no_recorder_was_ready_for_is_recorded_late_and_says_so() {
    let mut scene = Scene::with_profiles(&[]);
    scene.call(1, APP, Plan::Learn);
    assert!(scene.system.recordings.is_empty());
    scene.execute(1, APP, Plan::Learn);
    scene.record(1, StateEvent::Recorded);
    // What the recorder says later does not hide it.
    let note = "Recorded; its first moments were not recorded";
    assert_eq!(scene.only_row().note.as_deref(), Some(note));
}

#[test]
fn what_was_recorded_late_and_came_to_nothing_is_no_evidence_against_an_app() {
    for (in_time, expected) in [(true, 1), (false, 0)] {
        let mut scene = Scene::with_profiles(&[]);
        scene.system.recorder_is_ready = in_time;
        scene.call(1, APP, Plan::Learn);
        scene.execute(1, APP, Plan::Learn);
        scene.record(1, StateEvent::NotRecorded);
        let done = scene.system.done.iter();
        let reported = done.filter(|action| **action == StateAction::ReportNotLearned);
        assert_eq!(reported.count(), expected);
    }
}

#[test]
fn a_recorder_is_asked_for_once() {
    let mut scene = Scene::with_profiles(&[]);
    (scene.system.recorder_is_ready, scene.system.no_recorder) = (true, true);
    scene.call(1, APP, Plan::Learn);
    scene.system.no_recorder = false;
    scene.execute(1, APP, Plan::Learn);
    let recorded = &scene.system.recordings;
    assert!(recorded.is_empty(), "it would be recorded in part");
    scene.pass(4 * SECOND);
    assert_eq!(scene.only_row().kind, Kind::Watched);
    assert_eq!(scene.only_row().note.as_deref(), Some("busy"));
}

#[test]
fn a_launch_that_could_not_be_prefetched_says_why() {
    let refused = PrefetchReport {
        refused: Some("memory is short".into()),
        ..report()
    };
    let ran_short = PrefetchReport {
        ran_short: Some("memory is short".into()),
        ..report()
    };
    let slow_opens = PrefetchReport {
        slow_opens: Some(Duration::from_micros(2100)),
        ..report()
    };
    let asked = "prefetched in part: another program is asked before each file is opened, and took 2.1 ms to answer \
                 (paralfetch doctor names it)";
    let unclear = PrefetchReport {
        unclear: Some("one UUID".into()),
        skipped: [(Skipped::Unclear, EntryCount::default())].into(),
        ..report()
    };
    let in_part = PrefetchReport {
        data: EntryCount {
            entries: 1,
            pages: 1,
        },
        ..unclear.clone()
    };
    for (report, note) in [
        (None, "no thread"),
        (Some(unclear), "not prefetched: one UUID"),
        (Some(in_part), "prefetched in part: one UUID"),
        (Some(refused), "not prefetched: memory is short"),
        (Some(ran_short), "prefetched in part: memory is short"),
        (Some(slow_opens), asked),
    ] {
        let mut scene = Scene::with_profiles(&[APP]);
        scene.system.no_thread = report.is_none();
        scene.execute(1, APP, Plan::Prefetch);
        if let Some(report) = report {
            scene.end_prefetch(1, report);
        }
        scene.pass(4 * SECOND);
        assert_eq!(scene.only_row().note.as_deref(), Some(note));
    }
}

#[test]
fn a_launch_whose_data_were_read_before_is_anticipated_and_judges_nothing() {
    let half = SCHEDULE_BYTES / 2;
    for (plan, read_before, requests, kind, is_judged) in [
        (Plan::Prefetch, half, 1, Kind::Anticipated, false),
        (Plan::Withhold, half, 1, Kind::Anticipated, false),
        // Some of it was given up, or not read in time.
        (Plan::Prefetch, half, 100, Kind::Prefetched, false),
        (Plan::Prefetch, 0, 1, Kind::Prefetched, true),
    ] {
        let mut scene = Scene::with_profiles(&[APP]);
        scene.system.read_before = read_before;
        scene.execute(1, APP, plan);
        scene.read(1, requests);
        if plan == Plan::Prefetch {
            scene.end_prefetch(1, report());
        }
        scene.pass(4 * SECOND);
        assert_eq!(scene.only_row().kind, kind, "{plan:?}, {requests}");
        assert_eq!(!scene.system.judged.is_empty(), is_judged, "{plan:?}");
    }
}

#[test]
fn an_app_that_is_launched_twice_at_once_is_one_job() {
    let mut scene = Scene::with_profiles(&[APP]);
    scene.execute(1, APP, Plan::Prefetch);
    scene.call(2, APP, Plan::Prefetch);
    assert!(!scene.system.slots.contains_key(&2));
    scene.execute(1, APP, Plan::Prefetch);
    let counted = |action: &&StateAction| **action == StateAction::CountLaunch;
    assert_eq!(scene.system.done.iter().filter(counted).count(), 1);
}

#[test]
fn a_suspended_launch_goes_on() {
    let mut scene = Scene::with_profiles(&[APP]);
    scene.execute(1, APP, Plan::Withhold);
    scene.read(1, 50);
    scene.pass(Duration::from_millis(500));
    scene.suspend(20 * SECOND);
    assert!(scene.launches.follows(1), "the sleep is no quiet second");
    scene.read(1, 50);
    scene.pass(2 * SECOND);
    assert_eq!(scene.system.rows.len(), 1);
}

/// What happens next, to one of four processes.
#[derive(Clone, Debug)]
enum Incident {
    Call(Plan),
    CallUnknown,
    Execute(Plan),
    ExecuteAnother,
    RecorderReady(bool),
    Record(StateEvent),
    PrefetchEnd,
    Exit,
    Read(u64),
    Pass(u64),
    Suspend,
    LoseSlot,
    NoRecorder(bool),
    NoThread(bool),
}

fn incident() -> impl Strategy<Value = Incident> {
    let plan = prop_oneof![
        4 => Just(Plan::Learn),
        4 => Just(Plan::Prefetch),
        1 => Just(Plan::Withhold),
        1 => Just(Plan::Leave),
    ];
    let result = prop_oneof![
        Just(StateEvent::Recorded),
        Just(StateEvent::NotRecorded),
        Just(StateEvent::RecordUnusable),
    ];
    prop_oneof![
        6 => plan.clone().prop_map(Incident::Call),
        1 => Just(Incident::CallUnknown),
        6 => plan.prop_map(Incident::Execute),
        1 => Just(Incident::ExecuteAnother),
        2 => any::<bool>().prop_map(Incident::RecorderReady),
        3 => result.prop_map(Incident::Record),
        3 => Just(Incident::PrefetchEnd),
        2 => Just(Incident::Exit),
        3 => (0u64..40).prop_map(Incident::Read),
        3 => (1u64..40).prop_map(Incident::Pass),
        1 => Just(Incident::Suspend),
        1 => Just(Incident::LoseSlot),
        1 => any::<bool>().prop_map(Incident::NoRecorder),
        1 => any::<bool>().prop_map(Incident::NoThread),
    ]
}

/// Lets it happen to a launch of the app.
fn happen(scene: &mut Scene, launch: u64, app: &str, incident: Incident) {
    match incident {
        Incident::Call(plan) => scene.call(launch, app, plan),
        Incident::CallUnknown => scene.call_unknown(launch),
        Incident::Execute(plan) => scene.execute(launch, app, plan),
        Incident::ExecuteAnother => scene.end(launch, StateEvent::ExecutedAnother),
        Incident::RecorderReady(ready) => scene.system.recorder_is_ready = ready,
        Incident::Record(event) => scene.record(launch, event),
        Incident::PrefetchEnd => scene.end_prefetch(launch, report()),
        Incident::Exit => scene.launches.exited(launch, 5000, &mut scene.system),
        Incident::Read(requests) => scene.read(launch, requests),
        Incident::Pass(ticks) => scene.pass(TICK * ticks as u32),
        Incident::Suspend => scene.suspend(20 * SECOND),
        Incident::LoseSlot => drop(scene.system.slots.remove(&launch)),
        Incident::NoRecorder(busy) => scene.system.no_recorder = busy,
        Incident::NoThread(none) => scene.system.no_thread = none,
    }
}

proptest! {
    /// Whatever happens: when the service stops, and also when the threads that work for launches end and
    /// nothing else happens, no prefetch runs, and no launch is counted.
    #[test]
    fn nothing_is_left_in_the_end(
        incidents in prop::collection::vec((0usize..4, incident()), 0..60),
        stops: bool,
    ) {
        let apps = ["/usr/bin/app0", "/usr/bin/app1", "/usr/bin/app2"];
        let mut scene = Scene::with_profiles(&apps[..2]);
        // A process that is launched anew gets another number, as the kernel side gives them.
        let mut launches = [0, 1, 2, 3];
        for (process, incident) in incidents {
            if !scene.system.slots.contains_key(&launches[process]) {
                launches[process] += 4;
            }
            happen(&mut scene, launches[process], apps[process % 3], incident);
        }
        if stops {
            scene.stop();
        } else {
            for launch in scene.system.prefetches.clone().into_keys() {
                scene.end_prefetch(launch, report());
            }
            for launch in scene.system.recordings.clone() {
                scene.record(launch, StateEvent::Recorded);
            }
            scene.pass(40 * SECOND);
            prop_assert!(!scene.system.waits_counted);
        }
        prop_assert!(scene.launches.is_empty());
        let system = &scene.system;
        prop_assert!(system.is_at_rest(), "{:?}, {:?}", system.prefetches, system.slots);
    }
}
