//! What is done for launches: what one begins with, and the real side of the seam, which carries their actions out.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::{NOT_SHIELDED, Parts};
use crate::drive::MemoryLimits;
use crate::kernel::{LaunchEvent, LaunchPrograms};
use crate::learn::{LiveJob, MissedReads};
use crate::model::{App, LaunchCounts, LaunchLimits, UserApp};
use crate::policy::{ColdLaunch, Completion, Observation, Plan, Warmth};
use crate::prefetch::PrefetchOptions;
use crate::process::{Clocks, TaskState, thread_states};
use crate::service::announce::AnnouncedLaunch;
use crate::service::catalogue::FoundApp;
use crate::service::control::ServiceSignal;
use crate::service::history::LaunchRecord;
use crate::service::late_reads::EndedLaunch;
use crate::service::launch::{
    Beginning, FollowedLaunch, LaunchPolicy, LaunchStart, Outside, StateAction,
};
use crate::service::launch_threads::{LIMIT, LaunchTask, ServedApp};
use crate::service::login;
use crate::service::marks::Marks;
use crate::service::message::Message;
use crate::service::missed::{LaunchResult, late_reads};
use crate::service::registry::{Added, Record};
use crate::service::warm_up::WarmUpEvent;
use crate::service::watchlist::ProbationVerdict;

/// Threads of a launch that are looked at: each look is a file of /proc.
const MOST_THREADS: usize = 256;

/// Why a launch is left alone although its app is managed.
const HANGS: &str = "a thread of the service that has worked for an earlier launch hangs";

/// Why a launch of a user's is left alone whose other launches were recorded, or read ahead for, as much as one user's may be.
const MUCH_RECORDED: &str = "launches of this user were recorded for two minutes lately, and a tenth of the time comes back";
const MUCH_READ: &str =
    "4 GiB were read ahead for launches of this user lately, and 1 GiB a minute comes back";

impl Parts {
    /// A process says that it is an app now. Its launch, and the app, if they are to be followed.
    pub fn announced(&mut self, announced: &AnnouncedLaunch) -> Option<(u64, FoundApp)> {
        let key = announced.user_app();
        if !self.apps.registry.records.contains_key(&key) {
            let name = announced.name.clone();
            let record = Record::new(key.clone(), name, Added::Announced, Marks::default());
            // Any user may announce any name.
            if !self.manage(record) {
                tracing::debug!(app = key.id, uid = key.uid, "announced, and not managed");
                // One warning for all names that a user may think of.
                self.warn(format!(
                    "apps that processes of user {} announce are not managed: there are too many \
                     (automatic.max_apps)",
                    key.uid
                ));
                return None;
            }
            // The app is learned if a recorder can be made ready in time, or else at its next launch.
            self.refresh_watch();
        }
        match self.kernel.adopt(announced.pid, announced.uid) {
            Ok(Some(launch)) => {
                let app = App {
                    uid: key.uid,
                    path: key.id.clone().into_bytes(),
                    ..App::default()
                };
                Some((launch, FoundApp { key, app }))
            }
            Ok(None) => {
                self.warn("too many launches at once: one was left alone".to_owned());
                None
            }
            // The process is gone.
            Err(error) => {
                tracing::debug!("{error}");
                None
            }
        }
    }

    /// Plans the launch of an app, which is managed from now on if it has a .desktop entry. `None`: the
    /// launch is left alone.
    fn plan(&mut self, found: &FoundApp) -> Option<LaunchPolicy> {
        let key = &found.key;
        let record = self.apps.registry.records.get(key);
        let mut learns = record.is_some_and(Record::is_to_learn);
        if record.is_none() && !self.watchlist.is_on_probation(key) {
            let named = self.apps.registry.named_for_all(key);
            let record = named.or_else(|| self.watchlist.new_record(key))?;
            learns = record.is_to_learn();
            if !self.manage(record) {
                return None;
            }
        }
        let policy = self.apps.plan(key, self.config.prefetch.withhold);
        if policy.plan == Plan::Learn && !learns {
            // The profile of the app is lost.
            self.refresh_watch();
        }
        Some(policy)
    }
}

impl Outside for Parts {
    fn called(&self, event: &LaunchEvent) -> Option<FoundApp> {
        self.catalogue.called(event)
    }

    fn executed(&self, event: &LaunchEvent) -> Option<FoundApp> {
        self.catalogue.executed(event)
    }

    fn prepare(
        &mut self,
        launch: u64,
        pid: u32,
        found: FoundApp,
        beginning: Beginning,
    ) -> Option<LaunchStart> {
        let may_be_ours = beginning != Beginning::Execve || !self.kernel_leaves_own_commands;
        if may_be_ours && self.own_commands.have_started(pid) {
            return None;
        }
        let mut policy = self.plan(&found)?;
        let is_recorded = match beginning {
            Beginning::Execve => self.recorders.is_claimed(launch),
            Beginning::Announced => self.recorders.is_ready(),
            Beginning::Login => self.recorders.can_record(),
        };
        policy.is_recorded =
            is_recorded && policy.plan == Plan::Learn && self.recorders.has_share(found.key.uid);
        let limits = LaunchLimits::from(&self.config.launch);
        let start = LaunchStart {
            key: found.key,
            app: found.app,
            pid,
            policy,
            limits: match policy.plan {
                Plan::Learn => limits.for_lesson(),
                _ => limits,
            },
            begun: Clocks::now(),
            began: SystemTime::now(),
        };
        // Before the first requests: the drive is the launch's.
        self.warm_up(WarmUpEvent::Stopped);
        Some(start)
    }

    fn begun(&mut self, launch: u64, is_recorded: bool) {
        self.had_launches = true;
        // Behind the first requests: a thread is started.
        if !is_recorded {
            self.give_recorder_up(launch);
        }
        self.probes.stop();
    }

    fn counts(&self, launch: u64) -> Option<LaunchCounts> {
        let counts = self.kernel.counts(launch)?;
        Some(LaunchCounts {
            waits_counted: self.programs.count_waits_since(counts.start_ns),
            completion_late: counts.has_completion
                && !self
                    .programs
                    .see_completion_since(counts.start_ns, counts.completed_ns),
            ..counts
        })
    }

    fn threads(&self, launch: u64) -> impl Iterator<Item = TaskState> {
        thread_states(self.kernel.threads(launch).take(MOST_THREADS))
    }

    fn schedule_bytes(&self, app: &UserApp) -> u64 {
        self.apps.profile(app).map_or(0, |profile| profile.bytes)
    }

    fn usual_bytes(&self, app: &UserApp) -> u64 {
        self.apps.usual_bytes(app)
    }

    fn close_slot(&mut self, launch: u64) {
        if let Some(over) = self.late_reads.take(launch) {
            self.compare_late_reads(over);
        }
        self.give_recorder_up(launch);
        self.kernel.end(launch);
    }

    fn detach_programs(&mut self) {
        self.detach_launch_programs();
    }

    fn perform(&mut self, action: StateAction, launch: &mut FollowedLaunch) -> Result<(), String> {
        let number = launch.number;
        match action {
            StateAction::StartPrefetch => return self.start_prefetch(launch),
            StateAction::StartRecording { late } => {
                let started = self.start_recording(launch, late);
                if started.is_err() {
                    self.give_recorder_up(number);
                }
                return started;
            }
            StateAction::WatchCompletion => {
                let profile = self.apps.profile(&launch.start.key);
                if let Some(profile) = profile.filter(|profile| !profile.completion.is_empty())
                    && self.kernel.sees_completion()
                {
                    self.kernel.set_completion(number, &profile.completion);
                    self.attach_programs(LaunchPrograms::Completion);
                }
            }
            StateAction::CountWaits => self.attach_programs(LaunchPrograms::Waits),
            StateAction::CountLaunch => {
                self.recorders.executed(number, &launch.start.app);
                self.count_launch(number, &launch.start);
                launch.figures.read_before = self.apps.found_before(&launch.start.key);
            }
            StateAction::TakeReport | StateAction::StopPrefetch => {
                let read = self.kernel.counts(number);
                let bytes = read.map(|counts| counts.prefetch_bytes);
                launch.set_report(self.prefetchers.end(number, bytes));
                if let Some(report) = &launch.figures.report {
                    self.apps.note_unclear(&launch.start.key, report);
                }
            }
            StateAction::KeepProfile { alone } => self.keep_profile(launch, alone),
            StateAction::ReportNotLearned => {
                self.observe(&launch.start.key, &Observation::NotLearned);
            }
            StateAction::Shield => self.shield_launch(launch),
            StateAction::CloseSlot | StateAction::ListenOn => {
                launch.was_shielded = self.shield.ends(number);
                let news = self.shield.news();
                news.into_iter().for_each(|news| self.warn(news));
                self.note_own_reads(launch);
                let listens = action == StateAction::ListenOn && self.listen_on(launch);
                if !listens {
                    self.close_slot(number);
                }
            }
            StateAction::Judge => self.judge(launch),
            StateAction::RefreshWatch => self.refresh_watch(),
            StateAction::Weigh => self.judge_candidate(&launch.start.key, &launch.figures.counts),
            StateAction::WriteDown(kind) => {
                let mut row = launch.row(kind);
                row.saved_us = self.apps.saved_before(&launch.start.key, &row);
                self.write_down(launch, row);
            }
        }
        Ok(())
    }
}

impl Parts {
    fn start_prefetch(&mut self, launch: &FollowedLaunch) -> Result<(), String> {
        let Some(profile) = self.apps.profile(&launch.start.key) else {
            return Err("no prefetch thread: its profile is gone".to_owned());
        };
        let app = ServedApp {
            key: launch.start.key.clone(),
            dev: profile.app.dev,
        };
        if self.threads.hangs_for(&app.key) {
            return Err(format!("not prefetched: {HANGS}"));
        }
        if !self.prefetchers.has_share(app.key.uid, profile.bytes) {
            return Err(format!("not prefetched: {MUCH_READ}"));
        }
        let options = PrefetchOptions {
            memory: MemoryLimits::from(&self.config.prefetch),
            elevators: Some(Arc::clone(&self.elevators)),
            launched: i32::try_from(launch.start.pid).ok(),
            ..PrefetchOptions::default()
        };
        self.prefetchers
            .start(
                launch.number,
                app.key.uid,
                profile,
                options,
                &mut self.kernel,
            )
            .map_err(|error| format!("no prefetch thread: {error}"))?;
        let until = Instant::now() + LIMIT;
        self.threads
            .started(LaunchTask::Prefetch, launch.number, app, until);
        Ok(())
    }

    /// Has writes kept out of the way of a launch.
    fn shield_launch(&mut self, launch: &FollowedLaunch) {
        let start = &launch.start;
        let profile = self.apps.profiles.get(&start.key);
        let learned = profile.map(|profile| profile.app.dev);
        let located = || self.catalogue.located_device(&start.key.id);
        let dev = [learned, Some(start.app.dev)].into_iter().flatten();
        let dev = dev.chain(located()).find(|dev| *dev != 0).unwrap_or(0);
        self.shield.begins(launch.number, start.key.uid, dev);
        // Another process may have had the knobs when the service started.
        let retried = self.shield.retry();
        self.check(NOT_SHIELDED, retried);
    }

    fn start_recording(&mut self, launch: &FollowedLaunch, late: bool) -> Result<(), String> {
        if !self.recorders.can_record() {
            return Err("not learned: tracing cannot be had".to_owned());
        }
        let start = &launch.start;
        let app = ServedApp {
            key: start.key.clone(),
            dev: start.app.dev,
        };
        if self.threads.hangs_for(&app.key) {
            return Err(format!("not learned: {HANGS}"));
        }
        if !self.recorders.has_share(app.key.uid) {
            return Err(format!("not learned: {MUCH_RECORDED}"));
        }
        let limits = start.limits;
        let job = LiveJob {
            launch: launch.number,
            app: start.app.clone(),
            earlier: self.apps.load_sequence(&start.key),
            limits,
            sysfs: self.places.sysfs.clone(),
            state_dir: Some(self.places.state_dir.clone()),
            fault_around: self.fault_around.clone(),
            prefetching: self.prefetchers.under_way(launch.number),
        };
        // A login goes on for seconds: the recorder that waits is for apps.
        let takes_any = late || login::is_login(&start.key);
        let recorded = self.recorders.record(job, takes_any);
        // There may be another app to learn.
        let kept = self.recorders.keep_as_many();
        let taken = matches!(recorded, Ok(true));
        if taken {
            // A launch is over after twice its limit.
            let until = Instant::now() + 2 * limits.timeout + LIMIT;
            self.threads
                .started(LaunchTask::Learn, launch.number, app, until);
        }
        let started = recorded.and(kept);
        self.check("no learning thread can be started", started);
        if !taken {
            // There will be other launches of this app.
            let why = "not learned: tracing is not ready, or busy with other launches";
            return Err(why.to_owned());
        }
        Ok(())
    }

    /// Notes what the launch read itself although it was prefetched.
    fn note_own_reads(&mut self, launch: &mut FollowedLaunch) {
        let (key, figures) = (&launch.start.key, &mut launch.figures);
        let Some(profile) = self.apps.profile(key) else {
            return;
        };
        figures.cold_requests = profile.cold_requests;
        // A recorder sees more. What a warm launch reads tells little of a cold one.
        let is_learned = launch.start.policy.plan == Plan::Learn;
        let tells_nothing = figures.warmth() == Warmth::Warm || figures.read_before > 0;
        if is_learned || figures.report.is_none() || tells_nothing {
            return;
        }
        match self.kernel.own_reads(launch.number) {
            Ok(reads) => launch.own_reads = Some(reads),
            Err(why) => self.warn(format!("what a launch missed is not known: {why}")),
        }
    }

    /// Has what the app of a launch that is over reads later noted for a while. False if that is of no use: it has no profile
    /// that takes anything in, nothing of it runs, it was ended by its time limit, or it is a login.
    fn listen_on(&mut self, launch: &FollowedLaunch) -> bool {
        let (start, counts) = (&launch.start, &launch.figures.counts);
        let profile = self.apps.profiles.get(&start.key);
        let is_live = profile.is_some_and(|profile| profile.learned_live.is_some());
        let is_past_limit = Clocks::now().monotonic_ns >= start.limits.last_ns(counts.start_ns);
        // What the processes of a desktop read from then on is what its user does.
        let goes_on = login::is_login(&start.key);
        if goes_on || !is_live || counts.tasks == 0 || is_past_limit {
            return false;
        }
        let listens = self.late_reads.listen(launch.ended(), Instant::now());
        if listens {
            self.give_recorder_up(launch.number);
            self.kernel.note_late_reads(launch.number);
        }
        listens
    }

    /// Listens no longer to launches that have been over for long enough.
    pub fn end_late_reads(&mut self, now: Instant) {
        for launch in self.late_reads.due(now) {
            self.close_slot(launch);
        }
    }

    /// Compares what an app read after its launch was over with its profile, which may take it in.
    fn compare_late_reads(&mut self, over: EndedLaunch) {
        let reads = match self.kernel.own_reads(over.number) {
            Ok(reads) => reads,
            Err(why) => return self.warn(format!("what an app reads later is not known: {why}")),
        };
        let profile = self.apps.profiles.get(&over.key);
        // Where many jobs wait, these reads are left to later launches, which make them again.
        let Some(profile) = profile.filter(|_| !reads.is_empty() && !self.worker.jobs().are_many())
        else {
            return;
        };
        let (packed, outbox) = (Arc::clone(&profile.packed), self.outbox.clone());
        self.worker.jobs().run(move || {
            if let Some(missed) = late_reads(&packed, &over, reads) {
                let app = over.key;
                outbox.send(Message::ReadLate { app, missed });
            }
        });
    }

    fn count_launch(&mut self, launch: u64, start: &LaunchStart) {
        let (app, pid, plan) = (&start.key, start.pid, start.policy.plan);
        tracing::debug!(
            launch,
            app = app.id,
            uid = app.uid,
            pid,
            ?plan,
            "launch begins"
        );
        *self.diagnostics.launches_seen.entry(app.uid).or_default() += 1;
        if self.apps.launched(app, &start.app, plan) {
            let app = app.clone();
            self.emit(ServiceSignal::Begun { app, pid, plan });
        }
        let now = Duration::from_nanos(Clocks::now().monotonic_ns);
        if self.catalogue.has_moved(&app.id, &start.app) && self.moved.take(app.uid, now) {
            self.watch_for_launches();
        }
    }

    fn keep_profile(&mut self, launch: &mut FollowedLaunch, alone: bool) {
        let Some(recorded) = launch.recorded.take() else {
            return;
        };
        launch.figures.schedule_bytes = recorded.cached.bytes;
        let has_pages = !recorded.cached.completion.is_empty() && self.kernel.sees_completion();
        launch.figures.learned_completion = Some(match recorded.learned.summary.completed_ns {
            _ if !has_pages => Completion::None,
            Some(at_ns) => Completion::At(at_ns),
            None => Completion::Missed,
        });
        let cold = alone && launch.figures.warmth() == Warmth::Cold;
        let cold = cold.then(|| ColdLaunch {
            took_us: launch.figures.took_us(),
            waiting_us: launch.figures.waiting_us(),
            requests: launch.figures.own_readaheads(),
        });
        let key = &launch.start.key;
        let is_whole = launch.start.policy.is_recorded;
        let (cached, learned) = (recorded.cached, recorded.learned);
        self.apps.keep(key, cached, learned, cold, is_whole);
        if self.config.prefetch.probe {
            self.probes.learned(key, Instant::now());
        }
        self.refresh_watch();
    }

    /// Judges a launch, unless its profile has to be unpacked for that: see [`Parts::write_down`].
    fn judge(&mut self, launch: &FollowedLaunch) {
        if launch.own_reads.is_none() && launch.is_judged() {
            self.apps.observe_launch(&launch.start.key, &launch.figures);
        }
        self.refresh_watch();
    }

    /// Judges by a launch whether a program on probation is an app.
    fn judge_candidate(&mut self, key: &UserApp, counts: &LaunchCounts) {
        if self.apps.registry.records.contains_key(key) {
            return;
        }
        match self.watchlist.weigh(key, counts, &self.config.automatic) {
            ProbationVerdict::Undecided => {}
            ProbationVerdict::App(record) => {
                if self.manage(*record) {
                    tracing::info!(
                        app = key.id,
                        uid = key.uid,
                        "large and slow: managed from its next launch on"
                    );
                }
                self.refresh_watch();
            }
            ProbationVerdict::NoApp => self.watch_for_launches(),
        }
    }

    /// Writes a launch down. One whose profile has to be unpacked to judge it is judged and written down later, when
    /// the worker has done that.
    fn write_down(&mut self, launch: &mut FollowedLaunch, row: LaunchRecord) {
        let mut result = LaunchResult {
            launch: launch.ended(),
            figures: launch.figures.clone(),
            is_judged: launch.is_judged(),
            row,
        };
        let profile = self.apps.profiles.get(&launch.start.key);
        let reads = launch.own_reads.take().zip(profile);
        let Some((reads, profile)) = reads.filter(|_| !self.worker.jobs().are_many()) else {
            return self.record_launch(result);
        };
        let (packed, outbox) = (Arc::clone(&profile.packed), self.outbox.clone());
        self.worker.jobs().run(move || {
            let missed = result.compare(&packed, reads);
            let launch = Box::new(result);
            outbox.send(Message::Missed { launch, missed });
        });
    }

    /// Judges a launch by what its profile does not hold, which the profile may take in, and writes it down.
    pub fn judge_late(&mut self, result: LaunchResult, missed: Option<MissedReads>) {
        let key = &result.launch.key;
        if result.is_judged {
            self.apps.observe_launch(key, &result.figures);
        }
        if let Some(missed) = missed {
            self.take_in(key, missed);
        }
        self.record_launch(result);
        self.refresh_watch();
    }

    /// Has an app's profile take in what a launch missed.
    pub fn take_in(&self, key: &UserApp, missed: MissedReads) {
        if missed.reads.is_empty() {
            return;
        }
        let record = self.apps.registry.records.get(key);
        let is_named = record.is_some_and(|record| record.added == Added::User);
        let most = (!is_named).then_some(self.config.prefetch.max_profile_mib << 20);
        self.apps.take_in(key, missed, most);
    }

    /// Writes a launch down that is judged, and tells the bus and the log.
    fn record_launch(&mut self, result: LaunchResult) {
        let (key, row) = (result.launch.key, result.row);
        if self.config.prefetch.probe && self.apps.profiles.contains_key(&key) {
            self.probes.launch_ended(&key, Instant::now());
        }
        self.apps.schedule_for_drives(&key);
        self.apps.tell_gain(&key);
        // First the registry: a program that finds the launch in the history finds what it changed, too.
        self.apps.save();
        tracing::info!(
            app = row.app,
            uid = row.uid,
            kind = ?row.kind,
            duration_us = row.duration_us,
            waiting_us = row.waiting_us,
            read_bytes = row.read_bytes,
            own_requests = row.own_readaheads,
            prefetched_bytes = result.figures.counts.prefetch_bytes,
            note = row.note.as_deref().unwrap_or_default(),
            "launch"
        );
        self.emit(ServiceSignal::Ended(row.clone()));
        self.worker.jobs().add_launch(row);
    }
}
