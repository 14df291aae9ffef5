//! The parts of the service beside its launches, and what they do together. Each keeps its own state. The event loop and
//! the calls reach them by the functions here; what launches ask of them is carried out in `outside`.

mod assemble;
mod logins;
mod outside;
mod stop;
mod threads;
mod warming;
mod watching;

pub use assemble::{CannotWorkHere, Warnings, assemble};
pub use logins::BegunLogin;

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, iter};

use super::Places;
use super::cached_profile::{CachedProfiles, KnownProfiles};
use super::catalogue::Catalogue;
use super::clock::now_s;
use super::config::{Config, WritesConfig};
use super::control::bus::Bus;
use super::control::{ReportedApps, ServiceSignal};
use super::diagnostics::Diagnostics;
use super::drive_probes::DriveProbes;
use super::executables::ExecutableFinder;
use super::late_reads::LateReads;
use super::launch_threads::LaunchThreads;
use super::login::Seats;
use super::mailbox::Outbox;
use super::managed_apps::ManagedApps;
use super::own_commands::OwnCommands;
use super::prefetchers::Prefetchers;
use super::probe_round::ProbesEnded;
use super::profile_jobs::ProfileNews;
use super::program_switch::ProgramSwitches;
use super::rate::Rate;
use super::recorders::Recorders;
use super::registry::{Added, Record, Registry};
use super::seeds::SeedSearch;
use super::shield::LaunchShield;
use super::state_lock::StateLock;
use super::warm_up::WarmUp;
use super::watchlist::Watchlist;
use super::worker::{Jobs, Worker};
use crate::apps::Rules;
use crate::drive::Elevators;
use crate::kernel::{LaunchEvent, Watch};
use crate::learn::FaultAroundKnob;
use crate::model::UserApp;
use crate::policy::{Observation, Phase, PhaseRequest};
use crate::shield::{Shield, ShieldStatus};

/// What is lost without the shield.
const NOT_SHIELDED: &str = "launches are not shielded from writes";

/// The parts of the service. The event loop owns them.
pub struct Parts {
    places: Places,
    /// Held until all is written.
    _state_lock: StateLock,
    config: Config,
    kernel: Watch,
    own_commands: OwnCommands,
    /// Whether the kernel side reports no launch by execve of theirs.
    kernel_leaves_own_commands: bool,
    executables: ExecutableFinder,
    /// How often launches of a user have executables found again.
    moved: Rate,
    programs: ProgramSwitches,
    prefetchers: Prefetchers,
    recorders: Recorders,
    /// `None` if the kernel does not let it be changed.
    fault_around: Option<Arc<FaultAroundKnob>>,
    elevators: Arc<Elevators>,
    /// The threads that learn and prefetch.
    threads: LaunchThreads,
    /// Launches that are over and are listened to.
    late_reads: LateReads,
    apps: ManagedApps,
    /// Has drives measured.
    probes: DriveProbes,
    /// The apps as listeners on the bus know them.
    reported: ReportedApps,
    /// Recognises apps.
    catalogue: Catalogue,
    watchlist: Watchlist,
    /// Keeps other programs' writes out of the way of launches.
    shield: LaunchShield,
    /// Reads likely apps ahead before they are launched.
    warm_up: WarmUp,
    /// Who is at the system's seats.
    seats: Seats,
    /// Makes profiles of those that were learned elsewhere.
    seed_search: SeedSearch,
    diagnostics: Diagnostics,
    bus: Option<Bus>,
    worker: Worker,
    outbox: Outbox,
    /// Whether a launch has begun since no other was under way.
    had_launches: bool,
    /// Executions of which was said that the kernel side has left them alone because their user makes too many.
    excess_execs: u64,
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

    /// Serves calls by this bus, and tells it of launches and apps from now on.
    pub fn set_bus(&mut self, bus: Option<Bus>) {
        self.bus = bus;
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The directory of the configuration.
    pub fn config_dir(&self) -> &Path {
        &self.places.config_dir
    }

    /// The managed apps.
    pub fn apps(&self) -> &ManagedApps {
        &self.apps
    }

    /// Changes which apps are managed.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.apps.registry
    }

    /// The launcher rules.
    pub fn rules(&self) -> &Rules {
        self.catalogue.rules()
    }

    /// Gives the worker jobs.
    pub fn jobs(&self) -> &Jobs {
        self.worker.jobs()
    }

    /// Sends messages to the event loop, from any thread.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// What the service reports of itself.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.diagnostics
    }

    /// What the shield does and has done.
    pub fn shield_status(&self) -> ShieldStatus {
        self.shield.status()
    }

    /// Readable when the kernel side has events, or a user logs in or out.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        iter::once(self.kernel.fd()).chain(self.warm_up.fds())
    }

    /// The program that is to filter the socket for announcements.
    pub fn announcement_filter(&self) -> BorrowedFd<'_> {
        self.kernel.announcement_filter()
    }

    /// The kernel side's events since the last call.
    ///
    /// # Errors
    /// When they cannot be read: the service cannot work then.
    pub fn take_events(&mut self) -> io::Result<Vec<LaunchEvent>> {
        self.kernel.take().map_err(io::Error::other)
    }

    /// Events and launches that the kernel side has lost so far.
    pub fn lost_events(&self) -> u64 {
        self.kernel.lost()
    }

    /// The number of the kernel side's last launch.
    pub fn last_launch(&self) -> u64 {
        self.kernel.last_launch()
    }

    /// Launches up to this one that have a slot of the kernel side's, but for those that are listened to.
    pub fn launches_until(&self, last: u64) -> Vec<u64> {
        let slots = self.kernel.launches_until(last);
        slots
            .filter(|&launch| !self.late_reads.contains(launch))
            .collect()
    }

    /// Counts a launch no more whose beginning was not reported.
    pub fn end_unreported(&mut self, launch: u64) {
        tracing::debug!(
            launch,
            "its beginning was not reported: it is not counted any more"
        );
        self.kernel.end(launch);
    }

    /// Executions that the kernel side has left alone so far because their user makes too many.
    pub fn excess_execs(&self) -> u64 {
        self.kernel.excess_execs().0
    }

    /// Says which user executes watched programs too fast. Such executions wake nobody: this is noticed when
    /// something else happens.
    pub fn warn_of_excess(&mut self) {
        let (count, uid) = self.kernel.excess_execs();
        if count > self.excess_execs {
            self.excess_execs = count;
            self.warn(format!(
                "user {uid} executes programs that are watched for more than 32 times a second: the further ones \
                 are left alone"
            ));
        }
    }

    /// Time until a part has something to do although nothing happens.
    pub fn until_due(&self, now: Instant) -> Option<Duration> {
        let due = [
            self.threads.until_next(now),
            self.late_reads.until_due(now),
            self.probes.until_due(now),
            self.warm_up.until_due(now),
        ];
        due.into_iter().flatten().min()
    }

    /// Time until the files of the profiles are to be checked: once a day by the time of day, since the system may be off or
    /// asleep at night.
    pub fn until_check(&self) -> Duration {
        self.apps.registry.until_check(now_s())
    }

    /// Tells the bus which apps have changed, if any may have.
    pub fn report_changes(&mut self) {
        let apps = &mut self.apps;
        if !apps.may_have_changed() {
            return;
        }
        for change in self.reported.update(&apps.registry, &apps.profiles) {
            self.emit(ServiceSignal::AppChanged(change));
        }
    }

    /// Reads the configuration again.
    ///
    /// # Errors
    /// What is wrong with it; the old one stays in force.
    pub fn read_config_again(&mut self) -> Result<(), String> {
        let config = Config::load(&self.places.config_dir).map_err(|error| error.to_string())?;
        self.configure(config);
        Ok(())
    }

    /// Takes another configuration.
    fn configure(&mut self, config: Config) {
        let mode_changed = config.mode != self.config.mode;
        if config.watch.early != self.config.watch.early {
            self.warn("watch.early takes effect when the service is started again".to_owned());
        }
        self.apps.configure(&config);
        self.probes.set_rest(config.launch.rest());
        let changed = self.shield.configure(config.writes);
        self.check(NOT_SHIELDED, changed);
        self.configure_warm_up(config.warm_up);
        self.config = config;
        self.find_candidates();
        self.apps.load_again(self.catalogue.rules());
        self.find_seeds(false);
        if mode_changed && let Some(bus) = &self.bus {
            bus.mode_changed();
        }
    }

    /// A shield with these settings was started, or could not be.
    pub fn shield_changed(
        &mut self,
        started: Result<Option<Shield>, String>,
        wanted: WritesConfig,
    ) {
        match self.shield.changed(started, wanted) {
            Ok(news) => news.into_iter().for_each(|news| self.warn(news)),
            Err(error) => self.warn(format!("{NOT_SHIELDED}: {error}")),
        }
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
        let uid = record.key.uid;
        let registry = &self.apps.registry;
        let has_room = registry.has_room_for(uid, is_named, most);
        if has_room {
            let is_new_user = !registry.users().contains(&uid);
            self.apps.manage(record);
            if is_new_user {
                self.locate_executables();
            }
        }
        has_room
    }

    /// The worker has changed an app's profile, or could not.
    pub fn take_news(&mut self, app: &UserApp, news: ProfileNews) {
        if let Some(warning) = self.apps.take_news(app, news) {
            self.warn(warning);
        }
        self.refresh_watch();
    }

    /// Has the policy of an app decide what follows from this, and tells the kernel side what changes.
    fn observe(&mut self, key: &UserApp, observation: &Observation<'_>) {
        self.apps.observe(key, observation);
        self.refresh_watch();
    }

    /// Puts apps into the phase that a call asks for.
    pub fn set_phase(&mut self, apps: &[UserApp], request: PhaseRequest) {
        let mut lacks_profile = false;
        for key in apps {
            self.observe(key, &Observation::Asked(request));
            let record = self.apps.registry.records.get(key);
            let is_on = record.is_some_and(|record| record.managed.phase() == Phase::Prefetching);
            lacks_profile |= is_on && !self.apps.profiles.contains_key(key);
        }
        if lacks_profile {
            // It was dropped when the app was switched off.
            self.apps.load_again(self.catalogue.rules());
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
    pub fn probe_drives(&mut self, now: Instant) {
        if self.probes.until_due(now) != Some(Duration::ZERO) {
            return;
        }
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
}
