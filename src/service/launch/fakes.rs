//! The seam's other side for tests: no kernel, no threads, no files, no time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::seam::{ConfirmedLaunch, LaunchBooks, LaunchKernel, LaunchThreads};
use super::{LaunchNote, LaunchPolicy, LaunchStart, Launches, StateEvent};
use crate::model::LaunchCounts;
use crate::model::{App, LaunchLimits, PrefetchReport};
use crate::policy::{LaunchFigures, Plan};
use crate::process::{Clocks, TaskState};
use crate::service::history::LaunchRecord;

/// A system that remembers what was asked of it, and fails the test when that cannot be.
#[derive(Default)]
pub struct FakeSystem {
    /// Launches that the kernel has ever counted.
    known: BTreeSet<u64>,
    pub slots: BTreeMap<u64, LaunchCounts>,
    pub held: BTreeSet<u64>,
    /// Prefetch threads: with a report once they have ended.
    pub prefetches: BTreeMap<u64, Option<PrefetchReport>>,
    pub recordings: BTreeSet<u64>,
    pub waits_counted: bool,
    pub gate_invalidated: bool,
    /// Whether a recorder is ready.
    pub no_recorder: Option<LaunchNote>,
    /// Whether no thread can be started.
    pub no_thread: bool,
    /// Apps with a profile, and the size of their schedules.
    pub profiles: HashMap<String, u64>,
    pub begun: Vec<String>,
    pub judged: Vec<LaunchFigures>,
    pub weighed: Vec<String>,
    pub not_learned: Vec<String>,
    /// Apps whose profile was kept, and whether they were launched without prefetching.
    pub kept: Vec<(String, bool)>,
    pub rows: Vec<LaunchRecord>,
}

impl FakeSystem {
    /// The kernel begins to count a launch.
    pub fn open_slot(&mut self, launch: u64) {
        let start = LaunchCounts {
            start_ns: 1000,
            ..LaunchCounts::default()
        };
        self.slots.insert(launch, start);
        self.known.insert(launch);
    }

    /// Nothing is held, prefetched or counted.
    pub fn is_at_rest(&self) -> bool {
        self.held.is_empty() && self.prefetches.is_empty() && self.slots.is_empty()
    }

    #[track_caller]
    fn check(&self, launch: u64) {
        assert!(self.known.contains(&launch), "launch {launch} is unknown");
    }
}

impl LaunchKernel for FakeSystem {
    fn counts(&self, launch: u64) -> Option<LaunchCounts> {
        self.check(launch);
        self.slots.get(&launch).copied()
    }

    fn threads(&self, _pid: u32) -> impl Iterator<Item = TaskState> {
        std::iter::empty()
    }

    fn close_slot(&mut self, launch: u64) {
        self.check(launch);
        self.slots.remove(&launch);
    }

    fn watch_completion(&mut self, launch: u64, id: &str) {
        self.check(launch);
        assert!(self.profiles.contains_key(id));
    }

    fn count_waits(&mut self) {
        self.waits_counted = true;
    }

    fn stop_counting_waits(&mut self) {
        self.waits_counted = false;
    }

    fn invalidate_gate(&mut self) {
        self.gate_invalidated = true;
    }

    fn refresh_gate(&mut self) {}
}

impl LaunchThreads for FakeSystem {
    fn start_prefetch(&mut self, launch: u64, id: &str) -> Result<(), LaunchNote> {
        self.check(launch);
        assert!(self.profiles.contains_key(id));
        if self.no_thread {
            return Err(LaunchNote::NoPrefetchThread("no memory".into()));
        }
        assert!(!self.prefetches.contains_key(&launch), "one is running");
        self.prefetches.insert(launch, None);
        Ok(())
    }

    fn take_report(&mut self, launch: u64) -> Option<PrefetchReport> {
        self.prefetches.remove(&launch).expect("a prefetch")
    }

    fn stop_prefetch(&mut self, launch: u64) -> Option<PrefetchReport> {
        self.prefetches.remove(&launch).expect("a prefetch")
    }

    fn start_recording(
        &mut self,
        launch: u64,
        _id: &str,
        _pid: u32,
        _app: &App,
    ) -> Result<(), LaunchNote> {
        self.check(launch);
        match &self.no_recorder {
            Some(note) => Err(note.clone()),
            None => {
                assert!(self.recordings.insert(launch), "it is recorded already");
                Ok(())
            }
        }
    }

    fn is_held(&self, launch: u64) -> bool {
        self.held.contains(&launch)
    }

    fn let_go(&mut self, launch: u64) {
        self.check(launch);
        self.held.remove(&launch);
    }
}

impl LaunchBooks for FakeSystem {
    fn count_launch(&mut self, launch: ConfirmedLaunch<'_>) {
        self.begun.push(launch.id.to_owned());
    }

    fn keep_profile(&mut self, launch: u64, id: &str, _counts: &LaunchCounts, alone: bool) {
        assert!(!self.recordings.contains(&launch), "its recorder has ended");
        self.profiles.insert(id.to_owned(), 1 << 20);
        self.kept.push((id.to_owned(), alone));
    }

    fn report_not_learned(&mut self, id: &str) {
        self.not_learned.push(id.to_owned());
    }

    fn schedule_bytes(&self, id: &str) -> Option<u64> {
        self.profiles.get(id).copied()
    }

    fn judge(&mut self, _id: &str, figures: &LaunchFigures) {
        self.judged.push(figures.clone());
    }

    fn weigh(&mut self, id: &str, _counts: &LaunchCounts) {
        self.weighed.push(id.to_owned());
    }

    fn write_down(&mut self, row: LaunchRecord, _counts: &LaunchCounts) {
        self.rows.push(row);
    }
}

/// Launches on a fake system, with a clock that the test moves.
pub struct Scene {
    pub launches: Launches,
    pub system: FakeSystem,
    pub now: Clocks,
}

impl Scene {
    pub fn new() -> Self {
        Scene {
            launches: Launches::default(),
            system: FakeSystem::default(),
            now: Clocks {
                monotonic_ns: 1_000_000_000_000,
                boottime_ns: 1_000_000_000_000,
            },
        }
    }

    /// An app has a profile.
    pub fn with_profile(mut self, id: &str) -> Self {
        self.system.profiles.insert(id.to_owned(), 1 << 20);
        self
    }

    fn begin(&mut self, launch: u64, id: &str, plan: Plan, event: StateEvent) {
        let start = LaunchStart {
            id: id.to_owned(),
            app: App {
                path: id.as_bytes().to_vec(),
                root: None,
                program: None,
                dev: 1,
                ino: 2,
            },
            pid: launch as u32 + 1000,
            policy: LaunchPolicy {
                plan,
                has_profile: self.system.profiles.contains_key(id),
            },
            limits: LaunchLimits::default(),
            begun: self.now,
            begun_s: 1,
        };
        if self.launches.has_room_for(id) {
            self.launches.begin(launch, start, event, &mut self.system);
        } else {
            self.launches.cancel(launch, &mut self.system);
        }
    }

    /// The kernel reports execve's call with the path of an app.
    pub fn call(&mut self, launch: u64, id: &str, plan: Plan) {
        self.system.open_slot(launch);
        self.begin(launch, id, plan, StateEvent::Called);
    }

    /// The kernel reports execve's success as this app.
    pub fn execute(&mut self, launch: u64, id: &str, plan: Plan) {
        match self.launches.app_of(launch) {
            Some(begun) if begun == id => {
                let app = App {
                    path: id.as_bytes().to_vec(),
                    root: None,
                    program: None,
                    dev: 1,
                    ino: 3,
                };
                self.launches.executed(launch, app, &mut self.system);
            }
            Some(_) => self.launches.executed_another(launch, &mut self.system),
            None => self.begin(launch, id, plan, StateEvent::Executed),
        }
    }

    /// The exec gate holds the program of a launch.
    pub fn hold(&mut self, launch: u64) {
        self.system.held.insert(launch);
        self.launches.held(launch, (1, 2), &mut self.system);
    }

    /// The drive reads for a launch.
    pub fn read(&mut self, launch: u64, requests: u64) {
        if let Some(counts) = self.system.slots.get_mut(&launch) {
            counts.requests += requests;
            counts.bytes += requests * 4096;
            counts.last_ns = counts.start_ns + 1000 * counts.requests;
        }
    }

    /// Time passes, in steps of 100 ms.
    pub fn pass(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / super::TICK.as_millis() {
            self.advance(super::TICK);
            self.launches.tick(self.now, &mut self.system);
        }
    }

    fn advance(&mut self, time: Duration) {
        self.now.monotonic_ns += time.as_nanos() as u64;
        self.now.boottime_ns += time.as_nanos() as u64;
    }

    /// The machine sleeps for this long.
    pub fn suspend(&mut self, time: Duration) {
        self.now.boottime_ns += time.as_nanos() as u64;
        // Drivers start again while CLOCK_MONOTONIC runs.
        self.advance(Duration::from_secs(2));
        self.launches.tick(self.now, &mut self.system);
    }

    /// The prefetch thread ends with this report.
    pub fn end_prefetch(&mut self, launch: u64, report: PrefetchReport) {
        if let Some(running) = self.system.prefetches.get_mut(&launch) {
            *running = Some(report);
        }
        self.launches.prefetch_ended(launch, &mut self.system);
    }

    pub fn stop(&mut self) {
        self.launches.stop(&mut self.system);
    }

    #[track_caller]
    pub fn only_row(&self) -> &LaunchRecord {
        assert_eq!(self.system.rows.len(), 1);
        &self.system.rows[0]
    }
}
