//! Stretches of a launch in which it begins no read: how long quiet must last before a launch may be called
//! complete (T_idle of FAST §4.4 and §5.2).

use paralfetch::model::LogEntry;

use crate::methods::{LearnedSet, read_pages};
use crate::record::Stretches;

/// Shortest stretch that is kept, in microseconds: any processor work makes shorter ones.
const SHORTEST_US: u64 = 1000;

const SECOND_US: u64 = 1_000_000;

/// The stretches of a launch that was learned as read; `None` if its window was not seen.
pub fn of(set: &LearnedSet) -> Option<Stretches> {
    let window_us = set.window?.as_micros();
    let read = read_pages(set);
    let is_read = |entry: &&LogEntry| {
        let span = entry.span;
        (span.start..span.end()).any(|page| read.contains(&(span.place, page)))
    };
    let times = set.log.iter().filter(is_read).map(|entry| entry.time_us);
    Some(between(times.filter(|time| u128::from(*time) <= window_us)))
}

/// From the times at which reads began, in microseconds since the start, in any order.
fn between(times: impl Iterator<Item = u64>) -> Stretches {
    let mut times: Vec<u64> = times.collect();
    times.sort_unstable();
    let before = std::iter::once(0).chain(times.iter().copied());
    let lengths = before.zip(&times).map(|(before, time)| time - before);
    let mut lengths_us: Vec<u64> = lengths.filter(|length| *length >= SHORTEST_US).collect();
    lengths_us.sort_unstable_by(|a, b| b.cmp(a));
    Stretches {
        lengths_us,
        until_us: times.last().copied().unwrap_or_default(),
        fewest_reads: fewest(&times),
    }
}

/// The fewest of these times, which are sorted, that lie in a second between 0 and the last of them. Such a second
/// begins at 0 or just after one of them: a later beginning only adds.
fn fewest(times: &[u64]) -> Option<u64> {
    let last = *times.last()?;
    let beginnings = std::iter::once(0).chain(times.iter().map(|time| time + 1));
    beginnings
        .take_while(|from| from + SECOND_US <= last)
        .map(|from| {
            let before = times.partition_point(|time| *time < from);
            let until = times.partition_point(|time| *time < from + SECOND_US);
            (until - before) as u64
        })
        .min()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::methods::samples::learned_set;

    #[test]
    fn stretches_lie_between_reads_and_before_the_first() {
        // One of 0.5 ms is too short.
        let found = between([9_000, 2_000, 2_500, 30_000].into_iter());
        assert_eq!(found.lengths_us, [21_000, 6_500, 2_000]);
        assert_eq!((found.until_us, found.fewest_reads), (30_000, None));
        assert_eq!(between(std::iter::empty()), Stretches::default());
    }

    #[test]
    fn what_comes_behind_the_window_or_was_not_read_does_not_count() {
        let mut set = learned_set(&[(0, 0, 4), (1, 0, 1), (2, 0, 1), (3, 0, 1)], false);
        for (entry, ms) in set.log.iter_mut().zip([2, 10, 20, 40]) {
            entry.time_us = ms * 1000;
        }
        set.unread = vec![set.log[1].span];
        set.window = Some(Duration::from_millis(30));
        assert_eq!(of(&set).unwrap().lengths_us, [18_000, 2_000]);
        set.window = None;
        assert_eq!(of(&set), None);
    }

    #[test]
    fn the_quietest_second_is_found() {
        let times = [0, 100, 200, 1_900_000, 1_950_000, 2_000_000, 2_500_000];
        assert_eq!(between(times.into_iter()).fewest_reads, Some(0));
        let even = (0..40).map(|index| index * 100_000);
        assert_eq!(between(even).fewest_reads, Some(10));
    }

    proptest! {
        /// Against every beginning of a second, on a grid that all times lie on.
        #[test]
        fn no_second_has_fewer(mut times in prop::collection::vec(0..40u64, 1..60)) {
            const GRID: u64 = 100_000;
            times.sort_unstable();
            let times: Vec<u64> = times.into_iter().map(|time| time * GRID).collect();
            let last = times[times.len() - 1];
            let count = |from: u64| times.iter().filter(|time| (from..from + SECOND_US).contains(*time)).count();
            let slow = (0..=last.saturating_sub(SECOND_US))
                .step_by(GRID as usize / 2)
                .filter(|from| from + SECOND_US <= last)
                .map(count)
                .min();
            prop_assert_eq!(fewest(&times), slow.map(|count| count as u64));
        }
    }
}
