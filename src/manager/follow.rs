//! Following a traced launch until it is over (design §4.3).

use std::io;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

use super::reads::ReadCounter;
use crate::launch::{Clocks, LaunchTime, Limits, QuietDetector};
use crate::profile::{Ended, Learned};
use crate::trace::{DRAIN_INTERVAL, TraceError, Tracer};

/// What has been seen of the launch.
pub struct Follow {
    counter: ReadCounter,
    quiet: QuietDetector,
    /// What the detector counts in.
    time: LaunchTime,
    /// Accesses of the trace that were counted.
    counted: usize,
}

impl Follow {
    /// Begins with the launch.
    pub fn new(tracer: &mut Tracer<'_>, how: Learned, limits: Limits) -> Follow {
        Follow {
            counter: ReadCounter::new(how),
            quiet: QuietDetector::new(tracer.with_trace(|trace| trace.start_ns), limits),
            time: LaunchTime::new(Clocks::now()),
            counted: 0,
        }
    }

    /// Takes in what was traced meanwhile, and says what ended the launch, if it is over. While it is
    /// `behind_prefetch`, it is not called quiet.
    ///
    /// # Errors
    /// When the kernel's events cannot be read.
    pub fn look(
        &mut self,
        tracer: &mut Tracer<'_>,
        behind_prefetch: bool,
    ) -> Result<Option<Ended>, TraceError> {
        let now = Clocks::now();
        self.time.look(now, behind_prefetch);
        tracer.drain()?;
        let has_exited = tracer.with_trace(|trace| {
            for access in &trace.accesses[self.counted..] {
                if self.counter.is_read(access) {
                    self.quiet.read(self.time.at(access.time_ns));
                }
            }
            self.counted = trace.accesses.len();
            trace.exit_ns.is_some()
        });
        if has_exited {
            return Ok(Some(Ended::Exit));
        }
        Ok(self.quiet.ended(self.time.at(now.monotonic_ns)))
    }

    /// When the launch could go on.
    pub fn into_time(self) -> LaunchTime {
        self.time
    }
}

/// Waits until something happens, but no longer than the kernel's buffer can take it.
///
/// # Errors
/// When waiting fails.
pub fn wait(fds: &mut [PollFd<'_>]) -> io::Result<()> {
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: DRAIN_INTERVAL.subsec_nanos().into(),
    };
    match poll(fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
