//! The 10 % rule: back to learning when the app reads too much itself (paper §4.3).

use serde::{Deserialize, Serialize};

/// Reads of the launch tree for what the profile does not hold, in percent of the read requests of a cold launch
/// without prefetching, above which the app is learned again (paper §4.3).
const MISSED_PERCENT: u64 = 10;

/// After learning again in vain this many times, the number of bad launches that lead to the next
/// stops doubling, at 64.
const MOST_DOUBLINGS: u32 = 6;

/// Good launches in a row that take back one doubling.
const FORGIVEN_AFTER: u32 = 8;

/// The 10 % rule, with a back-off.
///
/// The paper's rule alone would let an app whose launches differ from one another (a different
/// document each time) learn at every launch and never be prefetched. So the first bad launch leads
/// back to learning, as in the paper; if that did not help, the next time takes two bad launches, then
/// four, and so on. A good launch takes back a bad one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relearning {
    /// Bad launches since the app was learned.
    bad: u32,
    /// Good launches since the last bad one.
    good: u32,
    /// Times that the app was learned again, less those forgiven.
    times: u32,
}

impl Relearning {
    /// Whether a launch is bad that missed so many of the read requests of a cold launch.
    pub fn is_bad(missed: u64, cold_requests: u64) -> bool {
        u128::from(missed) * 100 > u128::from(cold_requests) * u128::from(MISSED_PERCENT)
    }

    /// Takes a prefetched launch whose tree made `missed` read requests for what the profile does not hold. A
    /// cold launch without prefetching makes `cold_requests`. True if the app is to be learned again.
    pub fn next(&mut self, missed: u64, cold_requests: u64) -> bool {
        if !Self::is_bad(missed, cold_requests) {
            self.bad = self.bad.saturating_sub(1);
            self.good += 1;
            if self.good == FORGIVEN_AFTER {
                self.good = 0;
                self.times = self.times.saturating_sub(1);
            }
            return false;
        }
        self.good = 0;
        self.bad += 1;
        let again = self.bad >= 1 << self.times;
        if again {
            self.bad = 0;
            self.times = MOST_DOUBLINGS.min(self.times + 1);
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn more_than_ten_percent_lead_back_to_learning() {
        assert!(!Relearning::default().next(300, 3000));
        assert!(Relearning::default().next(301, 3000));
        assert!(Relearning::default().next(u64::MAX, u64::MAX));
        assert!(!Relearning::default().next(0, 0));
    }

    #[test]
    fn an_app_that_learning_does_not_help_is_learned_ever_less() {
        let mut rule = Relearning::default();
        let learned: Vec<u32> = (1..=255).filter(|_| rule.next(1, 1)).collect();
        assert_eq!(learned, [1, 3, 7, 15, 31, 63, 127, 191, 255]);
    }

    #[test]
    fn good_launches_take_back_bad_ones_and_in_the_end_the_delay() {
        let mut rule = Relearning::default();
        assert!(rule.next(1, 1));
        assert!(!rule.next(1, 1));
        assert!(!rule.next(0, 1));
        assert!(!rule.next(1, 1));
        for _ in 0..FORGIVEN_AFTER {
            assert!(!rule.next(0, 1));
        }
        assert!(rule.next(1, 1), "as at first");
    }

    proptest! {
        /// Each time the app is learned again, there was at least one bad launch since the last.
        #[test]
        fn good_launches_never_lead_back_to_learning(
            bad in prop::collection::vec(any::<bool>(), 0..500),
        ) {
            let mut rule = Relearning::default();
            for bad in bad {
                let again = rule.next(u64::from(bad), 1);
                prop_assert!(bad || !again);
                prop_assert!(rule.times <= MOST_DOUBLINGS && rule.bad <= 1 << MOST_DOUBLINGS);
            }
        }
    }
}
