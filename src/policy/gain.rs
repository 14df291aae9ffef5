//! Whether prefetching an app helps: it is withheld from a small share of cold launches, and the times that
//! both kinds wait for the drive are compared.

use serde::{Deserialize, Serialize};

use crate::model::lower_median;
use crate::policy::launch_figures::Warmth;

/// Prefetching is withheld from at most one in this many cold launches: at a gain of half the launch
/// time, that costs a twentieth of the gain.
pub const WITHHELD_ONE_IN: u32 = 10;

/// Prefetched cold launches that pay for one without.
const PRICE: u32 = WITHHELD_ONE_IN - 1;

/// Of the launches from which prefetching may be withheld, one in this many is chosen at random. A rhythm
/// could coincide with the user's (the first launch after the boot is not like the others).
const DRAW_ONE_IN: u64 = 4;

/// Launches of each kind that must be known before prefetching is judged.
const LEAST_LAUNCHES: usize = 3;

/// Launches of each kind that are remembered; files and caches change, and old times with them.
const MOST_LAUNCHES: usize = 8;

/// Share of the time that launches wait for the drive that prefetching must save, in percent. Less cannot be
/// told from chance and is not worth the memory.
const LEAST_GAIN_PERCENT: u64 = 5;

/// What the comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GainVerdict {
    /// Too few launches are known.
    Open,
    /// Prefetching helps. Median waiting times, in microseconds.
    Helps {
        /// With prefetching.
        with_us: u64,
        /// Without.
        without_us: u64,
    },
    /// It does not, or too little. Median waiting times, in microseconds.
    DoesNotHelp {
        /// With prefetching.
        with_us: u64,
        /// Without.
        without_us: u64,
    },
}

/// The comparison, with the credit that keeps withheld launches rare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gain {
    /// Prefetched cold launches that have not yet paid for one without prefetching.
    credit: u32,
    /// Waiting times in microseconds, oldest first.
    with_us: Vec<u64>,
    without_us: Vec<u64>,
}

impl Gain {
    /// Whether to withhold prefetching from the launch about to begin. `random` is any number without a
    /// pattern. The credit is spent at once, so that launches whose end is never reported count, too.
    pub fn withhold(&mut self, random: u64) -> bool {
        let withheld = self.credit >= PRICE && random.is_multiple_of(DRAW_ONE_IN);
        if withheld {
            self.credit -= PRICE;
        }
        withheld
    }

    /// A prefetched launch ended, of which `waiting_us` microseconds were spent waiting for the drive.
    pub fn prefetched(&mut self, warmth: Warmth, waiting_us: u64) {
        if warmth == Warmth::Cold {
            self.pay(1);
            remember(&mut self.with_us, waiting_us);
        }
    }

    /// A launch ended from which prefetching was withheld. A warm one gets its credit back: it lost nothing.
    pub fn withheld(&mut self, warmth: Warmth, waiting_us: u64) {
        match warmth {
            Warmth::Cold => remember(&mut self.without_us, waiting_us),
            Warmth::Partly => {}
            Warmth::Warm => self.pay(PRICE),
        }
    }

    /// A cold launch was not prefetched for another reason: it was learned, with the usual readahead.
    pub fn learned(&mut self, waiting_us: u64) {
        remember(&mut self.without_us, waiting_us);
    }

    /// The app has a new profile: forgets the waiting times with the old one.
    pub fn new_profile(&mut self) {
        self.with_us.clear();
    }

    /// The result of the comparison so far, by medians.
    pub fn verdict(&self) -> GainVerdict {
        let (Some(with_us), Some(without_us)) = (typical(&self.with_us), typical(&self.without_us))
        else {
            return GainVerdict::Open;
        };
        let bound = u128::from(without_us) * u128::from(100 - LEAST_GAIN_PERCENT);
        if u128::from(with_us) * 100 < bound {
            GainVerdict::Helps {
                with_us,
                without_us,
            }
        } else {
            GainVerdict::DoesNotHelp {
                with_us,
                without_us,
            }
        }
    }

    /// The credit suffices for two withheld launches at most, so that many cannot follow in a row.
    fn pay(&mut self, credit: u32) {
        self.credit = self.credit.saturating_add(credit).min(2 * PRICE);
    }
}

/// Adds a launch's figure to those of the last launches.
pub(super) fn remember(figures: &mut Vec<u64>, figure: u64) {
    if figures.len() >= MOST_LAUNCHES {
        figures.remove(0);
    }
    figures.push(figure);
}

/// The median of enough launches; `None` of too few.
fn typical(times: &[u64]) -> Option<u64> {
    (times.len() >= LEAST_LAUNCHES)
        .then(|| lower_median(times))
        .flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gain(with_us: &[u64], without_us: &[u64]) -> Gain {
        let mut gain = Gain::default();
        for &time in with_us {
            gain.prefetched(Warmth::Cold, time);
        }
        for &time in without_us {
            gain.withheld(Warmth::Cold, time);
        }
        gain
    }

    fn helps(with_us: u64, without_us: u64) -> GainVerdict {
        GainVerdict::Helps {
            with_us,
            without_us,
        }
    }

    fn does_not_help(with_us: u64, without_us: u64) -> GainVerdict {
        GainVerdict::DoesNotHelp {
            with_us,
            without_us,
        }
    }

    #[test]
    fn the_verdict_compares_the_medians_of_at_least_three_and_at_most_eight_launches() {
        let many = [[1; 8], [2000; 8]].concat();
        let cases: [(&str, &[u64], &[u64], GainVerdict); 8] = [
            ("two with", &[1; 2], &[9; 3], GainVerdict::Open),
            ("two without", &[1; 3], &[9; 2], GainVerdict::Open),
            ("three of each", &[1; 3], &[9; 3], helps(1, 9)),
            ("more than 5 %", &[949; 3], &[1000; 3], helps(949, 1000)),
            ("5 %", &[950; 3], &[1000; 3], does_not_help(950, 1000)),
            ("nothing to gain", &[0; 3], &[0; 3], does_not_help(0, 0)),
            (
                "odd ones",
                &[100, 120, 90_000],
                &[1000, 5, 1100],
                helps(120, 1000),
            ),
            (
                "the last eight",
                &many,
                &[1000; 3],
                does_not_help(2000, 1000),
            ),
        ];
        for (name, with_us, without_us, verdict) in cases {
            let mut gain = gain(with_us, without_us);
            assert_eq!(gain.verdict(), verdict, "{name}");
            gain.new_profile();
            assert_eq!(
                gain.verdict(),
                GainVerdict::Open,
                "{name}, with a new profile"
            );
        }
    }

    #[test]
    fn only_cold_launches_are_evidence() {
        let mut gain = Gain::default();
        for warmth in [Warmth::Partly, Warmth::Warm] {
            gain.prefetched(warmth, 1);
            gain.withheld(warmth, 1);
        }
        assert_eq!((gain.with_us.len(), gain.without_us.len()), (0, 0));
        gain.learned(7);
        assert_eq!(gain.without_us, [7]);
    }

    #[test]
    fn nine_cold_launches_pay_for_one_and_a_warm_one_is_paid_back() {
        let mut gain = gain(&[1; 8], &[]);
        assert!(!gain.withhold(0));
        gain.prefetched(Warmth::Cold, 1);
        assert!(!gain.withhold(1));
        assert!(gain.withhold(0));
        assert!(!gain.withhold(0));
        gain.withheld(Warmth::Warm, 0);
        assert!(gain.withhold(4));
        gain.withheld(Warmth::Partly, 0);
        assert!(!gain.withhold(0));
    }

    fn warmth() -> impl Strategy<Value = Warmth> {
        prop_oneof![Just(Warmth::Cold), Just(Warmth::Partly), Just(Warmth::Warm)]
    }

    proptest! {
        /// However launches turn out, prefetching is never withheld from more than the share of those
        /// that had something to prefetch; at no time, and whatever the random numbers are.
        #[test]
        fn no_more_than_the_share_is_ever_withheld(
            launches in prop::collection::vec((any::<u64>(), warmth(), any::<bool>()), 0..400),
        ) {
            let mut gain = Gain::default();
            let (mut withheld, mut all) = (0u32, 0u32);
            for (random, warmth, heard_of) in launches {
                if gain.withhold(random) {
                    if heard_of {
                        gain.withheld(warmth, 1);
                    }
                    let cost = u32::from(!(heard_of && warmth == Warmth::Warm));
                    withheld += cost;
                    all += cost;
                } else {
                    gain.prefetched(warmth, 1);
                    all += u32::from(warmth == Warmth::Cold);
                }
                prop_assert!(withheld * WITHHELD_ONE_IN <= all, "{withheld} of {all}");
                prop_assert!(gain.with_us.len() <= MOST_LAUNCHES);
                prop_assert!(gain.without_us.len() <= MOST_LAUNCHES);
            }
        }

        /// And it is withheld, so that the question is answered in the end.
        #[test]
        fn the_comparison_comes_about(randoms in prop::collection::vec(any::<u64>(), 400)) {
            let mut gain = Gain::default();
            for (turn, random) in (0u64..).zip(randoms) {
                // Every fourth number allows it, so that this needs no luck.
                let random = if turn % 4 == 0 { 0 } else { random };
                if gain.withhold(random) {
                    gain.withheld(Warmth::Cold, 1000);
                } else {
                    gain.prefetched(Warmth::Cold, 100);
                }
            }
            prop_assert_eq!(gain.verdict(), helps(100, 1000));
        }
    }
}
