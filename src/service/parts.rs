//! The parts of the service beside its launches, and what they do together. Each keeps its own state, and none
//! reaches into another's.

mod outside;
mod shielding;
mod warming;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::Places;
use super::cached_profile::{CachedProfile, CachedProfiles};
use super::catalogue::FoundApp;
use super::config::{Config, Mode};
use super::control::bus::Bus;
use super::control::{ReportedApps, ServiceSignal};
use super::diagnostics::Diagnostics;
use super::discovery;
use super::drive_probes::{DriveProbes, ProbesEnded};
use super::executables::{ExecutableFinder, LocatedExecutables};
use super::late_reads::LateReads;
use super::launch::{LaunchPolicy, StateEvent};
use super::launch_threads::{HangingThread, LaunchTask, LaunchThreads};
use super::mailbox::Outbox;
use super::managed_apps::{KnownProfiles, ManagedApps};
use super::message::Message;
use super::own_process::{release_heap, work_behind};
use super::prefetchers::Prefetchers;
use super::rate::Rate;
use super::recorders::Recorders;
use super::registry::{Added, Record};
use super::seeds::{FoundSeeds, SeedPlaces, SeedSearch};
use super::shield::LaunchShield;
use super::state_lock::StateLock;
use super::waits::WaitSwitch;
use super::warm_up::WarmUp;
use super::watchdog::WatchedThread;
use super::watchlist::{FoundEntries, Watchlist, desktop_apps};
use super::worker::Worker;
use crate::drive::Elevators;
use crate::fs::blockdev;
use crate::fs::mounts::MountTable;
use crate::kernel::{CountingWaits, Watch};
use crate::learn::{FaultAroundKnob, LearnedProfile, LiveResult, NotLearned};
use crate::model::UserApp;
use crate::policy::{Observation, Phase, PhaseRequest, Plan, TuningRules};

/// How long the end of the service takes at most, and the part of it that is left for writing the state if the thread that
/// works on profiles does not end. Whoever stops the service waits for it.
const STOP_LIMIT: Duration = Duration::from_millis(4500);
const WRITE_LIMIT: Duration = Duration::from_secs(1);

/// The part of it in which settings are restored.
const RESTORE_LIMIT: Duration = Duration::from_millis(500);

/// A profile that a recorder has made.
pub struct RecordedProfile {
    pub learned: LearnedProfile,
    /// The same, ready to be prefetched.
    pub cached: CachedProfile,
}

/// How often executables are found again because a user's launches have found others: at once, and the interval for long.
pub const MOVED: (u32, Duration) = (2, Duration::from_secs(30));

/// The parts of the service. The event loop owns them.
pub struct Parts {
    pub places: Places,
    /// Held until all is written.
    pub state_lock: StateLock,
    pub config: Config,
    pub kernel: Watch,
    pub executables: ExecutableFinder,
    /// How often launches of a user have them found again.
    pub moved: Rate,
    pub waits: WaitSwitch,
    pub prefetchers: Prefetchers,
    pub recorders: Recorders,
    /// `None` if the kernel does not let it be changed.
    pub fault_around: Option<Arc<FaultAroundKnob>>,
    pub elevators: Arc<Elevators>,
    /// The threads that learn and prefetch.
    pub threads: LaunchThreads,
    /// Launches that are over and are listened to.
    pub late_reads: LateReads,
    pub apps: ManagedApps,
    /// Has drives measured.
    pub probes: DriveProbes,
    /// The apps as listeners on the bus know them.
    pub reported: ReportedApps,
    pub watchlist: Watchlist,
    /// Keeps other programs' writes out of the way of launches.
    pub shield: LaunchShield,
    /// Reads likely apps ahead before they are launched.
    pub warm_up: WarmUp,
    /// Makes profiles of those that were learned elsewhere.
    pub seed_search: SeedSearch,
    pub diagnostics: Diagnostics,
    pub bus: Option<Bus>,
    pub worker: Worker,
    pub outbox: Outbox,
}

impl Parts {
    /// Puts a warning into the log and into `status`.
    pub fn warn(&mut self, warning: String) {
        self.diagnostics.warn(warning);
    }

    /// Warns if something has failed.
    fn check(&mut self, what: &str, result: io::Result<()>) {
        if let Err(error) = result {
            self.warn(format!("{what}: {error}"));
        }
    }

    /// Tells the bus.
    fn emit(&self, signal: ServiceSignal) {
        if let Some(bus) = &self.bus {
            bus.emit(signal);
        }
    }

    /// Tells the bus which apps have changed, if any may have.
    pub fn report_changes(&mut self) {
        let apps = &mut self.apps;
        if !std::mem::take(&mut apps.may_have_changed) {
            return;
        }
        for change in self.reported.update(&apps.registry, &apps.profiles) {
            self.emit(ServiceSignal::AppChanged(change));
        }
    }

    /// Takes another configuration.
    pub fn configure(&mut self, config: Config) {
        let mode_changed = config.mode != self.config.mode;
        if config.watch.early != self.config.watch.early {
            self.warn("watch.early takes effect when the service is started again".to_owned());
        }
        self.apps.tunes = config.prefetch.dynamic;
        self.apps.rules = TuningRules::from(&config.tuning);
        self.apps.most_learned = config.prefetch.max_learned_launches as u32;
        self.apps.most_bytes = config.automatic.max_profiles_mib << 20;
        self.probes.rest = config.launch.rest();
        self.configure_shield(config.writes);
        self.configure_warm_up(config.warm_up);
        self.config = config;
        self.find_candidates();
        self.apps.load_again(self.watchlist.catalogue.rules());
        self.find_seeds(false);
        if mode_changed && let Some(bus) = &self.bus {
            bus.mode_changed();
        }
    }

    /// Plans the launch of an app, which is managed from now on if it has a .desktop entry. `None`: the
    /// launch is left alone.
    pub fn plan(&mut self, found: &FoundApp) -> Option<LaunchPolicy> {
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
            // Its profile is lost.
            self.refresh_watch();
        }
        Some(policy)
    }

    /// Whether apps of this user are managed only if the administrator names them.
    pub fn is_full(&self, uid: u32) -> bool {
        let most = self.config.automatic.max_apps;
        !self.apps.registry.has_room_for(uid, false, most)
    }

    /// Manages another app of a user; false if there are too many.
    fn manage(&mut self, record: Record) -> bool {
        let is_named = record.added == Added::User;
        let most = self.config.automatic.max_apps;
        let registry = &mut self.apps.registry;
        let uid = record.key.uid;
        let has_room = registry.has_room_for(uid, is_named, most);
        if has_room {
            let is_new_user = !registry.users().contains(&uid);
            registry.insert(record);
            self.apps.may_have_changed = true;
            if is_new_user {
                self.locate_executables();
            }
        }
        has_room
    }

    /// Manages an app that was announced; false if there are too many.
    pub fn manage_announced(&mut self, record: Record) -> bool {
        if !self.manage(record) {
            return false;
        }
        // It is learned if a recorder can be made ready in time, or else at its next launch.
        self.refresh_watch();
        true
    }

    /// Takes what happened to an app.
    pub fn observe(&mut self, key: &UserApp, observation: &Observation<'_>) {
        self.apps.observe(key, observation);
        self.refresh_watch();
    }

    /// Takes what is wanted of apps.
    pub fn ask(&mut self, apps: &[UserApp], request: PhaseRequest) {
        let mut lacks_profile = false;
        for key in apps {
            self.observe(key, &Observation::Asked(request));
            let record = self.apps.registry.records.get(key);
            let is_on = record.is_some_and(|record| record.managed.phase() == Phase::Prefetching);
            lacks_profile |= is_on && !self.apps.profiles.contains_key(key);
        }
        if lacks_profile {
            // It was dropped when the app was switched off.
            self.apps.load_again(self.watchlist.catalogue.rules());
        }
        self.watch_for_launches();
        self.apps.save();
    }

    /// Forgets apps.
    pub fn forget(&mut self, apps: &[UserApp]) {
        for key in apps {
            self.apps.forget(key);
        }
        self.watch_for_launches();
    }

    /// Has the files of all profiles checked, and .desktop entries looked for again.
    pub fn refresh_profiles(&mut self) {
        self.apps.refresh_profiles();
        self.find_candidates();
        self.find_seeds(true);
    }

    /// The profiles were read again; `known` were in force before, and `new` are the records of the others.
    pub fn profiles_loaded_again(
        &mut self,
        found: CachedProfiles,
        new: Vec<Record>,
        known: &KnownProfiles,
    ) {
        self.apps.loaded_again(found, new, known);
        self.watch_for_launches();
    }

    /// Has the drives measured that profiles lie on, if that is due and not switched off.
    pub fn probe_drives(&mut self) {
        let profiles = self.apps.profiles.iter();
        let profiles = profiles.filter(|_| self.config.prefetch.probe);
        let profiles = profiles.map(|(key, profile)| (key.clone(), Arc::clone(&profile.packed)));
        let started = self.probes.start(profiles.collect());
        self.check("drives are not measured", started);
    }

    /// Drives were measured, or not.
    pub fn drives_probed(&mut self, ended: ProbesEnded) {
        self.probes.ended(&ended, Instant::now());
        self.apps.drives_measured(&ended.apps);
        for warning in ended.warnings {
            self.warn(warning);
        }
    }

    /// Has .desktop entries looked for, in automatic mode. In manual mode there are no candidates.
    pub fn find_candidates(&mut self) {
        self.kernel.report_large_readers(match self.config.mode {
            Mode::Automatic => self.config.automatic.min_read_mib << 20,
            Mode::Manual => 0,
        });
        if self.config.mode == Mode::Manual {
            self.watchlist.clear_candidates();
            self.watch_for_launches();
            return;
        }
        self.watchlist.take_candidates();
        let rules = self.watchlist.catalogue.rules().clone();
        let outbox = self.outbox.clone();
        self.worker.jobs.run(move || {
            outbox.send(Message::DesktopApps(desktop_apps(&rules)));
        });
    }

    /// Has this machine's profiles made of those that were learned elsewhere: where one is new, or of all `again`, since
    /// files may have been replaced.
    pub fn find_seeds(&mut self, again: bool) {
        let places = SeedPlaces {
            shipped_dir: self.places.profiles_dir.clone(),
            state_dir: self.places.state_dir.clone(),
            sysfs: self.places.sysfs.clone(),
        };
        let Some(alive) = self.seed_search.begin(again) else {
            return;
        };
        let rules = self.watchlist.catalogue.rules().clone();
        let search = move || {
            let found = places.update(again, &rules);
            release_heap();
            // Before the event loop hears of it: it may begin the next.
            drop(alive);
            Message::Seeds(found)
        };
        // A thread of its own: files of each are looked up, which may take a drive a minute.
        if let Err(error) = work_behind("pf-seeds", &self.outbox, search) {
            let what = "profiles from elsewhere are not looked for";
            self.warn(format!("{what}, no thread: {error}"));
        }
    }

    /// Takes profiles that were learned elsewhere. Their apps are managed from their first launch on, unless the mode is
    /// manual.
    pub fn set_seeds(&mut self, found: FoundSeeds) {
        let FoundSeeds {
            mut profiles,
            mut records,
            warnings,
        } = found;
        for warning in warnings {
            self.warn(warning);
        }
        tracing::debug!(profiles = profiles.len(), "profiles from elsewhere");
        let most = self.config.prefetch.max_profile_mib << 20;
        profiles.retain(|_, profile| profile.bytes <= most);
        records.retain(|record| profiles.contains_key(&record.key));
        self.apps.seeds = profiles;
        self.apps.may_have_changed = true;
        self.watchlist.set_seeded_apps(records);
        self.watch_for_launches();
        if let Some(again) = self.seed_search.ended() {
            self.find_seeds(again);
        }
    }

    /// The .desktop entries were found.
    pub fn set_desktop_apps(&mut self, found: FoundEntries) {
        self.watchlist.set_desktop_apps(found.apps);
        self.watchlist.set_starters(found.starters);
        let records = self.apps.registry.records.iter();
        let starters = records.filter(|(key, record)| {
            let is_off = matches!(record.managed.phase(), Phase::Disabled { .. });
            self.watchlist.is_starter(&key.id) && !is_off
        });
        let starters: Vec<UserApp> = starters.map(|(key, _)| key.clone()).collect();
        for key in starters {
            self.observe(&key, &Observation::StartsOthers);
        }
        self.watch_for_launches();
    }

    /// A process of this program, of this user, had read so many bytes when it exited.
    pub fn has_read_much(&mut self, key: UserApp, bytes: u64) {
        let is_plausible = discovery::is_plausible(Path::new(&key.id));
        if !is_plausible || !self.may_become_app(&key) || !self.watchlist.has_room_for(&key) {
            return;
        }
        // It will read much again.
        if self.worker.jobs.are_many() {
            return;
        }
        let outbox = self.outbox.clone();
        let rules = self.watchlist.catalogue.rules().clone();
        let look = move |path: &str| {
            let mounts = MountTable::read().map_err(|error| error.to_string())?;
            discovery::check(Path::new(path), &rules, &mounts)
        };
        let check = move || match look(&key.id) {
            Ok(()) => {
                tracing::debug!(
                    app = key.id,
                    uid = key.uid,
                    bytes,
                    "read much: its next launches are followed"
                );
                outbox.send(Message::Discovered(key));
            }
            Err(why) => tracing::debug!(
                app = key.id,
                uid = key.uid,
                bytes,
                "read much and is no app: {why}"
            ),
        };
        self.worker.jobs.run(check);
    }

    fn may_become_app(&self, key: &UserApp) -> bool {
        self.config.mode == Mode::Automatic && !self.apps.registry.records.contains_key(key)
    }

    /// A program that had read much may become an app: its next launches are followed.
    pub fn follow_discovered(&mut self, key: &UserApp) {
        if self.may_become_app(key) && self.watchlist.begin_probation(key) {
            self.watch_for_launches();
        }
    }

    /// Tells the kernel side for which programs to look.
    pub fn watch_for_launches(&mut self) {
        self.watchlist.refresh(&self.apps.registry);
        self.refresh_watch();
        self.locate_executables();
    }

    /// Has the executables of apps found, and the links that users have to them.
    fn locate_executables(&self) {
        let catalogue = &self.watchlist.catalogue;
        let users = self.apps.registry.users();
        self.executables
            .locate(catalogue.executables(), users, catalogue.rules());
    }

    /// Executables were found, and with them the names by which they are executed.
    pub fn executables_located(&mut self, found: LocatedExecutables) {
        self.watchlist.catalogue.located(found);
        self.refresh_watch();
        tracing::debug!("executables were located");
    }

    /// Tells the kernel side which launches are to be recorded from their beginning, and has a recorder ready for them.
    pub fn refresh_watch(&mut self) {
        let recorders = &self.recorders;
        let may_learn = |uid| recorders.has_share(uid);
        let watched = self.watchlist.watched(&self.apps.registry, may_learn);
        let to_learn = watched.to_learn;
        let is_changed = !self.kernel.watches(&watched.apps);
        let refused = match is_changed {
            true => self.kernel.watch_for(watched.apps),
            false => Vec::new(),
        };
        if !refused.is_empty() {
            let texts: Vec<_> = refused.iter().map(|it| it.text.to_string_lossy()).collect();
            self.warn(format!(
                "launches of these cannot be seen, their names are too long or too many: {}",
                texts.join(", ")
            ));
        }
        let kept = self.recorders.keep(to_learn);
        self.check("no learning thread can be started", kept);
        if self.recorders.is_newly_ready() || (is_changed && self.recorders.is_ready()) {
            tracing::debug!(apps = to_learn, "ready to learn");
        }
    }

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
                let exact_faults = recorded.learned.summary.exact_faults;
                let window_pages = recorded.learned.summary.resolved.window_pages;
                tracing::debug!(
                    launch = result.launch,
                    exact_faults,
                    window_pages,
                    "recorded"
                );
                let note = format!("learned {} entries", recorded.cached.entries);
                (StateEvent::Recorded, note, Some(recorded))
            }
            Err((event, why)) => (event, why, None),
        }
    }

    /// A thread is given up: its place is free again. Returns what that is for its launch, and says it.
    pub fn give_up(&mut self, hanging: &HangingThread) -> (StateEvent, String) {
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
        if packed > self.apps.most_bytes {
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

    /// The programs that count waits were attached or detached. `needed`: a launch is under way.
    pub fn waits_changed(&mut self, changed: io::Result<Option<CountingWaits>>, needed: bool) {
        // A launch may have begun or ended meanwhile.
        let changed = self.waits.changed(changed).and_then(|()| match needed {
            true => self.waits.switch_on(|| self.kernel.wait_programs()),
            false => self.waits.switch_off(),
        });
        self.check("waits are not counted", changed);
    }

    /// Asks a thread to show that it works.
    pub fn ask_thread(&self, thread: WatchedThread) {
        match thread {
            WatchedThread::Worker => self.worker.ask_work(),
            WatchedThread::State => self.worker.ask_state(),
            WatchedThread::Executables => self.executables.ask(),
            WatchedThread::Bus => self.bus.iter().for_each(Bus::ask),
            // They run for one piece of work, and end.
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
            WatchedThread::Attach => !self.waits.is_changing(),
        }
    }

    /// Restores the settings of launches under way: threads that learn or prefetch end with the process, and do not restore
    /// them then. What does not answer in time, as the queue of a dead drive, is left to the keepers.
    fn restore_settings(&self) {
        let (fault_around, elevators) = (self.fault_around.clone(), Arc::clone(&self.elevators));
        let close = move || {
            let faults = fault_around.map_or(Ok(()), |knob| knob.close());
            [faults, elevators.close()]
        };
        let (done, closed) = sync_channel(1);
        let thread = Builder::new().name("pf-restore".to_owned());
        let started = thread.spawn(move || done.send(close()));
        match started.map(|_| closed.recv_timeout(RESTORE_LIMIT)) {
            Ok(Ok(closed)) => {
                for error in closed.into_iter().filter_map(Result::err) {
                    tracing::warn!("{error}");
                }
            }
            Ok(Err(_)) => {
                tracing::warn!("settings could not be restored in time: the keeper does it")
            }
            Err(error) => tracing::warn!("settings are left to the keeper, no thread: {error}"),
        }
    }

    /// Restores what was changed, writes the state, and ends within [`STOP_LIMIT`], whatever threads wait for.
    pub fn finish(mut self) {
        let until = Instant::now() + STOP_LIMIT;
        self.restore_settings();
        self.apps.save();
        let Parts {
            apps,
            bus,
            worker,
            shield,
            state_lock: _held,
            ..
        } = self;
        // Two seconds at most.
        shield.stop();
        // Signals that are queued are still sent, for a second at most. The worker ends when nothing can give it jobs any
        // more.
        drop((apps, bus));
        let left = until.saturating_duration_since(Instant::now());
        worker.finish(left.saturating_sub(WRITE_LIMIT), WRITE_LIMIT);
    }
}
