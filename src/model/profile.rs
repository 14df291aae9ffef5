//! A profile: all that is needed to prefetch one app.

use serde::{Deserialize, Serialize};

use crate::model::App;
use crate::model::DriveClass;
use crate::model::Hooks;
use crate::model::{InodeId, Operation, Params, PrefetchEntry, Span};

/// How the launch sequence was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Learned {
    /// With the devices' readahead off: the pages that the launch touched.
    Exact,
    /// With the usual readahead: the pages that the drive read, as the paper does.
    AsRead,
    /// From an ordinary launch, whatever was cached: the pages that it touched, as far as the kernel reports
    /// them.
    Live,
    /// Elsewhere, exactly or live: it was imported, and serves until a launch is learned here.
    Imported,
}

impl Learned {
    /// Whether the launch sequence consists of the pages that were touched, which lie scattered.
    pub fn is_touched(self) -> bool {
        self != Learned::AsRead
    }
}

/// What ended the learned launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The launch tree's last task exited.
    Exit,
    /// Fewer than 10 block reads in a second.
    Quiet,
    /// The time limit.
    Timeout,
}

/// A device of the profile's device table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Device number in the user-space encoding (`st_dev`) when the profile was made.
    pub dev: u64,
    /// Kernel name when the profile was made, such as `nvme0n1p2`.
    pub name: String,
    /// File system, such as `ext4`.
    pub fs: String,
    /// The file system's UUID, by which it is found again under another device number; of btrfs with the subvolume's
    /// number in it, since a subvolume counts as a file system.
    pub fs_uuid: [u8; 16],
    /// Kind of drive that the schedule was made for.
    pub class: DriveClass,
}

/// A regular file of the profile's file table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Index in the device table.
    pub device: u16,
    /// Inode number.
    pub ino: u64,
    /// Inode generation; with the inode number it names this very file, and no later one.
    pub generation: u32,
    /// Size in bytes when the profile was made.
    pub size: u64,
    /// Time of last modification, in nanoseconds since the epoch.
    pub mtime_ns: i64,
    /// Path from the file system's own root (arbitrary bytes), where it is known.
    pub path: Option<Vec<u8>>,
}

impl File {
    /// Which file it is, on the device of its file system (`st_dev`).
    pub fn inode(&self, dev: u64) -> InodeId {
        InodeId {
            dev,
            ino: self.ino,
            generation: self.generation,
        }
    }
}

/// One set of scheduling parameters that the profile has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// When it came into force, in seconds since the epoch.
    pub time: u64,
    /// The parameters.
    pub params: Params,
}

/// An access of a helper, a process outside of the launch tree that was started during the launch: on the
/// app's behalf, as a service that the bus starts for it, or by chance. It is needed if it recurs in another
/// launch (FAST §4.1.2: the common sequence of several launches).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperRead {
    /// The pages, and when.
    pub entry: PrefetchEntry,
    /// Whether it occurred in more than one launch. Then it is scheduled, too.
    pub recurs: bool,
}

/// Pages of the launch sequence that the launches learned last did not use. They stay for a while: launches of
/// one app differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusedPages {
    /// The pages.
    pub span: Span,
    /// When the last learned launch that used them was, in seconds since the epoch.
    pub used_s: u64,
}

/// Most times in [`Profile::learned_at`].
pub const MOST_LEARNED_LAUNCHES: usize = 16;

/// 4 KiB pages of file data in a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPages {
    /// All pages.
    pub all: u64,
    /// Pages that only faults on other pages mapped.
    pub fault_around: u64,
}

/// All that is needed to prefetch one app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Whose launch it is.
    pub app: App,
    /// When the last launch was learned, in seconds since the epoch; of an imported one, when it was put in place.
    pub created: u64,
    /// How it was learned.
    pub learned: Learned,
    /// What ended the learned launch.
    pub ended: Ended,
    /// The hooks by which uses of pages cached before the learned launch were traced.
    pub hooks: Hooks,
    /// Scheduling parameters, oldest first; the last is in force. Never empty.
    pub history: Vec<Revision>,
    /// Devices, indexed by [`crate::model::Place::Metadata`] and [`File::device`].
    pub devices: Vec<Device>,
    /// Files, indexed by [`crate::model::Place::Data`].
    pub files: Vec<File>,
    /// The schedule, in prefetch order.
    pub entries: Vec<PrefetchEntry>,
    /// What is asked of file systems ahead of the launch, in the order of its own questions: those of the launch that was
    /// learned last.
    pub operations: Vec<Operation>,
    /// Pages of the launch sequence that only faults on other pages mapped, so that the launches that were
    /// learned need not have touched them. The next one may tell.
    pub fault_around: Vec<Span>,
    /// Pages of the launch sequence that were not used lately.
    pub unused: Vec<UnusedPages>,
    /// When the launches were that it was learned from, in seconds since the epoch, oldest first: the last
    /// [`MOST_LEARNED_LAUNCHES`] of them.
    pub learned_at: Vec<u64>,
    /// What helpers accessed and the app did not: evidence for the next launch that is learned.
    pub helpers: Vec<HelperRead>,
    /// The completion pages, in the order of their use: a launch is complete when it has used [`pages_to_complete`] of them.
    /// The last is the completion block of the learned launch (paper §4.2).
    pub completion: Vec<Span>,
    /// Log entries in the launch sequence that the schedule was made from.
    pub log_entries: u32,
    /// Files found gone, replaced or truncated since.
    pub obsolete: u32,
}

/// Completion pages of a profile, at most.
pub const MOST_COMPLETION_PAGES: usize = 8;

/// How many of so many completion pages a launch has to use to be complete: half of them, rounded up. What an app reads in
/// the background, and not in each launch, does not decide then.
pub fn pages_to_complete(pages: usize) -> usize {
    pages.div_ceil(2)
}

impl Profile {
    /// Pages of file data in the schedule or launch sequence, and how many of them only faults on other pages
    /// mapped.
    pub fn data_pages(&self) -> DataPages {
        let data = self.entries.iter().map(|entry| entry.span);
        let data = data.filter(|span| !span.place.is_metadata());
        DataPages {
            all: data.map(|span| span.len).sum(),
            fault_around: self.fault_around.iter().map(|span| span.len).sum(),
        }
    }

    /// Number of files that the schedule reads.
    pub fn scheduled_files(&self) -> usize {
        let files = self.entries.iter().map(|entry| entry.span.place);
        let mut files: Vec<_> = files.filter(|place| !place.is_metadata()).collect();
        files.sort_unstable();
        files.dedup();
        files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Place;

    #[test]
    fn only_what_the_drive_read_with_its_readahead_is_more_than_was_touched() {
        let touched = [Learned::Exact, Learned::Live, Learned::Imported];
        assert!(touched.into_iter().all(Learned::is_touched));
        assert!(!Learned::AsRead.is_touched());
    }

    #[test]
    fn a_launch_is_complete_with_half_of_the_pages() {
        for (pages, wanted) in [(0, 0), (1, 1), (2, 1), (3, 2), (8, 4)] {
            assert_eq!(pages_to_complete(pages), wanted);
        }
    }

    #[test]
    fn a_profile_counts_its_data_and_its_files() {
        let read = |place, pages: std::ops::Range<u64>| PrefetchEntry {
            span: Span::new(place, pages),
            time_us: 0,
        };
        let data = |file, pages| read(Place::Data { file }, pages);
        let around = Span::new(Place::Data { file: 2 }, 0..2);
        let profile = Profile {
            app: App::default(),
            created: 0,
            learned: Learned::Exact,
            ended: Ended::Exit,
            hooks: Hooks::default(),
            history: Vec::new(),
            devices: Vec::new(),
            files: Vec::new(),
            entries: vec![
                data(2, 0..3),
                read(Place::Metadata { device: 0 }, 5..6),
                data(0, 0..4),
                data(2, 7..8),
            ],
            operations: Vec::new(),
            fault_around: vec![around],
            unused: Vec::new(),
            learned_at: Vec::new(),
            helpers: Vec::new(),
            completion: Vec::new(),
            log_entries: 0,
            obsolete: 0,
        };
        let pages = DataPages {
            all: 8,
            fault_around: 2,
        };
        assert_eq!(
            (profile.data_pages(), profile.scheduled_files()),
            (pages, 2)
        );
    }

    #[test]
    fn a_file_is_named_on_the_device_where_it_is_found() {
        let file = File {
            device: 4,
            ino: 7,
            generation: 3,
            size: 0,
            mtime_ns: 0,
            path: None,
        };
        let inode = InodeId {
            dev: 9,
            ino: 7,
            generation: 3,
        };
        assert_eq!(file.inode(9), inode);
    }
}
