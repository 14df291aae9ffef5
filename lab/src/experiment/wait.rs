//! Waiting for the end of a launch.

use std::time::Duration;

use anyhow::{Result, bail};
use paralfetch::kernel::{DRAIN_INTERVAL, Meter};
use paralfetch::process::{AppStatus, Exit, Supervisor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::launcher::Interrupted;
use super::live::LiveLearning;
use crate::clock::monotonic_ns;
use crate::display::Watch;

/// Shortest wait for the completion block after the window has come.
const COMPLETION_PATIENCE: Duration = Duration::from_secs(5);

/// The events that end a launch, and those that have come already.
pub(super) struct Wait {
    /// The windows, with the times at which they were mapped.
    pub windows: Vec<(Watch, Option<u64>)>,
    /// Whether launches are timed by a completion block.
    pub needs_completion: bool,
    /// The start. Times are of CLOCK_MONOTONIC in nanoseconds.
    pub begun: u64,
    /// When and how the app has ended by itself.
    pub exit: Option<(u64, Exit)>,
    /// What learns the launch live meanwhile.
    pub live: Option<LiveLearning>,
}

impl Wait {
    /// When the last window was mapped, once all are.
    pub fn window_ns(&self) -> Option<u64> {
        self.windows
            .iter()
            .map(|(_, mapped)| *mapped)
            .collect::<Option<Vec<u64>>>()?
            .into_iter()
            .max()
    }

    /// Waits until all that is waited for has come, or the app has ended.
    ///
    /// # Errors
    /// When the app ends before its window is there or fails, or all takes longer than `timeout`;
    /// [`Interrupted`].
    pub fn until_over(
        &mut self,
        meter: &mut Meter,
        supervisor: &mut Supervisor,
        timeout: Duration,
    ) -> Result<()> {
        loop {
            let completed = !self.needs_completion || meter.completed()?;
            let elapsed = Duration::from_nanos(monotonic_ns().saturating_sub(self.begun));
            let mut limit = timeout;
            if let Some(window_ns) = self.window_ns() {
                let window = Duration::from_nanos(window_ns - self.begun);
                // A launch need not read its completion block: then the window alone ends it.
                limit = limit.min(window + window.max(COMPLETION_PATIENCE));
                if completed || elapsed >= limit {
                    return Ok(());
                }
            } else if elapsed >= limit {
                bail!("the launch did not end within {} s", timeout.as_secs());
            }
            if self.exit.is_some() {
                return Ok(());
            }
            self.sleep(meter, supervisor, limit - elapsed)?;
            for (watch, mapped) in self
                .windows
                .iter_mut()
                .filter(|(_, mapped)| mapped.is_none())
            {
                *mapped = watch.poll()?.map(|window| window.at_ns);
            }
            // Only now: the time of a window is when it is looked for.
            if let Some(live) = &mut self.live {
                live.drain()?;
            }
            if let Some(exit) = supervisor.on_signals()? {
                self.exit = Some((monotonic_ns(), exit));
                if !self.windows.is_empty() && self.window_ns().is_none() {
                    bail!(
                        "the app ended without a window: {}",
                        status_text(exit.status)
                    );
                }
                if self.windows.is_empty() && exit.status != AppStatus::Code(0) {
                    bail!("the app ended with {}", status_text(exit.status));
                }
            }
            if let Some(signal) = supervisor.asked_to_end() {
                return Err(Interrupted(signal).into());
            }
        }
    }

    fn sleep(&self, meter: &Meter, supervisor: &Supervisor, mut time: Duration) -> Result<()> {
        let (wake, signals) = (meter.wake_fd(), supervisor.signal_fd());
        let mut fds = vec![
            PollFd::new(&wake, PollFlags::IN),
            PollFd::new(&signals, PollFlags::IN),
        ];
        let watches: Vec<_> = self.windows.iter().map(|(watch, _)| watch.fd()).collect();
        fds.extend(watches.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let traced = self.live.as_ref().and_then(LiveLearning::wake_fd);
        if let Some(events) = &traced {
            fds.push(PollFd::new(events, PollFlags::IN));
            time = time.min(DRAIN_INTERVAL);
        }
        let timeout = Timespec::try_from(time)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn status_text(status: AppStatus) -> String {
    match status {
        AppStatus::Code(code) => format!("status {code}"),
        AppStatus::Signal(signal) => format!("signal {signal}"),
    }
}
