//! The threads that work for launches, and what comes of them when they end, hang, or are asked whether they work.

use std::io;
use std::time::Instant;

use super::Parts;
use crate::fs::blockdev;
use crate::kernel::{LaunchPrograms, ProgramLinks};
use crate::learn::{LearnedProfile, LiveResult, NotLearned};
use crate::service::cached_profile::{CachedProfile, RecordedProfile};
use crate::service::control::bus::Bus;
use crate::service::launch::StateEvent;
use crate::service::launch_threads::{HangingThread, LaunchTask};
use crate::service::registry::Added;
use crate::service::watchdog::WatchedThread;

impl Parts {
    /// Gives up what the kernel records of a launch that is not to be learned, if it does.
    pub fn give_recorder_up(&mut self, launch: u64) {
        let given_up = self.recorders.give_up(launch);
        self.check("no thread can be started", given_up);
    }

    /// A recorder was made ready, or is not needed any more.
    pub fn recorder_kept(&mut self, kept: &Result<(), String>) {
        self.recorders.kept();
        match kept {
            Ok(()) => self.refresh_watch(),
            Err(why) => self.warn(format!("no recorder can be made ready: {why}")),
        }
    }

    /// The recording of a launch has ended. Returns what came of it, and says it.
    pub fn recorder_ended(
        &mut self,
        result: LiveResult,
        cached: Option<Result<CachedProfile, String>>,
    ) -> (StateEvent, String, Option<RecordedProfile>) {
        self.threads.ended(LaunchTask::Learn, result.launch);
        self.recorders.ended(result.launch);
        for warning in result.warnings {
            self.warn(warning);
        }
        match self.check_recorded(result.profile, cached) {
            Ok(recorded) => {
                let summary = &recorded.learned.summary;
                tracing::debug!(
                    launch = result.launch,
                    exact_faults = summary.exact_faults,
                    window_pages = summary.resolved.window_pages,
                    paths = summary.resolved.paths.used,
                    lost_paths = summary.lost_paths,
                    "recorded"
                );
                let note = format!("learned {} entries", recorded.cached.entries);
                (StateEvent::Recorded, note, Some(recorded))
            }
            Err((event, why)) => (event, why, None),
        }
    }

    /// The prefetch thread of a launch has ended.
    pub fn prefetch_ended(&mut self, launch: u64) {
        tracing::debug!(launch, "nothing more is read ahead");
        self.threads.ended(LaunchTask::Prefetch, launch);
    }

    /// Gives up threads that take too long. Returns what that is for their launches, and says it.
    pub fn give_up_hanging(&mut self, now: Instant) -> Vec<(u64, StateEvent, String)> {
        let hanging = self.threads.give_up(now).into_iter();
        let given_up = hanging.map(|hanging| {
            let (event, note) = self.give_up(&hanging);
            (hanging.launch, event, note)
        });
        given_up.collect()
    }

    /// Whether more threads hang than the service can do without.
    pub fn too_many_hang(&self) -> bool {
        self.threads.too_many_hang()
    }

    /// A thread is given up: its place is free again. Returns what that is for its launch, and says it.
    fn give_up(&mut self, hanging: &HangingThread) -> (StateEvent, String) {
        let HangingThread { task, launch, app } = hanging;
        let (event, does) = match task {
            LaunchTask::Learn => {
                self.recorders.ended(*launch);
                (StateEvent::RecordUnusable, "learns")
            }
            LaunchTask::Prefetch => {
                self.prefetchers.end(*launch, None);
                (StateEvent::PrefetchFailed, "prefetches")
            }
        };
        let drive = match app.dev {
            0 => "an unknown drive".to_owned(),
            dev => blockdev::name(dev),
        };
        self.warn(format!(
            "the thread that {does} {} (on {drive}) hangs: the app is neither learned nor prefetched until it has ended; \
             check the drives that it uses",
            app.key
        ));
        (event, "a thread of the service hangs".to_owned())
    }

    /// The profile of a launch, if it is of use, or what has happened instead and why.
    fn check_recorded(
        &self,
        learned: Result<LearnedProfile, NotLearned>,
        cached: Option<Result<CachedProfile, String>>,
    ) -> Result<RecordedProfile, (StateEvent, String)> {
        let learned = learned.map_err(|why| match why {
            // No attempt to learn the app: it does not count towards giving up.
            NotLearned::NoRecorder(_) | NotLearned::Disturbed(_) => {
                (StateEvent::RecordUnusable, why.to_string())
            }
            _ => (StateEvent::NotRecorded, why.to_string()),
        })?;
        let cached = cached
            .unwrap_or_else(|| Err("its profile was not prepared".to_owned()))
            .map_err(|why| (StateEvent::RecordUnusable, why))?;
        let packed = cached.packed.len() as u64;
        if packed > self.config.automatic.max_profiles_mib << 20 {
            let why = format!(
                "not learned: its profile has {} MiB, more than automatic.max_profiles_mib",
                packed >> 20
            );
            return Err((StateEvent::NotRecorded, why));
        }
        if self.is_too_large(&cached) {
            let need = format!("the launch needs {} MiB", cached.bytes >> 20);
            let why = format!("not learned: {need}, more than prefetch.max_profile_mib");
            return Err((StateEvent::NotRecorded, why));
        }
        Ok(RecordedProfile { learned, cached })
    }

    /// Whether a launch needs more than one of an app may that the administrator has not named.
    fn is_too_large(&self, learned: &CachedProfile) -> bool {
        let key = learned.app.user_app();
        let record = key.and_then(|key| self.apps.registry.records.get(&key));
        let is_named = record.is_some_and(|record| record.added == Added::User);
        !is_named && learned.bytes >> 20 > self.config.prefetch.max_profile_mib
    }

    /// Has programs attached, since a launch is under way.
    pub(super) fn attach_programs(&mut self, kind: LaunchPrograms) {
        let switched = self
            .programs
            .of(kind)
            .switch_on(|| self.kernel.programs(kind));
        self.check(programs_lack(kind), switched);
    }

    /// Has all programs detached that are attached only while launches are under way.
    pub(super) fn detach_launch_programs(&mut self) {
        for kind in [LaunchPrograms::Waits, LaunchPrograms::Completion] {
            let switched = self.programs.of(kind).switch_off();
            self.check(programs_lack(kind), switched);
        }
    }

    /// Programs were attached or detached.
    pub fn programs_changed(
        &mut self,
        kind: LaunchPrograms,
        changed: io::Result<Option<ProgramLinks>>,
    ) {
        let changed = self
            .programs
            .of(kind)
            .changed(changed, || self.kernel.programs(kind));
        self.check(programs_lack(kind), changed);
    }

    /// Asks a thread to show that it works.
    pub fn ask_thread(&self, thread: WatchedThread) {
        match thread {
            WatchedThread::Worker => self.worker.ask_work(),
            WatchedThread::State => self.worker.ask_state(),
            WatchedThread::Executables => self.executables.ask(),
            WatchedThread::Bus => self.bus.iter().for_each(Bus::ask),
            // These threads run for one piece of work, and end.
            WatchedThread::Tables | WatchedThread::Attach => {}
        }
    }

    /// Whether a thread, if there is one, has shown that since it was asked.
    pub fn has_thread_answered(&self, thread: WatchedThread) -> bool {
        match thread {
            WatchedThread::Worker => self.worker.has_work_answered(),
            WatchedThread::State => self.worker.has_state_answered(),
            WatchedThread::Executables => self.executables.has_answered(),
            WatchedThread::Bus => self.bus.as_ref().is_none_or(Bus::has_answered),
            WatchedThread::Tables => !self.recorders.is_changing(),
            WatchedThread::Attach => !self.programs.is_changing(),
        }
    }
}

/// What is lost without these programs.
fn programs_lack(kind: LaunchPrograms) -> &'static str {
    match kind {
        LaunchPrograms::Waits => "waits are not counted",
        LaunchPrograms::Completion => "launches are not timed",
    }
}
