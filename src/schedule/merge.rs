//! Range merge (paper Algorithm 2) and infill merge (Mobifetch §2).
//!
//! Both walk the launch sequence in disk order and join an entry with its neighbour on the disk. Range merge
//! requires that nothing lies between the two; infill merge also reads a small hole along, where another
//! request would cost more.
//!
//! An I/O distance counts positions of the *original* launch sequence. A second pass over a
//! sequence that is already merged would count too little, so all passes run inside [`merge`] over
//! [`MergedRun`]s, which remember where in the launch sequence their members stood. The sequence is sorted
//! into disk order once; every pass is then linear.

use crate::model::{Infill, LogEntry, SECTORS_PER_PAGE};

/// Log entries that will be read by one request.
pub(super) struct MergedRun {
    pub entry: LogEntry,
    /// Position of the earliest member in the launch sequence; the run stands there.
    earliest: u64,
    /// Position of the latest member. Without it a run that grows backwards in the sequence, one
    /// step of `distance` at a time, could carry its first member any number of steps forward.
    latest: u64,
    /// Ranks of the first and the last member among all entries in file order, see [`file_ranks`].
    ranks: (usize, usize),
}

/// Joins entries that are contiguous on the disk and in their file (or both metadata of one device)
/// and at most [`Infill::distance`] positions of the launch sequence apart, whichever comes first. Up to
/// [`Infill::hole_pages`] unneeded pages may lie between them, if they are the same on the disk and in the
/// file; they are read along. 0 is range merge. A joined entry stands at the earliest position of its members
/// and has their earliest time, so no entry moves forward by more than `distance` positions.
///
/// Only neighbours on the disk and in the file are joined, so that a page which has an entry of its
/// own is never part of a hole, wherever on the disk it may lie. A hole lies between two needed
/// pages, so nothing beyond the end of a file is ever read.
///
/// `log` is a launch sequence in access order, as is the result. It should name no page twice:
/// entries that overlap are left apart, and their common pages are then fetched twice. The passes run one after
/// the other; `passes` gives the thresholds of each for a device, `None` for a pass that leaves the device out. Each
/// counts I/O distances in positions of `log`.
///
/// Paper: Algorithm 2. Its condition takes `next.seq − curr.seq`, which is negative for an entry that comes
/// earlier in the sequence; here the distance counts in both directions.
pub(super) fn merge<const PASSES: usize>(
    log: &[LogEntry],
    passes: impl Fn(u16) -> [Option<Infill>; PASSES],
) -> Vec<LogEntry> {
    let ranks = file_ranks(log).into_iter();
    let mut runs: Vec<MergedRun> = (log.iter().zip(ranks).zip(0u64..))
        .map(|((&entry, rank), position)| MergedRun::new(entry, position, rank))
        .collect();
    runs.sort_unstable_by_key(|run| (run.entry.device, run.entry.lba, run.earliest));
    for pass in 0..PASSES {
        runs = walk(runs, |device| passes(device)[pass]);
    }
    runs.sort_unstable_by_key(|run| run.earliest);
    runs.into_iter().map(|run| run.entry).collect()
}

/// For each entry, how many entries stand before it in the order of places and pages.
///
/// In a fragmented file the pages of a hole can lie elsewhere on the disk, and be needed. Two
/// entries have no needed page between them exactly if their ranks are consecutive.
pub(super) fn file_ranks(log: &[LogEntry]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..log.len()).collect();
    order.sort_unstable_by_key(|&i| (log[i].span, i));
    let mut ranks = vec![0; log.len()];
    for (rank, i) in order.into_iter().enumerate() {
        ranks[i] = rank;
    }
    ranks
}

/// One pass over runs in disk order; the result is in disk order too.
pub(super) fn walk(runs: Vec<MergedRun>, pass: impl Fn(u16) -> Option<Infill>) -> Vec<MergedRun> {
    let mut merged: Vec<MergedRun> = Vec::with_capacity(runs.len());
    for next in runs {
        match merged.last_mut() {
            Some(curr) if joinable(curr, &next, &pass) => curr.join(next),
            _ => merged.push(next),
        }
    }
    merged
}

/// Whether `next`, the neighbour of `curr` on the disk, may become part of it.
fn joinable(curr: &MergedRun, next: &MergedRun, pass: impl Fn(u16) -> Option<Infill>) -> bool {
    let (a, b) = (&curr.entry, &next.entry);
    if a.device != b.device || a.span.place != b.span.place || curr.ranks.1 + 1 != next.ranks.0 {
        return false;
    }
    let (Some(hole_pages), Some(pass)) = (b.span.start.checked_sub(a.span.end()), pass(a.device))
    else {
        return false;
    };
    let distance = curr.latest.max(next.latest) - curr.earliest.min(next.earliest);
    hole_pages <= pass.hole_pages
        && b.lba.checked_sub(a.lba_end()) == Some(hole_pages * SECTORS_PER_PAGE)
        && distance <= pass.distance
}

impl MergedRun {
    /// One entry: its position in the launch sequence and its rank, see [`file_ranks`].
    pub(super) fn new(entry: LogEntry, position: u64, rank: usize) -> Self {
        MergedRun {
            entry,
            earliest: position,
            latest: position,
            ranks: (rank, rank),
        }
    }

    fn join(&mut self, next: MergedRun) {
        self.entry.span.len = next.entry.span.end() - self.entry.span.start;
        self.entry.time_us = self.entry.time_us.min(next.entry.time_us);
        self.earliest = self.earliest.min(next.earliest);
        self.latest = self.latest.max(next.latest);
        self.ranks.1 = next.ranks.1;
    }
}

#[cfg(test)]
mod tests;
