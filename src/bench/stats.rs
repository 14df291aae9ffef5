//! Numbers of a set of runs.

/// Smallest and largest value. `None` of nothing.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let smallest = values.iter().copied().min_by(f64::total_cmp)?;
    let largest = values.iter().copied().max_by(f64::total_cmp)?;
    Some((smallest, largest))
}

/// Share of the launch time that prefetching saved: 1 − t / t_cold.
pub fn reduction(cold: f64, prefetched: f64) -> f64 {
    1.0 - prefetched / cold
}

/// Gap closed: (t_cold − t) / (t_cold − t_warm). `None` where there is no gap to close, because the
/// warm launch is not faster than the cold one.
pub fn gap_closed(cold: f64, warm: f64, prefetched: f64) -> Option<f64> {
    (cold > warm).then(|| (cold - prefetched) / (cold - warm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_from_the_smallest_to_the_largest() {
        assert_eq!(range(&[2.0, 1.0, 3.0]), Some((1.0, 3.0)));
        assert_eq!(range(&[]), None);
    }

    #[test]
    fn the_gap_is_between_cold_and_warm() {
        assert_eq!(gap_closed(2.0, 1.0, 1.0), Some(1.0));
        assert_eq!(gap_closed(2.0, 1.0, 2.0), Some(0.0));
        assert_eq!(gap_closed(2.0, 1.0, 1.25), Some(0.75));
        assert_eq!(gap_closed(1.0, 1.0, 1.0), None);
        assert_eq!(reduction(2.0, 0.5), 0.75);
    }
}
