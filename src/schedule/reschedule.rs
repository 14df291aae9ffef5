//! Making a schedule anew with other parameters (dynamic scheduling, paper §3.3).
//!
//! A profile keeps the schedule, not the launch sequence. From it can be made:
//!
//! - **Another shift**: a shift only changes the order, and each entry carries the time of its first
//!   access, so that [`reorder`] undoes one shift and applies another, any number of times, smaller
//!   or larger. It needs nothing but the entries.
//! - **Wider merging**: [`resequence`] makes a launch sequence of the entries and of the places where
//!   their files lie on the disk by now, and [`super::schedule_for`] starts from that. A merged entry
//!   counts as one position, so that I/O distances come out shorter than in the launch, and a
//!   threshold reaches a little further than its number says. What was merged stays merged.
//! - **Narrower merging**: not from the schedule. To take back a merge, the launch sequence must be kept
//!   beside the profile, as entries in access order ([`crate::model::LogEntry`] without its disk position).
//!   From that,
//!   [`resequence`] is exact in both directions.

use std::ops::Range;

use super::shift::shift;
use crate::model::{DeviceParams, File, LogEntry, Place, PrefetchEntry, SECTORS_PER_PAGE, Span};

/// Pages of a file that are contiguous on a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Index of the file's device in the device table.
    pub device: u16,
    /// 4 KiB pages of the file.
    pub pages: Range<u64>,
    /// Disk position of the first page, in 512-byte sectors from the start of `device`.
    pub lba: u64,
}

/// A launch sequence made from entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resequenced {
    /// The launch sequence, in access order.
    pub log: Vec<LogEntry>,
    /// Pages that have no place on the disk any more (their file is gone or shorter, or they are in
    /// a hole); they are not in the log.
    pub unplaced: Vec<Span>,
}

/// The entries with the metadata shifts of `params` in place of those that they have. `files` is the file table
/// of their profile.
///
/// `entries` are a schedule in prefetch order with the times of first access. Entries of one and the
/// same time (the profile format rounds times down to 100 µs) keep their order, in which metadata
/// come early enough for the data that depend on them.
pub fn reorder(
    entries: &[PrefetchEntry],
    files: &[File],
    params: &DeviceParams,
) -> Vec<PrefetchEntry> {
    let class = |entry: &PrefetchEntry| params.class(entry.span.place.device(files));
    shift(&in_access_order(entries), |entry| entry.span, class, params)
}

/// The launch sequence behind `entries`: a schedule in prefetch order, or a launch sequence that was
/// kept without its disk positions.
///
/// `locate` says where pages of a file (by its index in the file table) lie on its disk, in the order of the
/// file, as FIEMAP gives them, and leaves out those without a place. Other pages in its answers, and repeated
/// ones, are ignored. The place of metadata is in their span.
pub fn resequence(
    entries: &[PrefetchEntry],
    mut locate: impl FnMut(u32, Range<u64>) -> Vec<Located>,
) -> Resequenced {
    let mut found = Resequenced::default();
    for entry in in_access_order(entries) {
        match entry.span.place {
            Place::Metadata { device } => found.log.push(LogEntry {
                span: entry.span,
                device,
                lba: entry.span.start.saturating_mul(SECTORS_PER_PAGE),
                time_us: entry.time_us,
            }),
            Place::Data { file } => {
                let pieces = locate(file, entry.span.start..entry.span.end());
                found.place(&entry, &pieces);
            }
        }
    }
    found
}

/// Sorted by the time of first access. The sort is stable: entries of the same time keep their order.
fn in_access_order(entries: &[PrefetchEntry]) -> Vec<PrefetchEntry> {
    let mut entries = entries.to_vec();
    entries.sort_by_key(|entry| entry.time_us);
    entries
}

impl Resequenced {
    /// Cuts a file's pages into pieces that are contiguous on the disk.
    fn place(&mut self, entry: &PrefetchEntry, pieces: &[Located]) {
        let wanted = entry.span;
        let span = |pages: Range<u64>| Span {
            start: pages.start,
            len: pages.end - pages.start,
            ..wanted
        };
        let mut next = wanted.start;
        for piece in pieces {
            let start = piece.pages.start.max(next);
            let end = piece.pages.end.min(wanted.end());
            if start >= end {
                continue;
            }
            if next < start {
                self.unplaced.push(span(next..start));
            }
            let into = (start - piece.pages.start).saturating_mul(SECTORS_PER_PAGE);
            self.log.push(LogEntry {
                span: span(start..end),
                device: piece.device,
                lba: piece.lba.saturating_add(into),
                time_us: entry.time_us,
            });
            next = end;
        }
        if next < wanted.end() {
            self.unplaced.push(span(next..wanted.end()));
        }
    }
}

#[cfg(test)]
mod tests;
