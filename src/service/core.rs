//! The event loop: one thread, which owns all state.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::active::{Active, TICK};
use super::catalogue::Catalogue;
use super::learners::Learners;
use super::message::Message;
use super::notify::Notifier;
use super::packages::{Packages, REST};
use super::start::{manage, read_profiles};
use super::waits::Waits;
use super::wake::{Inbox, Outbox};
use super::worker::Worker;
use super::{Places, daily};
use crate::kernel::Watch;
use crate::policy::Observation;
use crate::process::signals;
use crate::profile::Store;
use crate::service::announce;
use crate::service::cached_profile::CachedProfile;
use crate::service::config::Config;
use crate::service::control::bus::Bus;
use crate::service::exec_gate::Holding;
use crate::service::pending_execs::PendingExecs;
use crate::service::registry::Registry;

/// The service.
pub struct Service<'obj> {
    pub(super) places: Places,
    pub(super) config: Config,
    pub(super) watch: Watch<'obj>,
    pub(super) registry: Registry,
    pub(super) store: Store,
    pub(super) catalogue: Catalogue,
    /// Profiles by app.
    pub(super) ready: HashMap<String, CachedProfile>,
    /// Launches under way, by number.
    pub(super) active: HashMap<u64, Active>,
    pub(super) holding: Holding,
    pub(super) learners: Learners,
    pub(super) socket: Option<announce::Socket>,
    pub(super) file: Option<announce::FetchAppFile>,
    pub(super) bus: Option<Bus>,
    pub(super) worker: Worker,
    pub(super) inbox: Inbox<Message>,
    pub(super) outbox: Outbox<Message>,
    pub(super) notifier: Notifier,
    pub(super) packages: Option<Packages>,
    pub(super) signals: OwnedFd,
    pub(super) state: ServiceState,
}

/// What is only counted and told.
pub(super) struct ServiceState {
    pub since_s: u64,
    pub launches_seen: u64,
    pub abilities: Vec<String>,
    /// What is wrong, the latest last.
    pub warnings: Vec<String>,
    /// Calls of execve that no path has told the app of.
    pub calls: PendingExecs,
    /// Unknown programs that read much: how often their launches looked like an app's.
    pub large: HashMap<String, super::discover::Suspect>,
    /// When the profiles are looked through next.
    pub daily: Instant,
    /// When systemd wants to hear of us next.
    pub alive: Option<Instant>,
    /// State of the random numbers that decide which launches go without.
    pub random: u64,
    pub waits: Waits,
    /// Whether launches can be learned at all.
    pub can_learn: bool,
}

/// Warnings that are kept for `status`.
const WARNINGS: usize = 16;

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Stop,
}

impl Service<'_> {
    /// Works until a signal asks to end.
    ///
    /// # Errors
    /// When waiting fails, or the kernel's events cannot be read: nothing can be done then.
    pub fn run(&mut self) -> io::Result<()> {
        loop {
            self.wait()?;
            let seen = self.watch.take().map_err(io::Error::other)?;
            for seen in seen {
                self.on_seen(seen);
            }
            self.on_held();
            self.on_announced();
            for message in self.inbox.take() {
                self.on_message(message);
            }
            if self.on_signals()? == Next::Stop {
                return Ok(());
            }
            self.on_packages();
            self.on_time();
        }
    }

    /// Sleeps until something happens, or something is to be done.
    fn wait(&self) -> io::Result<()> {
        let mut fds = Vec::with_capacity(7);
        for fd in [
            Some(self.watch.fd()),
            self.holding.fd(),
            Some(self.inbox.fd()),
            Some(self.signals.as_fd()),
            self.packages.as_ref().map(Packages::fd),
            self.socket.as_ref().map(|socket| socket.as_fd()),
            self.file.as_ref().map(|file| file.as_fd()),
        ]
        .into_iter()
        .flatten()
        {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        let timeout = self
            .timeout()
            .map(|timeout| Timespec::try_from(timeout).map_err(io::Error::other))
            .transpose()?;
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.active.is_empty() || !self.state.calls.is_empty() {
            return Some(TICK);
        }
        let now = Instant::now();
        let next = self
            .state
            .alive
            .map_or(self.state.daily, |alive| alive.min(self.state.daily));
        Some(next.saturating_duration_since(now))
    }

    /// Has the profiles looked through once a package manager has come to rest.
    fn on_packages(&mut self) {
        match self.packages.as_ref().map(Packages::have_changed) {
            Some(Ok(true)) => self.state.daily = Instant::now() + REST,
            Some(Ok(false)) | None => {}
            Some(Err(error)) => {
                self.packages = None;
                self.warn(format!("updates of packages are not heard of: {error}"));
            }
        }
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        self.look_at_active(now);
        if self.state.alive.is_some_and(|alive| alive <= now) {
            self.notifier.say("WATCHDOG=1");
            self.state.alive = self.notifier.interval().map(|interval| now + interval);
        }
        if self.state.daily <= now {
            self.state.daily = now + daily::INTERVAL;
            self.look_through_profiles();
        }
    }

    fn on_signals(&mut self) -> io::Result<Next> {
        while let Some(received) = signals::read(&self.signals)? {
            match received.signal {
                libc::SIGHUP => match self.read_config_again() {
                    Ok(()) => tracing::info!("the configuration was read again"),
                    Err(why) => self.warn(format!("{why}; the old configuration stays")),
                },
                _ => return Ok(Next::Stop),
            }
        }
        Ok(Next::GoOn)
    }

    /// Reads the configuration again.
    pub(super) fn read_config_again(&mut self) -> Result<(), String> {
        let config = Config::load(&self.places.config_dir).map_err(|error| error.to_string())?;
        let mode_changed = config.mode != self.config.mode;
        if config.watch.early != self.config.watch.early {
            self.warn("watch.early takes effect when the service is started again".to_owned());
        }
        self.config = config;
        self.find_candidates();
        self.load_again();
        if mode_changed && let Some(bus) = &self.bus {
            bus.mode_changed();
        }
        Ok(())
    }

    /// Has the profiles read again: the user may have learned an app by hand.
    pub(super) fn load_again(&self) {
        let (store, outbox) = (self.store.clone(), self.outbox.clone());
        let known: Vec<String> = self.ready.keys().cloned().collect();
        self.worker.run(move |_| match read_profiles(&store) {
            Ok((found, warnings)) => {
                outbox.send(Message::Profiles { found, known });
                for warning in warnings {
                    outbox.send(Message::Warning(warning));
                }
            }
            Err(error) => {
                outbox.send(Message::Warning(error.to_string()));
            }
        });
    }

    /// The profiles were read again.
    pub(super) fn on_profiles(&mut self, found: HashMap<String, CachedProfile>, known: &[String]) {
        for id in known.iter().filter(|id| !found.contains_key(*id)) {
            // Forgotten; should it be launched again, it begins anew.
            self.ready.remove(id);
            self.registry.remove(id);
        }
        for (id, ready) in found {
            let old = self.ready.insert(id.clone(), ready.clone());
            if old.is_some_and(|old| old.packed == ready.packed) {
                continue;
            }
            manage(&mut self.registry, &id, &ready);
            let observation = Observation::Learned {
                class: ready.class,
                history: &ready.history,
                waiting_us: None,
            };
            self.decide(&id, &observation);
        }
        self.watch_for_launches();
        self.save();
    }

    /// Says what is wrong, in the log and in `status`.
    pub(super) fn warn(&mut self, warning: String) {
        tracing::warn!("{warning}");
        self.state.warnings.retain(|known| *known != warning);
        if self.state.warnings.len() == WARNINGS {
            self.state.warnings.remove(0);
        }
        self.state.warnings.push(warning);
    }

    /// Has the registry written.
    pub(super) fn save(&self) {
        let bytes = self.registry.encode();
        let path = self.registry.path().to_owned();
        let dir = self.places.state_dir.clone();
        let outbox = self.outbox.clone();
        self.worker.run(move |_| {
            // Somebody may have removed the directory.
            let failed = match (Store::create(&dir), bytes) {
                (Err(error), _) => Some(error.to_string()),
                (Ok(_), Err(error)) => Some(error.to_string()),
                (Ok(_), Ok(bytes)) => Registry::write(&path, &bytes)
                    .err()
                    .map(|error| error.to_string()),
            };
            if let Some(why) = failed {
                outbox.send(Message::Warning(why));
            }
        });
    }

    /// Any number without a pattern (xorshift64*): which launches are withheld should follow no rhythm.
    pub(super) fn random(&mut self) -> u64 {
        let mut x = self.state.random;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.state.random = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}
