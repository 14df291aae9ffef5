//! Time without that in which the machine was suspended, and processes stood still.
//!
//! CLOCK_MONOTONIC does not count a suspension, but does count the second or so that drivers take to
//! stop and to start again. Nothing reads then, and a launch in the middle of its reads would seem to be
//! over.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Two clocks at one moment, in nanoseconds. Their difference is how long the machine has been
/// suspended since it was booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// CLOCK_BOOTTIME.
    pub boottime_ns: u64,
}

impl Clocks {
    /// Now.
    pub fn now() -> Self {
        let ns = |time: Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        Clocks {
            monotonic_ns: ns(clock_gettime(ClockId::Monotonic)),
            boottime_ns: ns(clock_gettime(ClockId::Boottime)),
        }
    }

    /// Whether the machine was suspended between an earlier moment and this one.
    pub fn was_suspended_since(self, earlier: Clocks) -> bool {
        let suspended = |clocks: Clocks| clocks.boottime_ns.saturating_sub(clocks.monotonic_ns);
        let slept = suspended(self).saturating_sub(suspended(earlier));
        u128::from(slept) >= LEAST.as_nanos()
    }
}

/// The least that counts as a suspension: between reading one clock and the other, a thread may have to
/// wait for a processor.
const LEAST: Duration = Duration::from_millis(100);

/// When the machine was awake, as far as somebody looked often enough.
#[derive(Clone, Debug)]
pub struct AwakeTime {
    last: Clocks,
    /// Intervals of CLOCK_MONOTONIC in which the machine was suspended, by start and end, ascending.
    asleep: Vec<(u64, u64)>,
}

impl AwakeTime {
    /// From now on.
    pub fn new(now: Clocks) -> Self {
        AwakeTime {
            last: now,
            asleep: Vec::new(),
        }
    }

    /// Takes the clocks of now. If the machine was suspended since the last call, all of the time
    /// since then counts as a suspension.
    pub fn look(&mut self, now: Clocks) {
        if now.was_suspended_since(self.last) && now.monotonic_ns > self.last.monotonic_ns {
            self.asleep.push((self.last.monotonic_ns, now.monotonic_ns));
        }
        self.last = now;
    }

    /// A time of CLOCK_MONOTONIC less all suspensions before it. Order stays.
    pub fn at(&self, monotonic_ns: u64) -> u64 {
        let asleep: u64 = self
            .asleep
            .iter()
            .map(|&(start, end)| monotonic_ns.clamp(start, end) - start)
            .sum();
        monotonic_ns.saturating_sub(asleep)
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
    fn a_suspension_takes_no_time() {
        let mut awake = AwakeTime::new(clocks(1000, 70));
        awake.look(clocks(1050, 70));
        // Stopping and starting drivers took 1.2 s, the suspension an hour.
        awake.look(clocks(2250, 3_600_070));
        awake.look(clocks(2300, 3_600_070));
        let at = |ms| awake.at(ms * MS) / MS;
        assert_eq!(
            [at(900), at(1050), at(1051), at(2249)],
            [900, 1050, 1050, 1050]
        );
        assert_eq!([at(2250), at(2300)], [1050, 1100]);
    }

    #[test]
    fn waiting_between_the_clocks_is_no_suspension() {
        let mut awake = AwakeTime::new(clocks(1000, 0));
        awake.look(clocks(1050, 30));
        awake.look(clocks(1100, 0));
        awake.look(clocks(1150, 99));
        assert_eq!(awake.at(1200 * MS), 1200 * MS);
    }

    #[test]
    fn now_is_now() {
        let now = Clocks::now();
        assert!(now.monotonic_ns > 0 && now.boottime_ns >= now.monotonic_ns);
    }

    proptest! {
        #[test]
        fn order_stays(
            looks in prop::collection::vec((0u64..500, 0u64..500), 0..20),
            times in prop::collection::vec(0u64..10_000, 2),
        ) {
            let (mut monotonic, mut suspended) = (1000, 0);
            let mut awake = AwakeTime::new(clocks(monotonic, suspended));
            for (passed, slept) in looks {
                monotonic += passed;
                suspended += slept;
                awake.look(clocks(monotonic, suspended));
            }
            let (first, second) = (times[0].min(times[1]), times[0].max(times[1]));
            prop_assert!(awake.at(first * MS) <= awake.at(second * MS));
            prop_assert!(awake.at(second * MS) <= second * MS);
        }
    }
}
