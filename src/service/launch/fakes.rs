//! The seam's other side for tests: no kernel, no threads, no files, no time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};

use super::{
    Beginning, FollowedLaunch, LaunchPolicy, LaunchStart, Launches, Outside, StateAction,
    StateEvent, TICK,
};
use crate::kernel::{LaunchEvent, LaunchEventKind};
use crate::model::{App, LaunchCounts, LaunchLimits, PrefetchReport, UserApp};
use crate::policy::{LaunchFigures, Plan};
use crate::process::{Clocks, TaskState};
use crate::service::catalogue::FoundApp;
use crate::service::history::LaunchRecord;

pub const SCHEDULE_BYTES: u64 = 1 << 20;

/// Whose apps they are, unless a test says otherwise.
pub const USER: u32 = 1000;

fn app(id: &str) -> UserApp {
    UserApp::new(USER, id)
}

/// A system that remembers what was asked of it, and fails the test when that cannot be.
#[derive(Default)]
pub struct FakeSystem {
    pub slots: BTreeMap<u64, LaunchCounts>,
    /// How the launch begins that the kernel reports; `None`: it is none of an app.
    pub next: Option<LaunchStart>,
    /// Prefetch threads: with a report once they have ended.
    pub prefetches: BTreeMap<u64, Option<PrefetchReport>>,
    pub recordings: BTreeSet<u64>,
    /// Launches out of whose way writes are kept.
    pub shielded: BTreeSet<u64>,
    pub waits_counted: bool,
    /// Whether the kernel records launches that are to be learned from their beginning.
    pub recorder_is_ready: bool,
    pub no_recorder: bool,
    pub no_thread: bool,
    pub no_waits: bool,
    /// Bytes that were read before each launch.
    pub read_before: u64,
    /// Apps with a profile.
    pub profiles: BTreeSet<UserApp>,
    /// All actions.
    pub done: Vec<StateAction>,
    pub judged: Vec<LaunchFigures>,
    pub rows: Vec<LaunchRecord>,
}

impl FakeSystem {
    /// Nothing is prefetched, shielded or counted.
    pub fn is_at_rest(&self) -> bool {
        self.prefetches.is_empty() && self.slots.is_empty() && self.shielded.is_empty()
    }
}

impl Outside for FakeSystem {
    fn called(&self, _event: &LaunchEvent) -> Option<FoundApp> {
        let start = self.next.as_ref()?;
        Some(FoundApp {
            key: start.key.clone(),
            app: start.app.clone(),
        })
    }

    fn executed(&self, event: &LaunchEvent) -> Option<FoundApp> {
        self.called(event)
    }

    fn prepare(
        &mut self,
        launch: u64,
        pid: u32,
        found: FoundApp,
        _beginning: Beginning,
    ) -> Option<LaunchStart> {
        assert!(self.slots.contains_key(&launch), "it is counted");
        let start = self.next.take()?;
        assert_eq!((start.pid, &start.key), (pid, &found.key));
        Some(start)
    }

    fn begun(&mut self, launch: u64, is_recorded: bool) {
        assert!(!is_recorded || self.no_recorder || self.recordings.contains(&launch));
    }

    fn counts(&self, launch: u64) -> Option<LaunchCounts> {
        let &counts = self.slots.get(&launch)?;
        Some(LaunchCounts {
            waits_counted: self.waits_counted,
            ..counts
        })
    }

    fn threads(&self, _launch: u64) -> impl Iterator<Item = TaskState> {
        std::iter::empty()
    }

    fn schedule_bytes(&self, app: &UserApp) -> u64 {
        u64::from(self.profiles.contains(app)) * SCHEDULE_BYTES
    }

    fn usual_bytes(&self, _: &UserApp) -> u64 {
        0
    }

    fn close_slot(&mut self, launch: u64) {
        self.slots.remove(&launch);
    }

    fn detach_programs(&mut self) {
        self.waits_counted = false;
    }

    fn perform(&mut self, action: StateAction, launch: &mut FollowedLaunch) -> Result<(), String> {
        let (number, app) = (launch.number, &launch.start.key);
        self.done.push(action);
        match action {
            StateAction::StartPrefetch if self.no_thread => return Err("no thread".to_owned()),
            StateAction::StartPrefetch => {
                assert!(self.profiles.contains(app));
                let running = self.prefetches.insert(number, None);
                assert_eq!(running, None, "one is running");
            }
            StateAction::StartRecording { .. } if self.no_recorder => {
                return Err("busy".to_owned());
            }
            StateAction::StartRecording { .. } => {
                assert!(self.recordings.insert(number), "it is recorded already");
            }
            StateAction::WatchCompletion => assert!(self.profiles.contains(app)),
            StateAction::CountLaunch => launch.figures.read_before = self.read_before,
            StateAction::CountWaits => self.waits_counted = !self.no_waits,
            StateAction::TakeReport | StateAction::StopPrefetch => {
                launch.set_report(self.prefetches.remove(&number).expect("a prefetch"));
            }
            StateAction::KeepProfile { .. } => {
                assert!(!self.recordings.contains(&number), "its recorder has ended");
                self.profiles.insert(app.clone());
            }
            StateAction::Shield => {
                assert!(self.shielded.insert(number), "it is shielded already");
            }
            StateAction::CloseSlot | StateAction::ListenOn => {
                launch.was_shielded = self.shielded.remove(&number);
                self.close_slot(number);
            }
            StateAction::Judge if launch.is_judged() => {
                self.judged.push(launch.figures.clone());
            }
            StateAction::WriteDown(kind) => self.rows.push(launch.row(kind)),
            _ => {}
        }
        Ok(())
    }
}

/// Launches on a fake system, with a clock that the test moves. The first process of a launch is its number
/// plus 1000.
pub struct Scene {
    pub launches: Launches,
    pub system: FakeSystem,
    now: Clocks,
}

impl Scene {
    /// Of apps that have profiles.
    pub fn with_profiles(ids: &[&str]) -> Self {
        let mut system = FakeSystem::default();
        system.profiles.extend(ids.iter().map(|id| app(id)));
        let ns = 1_000_000_000_000;
        Scene {
            launches: Launches::default(),
            system,
            now: Clocks {
                monotonic_ns: ns,
                boottime_ns: ns,
            },
        }
    }

    fn open_slot(&mut self, launch: u64) {
        self.system.slots.entry(launch).or_insert(LaunchCounts {
            start_ns: 1000,
            ..LaunchCounts::default()
        });
    }

    /// The kernel reports execve's call with the path of an app.
    pub fn call(&mut self, launch: u64, id: &str, plan: Plan) {
        self.call_by(USER, launch, id, plan);
    }

    /// The kernel reports the call of any user.
    pub fn call_by(&mut self, uid: u32, launch: u64, id: &str, plan: Plan) {
        self.system.next = Some(self.start(uid, launch, id, plan));
        let event = self.event(LaunchEventKind::Called, uid, launch, id);
        self.launches.called(&event, self.now, &mut self.system);
    }

    /// The kernel reports execve's call with a path that no app has.
    pub fn call_unknown(&mut self, launch: u64) {
        self.system.next = None;
        let event = self.event(LaunchEventKind::Called, USER, launch, "/unknown");
        self.launches.called(&event, self.now, &mut self.system);
    }

    /// The kernel reports execve's success as this app.
    pub fn execute(&mut self, launch: u64, id: &str, plan: Plan) {
        let uid = self.launches.app_of(launch).map_or(USER, |app| app.uid);
        self.system.next = Some(self.start(uid, launch, id, plan));
        let event = self.event(LaunchEventKind::Executed, uid, launch, id);
        self.launches.executed(&event, &mut self.system);
    }

    fn start(&self, uid: u32, launch: u64, id: &str, plan: Plan) -> LaunchStart {
        let key = UserApp::new(uid, id);
        LaunchStart {
            app: App {
                uid,
                path: id.as_bytes().to_vec(),
                ..App::default()
            },
            pid: launch as u32 + 1000,
            policy: LaunchPolicy {
                plan,
                has_profile: self.system.profiles.contains(&key),
                is_recorded: plan == Plan::Learn && self.system.recorder_is_ready,
            },
            key,
            limits: LaunchLimits::default(),
            begun: self.now,
            began: UNIX_EPOCH + Duration::from_secs(1),
        }
    }

    /// The kernel side gives a launch that it does not follow yet a slot.
    fn event(&mut self, kind: LaunchEventKind, uid: u32, launch: u64, path: &str) -> LaunchEvent {
        if !self.launches.follows(launch) {
            self.open_slot(launch);
        }
        LaunchEvent {
            time_ns: self.now.monotonic_ns,
            kind,
            launch,
            pid: launch as u32 + 1000,
            uid,
            root: (0, 0),
            mount_ns: 0,
            path: path.into(),
            arguments: Vec::new(),
        }
    }

    pub fn happened(&mut self, launch: u64, event: StateEvent) {
        self.launches.happened(launch, event, &mut self.system);
    }

    pub fn end(&mut self, launch: u64, event: StateEvent) {
        self.launches.end(launch, event, &mut self.system);
    }

    /// The recorder of a launch ends with this.
    pub fn record(&mut self, launch: u64, event: StateEvent) {
        self.system.recordings.remove(&launch);
        let made = (event, format!("{event:?}"), None);
        self.launches.recorded(launch, made, &mut self.system);
    }

    /// The drive reads for a launch.
    pub fn read(&mut self, launch: u64, requests: u64) {
        if let Some(counts) = self.system.slots.get_mut(&launch) {
            counts.requests += requests;
            counts.bytes += requests * 4096;
        }
    }

    /// The prefetch thread ends with this report.
    pub fn end_prefetch(&mut self, launch: u64, report: PrefetchReport) {
        if let Some(running) = self.system.prefetches.get_mut(&launch) {
            *running = Some(report);
        }
        self.happened(launch, StateEvent::PrefetchEnded);
    }

    /// Time passes, in steps of 100 ms.
    pub fn pass(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / TICK.as_millis() {
            self.advance(TICK);
        }
    }

    /// The machine sleeps for this long. Drivers start again while CLOCK_MONOTONIC runs.
    pub fn suspend(&mut self, time: Duration) {
        self.now.boottime_ns += time.as_nanos() as u64;
        self.advance(Duration::from_secs(2));
    }

    fn advance(&mut self, time: Duration) {
        self.now.monotonic_ns += time.as_nanos() as u64;
        self.now.boottime_ns += time.as_nanos() as u64;
        self.launches.tick(self.now, &mut self.system);
    }

    /// The service stops.
    pub fn stop(&mut self) {
        self.launches.stop(&mut self.system);
    }

    #[track_caller]
    pub fn only_row(&self) -> &LaunchRecord {
        assert_eq!(self.system.rows.len(), 1);
        &self.system.rows[0]
    }
}
