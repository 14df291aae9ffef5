//! Puts what happened into as many columns as a screen shows.

/// Columns of a lane: two units each, so that bursts are seen as bursts.
pub const COLUMNS: usize = 450;

/// Time-weighted mean of each column, of values that hold from a start to an end, in microseconds. What
/// holds at once adds up; what lies outside of 0..`total` or ends before it starts is left out.
pub fn columns(spans: impl IntoIterator<Item = (u64, u64, f64)>, total: u64) -> Vec<f64> {
    let mut columns = vec![0.0; COLUMNS];
    if total == 0 {
        return columns;
    }
    let scale = COLUMNS as f64 / total as f64;
    for (start, end, value) in spans {
        let (from, to) = (start as f64 * scale, end.min(total) as f64 * scale);
        if start >= end || start >= total {
            continue;
        }
        let last = (to.ceil() as usize).min(COLUMNS);
        for (column, sum) in columns
            .iter_mut()
            .enumerate()
            .take(last)
            .skip(from as usize)
        {
            let overlap = to.min(column as f64 + 1.0) - from.max(column as f64);
            *sum += value * overlap.max(0.0);
        }
    }
    columns
}

/// Spans of a step function, whose last value holds until `total`.
pub fn spans(steps: &[[u64; 2]], total: u64) -> impl Iterator<Item = [u64; 3]> + '_ {
    let ends = steps.iter().skip(1).map(|[time, _]| *time).chain([total]);
    steps
        .iter()
        .zip(ends)
        .map(|([start, value], end)| [*start, end, *value])
}

/// Highest value so far at each column's end, of points that grow with time.
pub fn progress(points: &[[u64; 2]], total: u64) -> Vec<u64> {
    let mut points = points.to_vec();
    points.sort_unstable();
    let mut points = points.into_iter().peekable();
    let mut so_far = 0;
    (1..=COLUMNS as u64)
        .map(|column| {
            let end = (u128::from(total) * u128::from(column) / COLUMNS as u128) as u64;
            while let Some([_, value]) = points.next_if(|[time, _]| *time <= end) {
                so_far = value.max(so_far);
            }
            so_far
        })
        .collect()
}

/// At most `most` of `values`, evenly taken.
pub fn thinned<T: Copy>(values: &[T], most: usize) -> Vec<T> {
    let step = values.len().div_ceil(most.max(1)).max(1);
    values.iter().copied().step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_column_is_the_mean_over_its_time() {
        let total = 2 * COLUMNS as u64;
        let mean = columns([(0, 1, 4.0), (2, 6, 1.0), (2, 4, 1.0), (9, 3, 7.0)], total);
        assert_eq!(mean[..4], [2.0, 2.0, 1.0, 0.0]);
        assert_eq!(columns([(0, 1, 1.0)], 0), vec![0.0; COLUMNS]);
    }

    #[test]
    fn steps_hold_until_the_next() {
        let steps = [[0, 3], [5, 0]];
        assert_eq!(spans(&steps, 9).collect::<Vec<_>>(), [[0, 5, 3], [5, 9, 0]]);
        assert_eq!(spans(&[], 9).count(), 0);
    }

    #[test]
    fn progress_never_falls() {
        let total = COLUMNS as u64;
        let progress = progress(&[[3, 7], [1, 5], [2, 4]], total);
        assert_eq!(progress[..4], [5, 5, 7, 7]);
        assert_eq!(progress[COLUMNS - 1], 7);
    }

    proptest! {
        #[test]
        fn time_is_kept(spans in prop::collection::vec((0u64..5000, 0u64..5000), 0..30)) {
            let total = 4000;
            let inside = |(start, end): &(u64, u64)| end.min(&total).saturating_sub(*start) as f64;
            let expected: f64 = spans.iter().map(inside).sum();
            let columns = columns(spans.iter().map(|(s, e)| (*s, *e, 1.0)), total);
            let sum = columns.iter().sum::<f64>() * total as f64 / COLUMNS as f64;
            prop_assert!((sum - expected).abs() < 1e-6 * (1.0 + expected));
        }

        #[test]
        fn thinning_keeps_to_its_limit(count in 0usize..5000, most in 1usize..2000) {
            let values: Vec<usize> = (0..count).collect();
            let kept = thinned(&values, most);
            prop_assert!(kept.len() <= most && (count == 0 || kept[0] == 0));
        }
    }
}
