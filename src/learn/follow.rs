//! Following a traced launch until it is over (design §4.3).

use std::io;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

use super::reads::ReadCounter;
use crate::kernel::{DRAIN_INTERVAL, TraceError, Tracer};
use crate::model::LaunchLimits;
use crate::model::{Ended, Learned};
use crate::process::{Clocks, EndDetector, LaunchTime, Look};

/// What has been seen of the launch.
pub struct Follow {
    counter: ReadCounter,
    end: EndDetector,
    /// Accesses of the trace that were counted.
    counted: usize,
}

impl Follow {
    /// Begins with the launch.
    pub fn new(tracer: &mut Tracer<'_>, how: Learned, limits: LaunchLimits) -> Follow {
        let start_ns = tracer.with_trace(|trace| trace.start_ns);
        Follow {
            counter: ReadCounter::new(how),
            end: EndDetector::new(start_ns, Clocks::now(), limits),
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
        // Before fetching: a moment is only quiet if all reads up to it are known.
        let now = Clocks::now();
        tracer.drain()?;
        let (reads_ns, has_exited) = tracer.with_trace(|trace| {
            let new = &trace.accesses[self.counted..];
            self.counted = trace.accesses.len();
            let reads = new.iter().filter(|access| self.counter.is_read(access));
            let times: Vec<u64> = reads.map(|access| access.time_ns).collect();
            (times, trace.exit_ns.is_some())
        });
        if has_exited {
            return Ok(Some(Ended::Exit));
        }
        let look = Look {
            now,
            reads_ns: &reads_ns,
            is_behind_prefetch: behind_prefetch,
        };
        Ok(self.end.look(look, tracer.threads()))
    }

    /// When the launch could go on.
    pub fn into_time(self) -> LaunchTime {
        self.end.into_time()
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
