//! Following a traced launch until it is over.

use std::io;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

use super::reads::ReadCounter;
use crate::kernel::{DRAIN_INTERVAL, TraceError, Tracer};
use crate::model::{LaunchLimits, Learned};
use crate::process::{Clocks, EndDetector, LaunchLook, LaunchOver, ReadSample, thread_states};

/// Looks at a traced launch again and again.
pub struct Follow {
    counter: ReadCounter,
    end: EndDetector,
    /// Accesses of the trace that were counted.
    counted: usize,
}

impl Follow {
    /// For a launch that has started just now.
    pub fn new(tracer: &mut Tracer, how: Learned, limits: LaunchLimits) -> Follow {
        let start_ns = tracer.with_trace(|trace| trace.start_ns);
        Follow {
            counter: ReadCounter::new(how),
            end: EndDetector::new(start_ns, Clocks::now(), limits),
            counted: 0,
        }
    }

    /// Fetches what was traced since the last call, and says how the launch ended, if it is over.
    ///
    /// # Errors
    /// When the kernel's events cannot be read.
    pub fn look(
        &mut self,
        tracer: &mut Tracer,
        is_prefetching: bool,
    ) -> Result<Option<LaunchOver>, TraceError> {
        let now = Clocks::now();
        tracer.drain()?;
        let (reads_ns, has_exited) = tracer.with_trace(|trace| {
            let new = &trace.accesses[self.counted..];
            self.counted = trace.accesses.len();
            let reads = new.iter().filter(|access| self.counter.is_read(access));
            let times: Vec<u64> = reads.map(|access| access.time_ns).collect();
            (times, trace.exit_ns.is_some())
        });
        let look = LaunchLook {
            now,
            reads: ReadSample::Times(&reads_ns),
            is_prefetching,
            has_exited,
        };
        Ok(self.end.look(look, thread_states(tracer.threads())))
    }
}

/// Waits until something happens, but no longer than the kernel's buffer can hold what is traced.
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
