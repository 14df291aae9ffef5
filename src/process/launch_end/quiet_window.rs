//! The first quiet window of a launch: rules 1, 2 and 4 of [`super`], in launch time.

use std::collections::VecDeque;

use super::LaunchOver;
use crate::model::Ended;
use crate::model::LaunchLimits;

/// Windows without a read after which a launch that has read nothing is over.
const IDLE_WINDOWS: u64 = 3;

/// Follows the reads of one launch. Times without another clock in their name are launch time, in
/// nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct QuietWindow {
    limits: LaunchLimits,
    start_ns: u64,
    /// The latest reads: the shortest run at the end that holds `min_reads` of them, or all if there are
    /// fewer. A window that starts at its first read holds fewer than `min_reads` others for as long as no
    /// further read comes.
    latest: VecDeque<ReadsAt>,
    /// Reads in `latest`.
    held: u64,
    /// The first quiet window, once a later read has shown that it was one.
    found: Option<FoundWindow>,
}

/// Reads that were made at one time.
#[derive(Clone, Copy, Debug)]
struct ReadsAt {
    time_ns: u64,
    monotonic_ns: u64,
    count: u64,
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
            held: 0,
            found: None,
        }
    }

    /// Takes `count` reads that were made at `time_ns`. Reads before the start are not the launch's. Reads
    /// that are older than the one before count as simultaneous with it, because the events of several
    /// processors arrive almost, but not quite, in order.
    pub fn read(&mut self, time_ns: u64, monotonic_ns: u64, count: u64) {
        let min_reads = self.limits.min_reads as u64;
        if count == 0 || time_ns < self.start_ns || min_reads == 0 || self.found.is_some() {
            return;
        }
        let last = self.latest.back();
        let time_ns = last.map_or(time_ns, |last| last.time_ns.max(time_ns));
        // Decided now, so that it does not matter how often the caller asks.
        if let Some(window) = self.window().filter(|window| window.end_ns < time_ns) {
            self.found = Some(window);
            return;
        }
        self.latest.push_back(ReadsAt {
            time_ns,
            monotonic_ns,
            count,
        });
        self.held = self.held.saturating_add(count);
        while let Some(first) = self.latest.front()
            && self.held.saturating_sub(first.count) >= min_reads
        {
            self.held -= first.count;
            self.latest.pop_front();
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

    /// When the launch will be over if it reads nothing more.
    pub fn deadline_ns(&self) -> u64 {
        let last = self.limits.last_ns(self.start_ns);
        self.window().map_or(last, |window| window.end_ns.min(last))
    }

    /// The first quiet window, or else the one that will be quiet if no further read comes.
    fn window(&self) -> Option<FoundWindow> {
        if self.found.is_some() || self.limits.min_reads == 0 {
            return self.found;
        }
        let length = self.limits.window_ns();
        Some(match self.latest.front() {
            Some(first) => FoundWindow {
                end_ns: first.time_ns.saturating_add(length),
                completion_ns: Some(first.monotonic_ns),
            },
            None => FoundWindow {
                end_ns: self
                    .start_ns
                    .saturating_add(length.saturating_mul(IDLE_WINDOWS)),
                completion_ns: None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn limits(min_reads: usize, window: u64, timeout: u64) -> LaunchLimits {
        LaunchLimits {
            min_reads,
            window: Duration::from_nanos(window),
            timeout: Duration::from_nanos(timeout),
        }
    }

    /// The definition, word for word, on the trace of a launch that has ended: when the first quiet window
    /// ends, and the index of the read that it starts at. `end_ns` is how far the trace goes.
    fn quiet_in_trace(
        times: &[u64],
        start_ns: u64,
        end_ns: u64,
        limits: &LaunchLimits,
    ) -> Option<(u64, Option<usize>)> {
        let window = limits.window_ns();
        let end_ns = end_ns.min(limits.last_ns(start_ns));
        let first = times.partition_point(|&time| time < start_ns);
        if limits.min_reads == 0 {
            return None;
        }
        let idle = start_ns.saturating_add(window.saturating_mul(IDLE_WINDOWS));
        if times.get(first).is_none_or(|&time| time > idle) {
            return (idle <= end_ns).then_some((idle, None));
        }
        (first..times.len())
            .map(|i| (i, times[i].saturating_add(window)))
            .take_while(|&(_, until)| until <= end_ns)
            .find(|&(i, until)| {
                let inside = |&&time: &&u64| time <= until;
                times[i + 1..].iter().filter(inside).count() < limits.min_reads
            })
            .map(|(i, until)| (until, Some(i)))
    }

    fn after(times: &[u64], start_ns: u64, limits: LaunchLimits) -> QuietWindow {
        let mut window = QuietWindow::new(start_ns, limits);
        times.iter().for_each(|&time| window.read(time, time, 1));
        window
    }

    fn quiet(completion_ns: Option<u64>) -> Option<LaunchOver> {
        Some(LaunchOver {
            ended: Ended::Quiet,
            completion_ns,
        })
    }

    const TIMEOUT: Option<LaunchOver> = Some(LaunchOver {
        ended: Ended::Timeout,
        completion_ns: None,
    });

    #[test]
    fn the_window_after_a_burst_is_quiet() {
        // 50 reads a millisecond apart: the first that only 9 others follow is number 40.
        let times: Vec<u64> = (0..50).map(|i| i * 1_000_000).collect();
        let window = after(&times, 0, LaunchLimits::default());
        assert_eq!(window.ended(SECOND), None);
        assert_eq!(window.ended(2 * SECOND), quiet(Some(40_000_000)));
    }

    #[test]
    fn ten_reads_in_a_window_are_not_quiet() {
        let mut times = vec![0];
        times.extend((1..=10).map(|i| i * SECOND / 10));
        let completion = |times: &[u64]| after(times, 0, LaunchLimits::default()).ended(3 * SECOND);
        assert_eq!(completion(&times), quiet(Some(SECOND / 10)));
        times.pop();
        assert_eq!(completion(&times), quiet(Some(0)));
    }

    #[test]
    fn a_window_is_quiet_only_at_its_end() {
        let window = after(&[5], 0, LaunchLimits::default());
        assert_eq!(window.ended(SECOND + 4), None);
        assert_eq!(window.ended(SECOND + 5), quiet(Some(5)));
    }

    #[test]
    fn reads_before_the_start_are_not_the_launch() {
        let all = LaunchLimits::default();
        assert_eq!(
            after(&[1, 2, 300], 100, all).ended(2 * SECOND),
            quiet(Some(300))
        );
        assert_eq!(after(&[1, 2], 100, all).ended(2 * SECOND), None);
    }

    #[test]
    fn a_launch_without_reads_is_over_after_three_windows() {
        let window = after(&[], 7, limits(10, 100, 1000));
        assert_eq!(window.deadline_ns(), 307);
        assert_eq!(window.ended(306), None);
        assert_eq!(window.ended(307), quiet(None));
        assert_eq!(after(&[], 7, limits(10, 400, 1000)).ended(1007), TIMEOUT);
    }

    #[test]
    fn a_late_first_read_starts_a_window() {
        let window = after(&[300], 0, limits(10, 100, 1000));
        assert_eq!(window.ended(399), None);
        assert_eq!(window.ended(400), quiet(Some(300)));
    }

    #[test]
    fn without_a_number_of_reads_only_the_time_limit_ends_a_launch() {
        let window = after(&[5], 0, limits(0, 100, 1000));
        assert_eq!((window.ended(999), window.ended(1000)), (None, TIMEOUT));
    }

    #[test]
    fn a_quiet_window_beyond_the_time_limit_does_not_count() {
        let times: Vec<u64> = (0..=950).step_by(50).collect();
        let window = after(&times, 0, limits(1, 100, 1000));
        assert_eq!(window.deadline_ns(), 1000);
        assert_eq!(window.ended(5000), TIMEOUT);
    }

    #[test]
    fn a_quiet_window_stays_found_when_reads_resume() {
        let window = after(&[0, 10, 500, 501, 502, 503], 0, limits(2, 100, 1000));
        assert_eq!(window.ended(503), quiet(Some(0)));
        assert_eq!(window.deadline_ns(), 100);
    }

    #[test]
    fn no_limits_overflow() {
        let mut window = QuietWindow::new(2, limits(usize::MAX, u64::MAX, u64::MAX));
        window.read(3, 3, u64::MAX);
        window.read(4, 4, u64::MAX);
        assert_eq!(window.deadline_ns(), u64::MAX);
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
                    Some((_, read)) => quiet(read.map(|read| times[read])),
                    None if now >= start + timeout => TIMEOUT,
                    None => None,
                };
                prop_assert_eq!(window.ended(now), expected, "at {}", now);
                if expected.is_some() && window.ended(now.wrapping_sub(1)).is_none() {
                    prop_assert_eq!(window.deadline_ns(), now);
                }
            }
        }

        /// Reads that are counted together are as many reads at one time.
        #[test]
        fn counted_reads_are_reads(
            groups in prop::collection::vec((0u64..30, 0u64..8), 0..40),
            min_reads in 0usize..12,
            length in 0u64..40,
        ) {
            let limits = limits(min_reads, length, 1000);
            let mut one_by_one = QuietWindow::new(0, limits);
            let mut together = QuietWindow::new(0, limits);
            let mut time = 0;
            for (passed, count) in groups {
                time += passed;
                together.read(time, time, count);
                (0..count).for_each(|_| one_by_one.read(time, time, 1));
                prop_assert_eq!(together.ended(time), one_by_one.ended(time));
                prop_assert_eq!(together.deadline_ns(), one_by_one.deadline_ns());
            }
        }
    }
}
