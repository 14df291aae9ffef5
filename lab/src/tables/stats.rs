//! Medians, spread and bootstrapped intervals.
//!
//! A [`Statistic`] is a number together with the runs it was computed from, so that it can be computed
//! again from runs drawn with replacement; the spread of these is its 95 % interval (Efron's percentile
//! bootstrap). Draws come from a generator with a fixed seed: the same results give the same report.

use crate::random::SplitMix64;

/// Redraws per interval. The ends of an interval are then 50 redraws deep.
const DRAWS: usize = 2000;
/// Any constant does; it is fixed so that reports repeat.
const SEED: u64 = 0x5eed_0f1a_b5ea_c0de;

/// A number with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The number, computed from all runs.
    pub value: f64,
    /// Lower and upper end of the 95 % interval; `None` where a single run says nothing of spread.
    pub interval: Option<(f64, f64)>,
}

/// A number that can be computed again from redrawn runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistic(Form);

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Median(Vec<f64>),
    RatioOfMedians(Vec<f64>, Vec<f64>),
    Largest(Vec<Statistic>),
    Mean(Vec<Statistic>),
}

impl Statistic {
    /// Median of `values`. `None` of nothing, or where a value is not a number.
    pub fn median(values: Vec<f64>) -> Option<Self> {
        usable(&values).then_some(Self(Form::Median(values)))
    }

    /// Median of `over` by median of `under`, redrawn independently. `None` where one is empty, or
    /// `under` holds something that is not positive.
    pub fn ratio_of_medians(over: Vec<f64>, under: Vec<f64>) -> Option<Self> {
        let divisible = usable(&over) && usable(&under) && under.iter().all(|value| *value > 0.0);
        divisible.then_some(Self(Form::RatioOfMedians(over, under)))
    }

    /// Median of the ratios of values that belong together. `None` as for
    /// [`Statistic::ratio_of_medians`].
    pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<Self> {
        let divisible = pairs.iter().all(|(_, under)| *under > 0.0);
        let ratios = pairs.iter().map(|(over, under)| over / under).collect();
        divisible.then(|| Self::median(ratios)).flatten()
    }

    /// The largest of several, such as t_bound = max(t_ssd, t_warm). `None` of nothing.
    pub fn largest(parts: Vec<Statistic>) -> Option<Self> {
        (!parts.is_empty()).then_some(Self(Form::Largest(parts)))
    }

    /// Arithmetic mean of several, such as the papers' average over apps. `None` of nothing.
    pub fn mean(parts: Vec<Statistic>) -> Option<Self> {
        (!parts.is_empty()).then_some(Self(Form::Mean(parts)))
    }

    /// The number, computed from all runs.
    pub fn value(&self) -> f64 {
        self.compute(&mut |values| values.to_vec())
    }

    /// Runs in the smallest set that the number depends on.
    pub fn runs(&self) -> usize {
        match &self.0 {
            Form::Median(values) => values.len(),
            Form::RatioOfMedians(over, under) => over.len().min(under.len()),
            Form::Largest(parts) | Form::Mean(parts) => {
                parts.iter().map(Statistic::runs).min().unwrap_or(0)
            }
        }
    }

    /// The number with its bootstrapped 95 % interval.
    pub fn estimate(&self) -> Estimate {
        let value = self.value();
        if self.runs() < 2 {
            return Estimate {
                value,
                interval: None,
            };
        }
        let mut random = SplitMix64(SEED);
        let mut draws: Vec<f64> = (0..DRAWS)
            .map(|_| self.compute(&mut |values| random.redraw(values)))
            .collect();
        draws.sort_by(f64::total_cmp);
        Estimate {
            value,
            interval: Some((quantile(&draws, 0.025), quantile(&draws, 0.975))),
        }
    }

    fn compute(&self, draw: &mut dyn FnMut(&[f64]) -> Vec<f64>) -> f64 {
        let mut middle = |values: &[f64]| median(&draw(values));
        match &self.0 {
            Form::Median(values) => middle(values),
            Form::RatioOfMedians(over, under) => middle(over) / middle(under),
            Form::Largest(parts) => parts
                .iter()
                .map(|part| part.compute(draw))
                .fold(f64::NEG_INFINITY, f64::max),
            Form::Mean(parts) => {
                parts.iter().map(|part| part.compute(draw)).sum::<f64>() / parts.len() as f64
            }
        }
    }
}

fn usable(values: &[f64]) -> bool {
    !values.is_empty() && values.iter().all(|value| value.is_finite())
}

/// Median; the mean of the two middle values where their number is even. Not a number of nothing.
pub fn median(values: &[f64]) -> f64 {
    paralfetch::model::median(values).unwrap_or(f64::NAN)
}

/// Gap closed: (t_cold − t) / (t_cold − t_warm), of times normalized to cold. `None` where there is no
/// gap to close, because the warm launch is not faster than the cold one by more than noise.
pub fn gap_closed(warm: Estimate, normalized: f64) -> Option<f64> {
    let top = warm.interval.map_or(warm.value, |(_, high)| high);
    (warm.value < 1.0 && top < 1.0).then(|| (1.0 - normalized) / (1.0 - warm.value))
}

/// Lower and upper quartile. `None` of nothing.
pub fn quartiles(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| (quantile(&sorted, 0.25), quantile(&sorted, 0.75)))
}

/// Quantile of sorted values, interpolated between neighbours (Hyndman and Fan's type 7, as R and NumPy
/// do); not a number of nothing.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        let statistic = Statistic::median(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!(statistic.value(), 2.0);
        assert_eq!(quartiles(&[1.0, 2.0, 3.0, 4.0, 5.0]), Some((2.0, 4.0)));
        assert_eq!(quartiles(&[1.0, 2.0]), Some((1.25, 1.75)));
        assert_eq!(quartiles(&[]), None);
        let ratio = Statistic::ratio_of_medians(vec![2.0, 4.0], vec![6.0]).unwrap();
        assert_eq!(ratio.value(), 0.5);
        assert_eq!(ratio.runs(), 1);
        let paired = Statistic::paired_ratio(&[(1.0, 2.0), (4.0, 4.0), (3.0, 4.0)]).unwrap();
        assert_eq!(paired.value(), 0.75);
        assert_eq!(
            Statistic::mean(vec![ratio.clone(), paired.clone()])
                .unwrap()
                .value(),
            0.625
        );
        assert_eq!(
            Statistic::largest(vec![ratio, paired]).unwrap().value(),
            0.75
        );
    }

    #[test]
    fn the_gap_is_between_cold_and_warm() {
        let warm = Estimate {
            value: 0.5,
            interval: Some((0.4, 0.6)),
        };
        assert_eq!(gap_closed(warm, 0.5), Some(1.0));
        assert_eq!(gap_closed(warm, 0.625), Some(0.75));
        assert_eq!(gap_closed(warm, 1.0), Some(0.0));
        assert_eq!(
            gap_closed(
                Estimate {
                    value: 1.0,
                    interval: None
                },
                0.5
            ),
            None
        );
        assert_eq!(
            gap_closed(
                Estimate {
                    value: 0.99,
                    interval: Some((0.9, 1.1))
                },
                0.5
            ),
            None
        );
    }

    #[test]
    fn what_cannot_be_computed_is_nothing() {
        assert_eq!(Statistic::median(vec![]), None);
        assert_eq!(Statistic::median(vec![f64::NAN]), None);
        assert_eq!(Statistic::ratio_of_medians(vec![1.0], vec![0.0]), None);
        assert_eq!(Statistic::paired_ratio(&[]), None);
        assert_eq!(Statistic::paired_ratio(&[(1.0, 0.0)]), None);
        assert_eq!(Statistic::mean(vec![]), None);
        assert_eq!(Statistic::largest(vec![]), None);
    }

    /// With 5 runs the median of a redraw is the smallest run when 3 or more of 5 draws hit it: 5.8 %
    /// of redraws, more than 2.5 %, so the interval reaches from the smallest run to the largest.
    #[test]
    fn the_interval_of_five_runs_is_their_range() {
        let estimate = Statistic::median(vec![5.0, 1.0, 4.0, 2.0, 3.0])
            .unwrap()
            .estimate();
        assert_eq!(
            estimate,
            Estimate {
                value: 3.0,
                interval: Some((1.0, 5.0))
            }
        );
        assert_eq!(
            Statistic::median(vec![1.0]).unwrap().estimate().interval,
            None
        );
    }

    /// Two sets of 5 runs from one distribution: the interval of their ratio holds 1 nearly always.
    #[test]
    fn equal_sets_are_seldom_told_apart() {
        let mut random = SplitMix64(7);
        let mut run = || 1.0 + (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        let held = (0..300)
            .filter(|_| {
                let mut runs = || (0..5).map(|_| run()).collect();
                let ratio = Statistic::ratio_of_medians(runs(), runs())
                    .unwrap()
                    .estimate();
                ratio
                    .interval
                    .is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high)
            })
            .count();
        assert!(held >= 270, "{held} of 300");
    }

    proptest! {
        #[test]
        fn intervals_stay_within_the_runs(values in prop::collection::vec(0.01f64..100.0, 2..20)) {
            let statistic = Statistic::median(values.clone()).unwrap();
            let estimate = statistic.estimate();
            let (low, high) = estimate.interval.unwrap();
            let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
            let largest = values.iter().copied().fold(0.0, f64::max);
            prop_assert!(smallest <= low && low <= high && high <= largest);
            prop_assert!(low <= estimate.value && estimate.value <= high);
            prop_assert_eq!(statistic.estimate(), estimate);
            let (lower, upper) = quartiles(&values).unwrap();
            prop_assert!(smallest <= lower && lower <= estimate.value);
            prop_assert!(estimate.value <= upper && upper <= largest);
        }

        #[test]
        fn a_common_factor_cancels(
            pairs in prop::collection::vec((0.1f64..10.0, 0.1f64..10.0), 1..8),
            factor in 0.5f64..2.0,
        ) {
            let scaled: Vec<_> = pairs.iter().map(|(a, b)| (a * factor, b * factor)).collect();
            let (plain, scaled) =
                (Statistic::paired_ratio(&pairs).unwrap(), Statistic::paired_ratio(&scaled).unwrap());
            prop_assert!((plain.value() - scaled.value()).abs() < 1e-9);
        }
    }
}
