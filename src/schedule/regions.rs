//! Regional schedules (Paralfetch §6, and A-5 of its slides for disks with heads).
//!
//! The launch sequence is cut by the recorded times of access. Within a region, requests go in the order of the disk:
//! first the metadata, so that no file of the region waits for its inode, then the data. One region is the sorted
//! schedule of the slides; a second one holds what may come late. The app can be held until the first has arrived.
//!
//! Regions too are only an order: each needed page is read once, small holes between needed pages along with
//! them. Where a later region has pages in such a hole, they join the earlier region, since the disk passes
//! them anyway.

use super::merge::{MergedRun, file_ranks, walk};
use super::shift::shift;
use crate::model::{DeviceParams, Infill, LogEntry, Params, PrefetchEntry, SECTORS_PER_PAGE};

/// How a launch sequence is cut, and what is done within a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionPlan {
    /// Recorded time at which the first region ends, in µs since the launch's execve.
    pub first_us: u64,
    /// Recorded time that each of the others takes, in µs, at least 1.
    pub length_us: u64,
    /// Largest hole of unneeded pages that is read along, in 4 KiB pages.
    pub hole_pages: u64,
    /// Metadata shift across regions, in bytes: so much metadata of later regions passes the data of earlier ones.
    /// [`RegionPlan::ALL_METADATA`]: all of it goes first, in the order of the disk.
    pub shift_bytes: u64,
}

impl RegionPlan {
    /// As [`RegionPlan::shift_bytes`]: the metadata of all regions belong to the first.
    pub const ALL_METADATA: u64 = u64::MAX;

    /// One region that holds everything.
    pub fn one(hole_pages: u64) -> Self {
        RegionPlan {
            first_us: u64::MAX,
            length_us: u64::MAX,
            hole_pages,
            shift_bytes: RegionPlan::ALL_METADATA,
        }
    }

    /// The region of what was first accessed at this time.
    fn region(&self, time_us: u64) -> u64 {
        match time_us.checked_sub(self.first_us) {
            None => 0,
            Some(behind) => 1 + behind / self.length_us.max(1),
        }
    }
}

/// A schedule by regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionalSchedule {
    /// In prefetch order.
    pub entries: Vec<PrefetchEntry>,
    /// How many of them, from the start, have all of the first region.
    pub first: usize,
}

/// The regional schedule of a launch sequence in access order that names no page twice.
pub fn regional(log: &[LogEntry], plan: &RegionPlan) -> RegionalSchedule {
    let ranks = file_ranks(log);
    let mut regions = cut(log, plan);
    absorb_holes(log, &ranks, &mut regions, plan.hole_pages);
    let mut order: Vec<usize> = (0..log.len()).collect();
    let part = |index: usize| (regions[index], !log[index].span.place.is_metadata());
    order.sort_unstable_by_key(|&index| (part(index), log[index].device, log[index].lba, index));
    let pass = Infill {
        hole_pages: plan.hole_pages,
        distance: Infill::ANY_DISTANCE,
    };
    let mut merged = Vec::with_capacity(log.len());
    for sweep in order.chunk_by(|&a, &b| part(a) == part(b)) {
        let in_first = regions[sweep[0]] == 0;
        let runs = sweep
            .iter()
            .map(|&index| MergedRun::new(log[index], index as u64, ranks[index]))
            .collect();
        let runs = walk(runs, |_| Some(pass)).into_iter();
        merged.extend(runs.map(|run| (run.entry, in_first)));
    }
    let shifted = shift_metadata(merged, plan.shift_bytes);
    let last_of_first = shifted.iter().rposition(|(_, in_first)| *in_first);
    RegionalSchedule {
        first: last_of_first.map_or(0, |last| last + 1),
        entries: (shifted.into_iter())
            .map(|(LogEntry { span, time_us, .. }, _)| PrefetchEntry { span, time_us })
            .collect(),
    }
}

/// The region of each entry. They never fall along the sequence, so that metadata are in no later region than the
/// data behind them.
fn cut(log: &[LogEntry], plan: &RegionPlan) -> Vec<u64> {
    let mut latest = 0;
    log.iter()
        .map(|entry| {
            latest = plan.region(entry.time_us).max(latest);
            let all_first = plan.shift_bytes == RegionPlan::ALL_METADATA;
            match all_first && entry.span.place.is_metadata() {
                true => 0,
                false => latest,
            }
        })
        .collect()
}

/// Moves entries into an earlier region that lie in a hole of it: between two of its entries of the same place, with
/// no more than `hole_pages` pages from the one to the other.
fn absorb_holes(log: &[LogEntry], ranks: &[usize], regions: &mut [u64], hole_pages: u64) {
    let mut order = vec![0; log.len()];
    for (index, &rank) in ranks.iter().enumerate() {
        order[rank] = index;
    }
    // Ranks of entries with rising regions: those that the next one can have a hole with.
    let mut open: Vec<usize> = Vec::new();
    for (rank, &index) in order.iter().enumerate() {
        while open
            .last()
            .is_some_and(|&last| regions[order[last]] > regions[index])
        {
            open.pop();
        }
        if let Some(&last) = open.last() {
            let before = order[last];
            let inside = &order[last + 1..rank];
            let is_behind = |&other: &usize| is_gap_within(&log[before], &log[other], hole_pages);
            let is_hole = regions[before] == regions[index]
                && is_behind(&index)
                && inside.iter().all(is_behind);
            if is_hole {
                for &inside in inside {
                    regions[inside] = regions[index];
                }
            }
        }
        open.push(rank);
    }
}

/// Whether `b` lies behind `a` in its place and on its disk alike, with no more than `pages` pages in between.
fn is_gap_within(a: &LogEntry, b: &LogEntry, pages: u64) -> bool {
    let gap = b.span.start.checked_sub(a.span.end());
    a.span.place == b.span.place
        && a.device == b.device
        && gap.is_some_and(|gap| {
            gap <= pages && b.lba.checked_sub(a.lba_end()) == Some(gap * SECTORS_PER_PAGE)
        })
}

/// Metadata shift of entries that know whether they are of the first region.
fn shift_metadata(merged: Vec<(LogEntry, bool)>, shift_bytes: u64) -> Vec<(LogEntry, bool)> {
    // All metadata are in front already.
    if shift_bytes == RegionPlan::ALL_METADATA {
        return merged;
    }
    let params = DeviceParams::uniform(Params {
        merge_distance: 0,
        shift_bytes,
        infill: None,
    });
    shift(
        &merged,
        |(entry, _)| entry.span,
        |_| params.class(0),
        &params,
    )
}

#[cfg(test)]
mod tests;
