//! Learned sets for tests: launches of a few files and metadata on one drive.

use std::time::Duration;

use paralfetch::model::DriveClass;
use paralfetch::model::Hooks;
use paralfetch::model::{App, Device, Ended, File, Learned, Profile, Revision};
use paralfetch::model::{LogEntry, Params, Place, SECTORS_PER_PAGE, Span};
use proptest::collection::vec;
use proptest::prelude::*;

use super::learned::LearnedSet;

/// Files of a sample, with the inode numbers [`INODES`].
pub const FILES: u32 = 4;

/// Where the metadata begin on the disk, in pages; the files come after it.
pub const METADATA: u64 = 40;

const INODES: [u64; FILES as usize] = [17, 12, 90, 41];

/// Pages of each file, and of the metadata.
const PAGES: u64 = 24;

/// What a log entry reads: one of the files, or the metadata for [`FILES`]; first page; pages.
pub type Read = (u32, u64, u64);

/// The app that was learned.
pub fn app() -> App {
    App {
        uid: 0,
        path: b"/bin/app".to_vec(),
        root: None,
        program: None,
        dev: 1,
        ino: 2,
    }
}

/// A learned set whose log has these reads in this order. `turn` turns the file table around, as another
/// order of first accesses would.
pub fn learned_set(reads: &[Read], turn: bool) -> LearnedSet {
    let number = |file: u32| if turn { FILES - 1 - file } else { file };
    let log: Vec<LogEntry> = reads
        .iter()
        .zip(0..)
        .map(|(&(what, start, len), time_us)| {
            let (place, start, position) = if what == FILES {
                let position = METADATA + start;
                (Place::Metadata { device: 0 }, position, position)
            } else {
                let file = number(what);
                // A file in two fragments.
                let gap = if start < PAGES / 2 { 0 } else { 1000 };
                let position = METADATA + (u64::from(what) + 1) * PAGES + start + gap;
                (Place::Data { file }, start, position)
            };
            LogEntry {
                span: Span { place, start, len },
                device: 0,
                lba: position * SECTORS_PER_PAGE,
                time_us,
            }
        })
        .collect();
    let mut files: Vec<File> = INODES
        .iter()
        .map(|&ino| File {
            device: 0,
            ino,
            generation: 7,
            size: PAGES * 4096,
            mtime_ns: 0,
            path: Some(format!("/lib/{ino}").into()),
        })
        .collect();
    if turn {
        files.reverse();
    }
    let params = Params::for_device(DriveClass::CommandQueuing, false);
    let entries = paralfetch::schedule::schedule(&log, &params);
    let profile = Profile {
        app: app(),
        created: 1,
        learned: Learned::AsRead,
        ended: Ended::Exit,
        hooks: Hooks::default(),
        history: vec![Revision { time: 1, params }],
        devices: vec![Device {
            dev: 1,
            name: "sda".to_owned(),
            fs: "ext4".to_owned(),
            fs_uuid: *b"one file system.",
            class: DriveClass::CommandQueuing,
        }],
        files,
        entries,
        fault_around: Vec::new(),
        unused: Vec::new(),
        operations: Vec::new(),
        learned_at: Vec::new(),
        helpers: Vec::new(),
        completion: Vec::new(),
        log_entries: log.len() as u32,
        obsolete: 0,
    };
    LearnedSet {
        profile,
        log,
        unread: Vec::new(),
        duration: Duration::from_millis(300),
        window: Some(Duration::from_millis(250)),
    }
}

/// The reads of a launch, in any order, without a page that comes twice or a read across fragments.
pub fn reads() -> impl Strategy<Value = Vec<Read>> {
    let places = (FILES + 1) as usize;
    // Each page is needed or not, and begins a read of its own or continues the one before.
    let pages = vec((any::<bool>(), prop::bool::weighted(0.3)), PAGES as usize);
    vec(pages, places)
        .prop_map(|places| {
            let mut reads: Vec<Read> = Vec::new();
            for (pages, place) in places.into_iter().zip(0..) {
                for ((needed, cut), page) in pages.into_iter().zip(0..) {
                    let cut = cut || page == PAGES / 2;
                    match reads.last_mut() {
                        _ if !needed => {}
                        Some((last, start, len))
                            if !cut && (*last, *start + *len) == (place, page) =>
                        {
                            *len += 1;
                        }
                        _ => reads.push((place, page, 1)),
                    }
                }
            }
            reads
        })
        .prop_shuffle()
}
