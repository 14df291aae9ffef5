//! Launch sequences for property tests, laid out as a file system would: files and metadata side by
//! side on the disk, mostly contiguous, with gaps, fragments and pages that are not needed, read mostly
//! in disk order. Random numbers alone would hardly ever give two entries that can be joined.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

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

fn page() -> impl Strategy<Value = GeneratedPage> {
    (
        prop::bool::weighted(0.7),
        prop::bool::weighted(0.6),
        prop_oneof![9 => Just(0u64), 1 => 1..4u64],
        prop::bool::weighted(0.05),
        prop_oneof![3 => 0..4u64, 1 => 0..80u64],
    )
        .prop_map(|(needed, cut, gap, elsewhere, late)| GeneratedPage {
            needed,
            cut,
            gap,
            elsewhere,
            late,
        })
}

/// Any launch of up to a dozen files and metadata areas on two devices.
pub fn launch() -> impl Strategy<Value = GeneratedLaunch> {
    let extent = (
        0..2u16,
        prop::bool::weighted(0.4),
        vec(page(), 1..24),
        1..=PAGE_SIZE,
    )
        .prop_map(|(device, metadata, pages, tail)| GeneratedExtent {
            device,
            metadata,
            pages,
            tail,
        });
    vec(extent, 1..12).prop_map(|extents| lay_out(&extents))
}

fn lay_out(extents: &[GeneratedExtent]) -> GeneratedLaunch {
    const ELSEWHERE: u64 = 1 << 20;
    let mut disk = [64u64; 2];
    let mut spare = [ELSEWHERE; 2];
    let mut reads: Vec<(u64, LogEntry)> = Vec::new();
    let mut sizes = Vec::new();
    for extent in extents {
        let device = usize::from(extent.device);
        let mut last: Option<LogEntry> = None;
        for (page, number) in extent.pages.iter().zip(0u64..) {
            disk[device] += page.gap;
            let mut at = disk[device];
            disk[device] += 1;
            if page.elsewhere {
                at = spare[device];
                spare[device] += 1;
            }
            let (place, start) = if extent.metadata {
                let place = Place::Metadata {
                    device: extent.device,
                };
                (place, at)
            } else {
                let file = u32::try_from(sizes.len()).expect("a dozen files");
                (Place::Data { file }, number)
            };
            if !page.needed {
                continue;
            }
            let lba = at * SECTORS_PER_PAGE;
            let continues = |e: &LogEntry| e.lba_end() == lba && e.span.end() == start;
            if let Some(entry) = last.as_mut().filter(|e| !page.cut && continues(e)) {
                entry.span.len += 1;
                reads.last_mut().expect("holds `last`").1 = *entry;
                continue;
            }
            let span = Span {
                place,
                start,
                len: 1,
            };
            let entry = LogEntry {
                span,
                device: extent.device,
                lba,
                time_us: 0,
            };
            let due = u64::try_from(reads.len()).expect("small") + page.late;
            reads.push((due, entry));
            last = Some(entry);
        }
        if !extent.metadata {
            sizes.push((extent.pages.len() as u64 - 1) * PAGE_SIZE + extent.tail);
        }
    }
    reads.sort_by_key(|&(due, _)| due);
    let log = reads
        .into_iter()
        .zip(0u64..)
        .map(|((_, entry), position)| LogEntry {
            time_us: position * 137,
            ..entry
        })
        .collect();
    GeneratedLaunch { log, sizes }
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
