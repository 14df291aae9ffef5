//! Recording what a prefetched launch reads.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::kernel::{DRAIN_INTERVAL, StartMark, TraceError, TraceMode, Tracer};
use crate::learn::ReadCounter;
use crate::model::Ended;
use crate::model::LaunchLimits;
use crate::model::{Access, By, Source};
use crate::process::{
    Clocks, EndDetector, Exit, LaunchLook, ReadSample, Supervisor, thread_states,
};

/// Most accesses that are kept, of 56 bytes each; a prefetched launch has hundreds, and a launch
/// without any prefetching tens of thousands.
const MOST_ACCESSES: usize = 1 << 18;

/// Watches one prefetched launch. Attach it before the prefetch thread is started, which is known
/// for what it is by that.
pub struct Recorder {
    tracer: Tracer,
    limits: LaunchLimits,
    /// Once the launch has begun.
    end: Option<EndDetector>,
    /// Reads of the tree and of the prefetch thread: the launch goes on while either reads.
    counters: [ReadCounter; 2],
    accesses: Vec<Access>,
    /// Accesses beyond [`MOST_ACCESSES`].
    dropped: u64,
}

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Time of the app's execve, CLOCK_MONOTONIC in nanoseconds; 0 if it never came to that.
    pub start_ns: u64,
    /// When recording ended.
    pub end_ns: u64,
    /// What the launch tree and others added to the caches, and the tree's faults, in time order.
    pub accesses: Vec<Access>,
    /// Events that were lost or dropped.
    pub lost: u64,
}

impl Recorder {
    /// Loads and attaches the programs and makes the calling thread, which must be the process's
    /// main thread, the launcher. `limits` say when the launch is over.
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn attach(limits: LaunchLimits) -> Result<Self, TraceError> {
        Ok(Recorder {
            tracer: Tracer::attach(TraceMode::Additions)?,
            limits,
            end: None,
            counters: [By::Tree, By::Own].map(ReadCounter::joined),
            accesses: Vec::new(),
            dropped: 0,
        })
    }

    /// What the child must set as its last act before execve.
    pub fn start_mark(&self) -> StartMark {
        self.tracer.start_mark()
    }

    /// Records the launch to its end, passing on signals meanwhile. Returns the app's exit, if it has
    /// ended by then; otherwise it runs on, untraced.
    ///
    /// `learned` says how the launch ended that the profile was learned from, once that is known. If that
    /// launch fell quiet or ran into the time limit, so may this one, where reads of the tree and of the
    /// prefetch thread count. Otherwise it ends with its last task, or by the time limit. When the first
    /// process has exited, recording goes on for `patience` at most.
    ///
    /// # Errors
    /// When supervising fails. An error of tracing is returned beside the exit.
    pub fn follow(
        mut self,
        supervisor: &mut Supervisor,
        learned: impl Fn() -> Option<Ended>,
        patience: Duration,
    ) -> io::Result<(Option<Exit>, Result<Recording, TraceError>)> {
        let mut exit: Option<(Exit, Instant)> = None;
        loop {
            let signals = exit.is_none().then(|| supervisor.signal_fd());
            wait(self.tracer.wake_fd(), signals)?;
            if exit.is_none() {
                exit = supervisor.on_signals()?.map(|exit| (exit, Instant::now()));
            }
            match self.is_over(learned()) {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => return Ok((exit.map(|(exit, _)| exit), Err(error))),
            }
            if let Some((_, at)) = exit {
                let may_go_on = matches!(learned(), Some(Ended::Quiet | Ended::Timeout));
                if !may_go_on || at.elapsed() >= patience {
                    break;
                }
            }
        }
        Ok((exit.map(|(exit, _)| exit), self.finish()))
    }

    /// Fetches what was recorded; true if the launch is over.
    fn is_over(&mut self, learned: Option<Ended>) -> Result<bool, TraceError> {
        let now = Clocks::now();
        self.tracer.drain()?;
        let (start_ns, has_exited) = self
            .tracer
            .with_trace(|trace| (trace.start_ns, trace.exit_ns.is_some()));
        let fetched = self.tracer.take_accesses();
        let counters = &mut self.counters;
        let reads = fetched.iter().filter(|access| {
            let reads = |counter: &mut ReadCounter| counter.is_read(access);
            counters.iter_mut().any(reads)
        });
        let reads_ns: Vec<u64> = reads.map(|access| access.time_ns).collect();
        let limits = self.limits;
        let end = self
            .end
            .get_or_insert_with(|| EndDetector::new(start_ns, now, limits));
        let look = LaunchLook {
            now,
            reads: ReadSample::Times(&reads_ns),
            // The prefetch thread's reads are among those that are counted.
            is_prefetching: false,
            has_exited,
        };
        let over = end.look(look, thread_states(self.tracer.threads()));
        let is_over = match over {
            None => false,
            Some(over) if over.ended == Ended::Quiet => {
                // A launch that did not fall quiet when it was learned may pause before its end.
                has_exited
                    || matches!(learned, Some(Ended::Quiet | Ended::Timeout))
                    || end.is_past_limit(now)
            }
            Some(_) => true,
        };
        self.keep(fetched);
        Ok(is_over)
    }

    fn keep(&mut self, fetched: Vec<Access>) {
        for access in fetched.into_iter().filter(is_wanted) {
            if self.accesses.len() < MOST_ACCESSES {
                self.accesses.push(access);
            } else {
                self.dropped += 1;
            }
        }
    }

    /// Ends recording and returns everything since it was attached, for callers that know the end of a
    /// launch themselves.
    ///
    /// # Errors
    /// When the events cannot be fetched.
    pub fn finish(mut self) -> Result<Recording, TraceError> {
        let end_ns = Clocks::now().monotonic_ns;
        let accesses = std::mem::take(&mut self.accesses);
        let dropped = self.dropped;
        let mut trace = self.tracer.finish()?;
        let mut recording = Recording {
            start_ns: trace.start_ns,
            end_ns,
            accesses,
            lost: trace.lost + dropped,
        };
        trace.accesses.retain(is_wanted);
        recording.accesses.append(&mut trace.accesses);
        recording.accesses.sort_by_key(|access| access.time_ns);
        Ok(recording)
    }
}

/// Whether the report needs this access. Additions by the prefetch thread are left out.
fn is_wanted(access: &Access) -> bool {
    match access.source {
        Source::Added => access.by != By::Own,
        Source::Fault => access.by == By::Tree,
        Source::Read | Source::Window | Source::LookedUp => false,
    }
}

/// Waits for an event or a signal, but no longer than the kernel's buffer can hold what is traced.
fn wait(events: BorrowedFd<'_>, signals: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut fds = vec![PollFd::from_borrowed_fd(events, PollFlags::IN)];
    fds.extend(signals.map(|signals| PollFd::from_borrowed_fd(signals, PollFlags::IN)));
    let timeout = Timespec::try_from(DRAIN_INTERVAL).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
