//! How long operations take: timing them, and what is said of many.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::record::Operation;

/// Times operations by name until a limit.
#[derive(Debug)]
pub struct Stopwatch {
    end: Instant,
    cut: bool,
    times: BTreeMap<&'static str, Vec<Duration>>,
}

impl Stopwatch {
    /// Starts. What takes longer than `limit` is to be cut short.
    pub fn new(limit: Duration) -> Self {
        Stopwatch {
            end: Instant::now() + limit,
            cut: false,
            times: BTreeMap::new(),
        }
    }

    /// A stopwatch for a thread beside this one, with the same limit.
    pub fn beside(&self) -> Self {
        Stopwatch {
            end: self.end,
            cut: false,
            times: BTreeMap::new(),
        }
    }

    /// Takes over what another has timed.
    pub fn add(&mut self, other: Stopwatch) {
        self.cut |= other.cut;
        for (name, times) in other.times {
            self.times.entry(name).or_default().extend(times);
        }
    }

    /// Runs `work` and notes how long that took, if it succeeded.
    ///
    /// # Errors
    /// The errors of `work`.
    pub fn time<T>(&mut self, name: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        let done = work()?;
        self.note(name, begun.elapsed());
        Ok(done)
    }

    /// Notes how long something took.
    pub fn note(&mut self, name: &'static str, took: Duration) {
        self.times.entry(name).or_default().push(took);
    }

    /// Whether the limit has come; asked only where there is more to do.
    pub fn is_over(&mut self) -> bool {
        self.cut |= Instant::now() >= self.end;
        self.cut
    }

    /// How long one iteration may still take; zero after the limit.
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Whether work was left undone.
    pub fn was_cut(&self) -> bool {
        self.cut
    }

    /// What there is to say of each kind of operation, by name.
    pub fn operations(&self) -> Vec<Operation> {
        self.times
            .iter()
            .filter_map(|(name, times)| operation(name, times))
            .collect()
    }
}

/// Mean, percentiles and worst; `None` of nothing.
fn operation(name: &str, times: &[Duration]) -> Option<Operation> {
    let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    sorted.sort_by(f64::total_cmp);
    Some(Operation {
        name: name.to_owned(),
        count: sorted.len() as u64,
        mean_ms: sorted.iter().sum::<f64>() / sorted.len() as f64,
        p50_ms: percentile(&sorted, 50)?,
        p95_ms: percentile(&sorted, 95)?,
        p99_ms: percentile(&sorted, 99)?,
        worst_ms: *sorted.last()?,
    })
}

/// The smallest of the values, in ascending order, that `percent` of 100 do not exceed (nearest rank);
/// `None` of nothing. `percent` is at most 100.
pub fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 50), Some(50.0));
        assert_eq!(percentile(&hundred, 99), Some(99.0));
        assert_eq!(percentile(&hundred, 100), Some(100.0));
        assert_eq!(percentile(&[1.0, 2.0, 9.0], 50), Some(2.0));
        assert_eq!(percentile(&[1.0, 9.0], 95), Some(9.0));
        assert_eq!(percentile(&[4.0], 0), Some(4.0));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn operations_are_told_by_name() {
        let mut watch = Stopwatch::new(Duration::from_secs(60));
        for ms in [3, 1, 2] {
            watch.note("fsync", Duration::from_millis(ms));
        }
        let mut beside = watch.beside();
        beside.note("fsync", Duration::from_millis(10));
        beside.note("write", Duration::from_millis(5));
        watch.add(beside);
        let found = watch.operations();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), found[0].count), ("fsync", 4));
        assert_eq!((found[0].mean_ms, found[0].p50_ms), (4.0, 2.0));
        assert_eq!((found[0].p99_ms, found[0].worst_ms), (10.0, 10.0));
    }

    #[test]
    fn what_fails_is_not_timed_and_a_limit_cuts() {
        let mut watch = Stopwatch::new(Duration::ZERO);
        let failed: Result<()> = watch.time("write", || anyhow::bail!("full"));
        assert!(failed.is_err() && watch.operations().is_empty());
        assert!(!watch.was_cut(), "nobody has asked yet");
        assert!(watch.is_over() && watch.was_cut());
        assert_eq!(watch.left(), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn percentiles_rise_within_the_values(mut values in prop::collection::vec(0.0f64..1e4, 1..200)) {
            values.sort_by(f64::total_cmp);
            let of = |percent| percentile(&values, percent).unwrap();
            prop_assert!(values[0] <= of(50) && of(50) <= of(95) && of(95) <= of(99));
            prop_assert_eq!(of(100), values[values.len() - 1]);
            let below = values.iter().filter(|value| **value <= of(95)).count();
            prop_assert!(below * 100 >= values.len() * 95);
        }
    }
}
