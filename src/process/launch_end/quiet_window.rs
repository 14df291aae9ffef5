//! The first quiet window of a launch: rules 1, 2 and 4 of [`super`], in launch time.

use std::collections::VecDeque;

use super::LaunchOver;
use crate::model::{Ended, LaunchLimits};

/// Windows without a read after which a launch that has read nothing is over.
const IDLE_WINDOWS: u64 = 3;

/// Follows the reads of one launch. Times without another clock in their name are launch time, in
/// nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct QuietWindow {
    limits: LaunchLimits,
    start_ns: u64,
    /// The last `min_reads` reads, each in launch time and on CLOCK_MONOTONIC. A window that starts at the
    /// first of them holds fewer than `min_reads` others for as long as no further read comes.
    latest: VecDeque<(u64, u64)>,
    /// The first quiet window, once a later read has shown that it was one.
    found: Option<FoundWindow>,
}

#[derive(Clone, Copy, Debug)]
struct FoundWindow {
    end_ns: u64,
    /// The read that it started at, CLOCK_MONOTONIC; `None` for a launch that has read nothing.
    completion_ns: Option<u64>,
}

impl QuietWindow {
    /// For a launch that starts at `start_ns`.
    pub fn new(start_ns: u64, limits: LaunchLimits) -> Self {
        QuietWindow {
            limits,
            start_ns,
            latest: VecDeque::new(),
            found: None,
        }
    }

    /// Takes `count` reads that were made at `time_ns`. Reads before the start are not the launch's. Reads
    /// that are older than the one before count as simultaneous with it, because the events of several
    /// processors arrive almost, but not quite, in order.
    pub fn read(&mut self, time_ns: u64, monotonic_ns: u64, count: u64) {
        let min_reads = self.limits.min_reads;
        if count == 0 || time_ns < self.start_ns || min_reads == 0 || self.found.is_some() {
            return;
        }
        let time_ns = time_ns.max(self.latest.back().map_or(0, |last| last.0));
        // Decided now, so that it does not matter how often the caller asks.
        if let Some(window) = self.window().filter(|window| window.end_ns < time_ns) {
            self.found = Some(window);
            return;
        }
        for _ in 0..count.min(min_reads as u64) {
            if self.latest.len() == min_reads {
                self.latest.pop_front();
            }
            self.latest.push_back((time_ns, monotonic_ns));
        }
    }

    /// What has ended the launch by `now_ns`, if all reads up to then have been taken.
    pub fn ended(&self, now_ns: u64) -> Option<LaunchOver> {
        let last = self.limits.last_ns(self.start_ns);
        match self.window() {
            Some(window) if window.end_ns <= now_ns.min(last) => Some(LaunchOver {
                ended: Ended::Quiet,
                completion_ns: window.completion_ns,
            }),
            _ if now_ns >= last => Some(LaunchOver {
                ended: Ended::Timeout,
                completion_ns: None,
            }),
            _ => None,
        }
    }

    /// The first quiet window, or else the one that will be quiet if no further read comes.
    fn window(&self) -> Option<FoundWindow> {
        if self.found.is_some() || self.limits.min_reads == 0 {
            return self.found;
        }
        let length = self.limits.window_ns();
        let (begin_ns, length, completion_ns) = match self.latest.front() {
            Some(&(time_ns, monotonic_ns)) => (time_ns, length, Some(monotonic_ns)),
            None => (self.start_ns, length.saturating_mul(IDLE_WINDOWS), None),
        };
        Some(FoundWindow {
            end_ns: begin_ns.saturating_add(length),
            completion_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn limits(min_reads: usize, window: u64, timeout: u64) -> LaunchLimits {
        LaunchLimits {
            min_reads,
            window: Duration::from_nanos(window),
            timeout: Duration::from_nanos(timeout),
        }
    }

    /// The definition, word for word, on the trace of a launch that has ended: the read that the first quiet
    /// window starts at, if there is such a window. `end_ns` is how far the trace goes.
    fn quiet_in_trace(
        times: &[u64],
        start_ns: u64,
        end_ns: u64,
        limits: &LaunchLimits,
    ) -> Option<Option<u64>> {
        let window = limits.window_ns();
        let end_ns = end_ns.min(limits.last_ns(start_ns));
        let times = &times[times.partition_point(|&time| time < start_ns)..];
        if limits.min_reads == 0 {
            return None;
        }
        let idle = start_ns + window * IDLE_WINDOWS;
        if times.first().is_none_or(|&time| time > idle) {
            return (idle <= end_ns).then_some(None);
        }
        (0..times.len())
            .take_while(|&i| times[i] + window <= end_ns)
            .find(|&i| {
                let inside = |time: &&u64| **time <= times[i] + window;
                times[i + 1..].iter().filter(inside).count() < limits.min_reads
            })
            .map(|i| Some(times[i]))
    }

    fn after(times: &[u64], start_ns: u64, limits: LaunchLimits) -> QuietWindow {
        let mut window = QuietWindow::new(start_ns, limits);
        times.iter().for_each(|&time| window.read(time, time, 1));
        window
    }

    const TIMEOUT: Option<LaunchOver> = Some(LaunchOver {
        ended: Ended::Timeout,
        completion_ns: None,
    });

    fn quiet(completion_ns: Option<u64>) -> Option<LaunchOver> {
        Some(LaunchOver {
            ended: Ended::Quiet,
            completion_ns,
        })
    }

    #[test]
    fn a_launch_is_over_at_the_end_of_its_first_quiet_window() {
        let burst: Vec<u64> = (0..50).collect();
        let tens: Vec<u64> = (0..=10).map(|i| i * 100).collect();
        let steady: Vec<u64> = (0..=1900).step_by(50).collect();
        // Minimum of reads in a window of 1000 of which the limit is 2000, reads, when it is over, and how.
        for (min_reads, times, over, how) in [
            (10, &burst[..], 1040, quiet(Some(40))),
            (10, &tens[..], 1100, quiet(Some(100))),
            (10, &tens[..10], 1000, quiet(Some(0))),
            (10, &[500], 1500, quiet(Some(500))),
            (2, &[0, 10, 1500, 1501, 1502], 1000, quiet(Some(0))),
            (1, &steady, 2000, TIMEOUT),
            (0, &[5], 2000, TIMEOUT),
            // Three windows without a read are longer than the limit.
            (10, &[], 2000, TIMEOUT),
        ] {
            let window = after(times, 0, limits(min_reads, 1000, 2000));
            assert_eq!(window.ended(over - 1), None, "{times:?}");
            assert_eq!(window.ended(over), how, "{times:?}");
            assert_eq!(window.ended(over + 5000), how, "{times:?}");
        }
        let idle = after(&[1, 2], 100, limits(10, 100, 1000));
        assert_eq!((idle.ended(399), idle.ended(400)), (None, quiet(None)));
    }

    #[test]
    fn no_limits_overflow() {
        let window = after(&[3, 4], 2, limits(usize::MAX, u64::MAX, u64::MAX));
        assert_eq!(window.ended(u64::MAX), quiet(Some(3)));
    }

    proptest! {
        /// At every moment a launch under way is over exactly if the trace up to then has a quiet window.
        #[test]
        fn following_a_launch_agrees_with_the_definition_on_its_trace(
            mut times in prop::collection::vec(0u64..400, 0..60),
            start in 0u64..50,
            min_reads in 0usize..6,
            length in 0u64..40,
            timeout in 0u64..500,
        ) {
            times.sort_unstable();
            let limits = limits(min_reads, length, timeout);
            let mut window = QuietWindow::new(start, limits);
            let mut next = times.iter().peekable();
            for now in start..600 {
                while let Some(&time) = next.next_if(|&&time| time <= now) {
                    window.read(time, time, 1);
                }
                let expected = match quiet_in_trace(&times, start, now, &limits) {
                    Some(completion) => quiet(completion),
                    None if now >= start + timeout => TIMEOUT,
                    None => None,
                };
                prop_assert_eq!(window.ended(now), expected, "at {}", now);
            }
        }
    }
}
