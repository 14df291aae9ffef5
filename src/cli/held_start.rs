//! Holding the app of `run` before it is started, until the first region of its schedule has arrived.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::drive::Sysfs;
use crate::model::{App, Hold};
use crate::service::CONFIG_DIR;
use crate::service::config::Config;

/// How long the profile may take to be loaded, before it is known whether the app is held.
const LOADING: Duration = Duration::from_millis(500);

/// What the prefetch thread says of an app that may be held.
pub struct HeldStart {
    has_arrived: AtomicBool,
    /// Becomes readable with it.
    ready: OwnedFd,
}

impl HeldStart {
    /// `None` unless the drive of the app's executable is one on which apps are held, or if the administrator has switched that
    /// off. Anywhere else the app does not even wait for its profile to be loaded.
    pub fn of(app: &App) -> Option<Arc<HeldStart>> {
        if !Sysfs::default().favours_readers(app.dev) {
            return None;
        }
        // The service and the shield say what is wrong with the configuration.
        let config = Config::load(Path::new(CONFIG_DIR)).ok()?;
        let ready = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        config.prefetch.hold.then(|| {
            Arc::new(HeldStart {
                has_arrived: AtomicBool::new(false),
                ready,
            })
        })
    }

    /// Nothing is to be waited for any more. For the prefetch thread.
    pub fn arrived(&self) {
        self.has_arrived.store(true, Ordering::Release);
        // It cannot be full.
        let _ = rustix::io::write(&self.ready, &1u64.to_ne_bytes());
    }

    /// Waits until everything has arrived that the app is held for, for as long as it is held at most, or until `signals`
    /// is readable. `hold` says what it is held for once that is known. Returns for how long it has waited.
    ///
    /// # Errors
    /// As poll(2); the app is started then.
    pub fn wait(
        &self,
        signals: BorrowedFd<'_>,
        hold: impl Fn() -> Option<Hold>,
    ) -> io::Result<Duration> {
        let begun = Instant::now();
        loop {
            let limit = hold().map_or(LOADING, Hold::most);
            let left = limit.saturating_sub(begun.elapsed());
            if self.has_arrived.load(Ordering::Acquire) || left.is_zero() {
                return Ok(begun.elapsed());
            }
            // Whether the profile is loaded by now is asked again after a while.
            let pause = match hold() {
                Some(_) => left,
                None => left.min(Duration::from_millis(5)),
            };
            let timeout = Timespec::try_from(pause).map_err(io::Error::other)?;
            let mut fds = [
                PollFd::from_borrowed_fd(signals, PollFlags::IN),
                PollFd::from_borrowed_fd(self.ready.as_fd(), PollFlags::IN),
            ];
            poll(&mut fds, Some(&timeout))?;
            if !fds[0].revents().is_empty() {
                return Ok(begun.elapsed());
            }
        }
    }
}
