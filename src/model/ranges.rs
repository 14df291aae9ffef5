//! Sets of page numbers as disjoint ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of page numbers. Adding and asking take time logarithmic in the number of ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Start → end; disjoint, not touching, none empty.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds a range; returns the parts of it that were not in the set before, in order.
    pub fn insert(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let fresh = self.missing(&range);
        if fresh.is_empty() {
            return fresh;
        }
        let mut joined = range;
        while let Some((&start, &end)) = self.ranges.range(..=joined.end).next_back() {
            if end < joined.start {
                break;
            }
            self.ranges.remove(&start);
            joined = joined.start.min(start)..joined.end.max(end);
        }
        self.ranges.insert(joined.start, joined.end);
        fresh
    }

    /// The parts of a range that are not in the set, in order.
    pub fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut next = range.start;
        for held in self.overlapping(range) {
            if next < held.start {
                missing.push(next..held.start);
            }
            next = held.end;
        }
        if next < range.end {
            missing.push(next..range.end);
        }
        missing
    }

    /// The parts of a range that are in the set, in order.
    pub fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let (start, end) = (range.start, range.end.max(range.start));
        let before = self.ranges.range(..start).next_back();
        before
            .into_iter()
            .chain(self.ranges.range(start..end))
            .map(move |(&held_start, &held_end)| held_start.max(start)..held_end.min(end))
            .filter(|range| range.start < range.end)
    }

    /// The set's ranges, in order; they do not touch.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Number of pages in the set.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<T: IntoIterator<Item = Range<u64>>>(ranges: T) -> Self {
        let mut set = RangeSet::default();
        for range in ranges {
            set.insert(range);
        }
        set
    }
}

/// Joins ranges that overlap or are at most `gap` apart: fewer questions to the kernel for a few
/// pages more in the answers. The result is in order.
pub fn bridge(mut ranges: Vec<Range<u64>>, gap: u64) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by_key(|range| range.start);
    let mut bridged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match bridged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => {
                last.end = last.end.max(range.end)
            }
            _ => bridged.push(range),
        }
    }
    bridged
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        proptest::collection::vec(
            (0u64..60, 0u64..12).prop_map(|(start, len)| start..start + len),
            0..30,
        )
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_single_pages(added in ranges(), asked in ranges()) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for range in added {
                let fresh: Vec<u64> = set.insert(range.clone()).into_iter().flatten().collect();
                let expected: Vec<u64> = range.filter(|&page| model.insert(page)).collect();
                prop_assert_eq!(fresh, expected);
            }
            prop_assert_eq!(set.len(), model.len() as u64);
            let starts: Vec<_> = set.ranges.iter().collect();
            prop_assert!(starts.windows(2).all(|pair| pair[0].1 < pair[1].0), "ranges touch");
            prop_assert_eq!(&RangeSet::from_iter(set.ranges()), &set);
            for range in asked {
                prop_assert!(set.overlapping(&range).all(|part| !part.is_empty()));
                let held: Vec<u64> = set.overlapping(&range).flatten().collect();
                let missing: Vec<u64> = set.missing(&range).into_iter().flatten().collect();
                let (expected_held, expected_missing): (Vec<u64>, Vec<u64>) =
                    range.partition(|page| model.contains(page));
                prop_assert_eq!(held, expected_held);
                prop_assert_eq!(missing, expected_missing);
            }
        }

        #[test]
        fn bridged_ranges_cover_all_and_stand_apart(given in ranges(), gap in 0u64..5) {
            let bridged = bridge(given.clone(), gap);
            prop_assert!(bridged.windows(2).all(|pair| pair[0].end + gap < pair[1].start));
            prop_assert!(bridged.iter().all(|range| !range.is_empty()));
            let covered: BTreeSet<u64> = bridged.into_iter().flatten().collect();
            let given: BTreeSet<u64> = given.into_iter().flatten().collect();
            prop_assert!(given.is_subset(&covered));
            // And no hole that is larger.
            let near = |page: u64| given.range(page.saturating_sub(gap)..=page + gap).next();
            prop_assert!(covered.into_iter().all(|page| near(page).is_some()));
        }
    }
}
