//! How many launches of an app are learned, and when.
//!
//! One launch does not tell what an app needs. Which processes worked for it shows in the next, and so does which
//! pages of faultaround windows it may do without, where windows shift from launch to launch. So the first launches
//! are learned in a row, prefetched by what is known so far, until another would tell little. Later, one is learned
//! now and then: apps and their users change.

use serde::{Deserialize, Serialize};

use crate::model::DataPages;

/// Launches that a profile rests on at least.
const LEAST: u32 = 2;

/// Share of pages that only faults on other pages mapped, in percent of all data pages, up to which no further
/// launch is learned for their sake.
const UNSURE_PERCENT: u64 = 5;

/// By how much a learned launch must have reduced their number, in percent, for the next to be worth learning.
const REDUCED_PERCENT: u64 = 10;

/// Prefetched launches after which one is learned again.
const PREFETCHED: u32 = 16;

/// Seconds after which one is learned again, if the app is launched less often.
const INTERVAL_S: u64 = 30 * 24 * 60 * 60;

/// The learned launches of one app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedLaunches {
    /// Since the app was to be learned anew.
    count: u32,
    /// Pages of the profile that only faults on other pages mapped.
    unsure: u64,
    /// Launches that were prefetched since.
    prefetched: u32,
    /// When the last launch was learned live, in seconds since the epoch; 0: none was.
    last_s: u64,
    /// Whether none of the launches in `count` was recorded from its beginning. While there are none: whether the launch
    /// sequence of those before, which is kept until another launch was learned, lacks its beginning.
    #[serde(default)]
    is_partial: bool,
}

impl LearnedLaunches {
    /// The app is to be learned anew. What was learned before stays beside the profile, whole or not, until a launch was
    /// learned.
    pub fn anew(&mut self) {
        *self = LearnedLaunches {
            is_partial: self.is_partial,
            ..LearnedLaunches::default()
        };
    }

    /// A launch was learned at `now_s`, in seconds since the epoch. `pages`: those of the profile that rests on all
    /// launches so far; `None` if it was not learned live: then it is exact, and the user's. True if the next
    /// launch is to be learned, too: `most` are learned in a row at most, and one more if this one was not recorded from
    /// its beginning.
    pub fn learned(
        &mut self,
        now_s: u64,
        pages: Option<DataPages>,
        is_whole: bool,
        most: u32,
    ) -> bool {
        let before = std::mem::take(self);
        let Some(pages) = pages else {
            return false;
        };
        *self = LearnedLaunches {
            count: before.count.saturating_add(1),
            unsure: pages.fault_around,
            prefetched: 0,
            last_s: now_s,
            is_partial: !is_whole && (before.count == 0 || before.is_partial),
        };
        if self.count >= most || !is_whole {
            return !is_whole && self.count <= most;
        }
        let percent = |share: u64, of: u64| u128::from(share) * u128::from(of);
        let reduced = percent(100, self.unsure) <= percent(100 - REDUCED_PERCENT, before.unsure);
        let is_unsure = percent(100, self.unsure) > percent(UNSURE_PERCENT, pages.all);
        self.count < LEAST || (is_unsure && (self.count == 1 || reduced))
    }

    /// Whether what was learned rests on launches whose beginnings were not recorded. They use pages then that such a
    /// lesson has not seen, so it is no evidence of what the app may do without.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// A launch was prefetched. True if the next is to be learned: never, if none was learned live.
    pub fn prefetched(&mut self, now_s: u64) -> bool {
        self.prefetched = self.prefetched.saturating_add(1);
        // A clock that was ahead and has been corrected must not put it off for years.
        self.last_s = self.last_s.min(now_s);
        self.last_s > 0 && (self.prefetched >= PREFETCHED || now_s - self.last_s >= INTERVAL_S)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_700_000_000;

    /// How many launches are learned in a row if they leave these shares unsure, of 1000 pages each time.
    fn in_a_row(unsure: &[u64], most: u32) -> usize {
        let mut launches = LearnedLaunches::default();
        let mut goes_on = |&unsure: &u64| {
            let pages = DataPages {
                all: 1000,
                fault_around: unsure,
            };
            launches.learned(NOW, Some(pages), true, most)
        };
        unsure.iter().take_while(|unsure| goes_on(unsure)).count() + 1
    }

    #[test]
    fn launches_are_learned_until_another_would_tell_little() {
        assert_eq!(in_a_row(&[0, 0, 0], 5), 2, "two at least");
        assert_eq!(in_a_row(&[400, 300, 200, 150, 100, 50], 5), 5);
        assert_eq!(in_a_row(&[400, 300, 271, 100], 5), 3, "it has not shrunk");
        assert_eq!(in_a_row(&[400, 300, 50, 10], 5), 3, "few are left");
        assert_eq!(in_a_row(&[400, 300, 200], 1), 1, "the administrator's word");
        assert!(
            !LearnedLaunches::default().learned(NOW, None, true, 5),
            "made by hand"
        );
    }

    #[test]
    fn a_launch_without_its_beginning_is_followed_by_one_more_and_no_further() {
        let pages = Some(DataPages::default());
        for most in [1, 3] {
            let mut launches = LearnedLaunches::default();
            let lacking = (0..100).take_while(|_| launches.learned(NOW, pages, false, most));
            assert_eq!(lacking.count(), most as usize);
        }
    }

    #[test]
    fn what_a_launch_without_its_beginning_has_not_seen_is_no_evidence() {
        let pages = Some(DataPages::default());
        let mut launches = LearnedLaunches::default();
        assert!(!launches.is_partial(), "nothing was learned");
        for is_whole in [false, false, true, false] {
            let was_whole = launches.count > 0 && !launches.is_partial();
            launches.learned(NOW, pages, is_whole, 5);
            assert_eq!(launches.is_partial(), !is_whole && !was_whole);
        }
        launches.anew();
        assert!(!launches.is_partial());
        launches.learned(NOW, pages, false, 5);
        launches.anew();
        assert!(launches.is_partial(), "the same sequence is still kept");
        launches.learned(NOW, pages, true, 5);
        assert!(!launches.is_partial());
    }

    #[test]
    fn one_launch_is_learned_again_now_and_then() {
        let mut launches = LearnedLaunches::default();
        let pages = Some(DataPages::default());
        launches.learned(NOW, pages, true, 1);
        assert!((1..PREFETCHED).all(|_| !launches.prefetched(NOW)));
        assert!(launches.prefetched(NOW));
        launches.learned(NOW, pages, true, 1);
        assert!(!launches.prefetched(NOW + INTERVAL_S - 1));
        assert!(launches.prefetched(NOW + INTERVAL_S));
        assert_eq!(INTERVAL_S, 2_592_000, "30 days");
        // A clock that was ahead.
        launches.learned(2 * NOW, pages, true, 1);
        assert!(!launches.prefetched(NOW));
        assert!(launches.prefetched(NOW + INTERVAL_S));
        // A profile that was made by hand.
        launches.learned(NOW, None, true, 5);
        assert!((0..100).all(|_| !launches.prefetched(2 * NOW)));
    }

    proptest! {
        #[test]
        fn rows_end(unsure in prop::collection::vec(0..2000u64, 30), most in 1..20u32) {
            prop_assert!(in_a_row(&unsure, most) <= most as usize);
        }
    }
}
