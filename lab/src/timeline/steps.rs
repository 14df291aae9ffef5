//! Step functions of time: counts of things that begin and end.

/// A step function as `[time, value from then on]`, in strictly ascending order of time; before the
/// first step it is 0.
pub type Steps = Vec<[u64; 2]>;

/// How many of the spans `(start, end)` there are at each time. Empty spans count nowhere.
pub fn count(spans: impl IntoIterator<Item = (u64, u64)>) -> Steps {
    let mut changes: Vec<(u64, i64)> = spans
        .into_iter()
        .filter(|(start, end)| start < end)
        .flat_map(|(start, end)| [(start, 1), (end, -1)])
        .collect();
    // At one time, ends come first; the values in between are not kept anyway.
    changes.sort_unstable();
    let mut now = 0;
    let mut steps = Steps::new();
    for (time, change) in changes {
        now += change;
        push(&mut steps, time, now.max(0) as u64);
    }
    steps
}

/// Appends a step; one at the same time replaces the last, and one that changes nothing is left out.
/// `time` is not before the last step's.
pub fn push(steps: &mut Steps, time: u64, value: u64) {
    if steps.last().is_some_and(|last| last[0] == time) {
        steps.pop();
    }
    if steps.last().map_or(0, |last| last[1]) != value {
        steps.push([time, value]);
    }
}

/// The parts `[start, end, value]` up to `end` in which the value is not 0.
pub fn intervals(steps: &[[u64; 2]], end: u64) -> Vec<[u64; 3]> {
    let ends = steps.iter().skip(1).map(|step| step[0]).chain([end]);
    steps
        .iter()
        .zip(ends)
        .map(|(step, next)| [step[0], next.min(end), step[1]])
        .filter(|part| part[2] > 0 && part[0] < part[1])
        .collect()
}

/// Intervals as steps again.
pub fn from_intervals(intervals: &[[u64; 3]]) -> Steps {
    let mut steps = Steps::new();
    for [start, end, value] in intervals {
        push(&mut steps, *start, *value);
        push(&mut steps, *end, 0);
    }
    steps
}

/// Integral of the function up to `end`.
pub fn area(intervals: &[[u64; 3]]) -> u64 {
    let parts = intervals.iter();
    parts.map(|[start, end, value]| (end - start) * value).sum()
}

/// At most `limit` steps: the value in each of equal parts of the time is its mean over the part,
/// rounded. Parts are a power of two microseconds, as short as the limit allows, but not much shorter
/// than a 64th of what it allows evenly.
pub fn thin_mean(steps: Steps, end: u64, limit: usize) -> Steps {
    thin(steps, limit, |steps, width| {
        let mut thinned = Steps::new();
        let mut sums: Vec<(u64, u64)> = Vec::new();
        for [from, to, value] in intervals(steps, end) {
            // Each interval adds its area to the parts that it crosses.
            for part in from / width..to.div_ceil(width) {
                let overlap = to.min((part + 1) * width) - from.max(part * width);
                match sums.last_mut() {
                    Some((last, sum)) if *last == part => *sum += overlap * value,
                    _ => sums.push((part, overlap * value)),
                }
            }
        }
        for (part, sum) in sums {
            if thinned.last().is_some_and(|last| last[0] < part * width) {
                // Between two parts that are not neighbours it is 0.
                let gap = thinned.last().map_or(0, |last| last[0]) + width;
                if gap < part * width && thinned.last().is_some_and(|last| last[1] > 0) {
                    thinned.push([gap, 0]);
                }
            }
            thinned.push([part * width, (sum + width / 2) / width]);
        }
        if let Some(last) = thinned.last().copied() {
            thinned.push([(last[0] + width).min(end), 0]);
        }
        let mut steps = Steps::new();
        for [time, value] in thinned {
            push(&mut steps, time, value);
        }
        steps
    })
}

/// At most `limit` steps: of the steps in each of equal parts of the time, the last.
pub fn thin_last(steps: Steps, limit: usize) -> Steps {
    thin(steps, limit, |steps, width| {
        let mut kept = Steps::new();
        for step in steps {
            if kept
                .last()
                .is_some_and(|last| last[0] / width == step[0] / width)
            {
                kept.pop();
            }
            kept.push(*step);
        }
        kept
    })
}

fn thin(steps: Steps, limit: usize, thinned: impl Fn(&Steps, u64) -> Steps) -> Steps {
    if steps.len() <= limit {
        return steps;
    }
    // Parts much shorter than this would be too many, unless all steps crowd into one corner.
    let end = steps.last().map_or(0, |step| step[0]);
    let mut width = (end / (64 * limit.max(1) as u64))
        .max(2)
        .next_power_of_two();
    loop {
        let result = thinned(&steps, width);
        // Times fit into a u64: a width of 2^62 leaves one part or two.
        if result.len() <= limit.max(4) || width >= 1 << 62 {
            return result;
        }
        width *= 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_are_counted() {
        let steps = count([(5, 9), (7, 12), (9, 11), (3, 3)]);
        assert_eq!(steps, [[5, 1], [7, 2], [11, 1], [12, 0]]);
        assert_eq!(intervals(&steps, 10), [[5, 7, 1], [7, 10, 2]]);
    }

    #[test]
    fn thinning_takes_the_mean() {
        // Parts of 4: 2 of 4 at 2, then 4 of 4 at 3, then nothing, then 1 of 4 at 1.
        let steps = vec![
            [0, 2],
            [2, 0],
            [4, 3],
            [6, 4],
            [7, 1],
            [8, 0],
            [12, 1],
            [13, 0],
        ];
        assert_eq!(thin_mean(steps, 16, 4), [[0, 1], [4, 3], [8, 0]]);
    }

    proptest! {
        #[test]
        fn thinned_steps_are_few_and_in_order(
            spans in vec((0..5000_u64, 1..60_u64), 0..300),
            limit in 4..50_usize,
        ) {
            let steps = count(spans.iter().map(|(start, length)| (*start, start + length)));
            let highest = steps.iter().map(|step| step[1]).max().unwrap_or(0);
            let mean = thin_mean(steps.clone(), 6000, limit);
            let last = thin_last(steps.clone(), limit);
            for thinned in [&mean, &last] {
                prop_assert!(thinned.len() <= limit);
                prop_assert!(thinned.windows(2).all(|pair| pair[0][0] < pair[1][0]));
                prop_assert!(thinned.iter().all(|step| step[1] <= highest));
            }
            prop_assert_eq!(last.last(), steps.last());
            prop_assert!(mean.windows(2).all(|pair| pair[0][1] != pair[1][1]));
        }
    }
}
