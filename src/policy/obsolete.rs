//! Obsolete entries: a daily pass over the files of a profile.

use crate::model::{Place, PrefetchEntry};

/// Launches, later than [`RELATIME_S`] after learning, none of which may have accessed a file before its
/// entries are dropped. The original waits for none; then an app that opens another document at every launch
/// would lose half of its schedule.
const UNUSED_LAUNCHES: usize = 3;

/// With `relatime`, the usual mount option, the time of last access is renewed once a day: an access
/// shows for certain only if the one before it was a day ago.
const RELATIME_S: u64 = 24 * 60 * 60;

/// The state of a file since it was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It exists and is not shorter.
    There,
    /// Its path leads to another file now: a package was updated.
    Replaced,
    /// It has only this many 4 KiB pages left.
    Truncated {
        /// Pages, the last one perhaps not full.
        pages: u64,
    },
    /// It is gone, and so is its path.
    Gone,
    /// Its file system is not mounted: it may come back.
    Away,
}

/// A file of the profile as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCheck {
    /// Its state.
    pub finding: Finding,
    /// Time of last access (`st_atime`), in seconds since the epoch; `None` where that tells nothing: mounted
    /// `noatime` or read-only, or not examined.
    pub accessed_s: Option<u64>,
}

/// The result of the pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The entries that are left, in prefetch order.
    pub entries: Vec<PrefetchEntry>,
    /// Files (by their index in the file table) whose path leads to another file now. Their entries are kept,
    /// and become valid once the table names the new file.
    pub replaced: Vec<u32>,
    /// Entries that were dropped or cut short, and those of replaced files.
    pub obsolete: u64,
}

/// Finds the obsolete entries of a profile. `checks` are its files as they were found, in the order of its
/// file table. An entry without a check is kept, as are metadata, which have no time of access. `learned_s`
/// is when the profile was made and `launches_s` when the app was launched since (some of the last launches
/// will do), in seconds since the epoch.
pub fn check_files(
    entries: &[PrefetchEntry],
    checks: &[FileCheck],
    learned_s: u64,
    launches_s: &[u64],
) -> Checked {
    let telling = learned_s.saturating_add(RELATIME_S);
    let launches = launches_s.iter().filter(|&&launch| launch > telling);
    let may_be_unused = launches.count() >= UNUSED_LAUNCHES;
    let mut checked = Checked::default();
    for &entry in entries {
        let check = match entry.span.place {
            Place::Metadata { .. } => None,
            Place::Data { file } => checks.get(file as usize).map(|check| (file, check)),
        };
        let Some((file, check)) = check else {
            checked.entries.push(entry);
            continue;
        };
        let unused = may_be_unused && check.accessed_s.is_some_and(|time| time < learned_s);
        let mut left = entry;
        let keep = match check.finding {
            Finding::Away => true,
            Finding::Gone => false,
            Finding::There => !unused,
            Finding::Replaced => {
                checked.replaced.push(file);
                true
            }
            Finding::Truncated { pages } => {
                left.span.len = left.span.len.min(pages.saturating_sub(left.span.start));
                !unused && left.span.len > 0
            }
        };
        let obsolete = !keep || left != entry || check.finding == Finding::Replaced;
        checked.obsolete += u64::from(obsolete);
        checked.entries.extend(keep.then_some(left));
    }
    checked.replaced.sort_unstable();
    checked.replaced.dedup();
    checked
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::Span;

    const LEARNED: u64 = 1_000_000;
    const LATER: u64 = LEARNED + RELATIME_S + 1;

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
        let cases: [(Finding, &[PrefetchEntry], &[u32], u64); 5] = [
            (Finding::There, &all, &[], 0),
            (Finding::Away, &all, &[], 0),
            (Finding::Gone, &[], &[], 3),
            (Finding::Replaced, &all, &[0], 3),
            (Finding::Truncated { pages: 6 }, &cut, &[], 2),
        ];
        for (finding, left, replaced, obsolete) in cases {
            let check = FileCheck {
                finding,
                accessed_s: None,
            };
            // Metadata, and data of a file without a check, are kept.
            let unchecked = [metadata(), data(9, 0, 4)];
            let checked = check_files(&[&unchecked[..], &all].concat(), &[check], LEARNED, &[]);
            assert_eq!(
                checked.entries,
                [&unchecked[..], left].concat(),
                "{finding:?}"
            );
            assert_eq!(checked.replaced, replaced, "{finding:?}");
            assert_eq!(checked.obsolete, obsolete, "{finding:?}");
        }
    }

    #[test]
    fn entries_unused_by_three_later_launches_are_dropped() {
        let left = |accessed_s, launches: &[u64]| {
            let check = FileCheck {
                finding: Finding::There,
                accessed_s,
            };
            !check_files(&[data(0, 0, 1)], &[check], LEARNED, launches)
                .entries
                .is_empty()
        };
        let before = Some(LEARNED - 1);
        assert!(!left(before, &[LATER; 3]));
        assert!(left(before, &[LATER; 2]), "two launches");
        assert!(
            left(before, &[LATER, LATER, LATER - 1]),
            "within a day of learning"
        );
        assert!(left(Some(LEARNED), &[LATER; 3]), "accessed since");
        assert!(left(None, &[LATER; 3]), "unknown access time");
    }

    proptest! {
        /// Entries are only dropped or shortened, metadata never, and a second pass finds nothing more to
        /// drop.
        #[test]
        fn a_pass_only_takes_away_and_once(
            files in prop::collection::vec((0..5u8, 0..8u64, prop::option::of(0..2u64)), 0..6),
            entries in prop::collection::vec((0..8u32, 0..8u64, 1..4u64), 0..30),
            launches in 0..5usize,
        ) {
            let checks: Vec<FileCheck> = files
                .into_iter()
                .map(|(kind, pages, accessed)| FileCheck {
                    finding: match kind {
                        0 => Finding::There,
                        1 => Finding::Replaced,
                        2 => Finding::Truncated { pages },
                        3 => Finding::Gone,
                        _ => Finding::Away,
                    },
                    accessed_s: accessed.map(|since| LEARNED - 1 + since),
                })
                .collect();
            let mut entries: Vec<_> = entries
                .into_iter()
                .map(|(file, start, len)| data(file, start, len))
                .collect();
            entries.push(metadata());
            let launches = vec![LATER; launches];
            let once = check_files(&entries, &checks, LEARNED, &launches);
            prop_assert!(once.entries.contains(&metadata()));
            prop_assert!(once.entries.iter().all(|entry| entry.span.len > 0));
            prop_assert!(entries.len() - once.entries.len() <= once.obsolete as usize);
            let mut rest = entries.iter();
            for left in &once.entries {
                let place = |entry: &PrefetchEntry| (entry.span.place, entry.span.start);
                let from = rest.find(|entry| place(entry) == place(left));
                prop_assert!(from.is_some_and(|entry| entry.span.len >= left.span.len));
            }
            let twice = check_files(&once.entries, &checks, LEARNED, &launches);
            prop_assert_eq!(twice.entries, once.entries);
        }
    }
}
