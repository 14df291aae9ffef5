//! Profiles that are wrong, and what they name instead (FAST §5.2, "FAST applicability").
//!
//! FAST shows what its prefetcher costs after an update of the app: reading as much from other offsets of
//! the same files, metadata as before, and reading for another app. A profile whose offsets are off by a
//! page is what a mistake in a file's table would make. Entries are moved after scheduling, as FAST's were:
//! their number, order and, where the file has room, size stay as they are.

use std::collections::HashMap;

use paralfetch::model::{PAGE_SIZE, Place, PrefetchEntry, Profile, Span};

/// In which way a profile is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WrongProfile {
    /// Data of each file are asked for one page behind where they are.
    OffByOne,
    /// As much is asked for in each file, where the app needs nothing.
    OtherPages,
    /// The profile is another app's.
    OtherApp,
}

impl WrongProfile {
    /// The entries of a profile, made wrong. Those of another app are that app's own.
    pub fn entries(self, profile: &Profile) -> Vec<PrefetchEntry> {
        match self {
            WrongProfile::OffByOne => off_by_one(profile),
            WrongProfile::OtherPages => other_pages(profile),
            WrongProfile::OtherApp => profile.entries.clone(),
        }
    }
}

/// Data a page further on; what would lie behind the end of its file is left out.
fn off_by_one(profile: &Profile) -> Vec<PrefetchEntry> {
    let move_one = |entry: &PrefetchEntry| {
        let Place::Data { file } = entry.span.place else {
            return Some(*entry);
        };
        let start = entry.span.start + 1;
        let end = (entry.span.end() + 1).min(pages(profile, file));
        (start < end).then_some(PrefetchEntry {
            span: Span {
                start,
                len: end - start,
                ..entry.span
            },
            ..*entry
        })
    };
    profile.entries.iter().filter_map(move_one).collect()
}

/// Data from pages that no entry names: from the first gap that is large enough, otherwise from the largest
/// one, as much as that holds. Where none is left, the entry is left out.
fn other_pages(profile: &Profile) -> Vec<PrefetchEntry> {
    let mut gaps: HashMap<u32, Vec<Gap>> = HashMap::new();
    let mut moved = Vec::with_capacity(profile.entries.len());
    for entry in &profile.entries {
        let Place::Data { file } = entry.span.place else {
            moved.push(*entry);
            continue;
        };
        let gaps = gaps.entry(file).or_insert_with(|| gaps_of(profile, file));
        let wide = gaps.iter().position(|gap| gap.len >= entry.span.len);
        let widest = || (0..gaps.len()).max_by_key(|&index| gaps[index].len);
        let Some(gap) = wide.or_else(widest).and_then(|index| gaps.get_mut(index)) else {
            continue;
        };
        let len = entry.span.len.min(gap.len);
        let start = gap.start;
        gap.start += len;
        gap.len -= len;
        if len > 0 {
            moved.push(PrefetchEntry {
                span: Span {
                    start,
                    len,
                    ..entry.span
                },
                ..*entry
            });
        }
    }
    moved
}

/// Pages of a file that nobody needs.
struct Gap {
    start: u64,
    len: u64,
}

fn gaps_of(profile: &Profile, file: u32) -> Vec<Gap> {
    let spans = profile.entries.iter().map(|entry| entry.span);
    let mut needed: Vec<(u64, u64)> = spans
        .filter(|span| span.place == Place::Data { file })
        .map(|span| (span.start, span.end()))
        .collect();
    needed.sort_unstable();
    let end = pages(profile, file);
    needed.push((end, end));
    let mut gaps = Vec::new();
    let mut from = 0;
    for (start, end) in needed {
        if start > from {
            gaps.push(Gap {
                start: from,
                len: start - from,
            });
        }
        from = from.max(end);
    }
    gaps
}

/// Pages of a file, the last of which may be shorter.
fn pages(profile: &Profile, file: u32) -> u64 {
    let file = profile.files.get(file as usize);
    file.map_or(0, |file| file.size.div_ceil(PAGE_SIZE))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::super::samples::{self, FILES};
    use super::*;

    /// The profile of a launch with these reads, an entry for each.
    fn profile(reads: &[samples::Read]) -> Profile {
        let set = samples::learned_set(reads, false);
        Profile {
            entries: super::super::order::one_by_one(&set.log),
            ..set.profile
        }
    }

    fn data(entries: &[PrefetchEntry]) -> Vec<(Place, u64, u64)> {
        let spans = entries.iter().map(|entry| entry.span);
        spans
            .filter(|span| !span.place.is_metadata())
            .map(|span| (span.place, span.start, span.len))
            .collect()
    }

    fn named(entries: &[PrefetchEntry]) -> HashSet<(Place, u64)> {
        let pages = |(place, start, len)| (start..start + len).map(move |page| (place, page));
        data(entries).into_iter().flat_map(pages).collect()
    }

    #[test]
    fn data_move_by_a_page_and_end_with_their_file() {
        let profile = profile(&[(0, 3, 2), (FILES, 1, 2), (1, 22, 2), (1, 21, 1), (2, 23, 1)]);
        let moved = WrongProfile::OffByOne.entries(&profile);
        let file = |file| Place::Data { file };
        assert_eq!(
            data(&moved),
            [(file(0), 4, 2), (file(1), 23, 1), (file(1), 22, 1)]
        );
        assert_eq!(moved[1], profile.entries[1], "metadata stay");
    }

    #[test]
    fn other_pages_come_from_gaps_that_hold_them() {
        // Gaps of the first file: pages 0, then 2 to 3, then 8 to 23.
        let profile = profile(&[(0, 4, 4), (0, 1, 1)]);
        let file = Place::Data { file: 0 };
        let moved = WrongProfile::OtherPages.entries(&profile);
        assert_eq!(data(&moved), [(file, 8, 4), (file, 0, 1)]);
    }

    #[test]
    fn a_file_that_is_needed_whole_has_no_other_pages() {
        let profile = profile(&[(3, 0, 24), (FILES, 0, 1)]);
        let moved = WrongProfile::OtherPages.entries(&profile);
        assert_eq!(moved, [profile.entries[1]]);
    }

    proptest! {
        #[test]
        fn no_other_page_is_needed_or_named_twice(reads in samples::reads()) {
            let profile = profile(&reads);
            let moved = WrongProfile::OtherPages.entries(&profile);
            let pages = named(&moved);
            prop_assert!(pages.is_disjoint(&named(&profile.entries)));
            let count: u64 = data(&moved).iter().map(|(_, _, len)| len).sum();
            prop_assert_eq!(pages.len() as u64, count);
            for (_, page) in pages {
                prop_assert!(page < 24);
            }
        }
    }
}
