//! The event loop: turns what the kernel, timers and other threads report into events of launches.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::announce::{AnnouncedLaunch, Announcements, MOST_AT_ONCE};
use super::catalogue::FoundApp;
use super::clock::now_s;
use super::config::Config;
use super::launch::{LaunchStart, Launches, StateEvent, TICK};
use super::launch_threads::LaunchTask;
use super::login::{self, SeatChanges};
use super::mailbox::Inbox;
use super::marks::Marks;
use super::message::Message;
use super::notify::{NotifyState, notify, watchdog_interval};
use super::own_commands::OwnCommands;
use super::own_process::lock_code;
use super::packages::{Packages, REST};
use super::parts::{BegunLogin, Parts};
use super::registry::{Added, Record};
use super::warm_up::{WarmUpEvent, WarmUpOccasion};
use super::watchdog::Watchdog;
use crate::kernel::{LaunchEvent, LaunchEventKind};
use crate::model::{App, LaunchLimits, UserApp};
use crate::policy::Plan;
use crate::process::Clocks;

/// How long after the service's start the daily check of the profiles comes at the earliest: the system may be
/// starting, too.
const AFTER_START: Duration = Duration::from_secs(60);

/// How long after its start the service has come to rest: its threads have loaded, read and made ready what they need.
const STARTING: Duration = Duration::from_secs(10);

/// The service.
pub struct Service {
    pub launches: Launches,
    /// The parts beside the launches.
    pub parts: Parts,
    inbox: Inbox,
    announcements: Announcements,
    packages: Option<Packages>,
    own_commands: OwnCommands,
    signals: SignalFd,
    /// When the daily check of the profiles may come at the earliest.
    check_after: Instant,
    /// When the service's own code is locked in memory; `None` once it is.
    lock_code_at: Option<Instant>,
    /// Events and launches that the kernel side has lost so far.
    lost: u64,
    /// Executions that the kernel side has left alone so far because their user makes too many.
    excess_execs: u64,
    /// When slots of launches that are not known are freed, up to which launch.
    sweep_at: Option<(Instant, u64)>,
    /// When a package manager that has changed something will have come to rest.
    packages_at_rest: Option<Instant>,
    /// Whether launches were under way since the last look.
    had_launches: bool,
    /// `None` if systemd's watchdog does not watch the service.
    watchdog: Option<Watchdog>,
}

/// What a launch begins with.
#[derive(Clone, Copy)]
enum Beginning {
    /// A call of execve, from which on the kernel records it if a recorder is ready.
    Execve,
    /// An announcement. Nothing is recorded before that.
    Announced,
    /// A session at a seat of the system. It goes on for seconds: what is read while a recorder is made ready for it is not
    /// missed.
    Login,
}

impl Service {
    /// A service without launches.
    pub fn new(
        parts: Parts,
        inbox: Inbox,
        announcements: Announcements,
        packages: Option<Packages>,
        signals: SignalFd,
    ) -> Self {
        let now = Instant::now();
        let own_commands = OwnCommands::of_this_program(parts.places.leaves_own_commands);
        Service {
            launches: Launches::default(),
            parts,
            inbox,
            announcements,
            packages,
            own_commands,
            signals,
            check_after: now + AFTER_START,
            lock_code_at: Some(now + STARTING),
            lost: 0,
            excess_execs: 0,
            sweep_at: None,
            packages_at_rest: None,
            had_launches: false,
            watchdog: watchdog_interval().map(|interval| Watchdog::new(interval, now)),
        }
    }

    /// Works until a signal asks to end.
    ///
    /// # Errors
    /// When waiting fails, or the kernel's events cannot be read: the service cannot work then.
    pub fn run(&mut self) -> io::Result<()> {
        self.parts.begin_warm_up();
        loop {
            self.wait()?;
            let events = self.parts.kernel.take().map_err(io::Error::other)?;
            for event in events {
                self.on_kernel_event(&event);
            }
            self.on_announced();
            for message in self.inbox.take() {
                self.on_message(message);
            }
            if self.on_signals()?.is_break() {
                return Ok(());
            }
            self.on_packages();
            self.on_logins();
            self.on_time();
            self.parts.report_changes();
        }
    }

    /// Lets go of everything, writes what is known and ends.
    pub fn stop(mut self) {
        notify(NotifyState::Stopping);
        self.launches.stop(&mut self.parts);
        self.parts.finish();
    }

    /// Sleeps until something happens, or something is to be done.
    fn wait(&mut self) -> io::Result<()> {
        let timeout = self
            .timeout()
            .map(|timeout| Timespec::try_from(timeout).map_err(io::Error::other))
            .transpose()?;
        let mut fds = Vec::with_capacity(8);
        let single = [
            Some(self.parts.kernel.fd()),
            Some(self.inbox.fd()),
            Some(self.signals.as_fd()),
            self.packages.as_ref().map(Packages::fd),
        ];
        let announcements = self.announcements.fds(Instant::now());
        let others = self.parts.warm_up.fds().chain(announcements);
        for fd in single.into_iter().flatten().chain(others) {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.launches.is_empty() {
            // The socket of announcements rests no longer than that.
            return Some(TICK);
        }
        let now = Instant::now();
        let until_check = self.until_check(now);
        let until_watchdog = self.watchdog.as_ref().map(|it| it.until_next(now));
        let until_sweep = self
            .sweep_at
            .map(|(at, _)| at.saturating_duration_since(now));
        let until_given_up = self.parts.threads.until_next(now);
        let others = until_watchdog.into_iter().chain(until_sweep);
        let others = others.chain(self.parts.late_reads.until_due(now));
        let until_lock = self
            .lock_code_at
            .map(|at| at.saturating_duration_since(now));
        let others = others.chain(until_given_up).chain(until_lock);
        let others = others.chain(self.parts.probes.until_due(now));
        let others = others.chain(self.parts.warm_up.until_due(now));
        let others = others.chain(self.announcements.rest(now));
        Some(others.fold(until_check, Duration::min))
    }

    /// Time until the files of the profiles are to be checked: once a day by the time of day, since the system
    /// may be off or asleep at night, and after changes of packages.
    fn until_check(&self, now: Instant) -> Duration {
        let daily = self.parts.apps.registry.until_check(now_s());
        let daily = daily.max(self.check_after.saturating_duration_since(now));
        self.packages_at_rest.map_or(daily, |at_rest| {
            daily.min(at_rest.saturating_duration_since(now))
        })
    }

    fn on_kernel_event(&mut self, event: &LaunchEvent) {
        match event.kind {
            LaunchEventKind::Called => self.on_called(event),
            LaunchEventKind::Executed => self.on_executed(event),
            LaunchEventKind::Ended => {
                self.launches
                    .exited(event.launch, event.time_ns, &mut self.parts);
            }
            LaunchEventKind::Large(bytes) => {
                self.parts
                    .warm_up(WarmUpEvent::Occasion(WarmUpOccasion::Ended));
                if self.parts.watchlist.catalogue.is_of_system(event)
                    && let Some(path) = event.path.to_str()
                {
                    let key = UserApp::new(event.uid, path);
                    self.parts.has_read_much(key, bytes);
                }
            }
        }
    }

    /// execve was called: the earliest moment to prefetch.
    fn on_called(&mut self, event: &LaunchEvent) {
        if self.launches.follows(event.launch) {
            // It tries another directory of PATH; the app was not in the one before.
            return;
        }
        match self.parts.watchlist.catalogue.called(event) {
            Some(found) => self.begin(event.launch, event.pid, found, Beginning::Execve),
            None => {
                let now = Clocks::now();
                self.launches
                    .wait_for_exec(event.launch, event.pid, now, &mut self.parts);
            }
        }
    }

    /// execve has succeeded.
    fn on_executed(&mut self, event: &LaunchEvent) {
        let found = self.parts.watchlist.catalogue.executed(event);
        match (found, self.launches.app_of(event.launch)) {
            (Some(found), Some(key)) if *key == found.key => {
                self.launches
                    .executed(event.launch, found.app, &mut self.parts);
            }
            (Some(found), None) => {
                self.begin(event.launch, event.pid, found, Beginning::Execve);
                self.happened(event.launch, StateEvent::Executed);
            }
            (None, _) | (Some(_), Some(_)) => {
                let another = StateEvent::ExecutedAnother;
                self.launches.end(event.launch, another, &mut self.parts);
            }
        }
    }

    /// Something has happened to a launch that may be followed.
    fn happened(&mut self, launch: u64, event: StateEvent) {
        self.launches.happened(launch, event, &mut self.parts);
    }

    /// execve was called for a launch, which is followed from now on if there is room for it, its app is managed and
    /// no other command of ours has started it.
    fn begin(&mut self, launch: u64, pid: u32, found: FoundApp, beginning: Beginning) {
        let room = self.launches.has_room_for(&found.key) && !self.own_commands.have_started(pid);
        let policy = room.then(|| self.parts.plan(&found)).flatten();
        let Some(mut policy) = policy else {
            return self
                .launches
                .end(launch, StateEvent::Cancelled, &mut self.parts);
        };
        let recorders = &mut self.parts.recorders;
        let is_recorded = match beginning {
            Beginning::Execve => recorders.is_claimed(launch),
            Beginning::Announced => recorders.is_ready(),
            Beginning::Login => recorders.can_record(),
        };
        policy.is_recorded =
            is_recorded && policy.plan == Plan::Learn && recorders.has_share(found.key.uid);
        let limits = LaunchLimits::from(&self.parts.config.launch);
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
        self.parts.warm_up(WarmUpEvent::Stopped);
        self.had_launches = true;
        self.launches.begin(launch, start, &mut self.parts);
        // Behind the first requests: it starts a thread.
        if !policy.is_recorded {
            self.parts.give_recorder_up(launch);
        }
        self.parts.probes.stop();
    }

    fn on_announced(&mut self) {
        let now = Instant::now();
        for _ in 0..MOST_AT_ONCE {
            match self.announcements.receive(now) {
                Ok(Some(announced)) => self.on_announcement(&announced),
                Ok(None) => return,
                Err(error) => return self.parts.warn(error.to_string()),
            }
        }
    }

    fn on_announcement(&mut self, announced: &AnnouncedLaunch) {
        let key = announced.user_app();
        if !self.parts.apps.registry.records.contains_key(&key) {
            let name = announced.name.clone();
            let record = Record::new(key.clone(), name, Added::Announced, Marks::default());
            // Any user may announce any name.
            if !self.parts.manage_announced(record) {
                tracing::debug!(app = key.id, uid = key.uid, "announced, and not managed");
                // One warning for all names that a user may think of.
                let warning = format!(
                    "apps that processes of user {} announce are not managed: there are too many \
                     (automatic.max_apps)",
                    key.uid
                );
                return self.parts.warn(warning);
            }
        }
        match self.parts.kernel.adopt(announced.pid, announced.uid) {
            Ok(Some(launch)) => {
                let pid = announced.pid.as_raw_nonzero().get() as u32;
                let app = App {
                    uid: key.uid,
                    path: key.id.clone().into_bytes(),
                    ..App::default()
                };
                let found = FoundApp { key, app };
                self.begin(launch, pid, found, Beginning::Announced);
                self.happened(launch, StateEvent::Executed);
            }
            Ok(None) => self
                .parts
                .warn("too many launches at once: one was left alone".to_owned()),
            // The process is gone.
            Err(error) => tracing::debug!("{error}"),
        }
    }

    fn on_logins(&mut self) {
        let SeatChanges { came, left } = self.parts.take_logins();
        for uid in left {
            // His home may have to be let go of.
            if let Some(launch) = self.launches.launch_of(&login::key(uid)) {
                tracing::debug!(uid, "a login is given up: its user has left");
                self.happened(launch, StateEvent::Cancelled);
            }
        }
        for uid in came {
            match self.parts.begin_login(uid) {
                Ok(BegunLogin { launch, pid, found }) => {
                    self.begin(launch, pid, found, Beginning::Login);
                    self.happened(launch, StateEvent::Executed);
                }
                Err(why) => tracing::debug!(uid, "a login is left alone: {why}"),
            }
        }
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::RecorderKept(kept) => self.parts.recorder_kept(&kept),
            Message::Recorded { result, cached } => {
                let launch = result.launch;
                let made = self
                    .parts
                    .recorder_ended(*result, cached.map(|cached| *cached));
                self.launches.recorded(launch, made, &mut self.parts);
                self.parts.refresh_watch();
            }
            Message::Waits(changed) => {
                let needed = self.launches.any_followed();
                self.parts.waits_changed(changed, needed);
            }
            Message::Shield { started, wanted } => self.parts.shield_changed(started, wanted),
            Message::Prefetched(launch) => {
                self.parts.threads.ended(LaunchTask::Prefetch, launch);
                self.happened(launch, StateEvent::PrefetchEnded);
            }
            Message::Likely(found) => self.parts.likely_found(found),
            Message::ReadBefore(number) => self.parts.read_before_ended(number),
            Message::Profiles { found, new, known } => {
                self.parts.profiles_loaded_again(found, new, &known);
            }
            Message::Apps(apply) => {
                if let Some(warning) = apply(&mut self.parts.apps) {
                    self.parts.warn(warning);
                }
                self.parts.refresh_watch();
            }
            Message::Discovered(key) => self.parts.follow_discovered(&key),
            Message::Seeds(found) => self.parts.set_seeds(found),
            Message::DesktopApps(found) => self.parts.set_desktop_apps(found),
            Message::Missed { launch, missed } => self.parts.judge_late(*launch, missed),
            Message::ReadLate { app, missed } => self.parts.take_in(&app, missed),
            Message::DrivesProbed(ended) => self.parts.drives_probed(ended),
            Message::Located(found) => self.parts.executables_located(found),
            Message::Warning(warning) => self.parts.warn(warning),
            Message::Control(call) => call(self),
        }
    }

    /// Has the profiles checked once a package manager has come to rest.
    fn on_packages(&mut self) {
        match self.packages.as_ref().map(Packages::have_changed) {
            Some(Ok(true)) => self.packages_at_rest = Some(Instant::now() + REST),
            Some(Ok(false)) | None => {}
            Some(Err(error)) => {
                self.packages = None;
                self.parts
                    .warn(format!("updates of packages are not heard of: {error}"));
            }
        }
    }

    fn on_time(&mut self) {
        self.launches.tick(Clocks::now(), &mut self.parts);
        let now = Instant::now();
        self.parts.end_late_reads(now);
        self.give_up_hanging(now);
        self.on_watchdog(now);
        self.sweep(now);
        self.lock_code(now);
        self.warn_of_excess();
        if self.launches.is_empty() && self.parts.probes.until_due(now) == Some(Duration::ZERO) {
            self.parts.probe_drives();
        }
        self.warm_up(now);
        if self.until_check(now).is_zero() {
            self.packages_at_rest = None;
            self.parts.refresh_profiles();
        }
    }

    /// Goes on with reading ahead before launches, when none is under way.
    fn warm_up(&mut self, now: Instant) {
        if !self.launches.is_empty() {
            return;
        }
        if std::mem::take(&mut self.had_launches) {
            self.parts
                .warm_up(WarmUpEvent::Occasion(WarmUpOccasion::Ended));
        }
        if self.parts.warm_up.until_due(now) == Some(Duration::ZERO) {
            self.parts.warm_up(WarmUpEvent::Due);
        }
    }

    /// Keeps the service's own code in memory from now on, once the service has come to rest.
    fn lock_code(&mut self, now: Instant) {
        if self.launches.is_empty() && self.lock_code_at.is_some_and(|at| at <= now) {
            self.lock_code_at = None;
            if let Err(error) = lock_code() {
                let warning = format!("its own code may be read from the drive again: {error}");
                self.parts.warn(warning);
            }
        }
    }

    /// Gives up threads that take too long: their launches go on without them.
    fn give_up_hanging(&mut self, now: Instant) {
        for hanging in self.parts.threads.give_up(now) {
            let (event, note) = self.parts.give_up(&hanging);
            let given_up = (event, note, None);
            self.launches
                .recorded(hanging.launch, given_up, &mut self.parts);
            self.parts.refresh_watch();
        }
    }

    /// Tells systemd that the service works, if all of its threads do.
    fn on_watchdog(&mut self, now: Instant) {
        let due = self.watchdog.as_mut();
        let Some(watchdog) = due.filter(|it| it.until_next(now).is_zero()) else {
            return;
        };
        match watchdog.look(now, |thread| self.parts.has_thread_answered(thread)) {
            Ok(to_ask) => {
                for thread in to_ask {
                    self.parts.ask_thread(thread);
                }
                if self.parts.threads.too_many_hang() {
                    tracing::error!(
                        "too many threads that learn or prefetch hang; systemd will start the service again"
                    );
                    return;
                }
                notify(NotifyState::Watchdog);
            }
            Err(stuck) => {
                tracing::error!(
                    "threads that do not answer: {stuck:?}; systemd will start the service again"
                );
            }
        }
    }

    /// Frees the slots of launches whose beginning was reported in an event that was lost. Nothing else would ever end
    /// them. A while after the loss: a launch whose events have arrived is known by then.
    fn sweep(&mut self, now: Instant) {
        let kernel = &mut self.parts.kernel;
        let lost = kernel.lost();
        if lost > self.lost {
            self.lost = lost;
            let due = now + self.parts.config.launch.rest();
            self.sweep_at.get_or_insert((due, kernel.last_launch()));
        }
        let Some((_, last)) = self.sweep_at.take_if(|(at, _)| *at <= now) else {
            return;
        };
        let late = &self.parts.late_reads;
        let slots = kernel.launches_until(last);
        let slots = slots.filter(|&launch| !late.contains(launch));
        for launch in self.launches.unknown(slots) {
            tracing::debug!(
                launch,
                "its beginning was not reported: it is not counted any more"
            );
            kernel.end(launch);
        }
    }

    /// Says which user executes watched programs too fast. Such executions wake nobody: this is noticed when
    /// something else happens.
    fn warn_of_excess(&mut self) {
        let (count, uid) = self.parts.kernel.excess_execs();
        if count > self.excess_execs {
            self.excess_execs = count;
            self.parts.warn(format!(
                "user {uid} executes programs that are watched for more than 32 times a second: the further ones \
                 are left alone"
            ));
        }
    }

    fn on_signals(&mut self) -> io::Result<ControlFlow<()>> {
        while let Some(received) = self.signals.read_signal()? {
            match received.ssi_signo as i32 {
                libc::SIGHUP => match self.read_config_again() {
                    Ok(()) => tracing::info!("the configuration was read again"),
                    Err(why) => self
                        .parts
                        .warn(format!("{why}; the old configuration stays")),
                },
                _ => return Ok(ControlFlow::Break(())),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reads the configuration again.
    ///
    /// # Errors
    /// What is wrong with it; the old one stays in force.
    pub fn read_config_again(&mut self) -> Result<(), String> {
        let directory = &self.parts.places.config_dir;
        let config = Config::load(directory).map_err(|error| error.to_string())?;
        self.parts.configure(config);
        Ok(())
    }
}
