//! Time without that in which a launch could not go on, so that its quiet says nothing.
//!
//! CLOCK_MONOTONIC does not count a suspension, but does count the second or so that drivers take to
//! stop and to start again. Nothing reads then, and a launch in the middle of its reads would seem to be
//! over. The same holds while an app waits behind its own prefetch, on a drive that does one thing at a
//! time; while the drive stands still, as cheap flash does to tidy up; and while the machine does, as one
//! of several on a host may.

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

/// When a launch could go on, as far as somebody looked often enough.
#[derive(Clone, Debug)]
pub struct LaunchTime {
    last: Clocks,
    /// Intervals of CLOCK_MONOTONIC in which it could not, by start and end, ascending.
    held_up: Vec<(u64, u64)>,
}

impl LaunchTime {
    /// From now on.
    pub fn new(now: Clocks) -> Self {
        LaunchTime {
            last: now,
            held_up: Vec::new(),
        }
    }

    /// Takes the clocks of now, and whether the launch is held up. If it is, or if the machine was
    /// suspended since the last call, all of the time since then does not count.
    pub fn look(&mut self, now: Clocks, held_up: bool) {
        let (start, end) = (self.last.monotonic_ns, now.monotonic_ns);
        if (held_up || now.was_suspended_since(self.last)) && end > start {
            match self.held_up.last_mut() {
                Some((_, before)) if *before == start => *before = end,
                _ => self.held_up.push((start, end)),
            }
        }
        self.last = now;
    }

    /// How long ago the last look was.
    pub fn since_last(&self, now: Clocks) -> Duration {
        Duration::from_nanos(now.monotonic_ns.saturating_sub(self.last.monotonic_ns))
    }

    /// A time of CLOCK_MONOTONIC less all before it that does not count. Order stays.
    pub fn at(&self, monotonic_ns: u64) -> u64 {
        let held_up: u64 = self
            .held_up
            .iter()
            .map(|&(start, end)| monotonic_ns.clamp(start, end) - start)
            .sum();
        monotonic_ns.saturating_sub(held_up)
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
    fn being_held_up_takes_no_time() {
        let mut time = LaunchTime::new(clocks(1000, 0));
        for ms in [1050, 1100, 3000] {
            time.look(clocks(ms, 0), true);
        }
        time.look(clocks(3050, 0), false);
        assert_eq!(time.held_up.len(), 1);
        let at = |ms| time.at(ms * MS) / MS;
        assert_eq!(
            [at(1000), at(2000), at(3000), at(3050)],
            [1000, 1000, 1000, 1050]
        );
    }

    #[test]
    fn waiting_between_the_clocks_is_no_suspension() {
        let mut time = LaunchTime::new(clocks(1000, 0));
        time.look(clocks(1050, 30), false);
        time.look(clocks(1100, 0), false);
        time.look(clocks(1150, 99), false);
        assert_eq!(time.at(1200 * MS), 1200 * MS);
    }

    #[test]
    fn now_is_now() {
        let now = Clocks::now();
        assert!(now.monotonic_ns > 0 && now.boottime_ns >= now.monotonic_ns);
    }

    proptest! {
        #[test]
        fn order_stays(
            looks in prop::collection::vec((0u64..500, 0u64..500, any::<bool>()), 0..20),
            times in prop::collection::vec(0u64..10_000, 2),
        ) {
            let (mut monotonic, mut suspended) = (1000, 0);
            let mut time = LaunchTime::new(clocks(monotonic, suspended));
            for (passed, slept, held_up) in looks {
                monotonic += passed;
                suspended += slept;
                time.look(clocks(monotonic, suspended), held_up);
            }
            let (first, second) = (times[0].min(times[1]), times[0].max(times[1]));
            prop_assert!(time.at(first * MS) <= time.at(second * MS));
            prop_assert!(time.at(second * MS) <= second * MS);
        }
    }
}
