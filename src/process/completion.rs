//! When a launch is complete (paper §4.2): fewer than 10 block reads in a second.
//!
//! The *completion block* is the first read that is followed by such a quiet window. Windows start
//! at a read, exclude it, and are as long as [`Limits::window`]: the launch is complete at the end
//! of the first window `(t, t + window]` with fewer than [`Limits::min_reads`] reads in it. A launch
//! that has not read anything yet is never quiet, so one whose data are all cached ends by exit or
//! by the time limit.
//!
//! There are two forms with one meaning: [`completion_block`] looks at a finished trace,
//! [`QuietDetector`] follows a launch under way. Times are nanoseconds of one clock, whichever.

use std::collections::VecDeque;

use crate::model::Ended;
use crate::model::LaunchLimits;

/// Index in `read_times_ns` of the completion block.
///
/// `read_times_ns` holds the times of the block reads, ascending; those before `start_ns` are not
/// the launch's. `end_ns` is when the trace ended: a quiet window counts only if it was watched to
/// its end, and only if it ended within the time limit. `None` if there is no such window.
pub fn completion_block(
    read_times_ns: &[u64],
    start_ns: u64,
    end_ns: u64,
    limits: &LaunchLimits,
) -> Option<usize> {
    let window = limits.window_ns();
    let end = end_ns.min(limits.last_ns(start_ns));
    let first = read_times_ns.partition_point(|&time| time < start_ns);
    (first..read_times_ns.len())
        .take_while(|&i| read_times_ns[i].saturating_add(window) <= end)
        .find(|&i| {
            // Fewer than `min_reads` follow exactly if the `min_reads`th to follow is too late.
            limits.min_reads > 0
                && read_times_ns
                    .get(i.saturating_add(limits.min_reads))
                    .is_none_or(|&time| time > read_times_ns[i].saturating_add(window))
        })
}

/// Follows the reads of a launch under way and says when it is complete.
#[derive(Clone, Debug)]
pub struct QuietDetector {
    limits: LaunchLimits,
    start_ns: u64,
    /// The latest `min_reads` reads. A window that starts at the oldest of them holds fewer than
    /// `min_reads` reads for as long as no other read comes.
    latest: VecDeque<u64>,
    /// End of the first quiet window, once a later read has proved it.
    quiet_ns: Option<u64>,
}

impl QuietDetector {
    /// For a launch that starts at `start_ns`.
    pub fn new(start_ns: u64, limits: LaunchLimits) -> Self {
        QuietDetector {
            limits,
            start_ns,
            latest: VecDeque::new(),
            quiet_ns: None,
        }
    }

    /// Takes note of a block read. Reads before the start are not the launch's. One that is older
    /// than the read before it (events of several CPUs arrive almost in order) counts as
    /// simultaneous with it.
    pub fn read(&mut self, time_ns: u64) {
        if time_ns < self.start_ns || self.limits.min_reads == 0 || self.quiet_ns.is_some() {
            return;
        }
        let time_ns = self.latest.back().map_or(time_ns, |&t| t.max(time_ns));
        // Settled here, so that it does not matter how often anyone asks.
        if let Some(end) = self.window_end().filter(|&end| end < time_ns) {
            self.quiet_ns = Some(end);
            return;
        }
        if self.latest.len() == self.limits.min_reads {
            self.latest.pop_front();
        }
        self.latest.push_back(time_ns);
    }

    /// Whether, and why, the launch is over at `now_ns`, given that all reads up to then were
    /// noted: `Some(Ended::Quiet)`, `Some(Ended::Timeout)`, or `None` while it goes on.
    pub fn ended(&self, now_ns: u64) -> Option<Ended> {
        let last = self.limits.last_ns(self.start_ns);
        match self.quiet_at() {
            Some(end) if end <= now_ns.min(last) => Some(Ended::Quiet),
            _ if now_ns >= last => Some(Ended::Timeout),
            _ => None,
        }
    }

    /// When to ask [`Self::ended`] next, should no further read come: the end of the window that
    /// would be quiet then, or the time limit.
    pub fn deadline_ns(&self) -> u64 {
        let last = self.limits.last_ns(self.start_ns);
        self.quiet_at().map_or(last, |end| end.min(last))
    }

    fn quiet_at(&self) -> Option<u64> {
        self.quiet_ns.or_else(|| self.window_end())
    }

    fn window_end(&self) -> Option<u64> {
        let first = self.latest.front()?;
        Some(first.saturating_add(self.limits.window_ns()))
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

    #[test]
    fn the_second_after_a_burst_is_quiet() {
        // 50 reads a millisecond apart: the first that only 9 others follow is number 40.
        let times: Vec<u64> = (0..50).map(|i| i * 1_000_000).collect();
        let found = completion_block(&times, 0, 2 * SECOND, &LaunchLimits::default());
        assert_eq!(found, Some(40));
    }

    #[test]
    fn ten_reads_in_the_second_are_not_quiet() {
        let mut times = vec![0];
        times.extend((1..=10).map(|i| i * SECOND / 10));
        let all = LaunchLimits::default();
        assert_eq!(completion_block(&times, 0, 3 * SECOND, &all), Some(1));
        times.pop();
        assert_eq!(completion_block(&times, 0, 3 * SECOND, &all), Some(0));
    }

    #[test]
    fn an_unfinished_window_proves_nothing() {
        let all = LaunchLimits::default();
        assert_eq!(completion_block(&[5], 0, SECOND + 4, &all), None);
        assert_eq!(completion_block(&[5], 0, SECOND + 5, &all), Some(0));
    }

    #[test]
    fn reads_before_the_start_are_not_the_launch() {
        let all = LaunchLimits::default();
        assert_eq!(
            completion_block(&[1, 2, 300], 100, 9 * SECOND, &all),
            Some(2)
        );
        assert_eq!(completion_block(&[1, 2], 100, 9 * SECOND, &all), None);
    }

    #[test]
    fn a_launch_without_reads_ends_by_the_time_limit() {
        let detector = QuietDetector::new(7, limits(10, 100, 1000));
        assert_eq!(detector.deadline_ns(), 1007);
        assert_eq!(detector.ended(1006), None);
        assert_eq!(detector.ended(1007), Some(Ended::Timeout));
    }

    #[test]
    fn a_quiet_window_that_outlasts_the_time_limit_is_none() {
        let mut detector = QuietDetector::new(0, limits(1, 100, 1000));
        (0..=950).step_by(50).for_each(|time| detector.read(time));
        assert_eq!(detector.deadline_ns(), 1000);
        assert_eq!(detector.ended(5000), Some(Ended::Timeout));
        let times: Vec<u64> = (0..=950).step_by(50).collect();
        assert_eq!(
            completion_block(&times, 0, 5000, &limits(1, 100, 1000)),
            None
        );
    }

    #[test]
    fn a_quiet_window_stays_found_when_reads_resume() {
        let mut detector = QuietDetector::new(0, limits(2, 100, 1000));
        for time in [0, 10, 500, 501, 502, 503] {
            detector.read(time);
        }
        assert_eq!(detector.ended(503), Some(Ended::Quiet));
        assert_eq!(detector.deadline_ns(), 100);
    }

    #[test]
    fn no_limits_overflow() {
        let forever = limits(usize::MAX, u64::MAX, u64::MAX);
        assert_eq!(completion_block(&[3], 2, u64::MAX, &forever), Some(0));
        let mut detector = QuietDetector::new(2, forever);
        detector.read(3);
        assert_eq!(detector.deadline_ns(), u64::MAX);
    }

    proptest! {
        /// At every moment the detector says quiet exactly if the trace up to then has a
        /// completion block, and for the first time a window after that block.
        #[test]
        fn both_forms_agree(
            mut times in prop::collection::vec(0u64..400, 0..60),
            start in 0u64..50,
            min_reads in 0usize..6,
            window in 0u64..40,
            timeout in 0u64..500,
        ) {
            times.sort_unstable();
            let limits = limits(min_reads, window, timeout);
            let mut detector = QuietDetector::new(start, limits);
            let mut first_quiet = None;
            let mut next = times.iter().peekable();
            for now in start..600 {
                while let Some(&time) = next.next_if(|&&time| time <= now) {
                    detector.read(time);
                }
                let quiet = detector.ended(now) == Some(Ended::Quiet);
                let block = completion_block(&times, start, now, &limits);
                prop_assert_eq!(quiet, block.is_some(), "at {}", now);
                if quiet && first_quiet.is_none() {
                    first_quiet = Some(now);
                    prop_assert_eq!(block.map(|i| times[i] + window), first_quiet);
                    prop_assert_eq!(detector.deadline_ns(), now);
                }
            }
        }

        /// The definition, word for word.
        #[test]
        fn the_completion_block_is_the_first_with_few_followers(
            mut times in prop::collection::vec(0u64..400, 0..60),
            min_reads in 0usize..6,
            window in 0u64..40,
        ) {
            times.sort_unstable();
            let limits = limits(min_reads, window, 1000);
            let quiet = |i: usize| {
                let inside = |&&time: &&u64| time <= times[i] + window;
                times[i + 1..].iter().filter(inside).count() < min_reads
            };
            let expected = (0..times.len()).find(|&i| quiet(i));
            prop_assert_eq!(completion_block(&times, 0, 1000, &limits), expected);
        }
    }
}
