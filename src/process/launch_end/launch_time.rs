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
        let slept = now.suspended_ns().saturating_sub(self.last.suspended_ns());
        let was_suspended = Duration::from_nanos(slept) >= LEAST_SUSPENSION;
        if (is_held_up || was_suspended) && end > start {
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
        let left_out = self.left_out.iter();
        let before = left_out.map(|&(start, end)| monotonic_ns.clamp(start, end) - start);
        monotonic_ns.saturating_sub(before.sum())
    }
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
    fn only_suspensions_and_standstills_take_no_launch_time() {
        let mut time = LaunchTime::new(clocks(1000, 70));
        for (ms, suspended_ms, is_held_up) in [
            // A delay between reading one clock and the other is no suspension.
            (1050, 169, false),
            (1100, 70, false),
            // Stopping and starting drivers took 1.2 s, the suspension an hour.
            (2300, 3_600_070, false),
            (2350, 3_600_070, false),
            (2400, 3_600_070, true),
            (3000, 3_600_070, true),
            (3050, 3_600_070, false),
        ] {
            time.look(clocks(ms, suspended_ms), is_held_up);
        }
        for (ms, expected) in [
            (900, 900),
            (1100, 1100),
            (1101, 1100),
            (2299, 1100),
            (2350, 1150),
            (2700, 1150),
            (3000, 1150),
            (3050, 1200),
        ] {
            assert_eq!(time.at(ms * MS), expected * MS, "{ms}");
        }
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
