//! Launch sequences for property tests, laid out as a file system would: files and metadata side by
//! side on the disk, mostly contiguous, with gaps, fragments and pages that are not needed, read mostly
//! in disk order. Random numbers alone would hardly ever give two entries that can be joined.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::model::{LogEntry, PAGE_SIZE, Place, PrefetchEntry, SECTORS_PER_PAGE, Span};

/// A generated launch.
#[derive(Clone, Debug)]
pub struct GeneratedLaunch {
    /// The launch sequence, in access order. Positions are indices.
    pub log: Vec<LogEntry>,
    /// Size of each file in bytes.
    pub sizes: Vec<u64>,
}

/// What becomes of one page of a file or of one metadata block.
#[derive(Clone, Debug)]
struct GeneratedPage {
    needed: bool,
    /// Starts a log entry of its own even where it continues the last one.
    cut: bool,
    /// Pages of disk left free before it.
    gap: u64,
    /// Lies in another region of the disk; its place among its neighbours stays empty.
    elsewhere: bool,
    /// By how much its read comes late, in positions.
    late: u64,
}

#[derive(Clone, Debug)]
struct GeneratedExtent {
    device: u16,
    metadata: bool,
    pages: Vec<GeneratedPage>,
    /// Bytes in a file's last page.
    tail: u64,
}

prop_compose! {
    fn page()(
        needed in prop::bool::weighted(0.7),
        cut in prop::bool::weighted(0.6),
        gap in prop_oneof![9 => Just(0u64), 1 => 1..4u64],
        elsewhere in prop::bool::weighted(0.05),
        late in prop_oneof![3 => 0..4u64, 1 => 0..80u64],
    ) -> GeneratedPage {
        GeneratedPage { needed, cut, gap, elsewhere, late }
    }
}

prop_compose! {
    fn extent()(
        device in 0..2u16,
        metadata in prop::bool::weighted(0.4),
        pages in vec(page(), 1..24),
        tail in 1..=PAGE_SIZE,
    ) -> GeneratedExtent {
        GeneratedExtent { device, metadata, pages, tail }
    }
}

/// Any launch of up to a dozen files and metadata areas on two devices.
pub fn launch() -> impl Strategy<Value = GeneratedLaunch> {
    vec(extent(), 1..12).prop_map(|extents| lay_out(&extents))
}

/// `count` launches, the same at every call.
pub fn launches(count: usize) -> impl Iterator<Item = Vec<LogEntry>> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(move |_| {
        let tree = launch().new_tree(&mut runner).expect("no filters");
        tree.current().log
    })
}

/// An entry of `len` pages of a file, `disk_page` pages from the start of device 0.
pub fn data(file: u32, start: u64, len: u64, disk_page: u64) -> LogEntry {
    log_entry(0, Place::Data { file }, start, len, disk_page)
}

/// An entry of metadata of device 0.
pub fn metadata(disk_page: u64, len: u64) -> LogEntry {
    log_entry(0, Place::Metadata { device: 0 }, disk_page, len, disk_page)
}

fn log_entry(device: u16, place: Place, start: u64, len: u64, disk_page: u64) -> LogEntry {
    LogEntry {
        span: Span { place, start, len },
        device,
        lba: disk_page * SECTORS_PER_PAGE,
        time_us: 0,
    }
}

/// The entries as a profile keeps them.
pub fn prefetch(log: &[LogEntry]) -> Vec<PrefetchEntry> {
    log.iter()
        .map(|&LogEntry { span, time_us, .. }| PrefetchEntry { span, time_us })
        .collect()
}

/// The next free page of a device: among its neighbours, and in another region.
#[derive(Clone, Copy)]
struct FreePages {
    near: u64,
    elsewhere: u64,
}

fn lay_out(extents: &[GeneratedExtent]) -> GeneratedLaunch {
    let mut free = [FreePages {
        near: 64,
        elsewhere: 1 << 20,
    }; 2];
    // With the position at which each is read.
    let mut reads: Vec<(u64, LogEntry)> = Vec::new();
    let mut sizes = Vec::new();
    for extent in extents {
        let file = u32::try_from(sizes.len()).expect("a dozen files");
        let free = &mut free[usize::from(extent.device)];
        let first = reads.len();
        for (page, number) in extent.pages.iter().zip(0u64..) {
            let disk_page = take_page(free, page);
            if !page.needed {
                continue;
            }
            let device = extent.device;
            let (place, start) = match extent.metadata {
                true => (Place::Metadata { device }, disk_page),
                false => (Place::Data { file }, number),
            };
            let entry = log_entry(device, place, start, 1, disk_page);
            let continued = reads[first..].last_mut().filter(|(_, last)| {
                !page.cut && last.lba_end() == entry.lba && last.span.end() == start
            });
            match continued {
                Some((_, last)) => last.span.len += 1,
                None => reads.push((reads.len() as u64 + page.late, entry)),
            }
        }
        if !extent.metadata {
            sizes.push((extent.pages.len() as u64 - 1) * PAGE_SIZE + extent.tail);
        }
    }
    reads.sort_by_key(|&(due, _)| due);
    let mut log: Vec<LogEntry> = reads.into_iter().map(|(_, entry)| entry).collect();
    for (entry, position) in log.iter_mut().zip(0..) {
        entry.time_us = position * 137;
    }
    GeneratedLaunch { log, sizes }
}

/// Where a page lies on the disk.
fn take_page(free: &mut FreePages, page: &GeneratedPage) -> u64 {
    free.near += page.gap;
    let near = free.near;
    free.near += 1;
    if !page.elsewhere {
        return near;
    }
    free.elsewhere += 1;
    free.elsewhere - 1
}

/// Checks what must hold of any merge of `launch`: nothing lost, nothing read twice, nothing
/// invented but holes of at most `hole_pages`, nothing beyond a file's end, places kept apart, and
/// nothing moved forward by more than `distance` positions. `entries` may be in any order.
pub fn check_merged(
    launch: &GeneratedLaunch,
    entries: &[PrefetchEntry],
    distance: u64,
    hole_pages: u64,
) -> Result<(), TestCaseError> {
    // Every needed page, with the entry that it came from and that entry's position.
    let mut needed: BTreeMap<(Place, u64), (usize, &LogEntry)> = BTreeMap::new();
    for (position, entry) in launch.log.iter().enumerate() {
        for page in entry.span.start..entry.span.end() {
            prop_assert!(
                needed
                    .insert((entry.span.place, page), (position, entry))
                    .is_none()
            );
        }
    }
    for PrefetchEntry { span, time_us } in entries {
        if let Place::Data { file } = span.place {
            prop_assert!((span.end() - 1) * PAGE_SIZE < launch.sizes[file as usize]);
        }
        let mut members = Vec::new();
        let mut hole = 0;
        for page in span.start..span.end() {
            // Taking it out shows a page that is read twice as an unneeded one.
            if let Some((position, from)) = needed.remove(&(span.place, page)) {
                let lba = from.lba + (page - from.span.start) * SECTORS_PER_PAGE;
                members.push((position, from, lba, page));
                hole = 0;
            } else {
                hole += 1;
                prop_assert!(hole <= hole_pages, "{hole} unneeded pages in {span:?}");
            }
        }
        let (Some(first), Some(last)) = (members.first(), members.last()) else {
            return Err(TestCaseError::fail("an entry without a needed page"));
        };
        prop_assert_eq!(first.3, span.start);
        prop_assert_eq!(last.3, span.end() - 1);
        let earliest = members.iter().map(|m| m.0).min().expect("not empty");
        let latest = members.iter().map(|m| m.0).max().expect("not empty");
        prop_assert!((latest - earliest) as u64 <= distance);
        prop_assert_eq!(*time_us, launch.log[earliest].time_us);
        for (_, from, lba, page) in &members {
            prop_assert_eq!(from.device, first.1.device);
            prop_assert_eq!(*lba, first.2 + (page - span.start) * SECTORS_PER_PAGE);
        }
    }
    prop_assert!(needed.is_empty(), "lost: {:?}", needed);
    Ok(())
}
