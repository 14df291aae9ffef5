//! When a launch is over: the one definition that every caller uses.
//!
//! 1. *Quiet.* Fewer than [`LaunchLimits::min_reads`] block reads in a window of [`LaunchLimits::window`]
//!    end the launch (paper §4.2: 10 in a second). A window starts at a read and excludes it,
//!    `(t, t + window]`. The first read that is followed by a quiet window is the *completion block*.
//! 2. *Nothing to read.* A launch that has read nothing at all has everything cached. It is over, quiet
//!    and without a completion block, three windows after its start. One window would be too short: a
//!    program may compute for a second before its first read.
//! 3. *Exit.* The launch ends with the last task of its tree.
//! 4. *Time limit.* The launch ends after [`LaunchLimits::timeout`].
//!
//! Windows and the time limit are measured in *launch time*. That is CLOCK_MONOTONIC without the time in
//! which the launch could not go on, because a lack of reads means nothing then:
//! - while one of its threads waits uninterruptibly, as for a drive that stands still,
//! - while its threads that are ready to run get less than a quarter of a processor together,
//! - while the machine is suspended, which includes the time that drivers take to stop and start,
//! - while its own prefetch is under way,
//! - while the caller could not look, since the launch was probably kept from running, too.
//!
//! Only the suspension is left out without a bound. The other four are left out until the time limit has
//! passed on CLOCK_MONOTONIC; so a launch is over after twice the limit at the latest, even on a drive
//! that is dead.
//!
//! [`EndDetector`] is pure: [`Clocks::now`] and [`thread_states`] look at the system.

mod launch_time;
mod quiet_window;
mod starvation;
#[cfg(test)]
mod tests;
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::model::{Ended, LaunchLimits};
use crate::process::TaskState;
use launch_time::LaunchTime;
use quiet_window::QuietWindow;
use starvation::Starvation;
pub use starvation::{process_threads, thread_states};

/// Two clocks at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// CLOCK_BOOTTIME.
    pub boottime_ns: u64,
}

impl Clocks {
    /// Reads both clocks.
    pub fn now() -> Self {
        let ns = |time: Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        Clocks {
            monotonic_ns: ns(clock_gettime(ClockId::Monotonic)),
            boottime_ns: ns(clock_gettime(ClockId::Boottime)),
        }
    }

    /// How long the machine has been suspended since it was booted.
    fn suspended_ns(self) -> u64 {
        self.boottime_ns.saturating_sub(self.monotonic_ns)
    }
}

/// Block reads of a launch. Callers say which accesses count as one; in a warm launch that is learned,
/// first uses of pages take their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadSample<'a> {
    /// Times of the reads since the last look, CLOCK_MONOTONIC in nanoseconds, almost ascending.
    Times(&'a [u64]),
    /// Number of reads since the launch started, for callers that have a counter only. Those that are new
    /// count as made at this look.
    Total(u64),
}

/// What a caller saw when it looked at the launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchLook<'a> {
    /// When the look began. All reads before that must be in `reads`, so callers read the clocks first
    /// and fetch the reads then.
    pub now: Clocks,
    /// The launch's reads.
    pub reads: ReadSample<'a>,
    /// The launch's own prefetch is under way.
    pub is_prefetching: bool,
    /// The last task of the launch tree has exited.
    pub has_exited: bool,
}

/// How a launch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchOver {
    /// What ended it.
    pub ended: Ended,
    /// When the completion block was read, CLOCK_MONOTONIC in nanoseconds; `None` unless the launch read
    /// something and then fell quiet.
    pub completion_ns: Option<u64>,
}

/// Decides when a launch that is looked at again and again is over.
#[derive(Clone, Debug)]
pub struct EndDetector {
    limits: LaunchLimits,
    /// CLOCK_MONOTONIC in nanoseconds.
    start_ns: u64,
    time: LaunchTime,
    window: QuietWindow,
    starvation: Starvation,
    /// The last [`ReadSample::Total`].
    total: u64,
    over: Option<LaunchOver>,
}

/// A look that comes later than this after the one before was delayed by the machine.
const LATE: Duration = Duration::from_millis(500);

impl EndDetector {
    /// For a launch that started at `start_ns` (CLOCK_MONOTONIC in nanoseconds) and is looked at from now
    /// on.
    pub fn new(start_ns: u64, now: Clocks, limits: LaunchLimits) -> Self {
        EndDetector {
            limits,
            start_ns,
            time: LaunchTime::new(now),
            window: QuietWindow::new(start_ns, limits),
            starvation: Starvation::new(now.boottime_ns),
            total: 0,
            over: None,
        }
    }

    /// Takes a look at the launch and says how it ended, once it is over; from then on, the answer stays the
    /// same. Callers look four times in a window, or more often.
    ///
    /// `threads` are the threads of the launch tree. They are only asked for while the launch reads
    /// little, because finding them may be expensive.
    pub fn look(
        &mut self,
        look: LaunchLook<'_>,
        threads: impl IntoIterator<Item = TaskState>,
    ) -> Option<LaunchOver> {
        if self.over.is_none() && look.has_exited {
            self.over = Some(LaunchOver {
                ended: Ended::Exit,
                completion_ns: None,
            });
        }
        if self.over.is_some() {
            return self.over;
        }
        let now = look.now;
        let new_reads = match look.reads {
            ReadSample::Times(times) => times.len() as u64,
            ReadSample::Total(total) => total.saturating_sub(self.total),
        };
        let is_held_up = !self.is_past_limit(now)
            && (look.is_prefetching
                || self.time.since_last(now) > LATE
                || new_reads < self.limits.min_reads as u64
                    && self.starvation.look(threads, now.boottime_ns));
        self.time.look(now, is_held_up);
        match look.reads {
            ReadSample::Times(times) => {
                for &time in times {
                    self.window.read(self.time.at(time), time, 1);
                }
            }
            ReadSample::Total(total) => {
                let launch_ns = self.time.at(now.monotonic_ns);
                self.window.read(launch_ns, now.monotonic_ns, new_reads);
                self.total = self.total.max(total);
            }
        }
        self.over = self.window.ended(self.time.at(now.monotonic_ns));
        self.over
    }

    /// Whether the time limit has passed on CLOCK_MONOTONIC, whatever the launch could do meanwhile.
    pub fn is_past_limit(&self, now: Clocks) -> bool {
        now.monotonic_ns >= self.limits.last_ns(self.start_ns)
    }
}
