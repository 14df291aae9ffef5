//! Making launch sequences on a fake system.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::SystemTime;

use proptest::prelude::*;

use super::*;
use crate::fs::ext4::ExtentNode;
use crate::fs::fiemap::FileExtent;
use crate::fs::support::Support;
use crate::model::{By, Source};
use crate::model::{PAGE_SIZE, Place};

pub(super) const EXT4: u64 = 1;
const UNREADABLE: u64 = 2;
const TMPFS: u64 = 3;
const ELSEWHERE: u64 = 4;

/// A system of four devices; files that it does not know are gone.
#[derive(Default)]
pub(super) struct FakeProbe {
    files: HashMap<u64, FileState>,
    asked: Vec<FileKey>,
}

impl Probe for FakeProbe {
    fn device(&mut self, dev: u64) -> DeviceState {
        match dev {
            EXT4 | UNREADABLE => DeviceState::Usable {
                device: Device {
                    dev,
                    name: format!("fake{dev}"),
                    fs: "ext4".to_owned(),
                    fs_uuid: [dev as u8; 16],
                    class: DriveClass::CommandQueuing,
                },
                metadata: dev == EXT4,
            },
            TMPFS => DeviceState::LeftOut {
                fs_type: "tmpfs".to_owned(),
                support: Support::Memory,
            },
            _ => DeviceState::Unknown,
        }
    }

    fn file(&mut self, key: FileKey, _: &[Range<u64>], _: &[Range<u64>]) -> FileState {
        self.asked.push(key);
        self.files.get(&key.ino).cloned().unwrap_or(FileState::Gone)
    }

    fn warnings(&mut self) -> Vec<String> {
        vec!["a warning".to_owned()]
    }
}

/// A file of `pages` pages in one extent at page `ino * 1000` of the disk, whose inode is in page
/// `ino` of the device.
pub(super) fn file(ino: u64, pages: u64) -> FileFacts {
    FileFacts {
        size: pages * PAGE_SIZE,
        extents: vec![FileExtent {
            logical: 0,
            physical: ino * 1000 * PAGE_SIZE,
            length: pages * PAGE_SIZE,
            flags: 1,
        }],
        dependencies: Dependencies::new(Some(ino), &[], 4096),
        ..FileFacts::default()
    }
}

pub(super) fn fake(files: impl IntoIterator<Item = (u64, FileFacts)>) -> FakeProbe {
    FakeProbe {
        files: files
            .into_iter()
            .map(|(ino, facts)| (ino, FileState::Present(Box::new(facts))))
            .collect(),
        asked: Vec::new(),
    }
}

/// Accesses a microsecond apart, by the launch tree, on [`EXT4`].
pub(super) fn accesses(list: &[(u64, u64, u64, Source)]) -> Vec<Access> {
    list.iter()
        .enumerate()
        .map(|(index, &(ino, start, len, source))| Access {
            time_ns: 5_000_000 + index as u64 * 1000,
            dev: EXT4,
            ino,
            generation: 9,
            start,
            len,
            source,
            by: By::Tree,
        })
        .collect()
}

pub(super) fn run(accesses: &[Access], mut fake: FakeProbe) -> Sequence {
    run_on(accesses, &mut fake)
}

fn run_on(accesses: &[Access], fake: &mut FakeProbe) -> Sequence {
    run_after(&Earlier::default(), accesses, false, fake)
}

pub(super) fn run_after(
    earlier: &Earlier,
    accesses: &[Access],
    touches: bool,
    fake: &mut FakeProbe,
) -> Sequence {
    let observed = Observed {
        accesses,
        paths: &[],
        namespaces: &Namespaces::default(),
        start_ns: 5_000_000,
        started: SystemTime::UNIX_EPOCH,
        touches,
        earlier,
    };
    resolve_with(&observed, fake)
}

/// (file's inode number or 0, start, length, microseconds) of each log entry.
pub(super) fn short(sequence: &Sequence) -> Vec<(u64, u64, u64, u64)> {
    let entries = sequence.log.iter();
    entries
        .map(|entry| {
            let ino = match entry.span.place {
                Place::Metadata { .. } => 0,
                Place::Data { file } => sequence.files[file as usize].ino,
            };
            (ino, entry.span.start, entry.span.len, entry.time_us)
        })
        .collect()
}

use Source::{Added, Fault, Read, Window};

#[test]
fn each_page_comes_once_at_its_first_access_after_its_metadata() {
    let trace = accesses(&[
        (11, 0, 4, Added),
        (11, 2, 4, Read),
        (0, 12, 1, Added),
        (12, 0, 1, Added),
        (11, 0, 8, Read),
    ]);
    let sequence = run(&trace, fake([(11, file(11, 8)), (12, file(12, 8))]));
    assert_eq!(
        short(&sequence),
        [
            (0, 11, 1, 0),
            (11, 0, 6, 0),
            (0, 12, 1, 2),
            (12, 0, 1, 3),
            (11, 6, 2, 4)
        ]
    );
    assert_eq!(sequence.log[1].lba, 11_000 * 8);
    assert_eq!(sequence.log[2].lba, 12 * 8);
    assert_eq!(sequence.report.missing_metadata, 1);
    assert_eq!(sequence.report.warnings, ["a warning"]);
    assert_eq!(sequence.devices.len(), 1);
}

#[test]
fn reads_past_the_end_are_cut_off_there_and_counted() {
    let mut trace = accesses(&[(11, 6, 16, Read), (11, 6, 16, Read), (11, 40, 1, Added)]);
    trace[2].len = u64::MAX;
    let mut facts = file(11, 8);
    facts.size -= 4000;
    let sequence = run(&trace, fake([(11, facts)]));
    assert_eq!(short(&sequence), [(0, 11, 1, 0), (11, 6, 2, 0)]);
    assert!(sequence.report.past_end_pages > 14);
}

#[test]
fn a_window_gives_the_pages_that_were_cached_before() {
    let mut facts = file(11, 14);
    facts.cached = vec![2..5, 8..9, 10..14];
    let mut trace = accesses(&[
        (11, 0, 16, Window),
        (11, 8, 1, Added),
        (11, 10, 2, Added),
        (11, 13, 1, Read),
    ]);
    // Added by another task: not cached before, and not needed by the launch.
    trace[2].by = By::Other;
    let sequence = run(&trace, fake([(11, facts)]));
    assert_eq!(
        short(&sequence),
        [(0, 11, 1, 0), (11, 2, 3, 0), (11, 12, 2, 0), (11, 8, 1, 1)]
    );
    assert_eq!(sequence.report.window_pages, 5);
    assert_eq!(sequence.report.other, FileCount { files: 1, pages: 2 });
}

#[test]
fn a_window_gives_the_pages_that_others_had_just_added() {
    let mut facts = file(11, 14);
    facts.cached = vec![2..3, 8..14];
    let mut trace = accesses(&[
        (11, 8, 8, Added),
        (11, 4, 2, Added),
        (11, 0, 16, Window),
        (11, 6, 1, Added),
    ]);
    // Another program that uses the same library read these; the last of them after the fault.
    for index in [0, 3] {
        trace[index].by = By::Other;
    }
    let sequence = run(&trace, fake([(11, facts)]));
    assert_eq!(
        short(&sequence),
        [(0, 11, 1, 1), (11, 4, 2, 1), (11, 2, 1, 2), (11, 8, 6, 2)]
    );
}

#[test]
fn pages_that_the_drive_did_not_read_are_listed() {
    let mut facts = file(11, 14);
    facts.cached = vec![2..5, 8..9];
    let mut trace = accesses(&[
        (11, 0, 16, Window),
        (11, 8, 2, Added),
        (11, 6, 4, Read),
        (11, 10, 1, Read),
        (11, 10, 1, Added),
        (0, 12, 1, Added),
        (12, 0, 1, Added),
    ]);
    // Read by the drive for another task, while the launch was about to read it.
    trace[4].by = By::Other;
    let sequence = run(&trace, fake([(11, facts), (12, file(12, 1))]));
    let unread: Vec<(bool, u64, u64)> = sequence
        .unread
        .iter()
        .map(|span| (span.place.is_metadata(), span.start, span.len))
        .collect();
    assert_eq!(unread, [(false, 2, 3), (false, 6, 2), (true, 11, 1)]);
}

#[test]
fn accesses_left_out_are_counted_by_reason() {
    let mut trace = accesses(&[
        (11, 0, 2, Added),
        (12, 0, 2, Added),
        (13, 0, 2, Added),
        (13, 0, 3, Read),
        (14, 0, 2, Added),
        (0, 7, 2, Added),
        (0, 9, 3, Added),
        (15, 0, 4, Added),
    ]);
    trace[2].dev = TMPFS;
    trace[3].dev = TMPFS;
    trace[4].dev = ELSEWHERE;
    trace[5].dev = ELSEWHERE;
    trace[6].by = By::Other;
    let mut system = fake([(
        15,
        FileFacts {
            extents: Vec::new(),
            ..file(15, 4)
        },
    )]);
    system.files.insert(12, FileState::Written);
    let Sequence {
        devices,
        files,
        log,
        unread,
        report,
        ..
    } = run(&trace, system);
    assert_eq!((devices.len(), files.len(), log.len()), (0, 0, 0));
    assert_eq!(unread, []);
    assert_eq!(report.gone, FileCount { files: 1, pages: 2 });
    assert_eq!(report.written, FileCount { files: 1, pages: 2 });
    assert_eq!(
        report.left_out["tmpfs"].count,
        FileCount { files: 1, pages: 3 }
    );
    assert_eq!(report.unknown_device, FileCount { files: 1, pages: 4 });
    assert_eq!(report.other_metadata_pages, 3);
    assert_eq!(report.unmapped_pages, 4);
}

#[test]
fn without_the_block_device_data_stay_and_metadata_go() {
    let mut trace = accesses(&[(0, 7, 2, Added), (11, 0, 2, Added)]);
    trace.iter_mut().for_each(|access| access.dev = UNREADABLE);
    let facts = FileFacts {
        dependencies: Dependencies::default(),
        ..file(11, 2)
    };
    let sequence = run(&trace, fake([(11, facts)]));
    assert_eq!(short(&sequence), [(11, 0, 2, 1)]);
    assert_eq!(sequence.report.dropped_metadata, 2);
}

#[test]
fn files_that_were_faulted_on_are_mapped() {
    let trace = accesses(&[
        (11, 0, 1, Fault),
        (11, 0, 1, Added),
        (12, 0, 1, Added),
        (12, 0, 1, Read),
    ]);
    let sequence = run(&trace, fake([(11, file(11, 1)), (12, file(12, 1))]));
    assert_eq!(sequence.mapped, [true, false]);
}

#[test]
fn each_file_is_asked_about_once() {
    let trace = accesses(&[
        (11, 0, 1, Added),
        (12, 0, 1, Added),
        (11, 1, 1, Read),
        (11, 0, 16, Window),
    ]);
    let mut system = fake([(11, file(11, 8)), (12, file(12, 8))]);
    run_on(&trace, &mut system);
    assert_eq!(
        system.asked.iter().map(|key| key.ino).collect::<Vec<_>>(),
        [11, 12]
    );
}

fn any_access() -> impl Strategy<Value = Access> {
    let source = prop_oneof![Just(Added), Just(Read), Just(Window)];
    let by = prop_oneof![4 => Just(By::Tree), 1 => Just(By::Other), 1 => Just(By::Helper)];
    let len = prop_oneof![9 => 0u64..12, 1 => Just(u64::MAX)];
    (1u64..5, 0u64..6, 0u64..40, len, source, by).prop_map(|(dev, ino, start, len, source, by)| {
        Access {
            time_ns: 0,
            dev,
            ino,
            generation: 0,
            // Metadata have no end of file to cut them off.
            len: if ino == 0 { len.min(3) } else { len },
            start,
            source: if ino == 0 { Added } else { source },
            by,
        }
    })
}

fn any_facts() -> impl Strategy<Value = FileFacts> {
    let blocks = proptest::collection::vec(proptest::option::of(0u64..200), 0..40);
    let cached = proptest::collection::vec(any::<bool>(), 40);
    let nodes = proptest::collection::vec((0u64..40, 1u64..10, 0u64..40, 0u32..3), 0..6);
    (blocks, cached, nodes, 0u64..40).prop_map(|(blocks, cached, nodes, inode)| FileFacts {
        size: blocks.len() as u64 * PAGE_SIZE,
        extents: (0u64..)
            .zip(blocks)
            .filter_map(|(page, block)| {
                Some(FileExtent {
                    logical: page * PAGE_SIZE,
                    physical: block? * PAGE_SIZE,
                    length: PAGE_SIZE,
                    flags: 0,
                })
            })
            .collect(),
        cached: (0u64..)
            .zip(cached)
            .filter(|(_, cached)| *cached)
            .map(|(page, _)| page..page + 1)
            .collect(),
        dependencies: Dependencies::new(
            Some(inode),
            &nodes
                .into_iter()
                .map(|(first, len, physical, depth)| ExtentNode {
                    first,
                    len,
                    physical,
                    depth,
                })
                .collect::<Vec<_>>(),
            4096,
        ),
        ..FileFacts::default()
    })
}

proptest! {
    #[test]
    fn no_page_occurs_twice_and_time_never_goes_back(
        mut trace in proptest::collection::vec(any_access(), 0..60),
        facts in proptest::collection::vec(any_facts(), 5),
    ) {
        for (index, access) in trace.iter_mut().enumerate() {
            access.time_ns = 5_000_000 + index as u64 * 1000;
        }
        let asked: HashSet<(u64, u64)> = trace
            .iter()
            .filter(|access| access.by == By::Tree)
            .map(|access| (access.dev, access.ino))
            .collect();
        let sequence = run(&trace, fake((1..).zip(facts)));
        let mut pages = HashSet::new();
        for entry in &sequence.log {
            prop_assert!(entry.span.len > 0);
            for page in entry.span.start..entry.span.end() {
                prop_assert!(pages.insert((entry.span.place, page)), "{entry:?}");
            }
            if let Place::Data { file } = entry.span.place {
                let file = &sequence.files[file as usize];
                prop_assert_eq!(file.device, entry.device);
                prop_assert!(entry.span.end() <= file.size.div_ceil(PAGE_SIZE));
                let dev = sequence.devices[usize::from(entry.device)].dev;
                prop_assert!(asked.contains(&(dev, file.ino)), "only the launch tree's files");
            }
        }
        let mut unread = HashSet::new();
        for span in &sequence.unread {
            for page in span.start..span.end() {
                prop_assert!(pages.contains(&(span.place, page)), "{span:?} is in the log");
                prop_assert!(unread.insert((span.place, page)), "{span:?} comes once");
            }
        }
        prop_assert!(sequence.log.windows(2).all(|pair| pair[0].time_us <= pair[1].time_us));
    }
}
