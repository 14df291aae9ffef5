//! Following a traced launch until it is over (design §4.3).

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

use super::reads::ReadCounter;
use crate::launch::{Clocks, LaunchTime, Limits, QuietDetector, any_waits};
use crate::profile::{Ended, Learned};
use crate::trace::{DRAIN_INTERVAL, TraceError, Tracer};

/// What has been seen of the launch.
pub struct Follow {
    limits: Limits,
    /// CLOCK_MONOTONIC in nanoseconds.
    begun_ns: u64,
    counter: ReadCounter,
    quiet: QuietDetector,
    /// What the detector counts in.
    time: LaunchTime,
    /// Accesses of the trace that were counted.
    counted: usize,
}

/// Who looks again only after so long was kept from it, and the launch perhaps as well.
const LATE: Duration = DRAIN_INTERVAL.saturating_mul(2);

impl Follow {
    /// Begins with the launch.
    pub fn new(tracer: &mut Tracer<'_>, how: Learned, limits: Limits) -> Follow {
        let now = Clocks::now();
        Follow {
            limits,
            begun_ns: now.monotonic_ns,
            counter: ReadCounter::new(how),
            quiet: QuietDetector::new(tracer.with_trace(|trace| trace.start_ns), limits),
            time: LaunchTime::new(now),
            counted: 0,
        }
    }

    /// Takes in what was traced meanwhile, and says what ended the launch, if it is over. While it is
    /// `behind_prefetch`, or waits for a drive that gives it less than quiet takes, it is not called quiet.
    ///
    /// # Errors
    /// When the kernel's events cannot be read.
    pub fn look(
        &mut self,
        tracer: &mut Tracer<'_>,
        behind_prefetch: bool,
    ) -> Result<Option<Ended>, TraceError> {
        // Before fetching: a moment is only quiet if all reads up to it are known.
        let now = Clocks::now();
        tracer.drain()?;
        let (reads, has_exited) = tracer.with_trace(|trace| {
            let new = &trace.accesses[self.counted..];
            self.counted = trace.accesses.len();
            let reads = new.iter().filter(|access| self.counter.is_read(access));
            let times: Vec<u64> = reads.map(|access| access.time_ns).collect();
            (times, trace.exit_ns.is_some())
        });
        if has_exited {
            return Ok(Some(Ended::Exit));
        }
        let stands_still = self.stands_still(tracer, now, reads.len());
        self.time.look(now, behind_prefetch || stands_still);
        for read in reads {
            self.quiet.read(self.time.at(read));
        }
        Ok(self.quiet.ended(self.time.at(now.monotonic_ns)))
    }

    /// Whether the launch reads so little only because the drive or the whole machine stands still.
    fn stands_still(&self, tracer: &Tracer<'_>, now: Clocks, reads: usize) -> bool {
        let age = Duration::from_nanos(now.monotonic_ns.saturating_sub(self.begun_ns));
        // A drive that is dead is not waited for.
        if age >= self.limits.timeout {
            return false;
        }
        self.time.since_last(now) > LATE
            || reads < self.limits.min_reads && any_waits(tracer.threads())
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
