//! Lives of launches on a fake system.

use std::time::Duration;

use proptest::prelude::*;

use super::fakes::Scene;
use super::{LaunchNote, RecordResult, StateEvent};
use crate::model::PrefetchReport;
use crate::policy::Plan;
use crate::service::history::Kind;

const APP: &str = "/usr/bin/app";
const SECOND: Duration = Duration::from_secs(1);

fn recorded(scene: &mut Scene, launch: u64, result: RecordResult) {
    scene.system.recordings.remove(&launch);
    scene.launches.recorded(launch, result, &mut scene.system);
}

fn profile() -> RecordResult {
    RecordResult::Profile { entries: 7 }
}

fn report() -> PrefetchReport {
    PrefetchReport {
        scheduled: 5,
        ..PrefetchReport::default()
    }
}

#[test]
fn a_launch_is_held_recorded_and_learned() {
    let mut scene = Scene::new();
    scene.call(1, APP, Plan::Learn);
    scene.hold(1);
    assert!(scene.system.recordings.contains(&1));
    assert!(
        scene.system.held.contains(&1),
        "until the recorder is ready"
    );
    scene.system.held.remove(&1);
    scene.execute(1, APP, Plan::Learn);
    assert_eq!(scene.system.begun, [APP]);
    // The recorder has the say, not the counts and not the exit.
    scene.pass(40 * SECOND);
    scene.launches.exited(1, 2_000_000, &mut scene.system);
    assert!(scene.launches.follows(1));
    recorded(&mut scene, 1, profile());
    assert_eq!(scene.system.kept, [(APP.to_owned(), true)]);
    let row = scene.only_row();
    assert_eq!(row.kind, Kind::Learned);
    assert_eq!(row.note.as_deref(), Some("learned 7 entries"));
    assert!(scene.system.is_at_rest() && scene.launches.is_empty());
}

#[test]
fn a_launch_that_was_not_held_is_recorded_late_and_the_gate_looks_again() {
    let mut scene = Scene::new();
    scene.call(1, APP, Plan::Learn);
    assert!(!scene.system.gate_invalidated);
    scene.execute(1, APP, Plan::Learn);
    assert!(scene.system.gate_invalidated && scene.system.recordings.contains(&1));
    recorded(
        &mut scene,
        1,
        RecordResult::Nothing("it read nothing".into()),
    );
    assert_eq!(scene.system.not_learned, [APP]);
    assert_eq!(scene.only_row().kind, Kind::Watched);
    assert_eq!(scene.only_row().note.as_deref(), Some("it read nothing"));
}

#[test]
fn a_launch_that_is_learned_again_has_its_old_profile_prefetched() {
    let mut scene = Scene::new().with_profile(APP);
    scene.call(1, APP, Plan::Learn);
    assert!(scene.system.prefetches.contains_key(&1));
    scene.hold(1);
    scene.execute(1, APP, Plan::Learn);
    scene.end_prefetch(1, report());
    recorded(&mut scene, 1, profile());
    assert_eq!(scene.system.kept, [(APP.to_owned(), false)]);
    assert_eq!(scene.only_row().entries, Some(5));
    scene.stop();
    assert!(scene.system.is_at_rest());
}

#[test]
fn a_prefetched_launch_is_over_when_it_is_quiet_behind_its_prefetch() {
    let mut scene = Scene::new().with_profile(APP);
    scene.call(1, APP, Plan::Prefetch);
    scene.execute(1, APP, Plan::Prefetch);
    scene.read(1, 50);
    scene.pass(5 * SECOND);
    assert!(scene.launches.follows(1), "its prefetch is under way");
    scene.end_prefetch(1, report());
    scene.pass(SECOND);
    assert_eq!(scene.only_row().kind, Kind::Prefetched);
    assert_eq!(scene.system.judged.len(), 1);
    assert!(scene.system.judged[0].report.is_some());
    assert!(scene.system.is_at_rest() && !scene.system.waits_counted);
}

#[test]
fn a_withheld_launch_is_judged_without_a_prefetch() {
    let mut scene = Scene::new().with_profile(APP);
    scene.call(1, APP, Plan::Withhold);
    scene.execute(1, APP, Plan::Withhold);
    assert!(scene.system.prefetches.is_empty() && scene.system.waits_counted);
    scene.read(1, 50);
    scene.pass(2 * SECOND);
    assert_eq!(scene.only_row().kind, Kind::Withheld);
    assert!(scene.system.judged[0].report.is_none());
}

#[test]
fn a_program_on_probation_is_only_weighed() {
    let mut scene = Scene::new();
    scene.system.open_slot(1);
    scene.execute(1, APP, Plan::Leave);
    scene.pass(4 * SECOND);
    assert_eq!(scene.system.weighed, [APP]);
    assert_eq!(scene.only_row().kind, Kind::Watched);
}

#[test]
fn a_wrapper_that_executes_another_app_is_cancelled() {
    let mut scene = Scene::new().with_profile(APP);
    scene.call(1, APP, Plan::Prefetch);
    scene.execute(1, "/usr/bin/other", Plan::Learn);
    assert!(scene.system.is_at_rest() && scene.system.rows.is_empty());
    assert!(scene.system.begun.is_empty());
}

#[test]
fn an_unknown_path_that_turns_out_to_be_an_app_is_followed() {
    let mut scene = Scene::new().with_profile(APP);
    scene.system.open_slot(1);
    let now = scene.now;
    scene
        .launches
        .wait_for_exec(1, 1001, now, &mut scene.system);
    scene.execute(1, APP, Plan::Prefetch);
    assert!(scene.system.prefetches.contains_key(&1));
    assert_eq!(scene.launches.take_pending(1001), None);
}

#[test]
fn execve_that_fails_leaves_nothing_behind() {
    let mut scene = Scene::new().with_profile(APP);
    scene.call(1, APP, Plan::Prefetch);
    scene.system.open_slot(2);
    let now = scene.now;
    scene
        .launches
        .wait_for_exec(2, 1002, now, &mut scene.system);
    scene.pass(6 * SECOND);
    assert!(scene.system.is_at_rest() && scene.launches.is_empty());
    assert!(scene.system.rows.is_empty());
}

#[test]
fn an_app_that_exits_before_its_prefetch_is_written_down_and_not_judged() {
    let mut scene = Scene::new().with_profile(APP);
    scene.call(1, APP, Plan::Prefetch);
    scene.execute(1, APP, Plan::Prefetch);
    scene.launches.exited(1, 9_001_000, &mut scene.system);
    let row = scene.only_row();
    assert_eq!((row.duration_us, row.entries), (9000, None));
    assert!(scene.system.judged.is_empty() && scene.system.is_at_rest());
    // Its thread ends later.
    scene.end_prefetch(1, report());
    assert_eq!(scene.system.rows.len(), 1);
}

#[test]
fn a_program_is_held_for_a_second_at_most() {
    let mut scene = Scene::new();
    scene.call(1, APP, Plan::Learn);
    scene.hold(1);
    scene.pass(SECOND);
    assert!(scene.system.held.contains(&1));
    scene.pass(Duration::from_millis(200));
    assert!(scene.system.held.is_empty());
    scene.execute(1, APP, Plan::Learn);
    // What the recorder says later counts more.
    recorded(&mut scene, 1, profile());
    assert_eq!(scene.only_row().note.as_deref(), Some("learned 7 entries"));
}

#[test]
fn a_launch_that_the_recorder_refuses_goes_on_at_once_and_is_asked_for_once() {
    for (why, text) in [
        (
            LaunchNote::RecorderBusy,
            "not learned: tracing is not ready, or busy with other launches",
        ),
        (LaunchNote::NoRecorder, "not learned: tracing cannot be had"),
    ] {
        let mut scene = Scene::new();
        scene.system.no_recorder = Some(why);
        scene.call(1, APP, Plan::Learn);
        scene.hold(1);
        assert!(scene.system.held.is_empty());
        scene.system.no_recorder = None;
        scene.execute(1, APP, Plan::Learn);
        assert!(
            scene.system.recordings.is_empty(),
            "it would be recorded in part"
        );
        scene.pass(4 * SECOND);
        assert_eq!(scene.only_row().kind, Kind::Watched);
        assert_eq!(scene.only_row().note.as_deref(), Some(text));
    }
}

#[test]
fn a_prefetch_that_was_refused_does_not_keep_a_launch_from_being_learned() {
    let mut scene = Scene::new().with_profile(APP);
    scene.call(1, APP, Plan::Learn);
    let refused = PrefetchReport {
        refused: Some("memory is short".into()),
        ..report()
    };
    scene.end_prefetch(1, refused);
    scene.execute(1, APP, Plan::Learn);
    assert!(scene.system.recordings.contains(&1));
}

#[test]
fn a_launch_without_a_prefetch_thread_is_followed_with_a_note() {
    let mut scene = Scene::new().with_profile(APP);
    scene.system.no_thread = true;
    scene.call(1, APP, Plan::Prefetch);
    scene.execute(1, APP, Plan::Prefetch);
    scene.pass(4 * SECOND);
    assert_eq!(
        scene.only_row().note.as_deref(),
        Some("no prefetch thread: no memory")
    );
    assert!(scene.system.judged.is_empty());
}

#[test]
fn an_app_that_is_launched_twice_at_once_is_one_job() {
    let mut scene = Scene::new().with_profile(APP);
    scene.call(1, APP, Plan::Prefetch);
    scene.execute(1, APP, Plan::Prefetch);
    scene.call(2, APP, Plan::Prefetch);
    assert!(!scene.system.slots.contains_key(&2));
    scene.execute(1, APP, Plan::Prefetch);
    assert_eq!(scene.system.begun, [APP]);
    scene.stop();
    assert!(scene.system.is_at_rest());
}

#[test]
fn a_suspended_launch_goes_on() {
    let mut scene = Scene::new().with_profile(APP);
    scene.execute_first(1, Plan::Withhold);
    scene.read(1, 50);
    scene.pass(Duration::from_millis(500));
    scene.suspend(20 * SECOND);
    assert!(scene.launches.follows(1), "the sleep is no quiet second");
    scene.read(1, 50);
    scene.pass(2 * SECOND);
    assert_eq!(scene.system.rows.len(), 1);
}

#[test]
fn the_service_stops_in_each_state() {
    type Way = fn(&mut Scene);
    let ways: [Way; 8] = [
        |scene| {
            scene.system.open_slot(1);
            let now = scene.now;
            scene
                .launches
                .wait_for_exec(1, 1001, now, &mut scene.system);
        },
        |scene| scene.call(1, APP, Plan::Prefetch),
        |scene| {
            scene.call(1, APP, Plan::Learn);
            scene.hold(1);
        },
        |scene| {
            scene.system.no_recorder = Some(LaunchNote::RecorderBusy);
            scene.call(1, APP, Plan::Learn);
            scene.hold(1);
        },
        |scene| {
            scene.call(1, APP, Plan::Learn);
            scene.hold(1);
            scene.execute(1, APP, Plan::Learn);
        },
        |scene| scene.execute_first(1, Plan::Prefetch),
        |scene| {
            scene.execute_first(1, Plan::Prefetch);
            scene.end_prefetch(1, report());
        },
        |scene| scene.execute_first(1, Plan::Withhold),
    ];
    for (index, way) in ways.into_iter().enumerate() {
        let mut scene = Scene::new().with_profile(APP);
        way(&mut scene);
        assert!(!scene.launches.is_empty(), "way {index}");
        scene.stop();
        assert!(scene.system.is_at_rest(), "way {index}");
        assert!(scene.launches.is_empty(), "way {index}");
        assert!(scene.system.rows.is_empty(), "way {index}");
    }
}

impl Scene {
    fn execute_first(&mut self, launch: u64, plan: Plan) {
        self.call(launch, APP, plan);
        self.execute(launch, APP, plan);
    }
}

/// What happens next, to one of four processes.
#[derive(Clone, Debug)]
enum Incident {
    Call(Plan),
    CallUnknown,
    Execute(Plan),
    ExecuteAnother,
    Hold,
    RecorderReady,
    Record(u8),
    PrefetchEnd,
    Exit,
    Read(u64),
    Pass(u64),
    Suspend,
    LoseSlot,
    Recorders(bool),
    Threads(bool),
}

fn incident() -> impl Strategy<Value = Incident> {
    let plan = prop_oneof![
        4 => Just(Plan::Learn),
        4 => Just(Plan::Prefetch),
        1 => Just(Plan::Withhold),
        1 => Just(Plan::Leave),
    ];
    prop_oneof![
        6 => plan.clone().prop_map(Incident::Call),
        1 => Just(Incident::CallUnknown),
        6 => plan.prop_map(Incident::Execute),
        1 => Just(Incident::ExecuteAnother),
        4 => Just(Incident::Hold),
        2 => Just(Incident::RecorderReady),
        3 => (0u8..3).prop_map(Incident::Record),
        3 => Just(Incident::PrefetchEnd),
        2 => Just(Incident::Exit),
        3 => (0u64..40).prop_map(Incident::Read),
        3 => (1u64..40).prop_map(Incident::Pass),
        1 => Just(Incident::Suspend),
        1 => Just(Incident::LoseSlot),
        1 => any::<bool>().prop_map(Incident::Recorders),
        1 => any::<bool>().prop_map(Incident::Threads),
    ]
}

/// Lets it happen. `launches` are the launch numbers of the processes; a process that is launched anew gets
/// another one, as the kernel side gives them.
fn happen(scene: &mut Scene, launches: &mut [u64; 4], process: usize, incident: Incident) {
    let app = format!("/usr/bin/app{}", process % 3);
    if !scene.system.slots.contains_key(&launches[process]) {
        launches[process] += 4;
    }
    let launch = launches[process];
    let counted = scene.system.slots.contains_key(&launch);
    match incident {
        Incident::Call(plan) if !scene.launches.follows(launch) => scene.call(launch, &app, plan),
        Incident::CallUnknown if !counted => {
            scene.system.open_slot(launch);
            let (now, pid) = (scene.now, launch as u32 + 1000);
            scene
                .launches
                .wait_for_exec(launch, pid, now, &mut scene.system);
        }
        Incident::Execute(plan) => {
            if !counted {
                scene.system.open_slot(launch);
            }
            scene.execute(launch, &app, plan);
        }
        Incident::ExecuteAnother if counted => {
            scene.launches.executed_another(launch, &mut scene.system)
        }
        Incident::Hold
            if scene
                .launches
                .to_learn(&app, launch as u32 + 1000)
                .is_some() =>
        {
            scene.hold(launch);
        }
        Incident::RecorderReady if scene.system.recordings.contains(&launch) => {
            scene.system.held.remove(&launch);
        }
        Incident::Record(result) if scene.system.recordings.contains(&launch) => {
            let result = match result {
                0 => profile(),
                1 => RecordResult::Nothing("it read nothing".into()),
                _ => RecordResult::Unusable("no mount table".into()),
            };
            recorded(scene, launch, result);
        }
        Incident::PrefetchEnd if scene.system.prefetches.contains_key(&launch) => {
            scene.end_prefetch(launch, report());
        }
        Incident::Exit if counted => scene.launches.exited(launch, 5000, &mut scene.system),
        Incident::Read(requests) => scene.read(launch, requests),
        Incident::Pass(ticks) => scene.pass(Duration::from_millis(100 * ticks)),
        Incident::Suspend => scene.suspend(20 * SECOND),
        Incident::LoseSlot => drop(scene.system.slots.remove(&launch)),
        Incident::Recorders(ready) => {
            scene.system.no_recorder = (!ready).then_some(LaunchNote::RecorderBusy);
        }
        Incident::Threads(can) => scene.system.no_thread = !can,
        _ => {}
    }
}

proptest! {
    #[test]
    fn whatever_happens_nothing_is_left_when_the_service_stops(
        incidents in prop::collection::vec((0usize..4, incident()), 0..60),
    ) {
        let mut scene = Scene::new().with_profile("/usr/bin/app0").with_profile("/usr/bin/app1");
        let mut launches = [0, 1, 2, 3];
        for (process, incident) in incidents {
            happen(&mut scene, &mut launches, process, incident);
        }
        scene.stop();
        prop_assert!(scene.launches.is_empty());
        prop_assert!(scene.system.held.is_empty(), "held: {:?}", scene.system.held);
        prop_assert!(scene.system.prefetches.is_empty());
        prop_assert!(scene.system.slots.is_empty(), "slots: {:?}", scene.system.slots);
    }

    #[test]
    fn whatever_happens_every_launch_is_over_in_the_end(
        incidents in prop::collection::vec((0usize..4, incident()), 0..60),
    ) {
        let mut scene = Scene::new().with_profile("/usr/bin/app0").with_profile("/usr/bin/app1");
        let mut launches = [0, 1, 2, 3];
        for (process, incident) in incidents {
            happen(&mut scene, &mut launches, process, incident);
        }
        let running: Vec<u64> = scene.system.prefetches.keys().copied().collect();
        for launch in running {
            scene.end_prefetch(launch, report());
        }
        let recording: Vec<u64> = scene.system.recordings.iter().copied().collect();
        for launch in recording {
            recorded(&mut scene, launch, profile());
        }
        scene.pass(40 * SECOND);
        prop_assert!(scene.launches.is_empty());
        prop_assert!(scene.system.is_at_rest() && !scene.system.waits_counted);
    }
}

#[test]
fn a_launch_that_is_over_stays_over() {
    use super::{LaunchPolicy, LaunchState, step};
    let policy = LaunchPolicy {
        plan: Plan::Prefetch,
        has_profile: true,
    };
    let over = step(LaunchState::Over, StateEvent::Executed, policy);
    assert_eq!(over, (LaunchState::Over, Vec::new()));
}
