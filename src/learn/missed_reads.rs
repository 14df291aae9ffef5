//! What prefetched launches read themselves because the profile lacks it: it joins the launch sequence when it recurs.
//!
//! One launch proves nothing: another document, a cache that has just expired. What it missed is kept as evidence, as
//! the reads of helpers are ([`Profile::helpers`]), and what a later launch misses again is needed (FAST §4.1.2: the
//! common sequence of several launches).

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant, SystemTime};

use super::file_metadata::FileMetadata;
use super::probe::LiveProbe;
use crate::fs::mounts::{MountTable, OpenMount};
use crate::fs::present::present_devices;
use crate::model::ranges::RangeSet;
use crate::model::{
    DriveClass, File, HelperRead, InodeId, OwnRead, PAGE_SIZE, Place, PrefetchEntry, Profile, Span,
};

/// Most reads that are kept as evidence; the oldest go.
const MOST_KEPT: usize = 1 << 14;

/// How long the files may be looked up.
const LOOKUP_LIMIT: Duration = Duration::from_secs(10);

/// What a prefetched launch read itself because its profile lacks it.
#[derive(Clone, Debug)]
pub struct MissedReads {
    /// The reads, each with the index of its device in the profile's table.
    pub reads: Vec<(u16, OwnRead)>,
    /// When the launch began: CLOCK_MONOTONIC, in nanoseconds.
    pub start_ns: u64,
    /// When the launch began, by the file systems' clock.
    pub began: SystemTime,
    /// Whether the app made them after a pause, when the launch was over. A launch that is learned does not see such reads:
    /// it says nothing of the pages that have joined by them.
    pub are_late: bool,
}

impl MissedReads {
    /// Notes them in a launch sequence. `profile` is what is scheduled of it: it has the same tables of devices and
    /// files afterwards. Files that were written since the launch began are left out, as when a launch is learned, and so
    /// are devices that the profile does not know: a launch that is learned finds them.
    ///
    /// # Errors
    /// When the mount table cannot be read, or tables of the two are not the same before.
    pub fn note(
        &self,
        profile: &mut Profile,
        sequence: &mut Profile,
    ) -> Result<NotedReads, String> {
        if sequence.devices != profile.devices || sequence.files != profile.files {
            return Err("its launch sequence has other files".to_owned());
        }
        let table =
            MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
        let until = Instant::now() + LOOKUP_LIMIT;
        let is_late = || Instant::now() >= until;
        // Drives are asked about when they are scheduled for; no device is entered here.
        let class = |_| DriveClass::CommandQueuing;
        let mut probe = LiveProbe::new(&table, &class, self.began, &is_late);
        let missed = self.entries(&mut sequence.files, &mut probe);
        profile.files.clone_from(&sequence.files);
        let scheduled = scheduled_files(sequence);
        let noted = note_missed(sequence, &missed, self.are_late);
        let mut new = scheduled_files(sequence);
        new.retain(|file| !scheduled.contains(file));
        if !new.is_empty() {
            let mounts: Vec<Option<OpenMount>> = present_devices(sequence, &table)
                .iter()
                .map(|presence| table.open_root(presence.dev()?).ok())
                .collect();
            let metadata =
                FileMetadata::find(sequence, &sequence.entries, &new, &[], &mounts, &is_late);
            sequence.entries = metadata.apply(&sequence.entries);
        }
        Ok(noted)
    }

    /// The reads as entries of the launch sequence. Files that its table does not have are entered there.
    fn entries(&self, files: &mut Vec<File>, probe: &mut LiveProbe<'_>) -> Vec<PrefetchEntry> {
        let mut known: HashMap<(u16, u64, u32), Option<u32>> = (0..)
            .zip(files.iter())
            .map(|(index, file)| ((file.device, file.ino, file.generation), Some(index)))
            .collect();
        let mut entries = Vec::new();
        for (device, read) in &self.reads {
            let InodeId {
                ino, generation, ..
            } = read.inode;
            let mut pages = read.pages.clone();
            let place = if ino == 0 {
                Place::Metadata { device: *device }
            } else {
                let file = known.entry((*device, ino, generation)).or_insert_with(|| {
                    let file = look_up(*device, read, probe)?;
                    files.push(file);
                    u32::try_from(files.len() - 1).ok()
                });
                let Some(file) = *file else { continue };
                let size = files[file as usize].size;
                pages.end = pages.end.min(size.div_ceil(PAGE_SIZE));
                Place::Data { file }
            };
            if pages.start < pages.end {
                entries.push(PrefetchEntry {
                    span: Span::new(place, pages),
                    time_us: read.time_ns.saturating_sub(self.start_ns) / 1000,
                });
            }
        }
        entries
    }
}

/// The entry of a file table for the file of a read; `None` if it is gone, or was written in the launch.
fn look_up(device: u16, read: &OwnRead, probe: &mut LiveProbe<'_>) -> Option<File> {
    let (_, facts) = probe.look_at(read.inode, &[], &[]).ok()?;
    Some(File {
        device,
        ino: read.inode.ino,
        generation: read.inode.generation,
        size: facts.size,
        mtime_ns: facts.mtime_ns,
        path: facts.path,
    })
}

/// Indices of the files that have entries.
fn scheduled_files(sequence: &Profile) -> BTreeSet<u32> {
    let places = sequence.entries.iter().map(|entry| entry.span.place);
    let files = places.filter_map(|place| match place {
        Place::Data { file } => Some(file),
        Place::Metadata { .. } => None,
    });
    files.collect()
}

/// What a launch has changed of a launch sequence, in 4 KiB pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotedReads {
    /// Pages that have joined it.
    pub joined: u64,
    /// Pages that are evidence from now on.
    pub kept: u64,
}

/// Notes in a launch sequence, which is kept in the form of a profile, what a prefetched launch missed.
///
/// Readahead reads more than is needed, so pages of files that join may leave again like those that only faults on other
/// pages mapped ([`Profile::fault_around`]), unless they `are_late`.
fn note_missed(sequence: &mut Profile, missed: &[PrefetchEntry], are_late: bool) -> NotedReads {
    let mut noted = NotedReads::default();
    let mut needed = pages_of(sequence.entries.iter());
    let once = sequence.helpers.iter().filter(|read| !read.recurs);
    let evidence = pages_of(once.map(|read| &read.entry));
    let none = RangeSet::default();
    let (mut joining, mut kept) = (Vec::new(), Vec::new());
    for read in missed {
        let place = read.span.place;
        let evidence = evidence.get(&place).unwrap_or(&none);
        let part = |pages| PrefetchEntry {
            span: Span::new(place, pages),
            ..*read
        };
        for fresh in needed.entry(place).or_default().insert(read.span.pages()) {
            joining.extend(evidence.overlapping(&fresh).map(part));
            kept.extend(evidence.missing(&fresh).into_iter().map(part));
        }
    }
    let count = |entries: &[PrefetchEntry]| entries.iter().map(|entry| entry.span.len).sum();
    noted.joined = count(&joining);
    noted.kept = count(&kept);
    forget_evidence(sequence, &pages_of(joining.iter()));
    let kept = kept.into_iter().map(|entry| HelperRead {
        entry,
        recurs: false,
    });
    sequence.helpers.splice(0..0, kept);
    sequence.helpers.truncate(MOST_KEPT);
    let data = joining.iter().map(|entry| entry.span);
    let data = data.filter(|span| !are_late && !span.place.is_metadata());
    sequence.fault_around.extend(data);
    sequence.entries.extend(joining);
    sequence.entries.sort_by_key(|entry| entry.time_us);
    noted
}

/// What has joined is no mere evidence any more.
fn forget_evidence(sequence: &mut Profile, joined: &HashMap<Place, RangeSet>) {
    let helpers = std::mem::take(&mut sequence.helpers);
    for read in helpers {
        let place = read.entry.span.place;
        let Some(joined) = joined.get(&place).filter(|_| !read.recurs) else {
            sequence.helpers.push(read);
            continue;
        };
        let left = joined.missing(&read.entry.span.pages()).into_iter();
        sequence.helpers.extend(left.map(|pages| HelperRead {
            entry: PrefetchEntry {
                span: Span::new(place, pages),
                ..read.entry
            },
            ..read
        }));
    }
}

fn pages_of<'a>(entries: impl Iterator<Item = &'a PrefetchEntry>) -> HashMap<Place, RangeSet> {
    let mut pages: HashMap<Place, RangeSet> = HashMap::new();
    for entry in entries {
        let of_place = pages.entry(entry.span.place).or_default();
        of_place.insert(entry.span.pages());
    }
    pages
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;
    use crate::profile::generate::sample;

    const DATA: Place = Place::Data { file: 0 };
    const METADATA: Place = Place::Metadata { device: 0 };

    fn read(place: Place, pages: Range<u64>, time_us: u64) -> PrefetchEntry {
        PrefetchEntry {
            span: Span::new(place, pages),
            time_us,
        }
    }

    /// A sequence with one entry, and no evidence.
    fn sequence() -> Profile {
        Profile {
            entries: vec![read(DATA, 0..4, 10)],
            fault_around: Vec::new(),
            helpers: Vec::new(),
            ..sample("/opt/app")
        }
    }

    fn noted(joined: u64, kept: u64) -> NotedReads {
        NotedReads { joined, kept }
    }

    #[test]
    fn what_is_missed_once_is_evidence_and_what_is_missed_again_joins() {
        let mut sequence = sequence();
        let first = [read(DATA, 2..8, 20), read(METADATA, 5..6, 5)];
        assert_eq!(note_missed(&mut sequence, &first, false), noted(0, 5));
        assert_eq!(sequence.entries, [read(DATA, 0..4, 10)]);
        let second = [read(DATA, 6..10, 30), read(METADATA, 5..6, 7)];
        assert_eq!(note_missed(&mut sequence, &second, false), noted(3, 2));
        let expected = [
            read(METADATA, 5..6, 7),
            read(DATA, 0..4, 10),
            read(DATA, 6..8, 30),
        ];
        assert_eq!(sequence.entries, expected);
        assert_eq!(sequence.fault_around, [Span::new(DATA, 6..8)]);
        let left: Vec<_> = sequence.helpers.iter().map(|read| read.entry).collect();
        assert_eq!(left, [read(DATA, 8..10, 30), read(DATA, 4..6, 20)]);
        assert_eq!(note_missed(&mut sequence, &second, false), noted(2, 0));
        assert_eq!(note_missed(&mut sequence, &second, false), noted(0, 0));
    }

    #[test]
    fn what_joins_after_a_pause_is_no_doubtful_part_of_a_window() {
        let mut sequence = sequence();
        let late = [read(DATA, 6..8, 4_000_000), read(METADATA, 5..6, 3_999_000)];
        assert_eq!(note_missed(&mut sequence, &late, true), noted(0, 3));
        assert_eq!(note_missed(&mut sequence, &late, true), noted(3, 0));
        let expected = [read(DATA, 0..4, 10), late[1], late[0]];
        assert_eq!(sequence.entries, expected);
        assert!(sequence.fault_around.is_empty());
    }

    #[test]
    fn what_helpers_of_a_learned_launch_read_once_is_evidence_too() {
        let helper = |pages, recurs| HelperRead {
            entry: read(DATA, pages, 1),
            recurs,
        };
        let mut sequence = Profile {
            helpers: vec![helper(10..12, false), helper(0..4, true)],
            ..sequence()
        };
        assert_eq!(
            note_missed(&mut sequence, &[read(DATA, 10..12, 9)], false),
            noted(2, 0)
        );
        assert_eq!(sequence.helpers, [helper(0..4, true)]);
    }

    #[test]
    fn the_oldest_evidence_makes_room() {
        let mut sequence = sequence();
        let reads = |from: u64| -> Vec<_> {
            let pages = (from..from + MOST_KEPT as u64).map(|page| 10 * page..10 * page + 1);
            pages.map(|pages| read(METADATA, pages, 1)).collect()
        };
        note_missed(&mut sequence, &reads(0), false);
        note_missed(&mut sequence, &reads(1 << 20), false);
        assert_eq!(sequence.helpers.len(), MOST_KEPT);
        assert_eq!(sequence.helpers[0].entry.span.start, 10 << 20);
    }

    proptest! {
        /// However launches miss pages, each page is in the sequence once, or evidence, or neither.
        #[test]
        fn no_page_is_in_the_sequence_twice(
            launches in prop::collection::vec(prop::collection::vec((0..40u64, 1..8u64), 0..6), 0..6)
        ) {
            let mut sequence = sequence();
            for launch in launches {
                let missed: Vec<_> = launch
                    .iter()
                    .map(|&(start, len)| read(DATA, start..start + len, start))
                    .collect();
                note_missed(&mut sequence, &missed, false);
                let evidence = sequence.helpers.iter().map(|read| &read.entry);
                let mut seen = RangeSet::default();
                for entry in sequence.entries.iter().chain(evidence) {
                    let fresh = seen.insert(entry.span.pages());
                    prop_assert_eq!(fresh, vec![entry.span.pages()]);
                }
                prop_assert!(sequence.entries.is_sorted_by_key(|entry| entry.time_us));
            }
        }
    }
}
