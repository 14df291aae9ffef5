//! Stretches of a launch in which it reads nothing: how long quiet must last before a launch may be called
//! complete (T_idle of FAST §4.4 and §5.2).

use serde::{Deserialize, Serialize};

/// Shortest stretch that is kept, in microseconds: any processor work makes shorter ones.
const SHORTEST_US: u64 = 1000;

/// Most stretches in the file, the longest.
const MOST: usize = 500;

const SECOND_US: u64 = 1_000_000;

/// When no read of the launch was in flight, between its start and its last read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// Lengths of the stretches of at least a millisecond, in microseconds, the longest first; no more than 500.
    pub stretches_us: Vec<u64>,
    /// Time of all stretches, short ones included, in microseconds.
    pub total_us: u64,
    /// From the start to the end of the last read, in microseconds.
    pub until_us: u64,
    /// The fewest reads that were begun in any second of that time; `None` where it is shorter.
    pub fewest_reads: Option<u64>,
}

impl Idle {
    /// From reads `(begun, done)` of a launch, in microseconds since its start, in any order.
    pub fn of(reads: impl IntoIterator<Item = (u64, u64)>) -> Idle {
        let mut reads: Vec<(u64, u64)> = reads.into_iter().collect();
        reads.sort_unstable();
        let mut idle = Idle::default();
        let mut busy_until = 0;
        for &(begun, done) in &reads {
            if begun > busy_until {
                let length = begun - busy_until;
                idle.total_us += length;
                if length >= SHORTEST_US {
                    idle.stretches_us.push(length);
                }
            }
            busy_until = busy_until.max(done);
        }
        idle.until_us = busy_until;
        idle.stretches_us.sort_unstable_by(|a, b| b.cmp(a));
        idle.stretches_us.truncate(MOST);
        let begun: Vec<u64> = reads.iter().map(|(begun, _)| *begun).collect();
        idle.fewest_reads = fewest(&begun);
        idle
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stretches_lie_between_reads_and_before_the_first() {
        // Two reads overlap; a stretch of 0.5 ms counts in the sum alone.
        let idle = Idle::of([
            (9_000, 9_100),
            (2_000, 3_000),
            (2_500, 8_500),
            (30_000, 31_000),
        ]);
        assert_eq!(idle.stretches_us, [20_900, 2_000]);
        assert_eq!((idle.total_us, idle.until_us), (23_400, 31_000));
        assert_eq!(idle.fewest_reads, None);
        assert_eq!(Idle::of([]), Idle::default());
    }

    #[test]
    fn the_quietest_second_is_found() {
        let times = [0, 100, 200, 1_900_000, 1_950_000, 2_000_000, 2_500_000];
        let idle = Idle::of(times.map(|begun| (begun, begun + 10)));
        assert_eq!(idle.fewest_reads, Some(0));
        let even = (0..40).map(|index| (index * 100_000, index * 100_000 + 1));
        assert_eq!(Idle::of(even).fewest_reads, Some(10));
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
