//! Whether the order of reads that a simulation has chosen is faster than that of accesses: launches decide.

use serde::{Deserialize, Serialize};

/// By how many percent cold launches must take longer than the fastest one in the order of accesses: about the spread of
/// equal launches.
const SLOWER_PERCENT: u64 = 2;

/// Launches with the chosen order that must all be slower.
const LAUNCHES: u32 = 2;

/// How often it is said that an order is to be given up: the service may have too much to do to make another schedule, or
/// lack what it takes.
const MOST_ASKED: u32 = 3;

/// Cold launches with one kind of schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TimedLaunches {
    count: u32,
    /// The shortest, in microseconds. Disturbances only make launches longer.
    fastest_us: u64,
}

/// The launches of one app by the order of its reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderTrial {
    as_accessed: TimedLaunches,
    chosen: TimedLaunches,
    /// The chosen order was slower.
    is_refuted: bool,
    /// How often that was said.
    #[serde(default)]
    asked: u32,
}

impl OrderTrial {
    /// Takes a cold, prefetched launch. True if the chosen order is to be given up, since two launches with it were slower
    /// than one in the order of accesses; also of launches that follow with it, but not for ever. Without a launch in the order
    /// of accesses there is nothing to compare.
    pub fn next(&mut self, is_chosen: bool, duration_us: u64) -> bool {
        let launches = match is_chosen {
            true => &mut self.chosen,
            false => &mut self.as_accessed,
        };
        launches.fastest_us = match launches.count {
            0 => duration_us,
            _ => launches.fastest_us.min(duration_us),
        };
        launches.count = launches.count.saturating_add(1);
        if !is_chosen || self.as_accessed.count == 0 || self.chosen.count < LAUNCHES {
            return false;
        }
        let bound = u128::from(self.as_accessed.fastest_us) * u128::from(100 + SLOWER_PERCENT);
        self.is_refuted = u128::from(self.chosen.fastest_us) * 100 > bound;
        let is_asked = self.is_refuted && self.asked < MOST_ASKED;
        self.asked += u32::from(is_asked);
        is_asked
    }

    /// Whether a simulation may choose the order.
    pub fn may_choose(&self) -> bool {
        !self.is_refuted
    }

    /// There is another set of pages: the times so far are not comparable with those to come.
    pub fn learned(&mut self) {
        *self = OrderTrial {
            is_refuted: self.is_refuted,
            asked: self.asked,
            ..OrderTrial::default()
        };
    }

    /// A drive was measured: by another model, another order may be chosen.
    pub fn drive_measured(&mut self) {
        self.chosen = TimedLaunches::default();
        self.is_refuted = false;
        self.asked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_slower_launches_refute_the_chosen_order_until_the_drive_is_measured() {
        let mut trial = OrderTrial::default();
        assert!(!trial.next(false, 1000));
        assert!(!trial.next(false, 900));
        assert!(!trial.next(true, 1000));
        assert!(trial.next(true, 919));
        // The schedule was not made. Without a launch sequence, it cannot.
        assert!(trial.next(true, 919) && trial.next(true, 919) && !trial.next(true, 919));
        assert!(!trial.may_choose());
        trial.learned();
        assert!(!trial.may_choose());
        trial.drive_measured();
        assert!(trial.may_choose());
    }

    #[test]
    fn one_launch_proves_little_and_a_faster_one_clears_the_order() {
        let mut trial = OrderTrial::default();
        trial.next(false, 900);
        assert!(!trial.next(true, 2000));
        assert!(!trial.next(true, 918));
        assert!(!trial.next(true, 5000));
        assert!(trial.may_choose());
    }

    #[test]
    fn nothing_is_refuted_by_launches_of_another_set_or_by_none() {
        let mut trial = OrderTrial::default();
        for _ in 0..3 {
            assert!(!trial.next(true, 1000));
        }
        trial.next(false, 100);
        trial.learned();
        for _ in 0..3 {
            assert!(!trial.next(true, 1000));
        }
    }
}
