//! Whether prefetching an app helps: it is withheld from a small share of cold launches, and the times that launches of
//! both kinds take ([`super::took_us`]) are compared. How long they wait for the drive explains the difference, and proves
//! nothing: beside a scanner of files, launches wait less for the drive and take longer.

use serde::{Deserialize, Serialize};

use crate::model::lower_median;
use crate::policy::launch_figures::Warmth;

/// Prefetching is withheld from at most one in this many cold launches: at a gain of half the launch
/// time, that costs a twentieth of the gain.
const WITHHELD_ONE_IN: u32 = 10;

/// Prefetched cold launches that pay for one without.
const PRICE: u32 = WITHHELD_ONE_IN - 1;

/// The price where prefetching seems to gain nothing: then a launch without it loses nothing.
const DOUBTED_PRICE: u32 = 1;

/// Of the launches from which prefetching may be withheld, one in this many is chosen at random. A rhythm
/// could coincide with the user's (the first launch after the boot is not like the others).
const DRAW_ONE_IN: u64 = 4;

/// The share where prefetching seems to gain nothing.
const DOUBTED_DRAW_ONE_IN: u64 = 2;

/// Prefetched launches, and launches without, that must be known before prefetching is judged. The latter are rare.
const LEAST_WITH: usize = 3;
const LEAST_WITHOUT: usize = 2;

/// Launches of each kind from which on their medians alone decide: those of fewer differ by chance, too.
const ENOUGH: usize = 5;

/// Launches of each kind that are remembered; files and caches change, and old times with them.
const MOST_LAUNCHES: usize = 8;

/// Share of a launch's time that prefetching must save, in percent. Less cannot be told from chance and is not worth
/// the memory.
const LEAST_GAIN_PERCENT: u64 = 3;

/// What the comparison says. Median times that launches take, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GainVerdict {
    /// Too few launches are known, or too few to tell a small difference from chance.
    Open,
    /// Launches are faster with prefetching.
    Helps {
        /// With prefetching.
        with_us: u64,
        /// Without.
        without_us: u64,
    },
    /// Launches are not faster with prefetching.
    DoesNotHelp {
        /// With prefetching.
        with_us: u64,
        /// Without.
        without_us: u64,
    },
}

/// What is typical of the cold launches that are remembered: medians, in microseconds; `None` before there were any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypicalTimes {
    /// Time that prefetched ones take.
    pub with_us: Option<u64>,
    /// Time that those without prefetching take.
    pub without_us: Option<u64>,
}

impl TypicalTimes {
    /// What prefetching saves of a launch, in microseconds: below 0 where it costs time. `None` before there were launches
    /// of both kinds.
    pub fn saved_us(&self) -> Option<i64> {
        let signed = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
        Some(signed(self.without_us?) - signed(self.with_us?))
    }

    /// What prefetching saves, in percent of a launch without it, rounded.
    pub fn saved_percent(&self) -> Option<i32> {
        let without_us = self.without_us.filter(|&us| us > 0)?;
        let percent = self.saved_us()? as f64 * 100.0 / without_us as f64;
        Some(percent.round() as i32)
    }
}

/// A cold launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TimedLaunch {
    /// How long it took, in microseconds.
    took_us: u64,
    /// How long its tasks waited for the drive, summed up, in microseconds; `None` if that was not counted.
    waiting_us: Option<u64>,
}

/// The comparison, with the credit that keeps withheld launches rare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gain {
    /// Prefetched cold launches that have not yet paid for one without prefetching.
    credit: u32,
    /// What the last launch without prefetching has cost of that.
    #[serde(default)]
    paid: u32,
    /// The last launches with prefetching, oldest first.
    #[serde(default)]
    with: Vec<TimedLaunch>,
    /// The last launches without prefetching.
    #[serde(default)]
    without: Vec<TimedLaunch>,
}

impl Gain {
    /// Whether to withhold prefetching from the launch about to begin. `random` is any number without a
    /// pattern. The credit is spent at once, so that launches whose end is never reported count, too.
    pub fn withhold(&mut self, random: u64) -> bool {
        let (price, draw) = match self.is_doubted() {
            true => (DOUBTED_PRICE, DOUBTED_DRAW_ONE_IN),
            false => (PRICE, DRAW_ONE_IN),
        };
        let withheld = self.credit >= price && random.is_multiple_of(draw);
        if withheld {
            self.credit -= price;
            self.paid = price;
        }
        withheld
    }

    /// A prefetched launch ended, which took so long, if that is known, and spent `waiting_us` of it waiting for the drive, if
    /// that was counted; in microseconds.
    pub fn prefetched(&mut self, warmth: Warmth, took_us: Option<u64>, waiting_us: Option<u64>) {
        if warmth == Warmth::Cold {
            // Where no time is known, one without prefetching would be compared with nothing.
            if took_us.is_some() {
                self.pay(1);
            }
            add(&mut self.with, took_us, waiting_us);
        }
    }

    /// A launch ended from which prefetching was withheld. A warm one gets its credit back: it lost nothing.
    pub fn withheld(&mut self, warmth: Warmth, took_us: Option<u64>, waiting_us: Option<u64>) {
        match warmth {
            Warmth::Cold => add(&mut self.without, took_us, waiting_us),
            Warmth::Partly => {}
            Warmth::Warm => self.pay(self.paid),
        }
    }

    /// A cold launch was not prefetched for another reason: it was learned, with the usual readahead.
    pub fn learned(&mut self, took_us: Option<u64>, waiting_us: Option<u64>) {
        add(&mut self.without, took_us, waiting_us);
    }

    /// The app has a new profile: forgets the launches with the old one.
    pub fn new_profile(&mut self) {
        self.with.clear();
    }

    /// Launches are timed by other completion pages from now on: forgets those that were timed by the old ones.
    pub fn timed_anew(&mut self) {
        self.with.clear();
        self.without.clear();
    }

    /// What is typical of the launches that are remembered.
    pub fn typical(&self) -> TypicalTimes {
        TypicalTimes {
            with_us: median(&self.with, |launch| Some(launch.took_us)),
            without_us: median(&self.without, |launch| Some(launch.took_us)),
        }
    }

    /// How long those without prefetching typically waited for the drive, in microseconds, as far as that was counted.
    pub fn waiting_without_us(&self) -> Option<u64> {
        median(&self.without, |launch| launch.waiting_us)
    }

    /// The result of the comparison so far, by medians.
    pub fn verdict(&self) -> GainVerdict {
        let TypicalTimes {
            with_us: Some(with_us),
            without_us: Some(without_us),
        } = self.typical()
        else {
            return GainVerdict::Open;
        };
        let (with, without) = (self.with.len(), self.without.len());
        if with < LEAST_WITH || without < LEAST_WITHOUT {
            return GainVerdict::Open;
        }
        let bound = u128::from(without_us) * u128::from(100 - LEAST_GAIN_PERCENT);
        if u128::from(with_us) * 100 < bound {
            return GainVerdict::Helps {
                with_us,
                without_us,
            };
        }
        // Of a few launches, even the slowest one without must not have been slower.
        if with.min(without) < ENOUGH && !self.is_slower_than_all(with_us) {
            return GainVerdict::Open;
        }
        GainVerdict::DoesNotHelp {
            with_us,
            without_us,
        }
    }

    /// Whether prefetched launches were no faster than any without, of which too few are known to say so.
    fn is_doubted(&self) -> bool {
        let typical = self.typical().with_us;
        self.with.len() >= LEAST_WITH
            && (1..ENOUGH).contains(&self.without.len())
            && typical.is_some_and(|with_us| self.is_slower_than_all(with_us))
    }

    fn is_slower_than_all(&self, with_us: u64) -> bool {
        self.without.iter().all(|launch| with_us >= launch.took_us)
    }

    /// The credit suffices for two withheld launches at most, so that many cannot follow in a row.
    fn pay(&mut self, credit: u32) {
        self.credit = self.credit.saturating_add(credit).min(2 * PRICE);
    }
}

/// Adds a launch to the last ones, if its time is known.
fn add(launches: &mut Vec<TimedLaunch>, took_us: Option<u64>, waiting_us: Option<u64>) {
    if let Some(took_us) = took_us {
        let launch = TimedLaunch {
            took_us,
            waiting_us,
        };
        remember(launches, launch);
    }
}

/// Adds a launch's figure to those of the last launches.
pub(super) fn remember<T>(figures: &mut Vec<T>, figure: T) {
    if figures.len() >= MOST_LAUNCHES {
        figures.remove(0);
    }
    figures.push(figure);
}

fn median(launches: &[TimedLaunch], time: fn(&TimedLaunch) -> Option<u64>) -> Option<u64> {
    lower_median(&launches.iter().filter_map(time).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gain(with_us: &[u64], without_us: &[u64]) -> Gain {
        let mut gain = Gain::default();
        for &time in with_us {
            gain.prefetched(Warmth::Cold, Some(time), Some(0));
        }
        for &time in without_us {
            gain.withheld(Warmth::Cold, Some(time), Some(0));
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
    fn the_verdict_compares_the_medians_of_at_most_eight_launches_and_of_few_all() {
        let many = [[1; 8], [2000; 8]].concat();
        let cases: [(&str, &[u64], &[u64], GainVerdict); 11] = [
            ("two with", &[1; 2], &[9; 3], GainVerdict::Open),
            ("one without", &[1; 3], &[9; 1], GainVerdict::Open),
            ("few of each", &[1; 3], &[9; 2], helps(1, 9)),
            ("more than 3 %", &[969; 3], &[1000; 3], helps(969, 1000)),
            ("3 % of few", &[970; 3], &[1000; 4], GainVerdict::Open),
            (
                "3 % of many",
                &[970; 5],
                &[1000; 5],
                does_not_help(970, 1000),
            ),
            (
                "one slow launch without",
                &[1000; 3],
                &[900, 900, 1001],
                GainVerdict::Open,
            ),
            (
                "slower than all without",
                &[1000; 3],
                &[900, 1000],
                does_not_help(1000, 900),
            ),
            ("nothing to gain", &[0; 3], &[0; 2], does_not_help(0, 0)),
            (
                "odd ones",
                &[100, 120, 90_000],
                &[1000, 5, 1100],
                helps(120, 1000),
            ),
            (
                "the last eight",
                &many,
                &[1000; 2],
                does_not_help(2000, 1000),
            ),
        ];
        for (name, with_us, without_us, verdict) in cases {
            let mut gain = gain(with_us, without_us);
            assert_eq!(gain.verdict(), verdict, "{name}");
            gain.new_profile();
            let without = gain.typical();
            assert_eq!(gain.verdict(), GainVerdict::Open, "{name}, new profile");
            assert_eq!(without.with_us, None);
            assert_eq!(without.without_us, lower_median(without_us));
            gain.timed_anew();
            assert_eq!(gain.typical(), TypicalTimes::default());
        }
    }

    #[test]
    fn what_is_saved_is_the_difference_of_times() {
        let typical = |with_us, without_us| TypicalTimes {
            with_us: Some(with_us),
            without_us: Some(without_us),
        };
        assert_eq!(typical(300, 1000).saved_us(), Some(700));
        assert_eq!(typical(300, 1000).saved_percent(), Some(70));
        // A scanner: launches wait less for the drive, and take longer.
        assert_eq!(typical(640, 360).saved_percent(), Some(-78));
        assert_eq!(typical(0, 0).saved_percent(), None);
        let unknown = TypicalTimes {
            without_us: None,
            ..typical(1, 1)
        };
        assert_eq!((unknown.saved_us(), unknown.saved_percent()), (None, None));
    }

    #[test]
    fn only_cold_launches_whose_time_is_known_are_evidence() {
        let mut gain = Gain::default();
        for warmth in [Warmth::Partly, Warmth::Warm] {
            gain.prefetched(warmth, Some(1), Some(1));
            gain.withheld(warmth, Some(1), Some(1));
        }
        for _ in 0..20 {
            gain.prefetched(Warmth::Cold, None, Some(1));
        }
        assert!(!gain.withhold(0));
        gain.withheld(Warmth::Cold, None, Some(1));
        gain.learned(None, Some(1));
        assert_eq!(gain.typical(), TypicalTimes::default());
        gain.learned(Some(7), Some(5));
        gain.learned(Some(7), None);
        assert_eq!(gain.typical().without_us, Some(7));
        assert_eq!(gain.waiting_without_us(), Some(5));
    }

    #[test]
    fn nine_cold_launches_pay_for_one_and_a_warm_one_is_paid_back() {
        let mut gain = gain(&[1; 8], &[]);
        assert!(!gain.withhold(0));
        gain.prefetched(Warmth::Cold, Some(1), Some(0));
        assert!(!gain.withhold(1));
        assert!(gain.withhold(0));
        assert!(!gain.withhold(0));
        gain.withheld(Warmth::Warm, Some(0), Some(0));
        assert!(gain.withhold(4));
        gain.withheld(Warmth::Partly, Some(0), Some(0));
        assert!(!gain.withhold(0));
    }

    #[test]
    fn however_many_have_paid_two_are_withheld_in_a_row_at_most() {
        let mut gain = gain(&[1; 40], &[]);
        assert!(gain.withhold(0) && gain.withhold(0));
        assert!(!gain.withhold(0));
    }

    #[test]
    fn an_app_that_seems_no_faster_is_compared_soon() {
        let mut doubted = gain(&[1000; 3], &[1000]);
        assert!(!doubted.withhold(1));
        assert!(doubted.withhold(2));
        doubted.withheld(Warmth::Warm, Some(1), Some(0));
        assert_eq!(doubted.credit, 3, "no more than it cost is paid back");
        assert!(doubted.withhold(2) && doubted.withhold(2) && doubted.withhold(2));
        assert!(!doubted.withhold(2), "each is paid for by a prefetched one");
        let mut faster = gain(&[999; 3], &[1000]);
        assert!(!faster.withhold(0));
        let mut unknown = gain(&[1000; 3], &[]);
        assert!(!unknown.withhold(0));
        let mut known = gain(&[1000; 3], &[1000; 5]);
        assert!(!known.withhold(0));
    }

    fn warmth() -> impl Strategy<Value = Warmth> {
        prop_oneof![Just(Warmth::Cold), Just(Warmth::Partly), Just(Warmth::Warm)]
    }

    proptest! {
        /// However launches turn out, prefetching is never withheld from more than the share of those
        /// that had something to prefetch; at no time, and whatever the random numbers are. Where it seems to gain nothing,
        /// the share is every other one.
        #[test]
        fn no_more_than_the_share_is_ever_withheld(
            launches in prop::collection::vec((any::<u64>(), warmth(), any::<bool>()), 0..400),
            with_us in 1..3u64,
        ) {
            let mut gain = Gain::default();
            let one_in = if with_us == 1 { WITHHELD_ONE_IN } else { 2 };
            let (mut withheld, mut all) = (0u32, 0u32);
            for (random, warmth, heard_of) in launches {
                if gain.withhold(random) {
                    if heard_of {
                        gain.withheld(warmth, Some(2), Some(1));
                    }
                    let cost = u32::from(!(heard_of && warmth == Warmth::Warm));
                    withheld += cost;
                    all += cost;
                } else {
                    gain.prefetched(warmth, Some(with_us), Some(1));
                    all += u32::from(warmth == Warmth::Cold);
                }
                prop_assert!(withheld * one_in <= all, "{withheld} of {all}");
                prop_assert!(gain.with.len() <= MOST_LAUNCHES);
                prop_assert!(gain.without.len() <= MOST_LAUNCHES);
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
                    gain.withheld(Warmth::Cold, Some(1000), Some(900));
                } else {
                    gain.prefetched(Warmth::Cold, Some(100), Some(1000));
                }
            }
            prop_assert_eq!(gain.verdict(), helps(100, 1000));
        }
    }
}
