//! Obsolete entries: a daily pass over the files of a profile.
//!
//! The original also drops files that were not accessed after the profile was made. Access times prove
//! nothing: they stand still on mounts that are `noatime` or read-only, and for accesses through a sandbox's
//! own read-only mount, which the mount that the service sees says nothing of.

use crate::model::{Place, PrefetchEntry};

/// The state of a file since it was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The file exists and is not shorter.
    There,
    /// The file's path leads to another file now: a package was updated.
    Replaced,
    /// The file has only this many 4 KiB pages left.
    Truncated {
        /// Pages, the last one perhaps not full.
        pages: u64,
    },
    /// The file is gone, and so is its path.
    Gone,
    /// The file system is not mounted: the file may come back.
    Away,
}

/// The result of the pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The entries that are left, in prefetch order.
    pub entries: Vec<PrefetchEntry>,
    /// Entries that were dropped or cut short, and those of replaced files.
    pub obsolete: u64,
}

/// Finds the obsolete entries of a profile. `found` are its files, in the order of its file table. An entry
/// of a file that was not looked for is kept, as are metadata. Those of a replaced file are kept, too: they
/// become valid once the table names the new file.
pub fn check_files(entries: &[PrefetchEntry], found: &[Finding]) -> Checked {
    let mut checked = Checked::default();
    for &entry in entries {
        let finding = match entry.span.place {
            Place::Metadata { .. } => None,
            Place::Data { file } => found.get(file as usize).copied(),
        };
        let Some(finding) = finding else {
            checked.entries.push(entry);
            continue;
        };
        let mut left = entry;
        let keep = match finding {
            Finding::Away | Finding::There | Finding::Replaced => true,
            Finding::Gone => false,
            Finding::Truncated { pages } => {
                left.span.len = left.span.len.min(pages.saturating_sub(left.span.start));
                left.span.len > 0
            }
        };
        let obsolete = !keep || left != entry || finding == Finding::Replaced;
        checked.obsolete += u64::from(obsolete);
        checked.entries.extend(keep.then_some(left));
    }
    checked
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::Span;

    fn entry(place: Place, start: u64, len: u64) -> PrefetchEntry {
        let span = Span { place, start, len };
        PrefetchEntry { span, time_us: 0 }
    }

    fn data(file: u32, start: u64, len: u64) -> PrefetchEntry {
        entry(Place::Data { file }, start, len)
    }

    fn metadata() -> PrefetchEntry {
        entry(Place::Metadata { device: 0 }, 9, 1)
    }

    #[test]
    fn what_became_of_a_file_decides_about_its_entries() {
        let all = [data(0, 0, 4), data(0, 4, 4), data(0, 8, 4)];
        let cut = [data(0, 0, 4), data(0, 4, 2)];
        let cases: [(Finding, &[PrefetchEntry], u64); 5] = [
            (Finding::There, &all, 0),
            (Finding::Away, &all, 0),
            (Finding::Gone, &[], 3),
            (Finding::Replaced, &all, 3),
            (Finding::Truncated { pages: 6 }, &cut, 2),
        ];
        for (finding, left, obsolete) in cases {
            // Metadata, and data of a file that was not looked for, are kept.
            let unchecked = [metadata(), data(9, 0, 4)];
            let checked = check_files(&[&unchecked[..], &all].concat(), &[finding]);
            assert_eq!(
                checked.entries,
                [&unchecked[..], left].concat(),
                "{finding:?}"
            );
            assert_eq!(checked.obsolete, obsolete, "{finding:?}");
        }
    }

    proptest! {
        /// Entries are only dropped or shortened, metadata never, and a second pass finds nothing more to
        /// drop.
        #[test]
        fn a_pass_only_takes_away_and_once(
            files in prop::collection::vec((0..5u8, 0..8u64), 0..6),
            entries in prop::collection::vec((0..8u32, 0..8u64, 1..4u64), 0..30),
        ) {
            let found: Vec<Finding> = files
                .into_iter()
                .map(|(kind, pages)| match kind {
                    0 => Finding::There,
                    1 => Finding::Replaced,
                    2 => Finding::Truncated { pages },
                    3 => Finding::Gone,
                    _ => Finding::Away,
                })
                .collect();
            let mut entries: Vec<_> = entries
                .into_iter()
                .map(|(file, start, len)| data(file, start, len))
                .collect();
            entries.push(metadata());
            let once = check_files(&entries, &found);
            prop_assert!(once.entries.contains(&metadata()));
            prop_assert!(once.entries.iter().all(|entry| entry.span.len > 0));
            prop_assert!(entries.len() - once.entries.len() <= once.obsolete as usize);
            let mut rest = entries.iter();
            for left in &once.entries {
                let place = |entry: &PrefetchEntry| (entry.span.place, entry.span.start);
                let from = rest.find(|entry| place(entry) == place(left));
                prop_assert!(from.is_some_and(|entry| entry.span.len >= left.span.len));
            }
            let twice = check_files(&once.entries, &found);
            prop_assert_eq!(twice.entries, once.entries);
        }
    }
}
