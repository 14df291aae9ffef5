//! What an app reads itself because its profile lacks it, and what learning could do about that.

use std::collections::HashMap;

use super::known_files::KnownFiles;
use super::misses::FileLookUp;
use crate::model::{InodeId, MissKind, OwnRead};

/// The reads that the profile lacks, each with its kind.
pub fn lacked(
    mut reads: Vec<OwnRead>,
    known: &KnownFiles<'_>,
    system: &mut dyn FileLookUp,
) -> Vec<(OwnRead, MissKind)> {
    reads.retain(|read| !known.holds(read));
    let kinds = miss_kinds(&reads, known, system);
    reads.into_iter().zip(kinds).collect()
}

/// The reads that could be read ahead, each with the index of its device in the profile's table.
pub fn readable(lacked: Vec<(OwnRead, MissKind)>, known: &KnownFiles<'_>) -> Vec<(u16, OwnRead)> {
    let readable = lacked.into_iter();
    let readable = readable.filter(|(_, kind)| *kind != MissKind::Unreadable);
    let located = readable.filter_map(|(read, _)| Some((known.device(read.inode.dev)?, read)));
    located.collect()
}

/// The kind of each of these reads, which the profile lacks, in the same order.
fn miss_kinds(
    reads: &[OwnRead],
    known: &KnownFiles<'_>,
    system: &mut dyn FileLookUp,
) -> Vec<MissKind> {
    let mut files: HashMap<InodeId, Option<MissKind>> = HashMap::new();
    let kind = |read: &OwnRead| {
        let of_file = files
            .entry(read.inode)
            .or_insert_with(|| kind_of_file(read.inode, known, system));
        of_file.unwrap_or(match known.is_recorded_as_missed(read) {
            true => MissKind::Recurring,
            false => MissKind::Once,
        })
    };
    reads.iter().map(kind).collect()
}

/// The kind of all reads of a file, or of a device's metadata; `None` if that depends on the pages.
fn kind_of_file(
    key: InodeId,
    known: &KnownFiles<'_>,
    system: &mut dyn FileLookUp,
) -> Option<MissKind> {
    if !system.can_be_learned(key) {
        return Some(MissKind::Unreadable);
    }
    if key.ino != 0 && system.file(key).is_written() {
        return Some(MissKind::Written);
    }
    if known.device(key.dev).is_none() {
        return Some(MissKind::OtherDrive);
    }
    (!known.records_misses()).then_some(MissKind::Recurring)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::ops::Range;

    use super::*;
    use crate::fs::ext4::BlockKind;
    use crate::judge::{FileNow, PageFate};
    use crate::model::{
        By, File, HelperRead, Learned, Place, PrefetchEntry, PrefetchReport, Profile, Span,
    };
    use crate::profile::generate::sample;

    const UNREADABLE: u64 = 7;
    const ELSEWHERE: u64 = 8;
    const WRITTEN: u64 = 99;

    /// A system with a device whose metadata cannot be read, and a file that was written.
    #[derive(Default)]
    struct FakeDrives {
        asked: HashSet<InodeId>,
    }

    impl FileLookUp for FakeDrives {
        fn on_drive(&mut self, _: u64) -> bool {
            true
        }

        fn can_be_learned(&mut self, key: InodeId) -> bool {
            (key.dev, key.ino) != (UNREADABLE, 0)
        }

        fn file(&mut self, key: InodeId) -> FileNow {
            assert!(self.asked.insert(key), "each file is asked about once");
            FileNow {
                fate: match key.ino {
                    WRITTEN => PageFate::Written,
                    _ => PageFate::Unchanged,
                },
                ..FileNow::default()
            }
        }

        fn block(&mut self, _: u64, _: u64) -> BlockKind {
            BlockKind::Other
        }
    }

    fn read(inode: InodeId, pages: Range<u64>) -> OwnRead {
        OwnRead {
            inode,
            pages,
            time_ns: 0,
            by: By::Tree,
        }
    }

    /// A profile in which launches have missed pages 10 to 19 of its first file so far, and of the metadata.
    fn profile(learned: Learned) -> Profile {
        let missed = |place, recurs| HelperRead {
            entry: PrefetchEntry {
                span: Span::new(place, 10..20),
                time_us: 0,
            },
            recurs,
        };
        let sample = sample("/opt/app");
        let other = File {
            ino: sample.files[0].ino + 1,
            ..sample.files[0].clone()
        };
        Profile {
            learned,
            files: vec![sample.files[0].clone(), other],
            helpers: vec![
                missed(Place::Data { file: 0 }, false),
                missed(Place::Metadata { device: 0 }, false),
                missed(Place::Data { file: 1 }, true),
            ],
            ..sample
        }
    }

    fn kinds(learned: Learned) -> Vec<MissKind> {
        let profile = profile(learned);
        let report = PrefetchReport::default();
        let known = KnownFiles::new(&profile, &report);
        let dev = profile.devices[0].dev;
        let [file, other] = [0, 1].map(|file: usize| profile.files[file].inode(dev));
        let of = |dev, ino| InodeId {
            dev,
            ino,
            generation: 1,
        };
        let metadata = InodeId {
            dev,
            ..InodeId::default()
        };
        let reads = [
            read(file, 19..25),
            read(file, 20..25),
            read(other, 10..20),
            read(metadata, 12..13),
            read(metadata, 30..31),
            read(of(dev, WRITTEN), 0..1),
            read(of(UNREADABLE, 0), 0..1),
            read(of(UNREADABLE, 3), 0..1),
            read(of(ELSEWHERE, 3), 0..1),
            read(of(dev, 123_456), 0..1),
        ];
        miss_kinds(&reads, &known, &mut FakeDrives::default())
    }

    #[test]
    fn learning_brings_what_recurs_and_what_lies_on_another_drive() {
        use MissKind::*;
        let expected = [
            Recurring, Once, Once, Recurring, Once, Written, Unreadable, OtherDrive, OtherDrive,
            Once,
        ];
        assert_eq!(kinds(Learned::Live), expected);
    }

    #[test]
    fn what_the_profile_holds_or_cannot_be_read_is_not_taken_in() {
        let profile = Profile {
            entries: vec![PrefetchEntry {
                span: Span::new(Place::Data { file: 0 }, 0..4),
                time_us: 0,
            }],
            ..profile(Learned::Live)
        };
        let report = PrefetchReport::default();
        let known = KnownFiles::new(&profile, &report);
        let file = profile.files[0].inode(profile.devices[0].dev);
        let elsewhere = |dev| InodeId {
            dev,
            ..InodeId::default()
        };
        let reads = vec![
            read(file, 1..3),
            read(file, 5..8),
            read(elsewhere(UNREADABLE), 0..1),
            read(elsewhere(ELSEWHERE), 0..1),
        ];
        let lacked = lacked(reads.clone(), &known, &mut FakeDrives::default());
        let kinds: Vec<MissKind> = lacked.iter().map(|(_, kind)| *kind).collect();
        use MissKind::*;
        assert_eq!(kinds, [Once, Unreadable, OtherDrive]);
        assert_eq!(readable(lacked, &known), [(0, reads[1].clone())]);
    }

    #[test]
    fn without_a_record_of_earlier_launches_any_read_may_recur() {
        use MissKind::*;
        let expected = [
            Recurring, Recurring, Recurring, Recurring, Recurring, Written, Unreadable, OtherDrive,
            OtherDrive, Recurring,
        ];
        assert_eq!(kinds(Learned::Exact), expected);
    }
}
