//! Making launch sequences on a fake system.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;
use std::time::SystemTime;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::resolve::leave_to_others;
use super::*;
use crate::fs::ext4::ExtentNode;
use crate::fs::fiemap::FileExtent;
use crate::fs::mounts::MountTable;
use crate::fs::support::Support;
use crate::model::{By, DriveClass, InodeId, PAGE_SIZE, Place, Source};

pub(super) const EXT4: u64 = 1;
const UNREADABLE: u64 = 2;
const TMPFS: u64 = 3;
const ELSEWHERE: u64 = 4;

pub(super) fn device(dev: u64) -> Rc<Device> {
    Rc::new(Device {
        dev,
        name: format!("fake{dev}"),
        fs: "ext4".to_owned(),
        fs_uuid: [dev as u8; 16],
        class: DriveClass::CommandQueuing,
    })
}

/// A system of four devices; files that it does not know are gone.
#[derive(Default)]
pub(super) struct FakeProbe {
    files: HashMap<u64, Result<FileFacts, NoFacts>>,
    asked: Vec<InodeId>,
}

impl FakeProbe {
    pub(super) fn look_at(&mut self, key: InodeId) -> Result<(Rc<Device>, FileFacts), NoFacts> {
        match key.dev {
            UNREADABLE if key.ino == 0 => return Err(NoFacts::Metadata),
            EXT4 | UNREADABLE => {}
            TMPFS => return Err(NoFacts::FileSystem("tmpfs".to_owned(), Support::Memory)),
            _ => return Err(NoFacts::UnknownDevice),
        }
        if key.ino == 0 {
            return Ok((device(key.dev), FileFacts::default()));
        }
        self.asked.push(key);
        let found = self.files.get(&key.ino).unwrap_or(&Err(NoFacts::Gone));
        Ok((device(key.dev), found.clone()?))
    }
}

/// A file of `pages` pages in one extent at page `ino * 1000` of the disk, whose inode is in page
/// `ino` of the device.
pub(super) fn file(ino: u64, pages: u64) -> (u64, FileFacts) {
    let facts = FileFacts {
        size: pages * PAGE_SIZE,
        extents: Some(vec![FileExtent {
            logical: 0,
            physical: ino * 1000 * PAGE_SIZE,
            length: pages * PAGE_SIZE,
            ..FileExtent::default()
        }]),
        dependencies: Dependencies::new(Some(ino), &[], 4096),
        ..FileFacts::default()
    };
    (ino, facts)
}

/// The file with these pages cached.
pub(super) fn cached(mut file: (u64, FileFacts), pages: &[Range<u64>]) -> (u64, FileFacts) {
    file.1.cached = pages.iter().cloned().collect();
    file
}

pub(super) fn fake(files: impl IntoIterator<Item = (u64, FileFacts)>) -> FakeProbe {
    let files = files.into_iter().map(|(ino, facts)| (ino, Ok(facts)));
    FakeProbe {
        files: files.collect(),
        asked: Vec::new(),
    }
}

/// Accesses a microsecond apart on [`EXT4`], such as `read 11:2+4, other added 0:7+1`: who makes it, if not
/// the launch tree; its source; the file's inode number, or 0; the first page and the number of pages.
pub(super) fn accesses(text: &str) -> Vec<Access> {
    let access = |(index, text): (u64, &str)| {
        let words: Vec<&str> = text.split([' ', ':', '+']).collect();
        let (by, words) = match words[0] {
            "other" => (By::Other, &words[1..]),
            "helper" => (By::Helper, &words[1..]),
            "daemon" => (By::Daemon, &words[1..]),
            _ => (By::Tree, &words[..]),
        };
        let source = match words[0] {
            "added" => Source::Added,
            "read" => Source::Read,
            "fault" => Source::Fault,
            "window" => Source::Window,
            other => panic!("{other} is no source"),
        };
        let number = |word: usize| words[word].parse().unwrap();
        Access {
            time_ns: 5_000_000 + index * 1000,
            dev: EXT4,
            ino: number(1),
            generation: if number(1) == 0 { 0 } else { 9 },
            start: number(2),
            len: number(3),
            source,
            by,
        }
    };
    (0..).zip(text.split(", ")).map(access).collect()
}

/// Log entries, such as `m:12+1@0 11:0+6@2`: the file's inode number (its index, if it is not in `files`), or
/// `m` for metadata; the first page, the number of pages, and microseconds.
pub(super) fn text(log: &[LogEntry], files: &[File]) -> String {
    let entries = log.iter().map(|LogEntry { span, time_us, .. }| {
        let place = match span.place {
            Place::Metadata { .. } => "m".to_owned(),
            Place::Data { file } => files
                .get(file as usize)
                .map_or(u64::from(file), |file| file.ino)
                .to_string(),
        };
        format!("{place}:{}+{}@{time_us}", span.start, span.len)
    });
    entries.collect::<Vec<_>>().join(" ")
}

impl Sequence {
    pub(super) fn log_text(&self) -> String {
        text(&self.log, &self.files)
    }
}

pub(super) fn run(accesses: &[Access], mut fake: FakeProbe) -> Sequence {
    run_after(&Earlier::default(), accesses, false, &mut fake)
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
        uid: 0,
    };
    resolve_with(&observed, &mut |key, _, _| fake.look_at(key))
}

#[test]
fn helpers_of_this_program_are_none_of_the_app() {
    let mut all =
        accesses("helper read 11:0+4, read 11:4+1, helper read 12:0+1, daemon added 11:5+1");
    leave_to_others(&mut all, EXT4, 11);
    let by: Vec<By> = all.iter().map(|access| access.by).collect();
    assert_eq!(by, [By::Other, By::Tree, By::Helper, By::Daemon]);
    leave_to_others(&mut all, ELSEWHERE, 12);
    assert_eq!(all[2].by, By::Helper, "it is another device");
}

#[test]
fn each_page_comes_once_at_its_first_access_after_its_metadata() {
    let trace = "added 0:10+1, added 11:0+4, read 11:2+4, added 0:12+1, added 12:0+1, fault 11:0+8";
    let mut system = fake([file(11, 8), file(12, 8)]);
    let sequence = run_after(&Earlier::default(), &accesses(trace), false, &mut system);
    let expected = "m:10+2@0 11:0+6@1 m:12+1@3 12:0+1@4 11:6+2@5";
    assert_eq!(sequence.log_text(), expected);
    assert_eq!(sequence.log[1].lba, 11_000 * 8);
    assert_eq!(sequence.log[2].lba, 12 * 8);
    assert_eq!(sequence.devices.len(), 1);
    let asked: Vec<u64> = system.asked.iter().map(|key| key.ino).collect();
    assert_eq!(asked, [11, 12], "each file is asked about once");

    // Inserted metadata (block 11) are not among the traced requests, even if they were joined to one.
    let requests = |requests, kib| RequestCounts { requests, kib };
    let mut expected = Requirements {
        metadata: requests(2, 8),
        data: requests(3, 36),
        missing_metadata: 1,
        files: 2,
        mapped_files: Some(1),
    };
    assert_eq!(Requirements::of(&sequence, true), expected);
    expected.mapped_files = None;
    assert_eq!(Requirements::of(&sequence, false), expected);
    assert!(expected.lines()[1].ends_with(" unknown"));
}

#[test]
fn reads_past_the_end_are_cut_off_there_and_counted() {
    let trace = format!("read 11:6+16, read 11:6+16, added 11:40+{}", u64::MAX);
    let mut facts = file(11, 8);
    facts.1.size -= 4000;
    let sequence = run(&accesses(&trace), fake([facts]));
    assert_eq!(sequence.log_text(), "m:11+1@0 11:6+2@0");
    assert!(sequence.report.past_end_pages > 14);
}

#[test]
fn a_window_gives_the_pages_that_were_cached_before() {
    // Those added by another task after the fault were not cached before, and the launch does not need them.
    let trace = "window 11:0+16, added 11:8+1, other added 11:10+2, read 11:13+1";
    let facts = cached(file(11, 14), &[2..5, 8..9, 10..14]);
    let sequence = run(&accesses(trace), fake([facts]));
    let expected = "m:11+1@0 11:2+3@0 11:12+2@0 11:8+1@1";
    assert_eq!(sequence.log_text(), expected);
    assert_eq!(sequence.report.window_pages, 5);
    assert_eq!(sequence.report.other, FileCount { files: 1, pages: 2 });
    // Another program that uses the same library had read some just before.
    let trace = "other added 11:8+8, added 11:4+2, window 11:0+16, other added 11:6+1";
    let facts = cached(file(11, 14), &[2..3, 8..14]);
    let sequence = run(&accesses(trace), fake([facts]));
    let expected = "m:11+1@1 11:4+2@1 11:2+1@2 11:8+6@2";
    assert_eq!(sequence.log_text(), expected);
}

#[test]
fn pages_that_the_drive_did_not_read_are_listed() {
    // Page 10 was read by the drive for another task, while the launch was about to read it.
    let trace = "window 11:0+16, added 11:8+2, read 11:6+4, read 11:10+1, other added 11:10+1, \
                 added 0:12+1, added 12:0+1";
    let facts = cached(file(11, 14), &[2..5, 8..9]);
    let sequence = run(&accesses(trace), fake([facts, file(12, 1)]));
    let unread = sequence.unread.iter();
    let unread: Vec<_> = unread
        .map(|span| (span.place.is_metadata(), span.pages()))
        .collect();
    assert_eq!(unread, [(false, 2..5), (false, 6..8), (true, 11..12)]);
}

#[test]
fn accesses_left_out_are_counted_by_reason() {
    let mut trace = accesses(
        "added 11:0+2, added 12:0+2, added 13:0+2, read 13:0+3, added 14:0+2, added 0:7+2, \
         other added 0:9+3, added 15:0+4",
    );
    for (index, dev) in [(2, TMPFS), (3, TMPFS), (4, ELSEWHERE), (5, ELSEWHERE)] {
        trace[index].dev = dev;
    }
    let mut without_place = file(15, 4);
    without_place.1.extents = Some(Vec::new());
    let mut system = fake([without_place]);
    system.files.insert(12, Err(NoFacts::Written));
    let sequence = run(&trace, system);
    let mut report = ResolveReport {
        gone: FileCount { files: 1, pages: 2 },
        written: FileCount { files: 1, pages: 2 },
        unknown_device: FileCount { files: 1, pages: 4 },
        other_metadata_pages: 3,
        unmapped_pages: 4,
        ..ResolveReport::default()
    };
    let of_tmpfs = LeftOut {
        support: Support::Memory,
        count: FileCount { files: 1, pages: 3 },
    };
    report.left_out.insert("tmpfs".to_owned(), of_tmpfs);
    let expected = Sequence {
        report,
        ..Sequence::default()
    };
    assert_eq!(sequence, expected);

    // Without the block device, data stay and metadata go.
    let mut trace = accesses("added 0:7+2, added 11:0+2");
    trace.iter_mut().for_each(|access| access.dev = UNREADABLE);
    let mut facts = file(11, 2);
    facts.1.dependencies = Dependencies::default();
    let sequence = run(&trace, fake([facts]));
    assert_eq!(sequence.log_text(), "11:0+2@1");
    assert_eq!(sequence.report.dropped_metadata, 2);
}

fn any_access() -> impl Strategy<Value = Access> {
    use Source::{Added, Read, Window};
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
    let blocks = vec(option::of(0u64..200), 0..40);
    let node = (0u64..40, 1u64..10, 0u64..40, 0u32..3);
    let node = node.prop_map(|(first, len, physical, depth)| ExtentNode {
        first,
        len,
        physical,
        depth,
    });
    let extent = |(page, block): (u64, Option<u64>)| {
        Some(FileExtent {
            logical: page * PAGE_SIZE,
            physical: block? * PAGE_SIZE,
            length: PAGE_SIZE,
            ..FileExtent::default()
        })
    };
    (blocks, vec(any::<bool>(), 40), vec(node, 0..6), 0u64..40).prop_map(
        move |(blocks, cached, nodes, inode)| FileFacts {
            size: blocks.len() as u64 * PAGE_SIZE,
            extents: Some((0u64..).zip(blocks).filter_map(extent).collect()),
            cached: (0u64..)
                .zip(cached)
                .filter(|(_, cached)| *cached)
                .map(|(page, _)| page..page + 1)
                .collect(),
            dependencies: Dependencies::new(Some(inode), &nodes, 4096),
            ..FileFacts::default()
        },
    )
}

proptest! {
    #[test]
    fn no_page_occurs_twice_and_time_never_goes_back(
        mut trace in vec(any_access(), 0..60),
        facts in vec(any_facts(), 5),
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
            for page in entry.span.pages() {
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
            for page in span.pages() {
                prop_assert!(pages.contains(&(span.place, page)), "{span:?} is in the log");
                prop_assert!(unread.insert((span.place, page)), "{span:?} comes once");
            }
        }
        prop_assert!(sequence.log.windows(2).all(|pair| pair[0].time_us <= pair[1].time_us));
    }
}

#[test]
fn nothing_is_asked_of_the_system_once_it_is_late() {
    let trace = accesses("added 11:0+4");
    let observed = Observed {
        accesses: &trace,
        paths: &[],
        namespaces: &Namespaces::default(),
        start_ns: 0,
        started: SystemTime::UNIX_EPOCH,
        uid: 0,
        touches: false,
        earlier: &Earlier::default(),
    };
    let mounts = MountTable::read().unwrap();
    let class = |_| panic!("no device is opened");
    assert_eq!(resolve(&observed, &mounts, &class, &|| true), None);
}
