//! Whether reading an app ahead before the click pays, judged by what became of the bytes.

use serde::{Deserialize, Serialize};

/// Wasted bytes for each used one, above which reading ahead does not pay. An app is chosen at a probability of a tenth in
/// some hours; over the hours in which its user launches anything, that makes at least a quarter in a day. Fewer were
/// foreseen wrongly.
const MOST_WASTED_PER_USED: u128 = 3;

/// Wasted bytes up to which nothing is concluded: a large app or some small ones, a second or some of an idle drive.
const FORGIVEN_BYTES: u64 = 256 << 20;

/// Days after which bytes count half as much. What does not pay is tried again when the waste has faded to the forgiven
/// bytes; from there on, about half of these are wasted in a week.
const HALF_LIFE_DAYS: f64 = 7.0;

/// What was read ahead before the click, for an app or a user, and what became of it within a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worth {
    /// Bytes that a launch used.
    pub used_bytes: u64,
    /// Bytes that nobody used.
    pub wasted_bytes: u64,
}

impl Worth {
    /// Whether reading ahead is worth going on.
    pub fn pays(&self) -> bool {
        let used = u128::from(self.used_bytes) * MOST_WASTED_PER_USED;
        self.wasted_bytes <= FORGIVEN_BYTES || u128::from(self.wasted_bytes) <= used
    }

    /// The worth with more bytes of both kinds.
    pub fn with(self, used_bytes: u64, wasted_bytes: u64) -> Self {
        Self {
            used_bytes: self.used_bytes.saturating_add(used_bytes),
            wasted_bytes: self.wasted_bytes.saturating_add(wasted_bytes),
        }
    }

    /// The worth after so many days: what does not pay is forgotten in the end, and tried again.
    pub fn faded(self, days: u64) -> Self {
        let left = (-(days as f64) / HALF_LIFE_DAYS).exp2();
        let fade = |bytes: u64| (bytes as f64 * left) as u64;
        Self {
            used_bytes: fade(self.used_bytes),
            wasted_bytes: fade(self.wasted_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn worth(used_bytes: u64, wasted_bytes: u64) -> Worth {
        Worth {
            used_bytes,
            wasted_bytes,
        }
    }

    #[test]
    fn three_quarters_may_be_wasted_and_a_little_always() {
        for (used, wasted, pays) in [
            (0, 0, true),
            (0, 256 * MIB, true),
            (0, 256 * MIB + 1, false),
            (100 * MIB, 300 * MIB, true),
            (100 * MIB, 300 * MIB + 1, false),
            (u64::MAX, u64::MAX, true),
            (0, u64::MAX, false),
            (u64::MAX / 4, u64::MAX, false),
        ] {
            assert_eq!(worth(used, wasted).pays(), pays, "{used} {wasted}");
        }
    }

    #[test]
    fn a_week_halves_what_is_remembered() {
        assert_eq!(worth(100 * MIB, 8 * MIB).faded(7), worth(50 * MIB, 4 * MIB));
        assert_eq!(worth(3, 1 << 40).faded(0), worth(3, 1 << 40));
        assert_eq!(worth(u64::MAX, u64::MAX).faded(u64::MAX), worth(0, 0));
    }

    #[test]
    fn what_does_not_pay_is_tried_again_some_weeks_later() {
        let wasted = worth(0, 1 << 30);
        assert!(!wasted.pays());
        assert!(!wasted.faded(13).pays());
        assert!(wasted.faded(14).pays());
    }

    #[test]
    fn sums_do_not_overflow() {
        assert_eq!(worth(1, 2).with(u64::MAX, 5), worth(u64::MAX, 7));
    }

    proptest! {
        /// More that is used never makes it pay less, more that is wasted never more.
        #[test]
        fn use_speaks_for_reading_ahead_and_waste_against_it(
            used_bytes in 0..4096 * MIB,
            wasted_bytes in 0..4096 * MIB,
            more_bytes in 0..4096 * MIB,
        ) {
            let before = worth(used_bytes, wasted_bytes);
            prop_assert!(!before.pays() || before.with(more_bytes, 0).pays());
            prop_assert!(before.pays() || !before.with(0, more_bytes).pays());
        }
    }
}
