//! When a launch that somebody watches is over: as [`super::QuietDetector`] says, in the time in which the
//! launch could go on.

use std::time::Duration;

use super::completion::QuietDetector;
use super::launch_time::{Clocks, LaunchTime};
use super::processes::Threads;
use crate::model::Ended;
use crate::model::LaunchLimits;

/// What has been seen of the launch so far.
#[derive(Clone, Debug)]
pub struct EndDetector {
    limits: LaunchLimits,
    /// CLOCK_MONOTONIC in nanoseconds.
    start_ns: u64,
    quiet: QuietDetector,
    /// What the detector counts in.
    time: LaunchTime,
    threads: Threads,
}

/// One look at the launch.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// When it began: all reads before are known.
    pub now: Clocks,
    /// Times of block reads since the last look, CLOCK_MONOTONIC in nanoseconds.
    pub reads_ns: &'a [u64],
    /// The launch waits behind its own prefetch, and its quiet says nothing.
    pub is_behind_prefetch: bool,
}

/// Who looks again only after so long was kept from it, and the launch perhaps as well.
const LATE: Duration = Duration::from_millis(500);

impl EndDetector {
    /// For a launch that began at `start_ns` (CLOCK_MONOTONIC in nanoseconds), and is to be looked at from
    /// now on, every quarter of a second or more often.
    pub fn new(start_ns: u64, now: Clocks, limits: LaunchLimits) -> Self {
        EndDetector {
            limits,
            start_ns,
            quiet: QuietDetector::new(start_ns, limits),
            time: LaunchTime::new(now),
            threads: Threads::new(now.boottime_ns),
        }
    }

    /// Says what ended the launch, if it is over. While its `threads` wait for a drive, or for a processor,
    /// that gives them less than quiet takes, it is not called quiet.
    pub fn look(&mut self, look: Look<'_>, threads: impl Iterator<Item = i32>) -> Option<Ended> {
        let Look { now, reads_ns, .. } = look;
        let held_up = look.is_behind_prefetch || self.stands_still(now, reads_ns.len(), threads);
        self.time.look(now, held_up);
        for &read in reads_ns {
            self.quiet.read(self.time.at(read));
        }
        self.quiet.ended(self.time.at(now.monotonic_ns))
    }

    /// Whether the launch reads so little only because the drive or the machine gives it nothing.
    fn stands_still(
        &mut self,
        now: Clocks,
        reads: usize,
        threads: impl Iterator<Item = i32>,
    ) -> bool {
        // A drive that is dead is not waited for.
        if self.is_past_limit(now) {
            return false;
        }
        self.time.since_last(now) > LATE
            || reads < self.limits.min_reads && self.threads.are_held_up(threads, now.boottime_ns)
    }

    /// Whether the time limit has passed, all time counted.
    pub fn is_past_limit(&self, now: Clocks) -> bool {
        let age = Duration::from_nanos(now.monotonic_ns.saturating_sub(self.start_ns));
        age >= self.limits.timeout
    }

    /// When the launch could go on.
    pub fn into_time(self) -> LaunchTime {
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn look(detector: &mut EndDetector, ms: u64, reads_ms: &[u64], behind: bool) -> Option<Ended> {
        let reads_ns: Vec<u64> = reads_ms.iter().map(|ms| ms * MS).collect();
        let look = Look {
            now: at(ms),
            reads_ns: &reads_ns,
            is_behind_prefetch: behind,
        };
        detector.look(look, std::iter::empty())
    }

    fn at(ms: u64) -> Clocks {
        Clocks {
            monotonic_ns: ms * MS,
            boottime_ns: ms * MS,
        }
    }

    fn detector() -> EndDetector {
        EndDetector::new(1000 * MS, at(1000), LaunchLimits::default())
    }

    #[test]
    fn a_second_without_reads_is_the_end() {
        let mut detector = detector();
        assert_eq!(look(&mut detector, 1250, &[1010], false), None);
        for ms in [1500, 1750, 2000] {
            assert_eq!(look(&mut detector, ms, &[], false), None);
        }
        assert_eq!(look(&mut detector, 2250, &[], false), Some(Ended::Quiet));
    }

    #[test]
    fn time_behind_a_prefetch_and_time_that_nobody_saw_do_not_count() {
        let mut detector = detector();
        assert_eq!(look(&mut detector, 1250, &[1010], false), None);
        assert_eq!(look(&mut detector, 1500, &[], true), None);
        assert_eq!(look(&mut detector, 9000, &[], false), None);
        for ms in [9250, 9500] {
            assert_eq!(look(&mut detector, ms, &[], false), None);
        }
        assert_eq!(look(&mut detector, 9770, &[], false), Some(Ended::Quiet));
    }

    #[test]
    fn the_time_limit_counts_all_time() {
        let mut detector = detector();
        assert_eq!(look(&mut detector, 30_999, &[], true), None);
        assert!(!detector.is_past_limit(at(30_999)) && detector.is_past_limit(at(31_000)));
    }
}
