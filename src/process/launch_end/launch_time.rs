//! Launch time: CLOCK_MONOTONIC without the time in which a launch could not go on.
//!
//! CLOCK_MONOTONIC stands still in a suspension, but not in the second or so that drivers take to stop and
//! to start again.

use std::time::Duration;

use super::Clocks;

/// The least that counts as a suspension: between reading one clock and the other, a thread may have to
/// wait for a processor.
const LEAST_SUSPENSION: Duration = Duration::from_millis(100);

/// The launch time of one launch, as far as it was looked at.
#[derive(Clone, Debug)]
pub(super) struct LaunchTime {
    last: Clocks,
    /// Intervals of CLOCK_MONOTONIC that are left out, by start and end in nanoseconds, ascending.
    left_out: Vec<(u64, u64)>,
}

impl LaunchTime {
    /// From now on.
    pub fn new(now: Clocks) -> Self {
        LaunchTime {
            last: now,
            left_out: Vec::new(),
        }
    }

    /// Takes the clocks of now. The time since the last call is left out if the launch was held up, or if
    /// the machine was suspended meanwhile.
    pub fn look(&mut self, now: Clocks, is_held_up: bool) {
        let (start, end) = (self.last.monotonic_ns, now.monotonic_ns);
        if (is_held_up || was_suspended(self.last, now)) && end > start {
            match self.left_out.last_mut() {
                Some((_, before)) if *before == start => *before = end,
                _ => self.left_out.push((start, end)),
            }
        }
        self.last = now;
    }

    /// Time since the last look.
    pub fn since_last(&self, now: Clocks) -> Duration {
        Duration::from_nanos(now.monotonic_ns.saturating_sub(self.last.monotonic_ns))
    }

    /// A time of CLOCK_MONOTONIC less all before it that is left out, in nanoseconds. Order stays.
    pub fn at(&self, monotonic_ns: u64) -> u64 {
        let left_out: u64 = self
            .left_out
            .iter()
            .map(|&(start, end)| monotonic_ns.clamp(start, end) - start)
            .sum();
        monotonic_ns.saturating_sub(left_out)
    }
}

/// Whether the machine was suspended between two moments.
fn was_suspended(earlier: Clocks, later: Clocks) -> bool {
    let suspended = |clocks: Clocks| clocks.boottime_ns.saturating_sub(clocks.monotonic_ns);
    let slept = suspended(later).saturating_sub(suspended(earlier));
    u128::from(slept) >= LEAST_SUSPENSION.as_nanos()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn clocks(monotonic_ms: u64, suspended_ms: u64) -> Clocks {
        Clocks {
            monotonic_ns: monotonic_ms * MS,
            boottime_ns: (monotonic_ms + suspended_ms) * MS,
        }
    }

    #[test]
    fn a_suspension_takes_no_launch_time() {
        let mut time = LaunchTime::new(clocks(1000, 70));
        time.look(clocks(1050, 70), false);
        // Stopping and starting drivers took 1.2 s, the suspension an hour.
        time.look(clocks(2250, 3_600_070), false);
        time.look(clocks(2300, 3_600_070), false);
        let at = |ms| time.at(ms * MS) / MS;
        assert_eq!(
            [at(900), at(1050), at(1051), at(2249)],
            [900, 1050, 1050, 1050]
        );
        assert_eq!([at(2250), at(2300)], [1050, 1100]);
    }

    #[test]
    fn being_held_up_takes_no_launch_time() {
        let mut time = LaunchTime::new(clocks(1000, 0));
        for ms in [1050, 1100, 3000] {
            time.look(clocks(ms, 0), true);
        }
        time.look(clocks(3050, 0), false);
        assert_eq!(time.left_out.len(), 1);
        let at = |ms| time.at(ms * MS) / MS;
        assert_eq!(
            [at(1000), at(2000), at(3000), at(3050)],
            [1000, 1000, 1000, 1050]
        );
    }

    #[test]
    fn a_delay_between_reading_the_clocks_is_no_suspension() {
        let mut time = LaunchTime::new(clocks(1000, 0));
        time.look(clocks(1050, 30), false);
        time.look(clocks(1100, 0), false);
        time.look(clocks(1150, 99), false);
        assert_eq!(time.at(1200 * MS), 1200 * MS);
    }

    proptest! {
        #[test]
        fn launch_time_keeps_the_order_of_times(
            looks in prop::collection::vec((0u64..500, 0u64..500, any::<bool>()), 0..20),
            times in prop::collection::vec(0u64..10_000, 2),
        ) {
            let (mut monotonic, mut suspended) = (1000, 0);
            let mut time = LaunchTime::new(clocks(monotonic, suspended));
            for (passed, slept, is_held_up) in looks {
                monotonic += passed;
                suspended += slept;
                time.look(clocks(monotonic, suspended), is_held_up);
            }
            let (first, second) = (times[0].min(times[1]), times[0].max(times[1]));
            prop_assert!(time.at(first * MS) <= time.at(second * MS));
            prop_assert!(time.at(second * MS) <= second * MS);
        }
    }
}
