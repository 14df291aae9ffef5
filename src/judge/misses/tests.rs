//! Judging launches on a fake system.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::model::Skipped;
use crate::model::{Device, File};
use crate::model::{Place, PrefetchEntry, Span};
use crate::profile::generate::sample;

const DEV: u64 = 0x802;
const TMPFS: u64 = 0x1b;

/// Files by inode number; those that it does not know are unchanged and have no path. Pages of
/// metadata: 0 to 99 are inode tables.
#[derive(Default)]
struct FakeFiles {
    files: HashMap<u64, FileNow>,
    asked: Vec<InodeId>,
}

impl FileLookUp for FakeFiles {
    fn on_drive(&mut self, dev: u64) -> bool {
        dev != TMPFS
    }

    fn can_be_learned(&mut self, key: InodeId) -> bool {
        key.dev != TMPFS
    }

    fn file(&mut self, key: InodeId) -> FileNow {
        self.asked.push(key);
        self.files.get(&key.ino).cloned().unwrap_or_default()
    }

    fn block(&mut self, _: u64, page: u64) -> BlockKind {
        match page {
            0..100 => BlockKind::InodeTable,
            _ => BlockKind::Other,
        }
    }
}

/// A profile of files 11 and 12, of 20 pages each, that has pages 0 to 9 of both, and metadata pages
/// 50, 60 and 200.
fn profile() -> Profile {
    let mut profile = sample("/bin/app");
    let file = |ino: u64| File {
        device: 0,
        ino,
        generation: 9,
        size: 20 * PAGE_SIZE,
        mtime_ns: 0,
        path: Some(format!("/{ino}").into()),
    };
    let entry = |place, start, len| PrefetchEntry {
        span: Span { place, start, len },
        time_us: 0,
    };
    let metadata = Place::Metadata { device: 0 };
    profile.devices = vec![Device {
        dev: DEV,
        ..profile.devices[0].clone()
    }];
    profile.files = vec![file(11), file(12)];
    profile.entries = vec![
        entry(metadata, 50, 1),
        entry(metadata, 60, 1),
        entry(metadata, 200, 1),
        entry(Place::Data { file: 0 }, 0, 10),
        entry(Place::Data { file: 1 }, 0, 10),
    ];
    profile.log_entries = 10;
    profile
}

/// Accesses (inode number or 0, start, length, source, by), a millisecond apart.
fn accesses(list: &[(u64, u64, u64, Source, By)]) -> Vec<Access> {
    (1u64..)
        .zip(list)
        .map(|(time, &(ino, start, len, source, by))| Access {
            time_ns: time * 1_000_000,
            dev: DEV,
            ino,
            generation: if ino == 0 { 0 } else { 9 },
            start,
            len,
            source,
            by,
        })
        .collect()
}

fn judged(accesses: &[Access], prefetch: &PrefetchReport, system: &mut FakeFiles) -> Misses {
    let launch = JudgedLaunch {
        start_ns: 0,
        accesses,
        profile: &profile(),
        prefetch,
    };
    misses(&launch, system)
}

/// After a prefetch that read the whole schedule, with every file unchanged.
fn judged_plainly(accesses: &[Access]) -> Misses {
    judged(
        accesses,
        &PrefetchReport::default(),
        &mut FakeFiles::default(),
    )
}

/// A miss in short: inode number or 0, start, pages and reason.
type ShortMiss = (u64, u64, u64, MissReason);

fn short(misses: &[Miss]) -> Vec<ShortMiss> {
    let of = |miss: &Miss| {
        let ino = match miss.place {
            MissedPlace::Data { inode, .. } => inode,
            MissedPlace::Metadata { .. } => 0,
        };
        (ino, miss.start, miss.pages, miss.reason)
    };
    misses.iter().map(of).collect()
}

use By::{Other, Own, Tree};
use MissReason::{Late, NotInProfile, ReadAround, Stale, Written};
use Source::{Added, Fault, Read, Window};

#[test]
fn consecutive_additions_by_the_tree_are_a_request() {
    let trace = accesses(&[
        (11, 0, 4, Added, Own),
        (13, 0, 4, Added, Tree),
        (13, 4, 4, Added, Tree),
        (13, 9, 1, Added, Tree),
        (13, 2, 1, Read, Tree),
        (13, 2, 8, Window, Tree),
    ]);
    let mut system = FakeFiles::default();
    let found = judged(&trace, &PrefetchReport::default(), &mut system);
    let expected = [(13, 0, 8, NotInProfile), (13, 9, 1, NotInProfile)];
    assert_eq!(short(&found.misses), expected);
    assert_eq!(found.misses[0].time_us, 2000);
    assert_eq!((found.total.requests, found.total.pages), (2, 9));
    assert_eq!(found.ratio(), 0.2);
    assert_eq!(system.asked.len(), 1);
}

#[test]
fn scheduled_pages_were_late_stale_or_skipped() {
    const SKIPPED: MissReason = MissReason::Skipped;
    let trace = accesses(&[
        (11, 3, 2, Added, Tree),
        (12, 8, 1, Added, Tree),
        (0, 200, 1, Added, Tree),
        (0, 300, 1, Added, Tree),
    ]);
    let span = |place, start, len| Span { place, start, len };
    let data = span(Place::Data { file: 1 }, 5, 5);
    let metadata = span(Place::Metadata { device: 0 }, 200, 1);
    let partly = PrefetchReport {
        skipped_spans: vec![(data, Skipped::Truncated), (metadata, Skipped::NoNode)],
        ..PrefetchReport::default()
    };
    let warm = PrefetchReport {
        warm: true,
        ..PrefetchReport::default()
    };
    let elsewhere = PrefetchReport {
        devices: vec![Some(DEV + 1)],
        ..PrefetchReport::default()
    };
    let nowhere = PrefetchReport {
        devices: vec![None],
        ..PrefetchReport::default()
    };
    for (prefetch, reasons) in [
        (nowhere, [NotInProfile; 4]),
        (partly, [Late, Stale, SKIPPED, NotInProfile]),
        (warm, [SKIPPED, SKIPPED, SKIPPED, NotInProfile]),
        (elsewhere, [NotInProfile; 4]),
    ] {
        let found = judged(&trace, &prefetch, &mut FakeFiles::default());
        let found: Vec<_> = found.misses.iter().map(|miss| miss.reason).collect();
        assert_eq!(found, reasons, "{prefetch:?}");
    }
}

#[test]
fn replaced_and_extended_files_are_stale_and_written_ones_written() {
    let files = [
        (21, "/11", PageFate::Unchanged),
        (22, "/22", PageFate::Written),
        (23, "/23", PageFate::Made),
        (24, "/24", PageFate::Gone),
    ];
    let files = files.map(|(ino, path, fate)| {
        let path = Some(path.into());
        (ino, FileNow { path, fate })
    });
    let mut system = FakeFiles {
        files: HashMap::from(files),
        ..FakeFiles::default()
    };
    let trace = accesses(&[
        (21, 0, 1, Added, Tree),
        (22, 0, 1, Added, Tree),
        (23, 0, 5, Added, Tree),
        (24, 0, 1, Added, Tree),
        (11, 15, 1, Added, Tree),
        (11, 20, 1, Added, Tree),
    ]);
    let found = judged(&trace, &PrefetchReport::default(), &mut system);
    let expected = [
        (21, 0, 1, Stale),
        (22, 0, 1, Written),
        (24, 0, 1, Written),
        (11, 15, 1, NotInProfile),
        (11, 20, 1, Stale),
    ];
    assert_eq!(short(&found.misses), expected);
    assert_eq!(found.made_pages, 5);
}

#[test]
fn requests_around_a_recent_fault_are_read_around() {
    let file = [
        (11, 25, 1, Fault, Tree),
        (11, 5, 5, Added, Tree),
        (11, 20, 9, Added, Tree),
        (11, 35, 2, Added, Tree),
        (11, 90, 2, Added, Tree),
    ];
    let of_file = [
        (11, 5, 5, ReadAround),
        (11, 20, 9, Stale),
        (11, 35, 2, ReadAround),
        (11, 90, 2, Stale),
    ];
    // ext4 reads ahead the window of 32 blocks around an inode's.
    let table = [
        (0, 50, 1, Added, Tree),
        (0, 32, 18, Added, Tree),
        (0, 51, 13, Added, Tree),
        (0, 70, 1, Added, Tree),
    ];
    let of_table = [
        (0, 50, 1, Late),
        (0, 32, 18, ReadAround),
        (0, 51, 13, ReadAround),
        (0, 70, 1, NotInProfile),
    ];
    // The last sixteen faults count.
    let mut many = vec![
        (11, 60, 1, Fault, Tree),
        (11, 61, 4, Added, Tree),
        (11, 200, 1, Fault, Tree),
        (11, 201, 1, Fault, Tree),
        (11, 70, 6, Added, Tree),
        (11, 59, 2, Added, Tree),
    ];
    many.extend((0..14).map(|page| (11, 300 + page, 1, Fault, Tree)));
    many.push((11, 85, 3, Added, Tree));
    let of_many = [
        (11, 61, 4, ReadAround),
        (11, 70, 6, ReadAround),
        (11, 59, 2, Stale),
        (11, 85, 3, Stale),
    ];
    for (trace, expected) in [(&file[..], of_file), (&table, of_table), (&many, of_many)] {
        let found = judged_plainly(&accesses(trace));
        assert_eq!(short(&found.misses), expected);
    }
}

#[test]
fn reads_of_others_are_listed_apart_and_memory_is_not_read() {
    let mut trace = accesses(&[
        (11, 0, 1, Added, Other),
        (0, 300, 1, Added, Other),
        (30, 0, 9, Added, Tree),
    ]);
    trace[2].dev = TMPFS;
    let found = judged_plainly(&trace);
    assert_eq!(found.misses, []);
    assert_eq!((found.total, found.ratio()), (RequestCount::default(), 0.0));
    let others = [
        (11, 0, 1, MissReason::Other),
        (0, 300, 1, MissReason::Other),
    ];
    assert_eq!(short(&found.others), others);
}

proptest! {
    /// Each page that the tree or others added is in one request, the totals are those of the list, and
    /// only scheduled pages are late.
    #[test]
    fn every_addition_is_accounted_for(
        raw in proptest::collection::vec(
            (
                prop_oneof![Just(0u64), 11..15u64],
                0..40u64,
                1..4u64,
                proptest::sample::select(vec![Added, Fault, Read, Window]),
                proptest::sample::select(vec![Tree, Own, Other]),
            ),
            0..60,
        ),
    ) {
        let trace = accesses(&raw);
        let found = judged_plainly(&trace);
        let added = |by: By| -> u64 {
            let of = raw.iter().filter(|access| access.3 == Added && access.4 == by);
            of.map(|access| access.2).sum()
        };
        let pages = |list: &[Miss]| list.iter().map(|miss| miss.pages).sum::<u64>();
        prop_assert_eq!(pages(&found.misses), added(Tree));
        prop_assert_eq!(pages(&found.others), added(Other));
        prop_assert_eq!(found.total.pages, added(Tree));
        prop_assert_eq!(found.total.requests, found.misses.len() as u64);
        let by_reason: u64 = found.by_reason.values().map(|count| count.requests).sum();
        prop_assert_eq!(by_reason, found.total.requests);
        prop_assert!(found.others.iter().all(|miss| miss.reason == MissReason::Other));
        prop_assert!(found.misses.is_sorted_by_key(|miss| miss.time_us));
        let scheduled: HashSet<(u64, u64)> = [11, 12]
            .into_iter()
            .flat_map(|ino| (0..10).map(move |page| (ino, page)))
            .chain([(0, 50), (0, 60), (0, 200)])
            .collect();
        for (ino, start, len, reason) in short(&found.misses) {
            if reason == Late {
                prop_assert!((start..start + len).any(|page| scheduled.contains(&(ino, page))));
            }
        }
    }
}
