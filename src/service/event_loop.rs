//! The event loop: turns what the kernel, timers and other threads report into events of launches.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::announce::{AnnouncedLaunch, Announcements, MOST_AT_ONCE};
use super::launch::{Launches, StateEvent, TICK};
use super::login::{self, SeatChanges};
use super::mailbox::Inbox;
use super::message::Message;
use super::notify::{NotifyState, notify, watchdog_interval};
use super::own_process::lock_code;
use super::packages::{Packages, REST};
use super::parts::{BegunLogin, Parts};
use super::watchdog::Watchdog;
use crate::kernel::{LaunchEvent, LaunchEventKind};
use crate::process::Clocks;

/// How long after the service's start the daily check of the profiles comes at the earliest: the system may be
/// starting, too.
const AFTER_START: Duration = Duration::from_secs(60);

/// How long after its start the service has come to rest: its threads have loaded, read and made ready what they need.
const STARTING: Duration = Duration::from_secs(10);

/// The service.
pub struct Service {
    pub(super) launches: Launches,
    /// The parts beside the launches.
    pub(super) parts: Parts,
    inbox: Inbox,
    announcements: Announcements,
    packages: Option<Packages>,
    signals: SignalFd,
    /// When the daily check of the profiles may come at the earliest.
    check_after: Instant,
    /// When the service's own code is locked in memory; `None` once it is.
    lock_code_at: Option<Instant>,
    /// Events and launches that the kernel side has lost so far.
    lost: u64,
    /// When slots of launches that are not known are freed, up to which launch.
    sweep_at: Option<(Instant, u64)>,
    /// When a package manager that has changed something will have come to rest.
    packages_at_rest: Option<Instant>,
    /// `None` if systemd's watchdog does not watch the service.
    watchdog: Option<Watchdog>,
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
        Service {
            launches: Launches::default(),
            parts,
            inbox,
            announcements,
            packages,
            signals,
            check_after: now + AFTER_START,
            lock_code_at: Some(now + STARTING),
            lost: 0,
            sweep_at: None,
            packages_at_rest: None,
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
            for event in self.parts.take_events()? {
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
            Some(self.inbox.fd()),
            Some(self.signals.as_fd()),
            self.packages.as_ref().map(Packages::fd),
        ];
        let announcements = self.announcements.fds(Instant::now());
        let others = self.parts.fds().chain(announcements);
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
        let others = until_watchdog.into_iter().chain(until_sweep);
        let until_lock = self
            .lock_code_at
            .map(|at| at.saturating_duration_since(now));
        let others = others.chain(self.parts.until_due(now)).chain(until_lock);
        let others = others.chain(self.announcements.rest(now));
        Some(others.fold(until_check, Duration::min))
    }

    /// Time until the files of the profiles are to be checked: once a day, and after changes of packages.
    fn until_check(&self, now: Instant) -> Duration {
        let daily = self.parts.until_check();
        let daily = daily.max(self.check_after.saturating_duration_since(now));
        self.packages_at_rest.map_or(daily, |at_rest| {
            daily.min(at_rest.saturating_duration_since(now))
        })
    }

    fn on_kernel_event(&mut self, event: &LaunchEvent) {
        match event.kind {
            LaunchEventKind::Called => {
                self.launches.called(event, Clocks::now(), &mut self.parts);
            }
            LaunchEventKind::Executed => self.launches.executed(event, &mut self.parts),
            LaunchEventKind::Ended => {
                self.launches
                    .exited(event.launch, event.time_ns, &mut self.parts);
            }
            LaunchEventKind::Large(bytes) => self.parts.has_read_much(event, bytes),
        }
    }

    /// Something has happened to a launch that may be followed.
    fn happened(&mut self, launch: u64, event: StateEvent) {
        self.launches.happened(launch, event, &mut self.parts);
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
        if let Some((launch, found)) = self.parts.announced(announced) {
            let pid = announced.pid.as_raw_nonzero().get() as u32;
            self.launches.announced(launch, pid, found, &mut self.parts);
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
                    self.launches.logged_in(launch, pid, found, &mut self.parts);
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
            Message::Programs { kind, changed } => self.parts.programs_changed(kind, changed),
            Message::Shield { started, wanted } => self.parts.shield_changed(started, wanted),
            Message::Prefetched(launch) => {
                self.parts.prefetch_ended(launch);
                self.happened(launch, StateEvent::PrefetchEnded);
            }
            Message::Likely(found) => self.parts.likely_found(found),
            Message::ReadBefore(number) => self.parts.read_before_ended(number),
            Message::Profiles { found, new, known } => {
                self.parts.profiles_loaded_again(found, new, &known);
            }
            Message::Profile { app, news } => self.parts.take_news(&app, news),
            Message::Discovered(key) => self.parts.follow_discovered(&key),
            Message::Seeds(found) => self.parts.set_seeds(found),
            Message::DesktopApps(found) => self.parts.set_desktop_apps(found),
            Message::Missed { launch, missed } => self.parts.judge_late(*launch, missed),
            Message::ReadLate { app, missed } => self.parts.take_in(&app, missed),
            Message::DrivesProbed(ended) => self.parts.drives_probed(ended),
            Message::Located(found) => self.parts.executables_located(found),
            Message::Warning(warning) => self.parts.warn(warning),
            Message::Control(call) => self.on_call(call),
            Message::AskedFor(asked) => self.answer(*asked),
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
        self.parts.warn_of_excess();
        if self.launches.is_empty() {
            self.parts.probe_drives(now);
            self.parts.go_on_warming_up(now);
        }
        if self.until_check(now).is_zero() {
            self.packages_at_rest = None;
            self.parts.refresh_profiles();
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
        for (launch, event, note) in self.parts.give_up_hanging(now) {
            let given_up = (event, note, None);
            self.launches.recorded(launch, given_up, &mut self.parts);
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
                if self.parts.too_many_hang() {
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
        let lost = self.parts.lost_events();
        if lost > self.lost {
            self.lost = lost;
            let due = now + self.parts.config().launch.rest();
            let last = self.parts.last_launch();
            self.sweep_at.get_or_insert((due, last));
        }
        let Some((_, last)) = self.sweep_at.take_if(|(at, _)| *at <= now) else {
            return;
        };
        let slots = self.parts.launches_until(last);
        for launch in self.launches.unknown(slots.into_iter()) {
            self.parts.end_unreported(launch);
        }
    }

    fn on_signals(&mut self) -> io::Result<ControlFlow<()>> {
        while let Some(received) = self.signals.read_signal()? {
            match received.ssi_signo as i32 {
                libc::SIGHUP => match self.parts.read_config_again() {
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
}
