//! The 10 % rule: back to learning when the app reads too much itself that learning would bring (paper §4.3).

use serde::{Deserialize, Serialize};

use crate::model::MissedRequests;

/// Reads of the launch tree for what the profile does not hold, in percent of the read requests of a cold launch
/// without prefetching, above which the app is learned again (paper §4.3).
const MISSED_PERCENT: u64 = 10;

/// After learning again in vain this many times, the number of bad launches that lead to the next
/// stops doubling, at 64.
const MOST_DOUBLINGS: u32 = 6;

/// Good launches in a row that take back one doubling.
const FORGIVEN_AFTER: u32 = 8;

/// The 10 % rule, for reads that learning would bring, with a back-off.
///
/// The paper's rule alone would let an app whose launches differ from one another (a different
/// document each time) learn at every launch and never be prefetched; and so would a device whose metadata cannot be
/// read, since no profile holds them. So a launch is bad only if what it lacks is mostly of the kinds that learning
/// brings ([`MissedRequests::learnable`]), and those alone count. The first bad launch leads
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
    /// Whether so many requests are too many, beside those of a cold launch.
    pub fn are_many(requests: u64, cold_requests: u64) -> bool {
        u128::from(requests) * 100 > u128::from(cold_requests) * u128::from(MISSED_PERCENT)
    }

    /// Takes a prefetched launch whose tree made these read requests for what the profile does not hold. A
    /// cold launch without prefetching makes `cold_requests`. True if the app is to be learned again.
    pub fn next(&mut self, missed: &MissedRequests, cold_requests: u64) -> bool {
        let learnable = missed.learnable();
        let most_are = u128::from(learnable) * 2 > u128::from(missed.counted());
        if most_are && Self::are_many(learnable, cold_requests) {
            return self.add_bad();
        }
        self.bad = self.bad.saturating_sub(1);
        self.good += 1;
        if self.good == FORGIVEN_AFTER {
            self.good = 0;
            self.times = self.times.saturating_sub(1);
        }
        false
    }

    /// Takes a launch that was bad, by this or by other evidence. True if the app is to be learned again.
    pub fn add_bad(&mut self) -> bool {
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

    fn recurring(requests: u64) -> MissedRequests {
        MissedRequests {
            recurring: requests,
            ..MissedRequests::default()
        }
    }

    #[test]
    fn more_than_ten_percent_lead_back_to_learning() {
        let leads_back = |missed, cold| Relearning::default().next(&recurring(missed), cold);
        assert!(!leads_back(300, 3000));
        assert!(leads_back(301, 3000));
        assert!(leads_back(u64::MAX, u64::MAX));
        assert!(!leads_back(0, 0));
        // More than half of what was missed is to be what learning brings.
        let beside = |recurring| MissedRequests {
            once: 20,
            ..self::recurring(recurring)
        };
        assert!(!Relearning::default().next(&beside(20), 100));
        assert!(Relearning::default().next(&beside(21), 100));
    }

    #[test]
    fn what_learning_would_not_bring_leads_nowhere() {
        let leads_back = |missed: MissedRequests| Relearning::default().next(&missed, 100);
        for (name, once, written, unreadable) in [
            ("other documents", 90, 0, 0),
            ("files written at each launch", 0, 90, 0),
            ("metadata that cannot be read", 0, 0, 90),
            ("all of them", 90, 90, 90),
        ] {
            let missed = |recurring, other_drive| MissedRequests {
                recurring,
                other_drive,
                once,
                written,
                unreadable,
            };
            assert!(!leads_back(missed(0, 0)), "{name}");
            assert!(!leads_back(missed(5, 5)), "{name}");
            let is_counted = once + written > 0;
            assert_eq!(leads_back(missed(10, 10)), !is_counted, "{name}");
            assert_eq!(leads_back(missed(0, 45)), !is_counted, "{name}");
            assert!(leads_back(missed(100, 100)), "{name}");
        }
    }

    #[test]
    fn an_app_that_learning_does_not_help_is_learned_ever_less() {
        let mut rule = Relearning::default();
        let bad = recurring(1);
        let learned: Vec<u32> = (1..=255).filter(|_| rule.next(&bad, 1)).collect();
        assert_eq!(learned, [1, 3, 7, 15, 31, 63, 127, 191, 255]);
    }

    #[test]
    fn good_launches_take_back_bad_ones_and_in_the_end_the_delay() {
        let mut rule = Relearning::default();
        let [good, bad] = [recurring(0), recurring(1)];
        assert!(rule.next(&bad, 1));
        assert!(!rule.next(&bad, 1));
        assert!(!rule.next(&good, 1));
        assert!(!rule.add_bad());
        for _ in 0..FORGIVEN_AFTER {
            assert!(!rule.next(&good, 1));
        }
        assert!(rule.next(&bad, 1), "as at first");
    }

    fn any_missed() -> impl Strategy<Value = MissedRequests> {
        let number = || prop_oneof![0..200u64, Just(u64::MAX)];
        prop::array::uniform5(number()).prop_map(
            |[recurring, other_drive, once, written, unreadable]| MissedRequests {
                recurring,
                other_drive,
                once,
                written,
                unreadable,
            },
        )
    }

    proptest! {
        /// Each time the app is learned again, there was at least one bad launch since the last.
        #[test]
        fn good_launches_never_lead_back_to_learning(
            bad in prop::collection::vec(any::<bool>(), 0..500),
        ) {
            let mut rule = Relearning::default();
            for bad in bad {
                let again = rule.next(&recurring(u64::from(bad)), 1);
                prop_assert!(bad || !again);
                prop_assert!(rule.times <= MOST_DOUBLINGS && rule.bad <= 1 << MOST_DOUBLINGS);
            }
        }

        /// Whatever was missed: more of what learning does not bring never makes a launch bad, and what cannot be read
        /// changes nothing.
        #[test]
        fn only_what_learning_brings_leads_back(
            missed in any_missed(),
            more in any_missed(),
            cold_requests in 0..1000u64,
        ) {
            let leads_back = |missed: MissedRequests| Relearning::default().next(&missed, cold_requests);
            let with_more = MissedRequests {
                once: missed.once.saturating_add(more.once),
                written: missed.written.saturating_add(more.written),
                ..missed
            };
            prop_assert!(leads_back(missed) || !leads_back(with_more));
            let unreadable = MissedRequests { unreadable: more.unreadable, ..missed };
            prop_assert_eq!(leads_back(missed), leads_back(unreadable));
            let none = MissedRequests { recurring: 0, other_drive: 0, ..missed };
            prop_assert!(!leads_back(none));
        }
    }
}
