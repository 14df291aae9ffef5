//! What else went on during a launch, and whether it was too much.

use std::fs;

use anyhow::{Context, Result};
use paralfetch::model::PAGE_SIZE;

/// Largest share of the processors' time that other guests of the host may take (steal).
const MAX_STEAL: f64 = 0.05;

/// Largest share of the bytes read that neither the launch nor its prefetcher asked for.
const MAX_FOREIGN_SHARE: f64 = 0.05;

/// Foreign reads that are always tolerated, in bytes: the journal and the kernel's own reads.
const FOREIGN_ALLOWANCE: u64 = 2 << 20;

/// Largest share of the bytes read that were read once more because they had been reclaimed. There is
/// always memory enough for an app, but something may reclaim it in advance (DAMON does on some machines),
/// and takes what was just read ahead: no app has mapped it yet.
const MAX_REFAULT_SHARE: f64 = 0.02;

/// Refaults that are always tolerated, in pages: a warm launch reads nothing, so that a few pages would
/// be a large share.
const REFAULT_ALLOWANCE: u64 = 16;

/// Counters of the system at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Time taken by other guests, in clock ticks, all processors together.
    pub steal: u64,
    /// Time of all kinds, in clock ticks, all processors together.
    pub total: u64,
    /// Read requests that the drive has served.
    pub requests: u64,
    /// Bytes that the drive has delivered.
    pub read: u64,
    /// Pages of files, 4 KiB, read again after the kernel had reclaimed them (`workingset_refault_file`;
    /// those that were dropped on purpose do not count).
    pub refaults: u64,
}

impl Counters {
    /// Reads them for a drive, by its kernel name, such as `loop3`.
    ///
    /// # Errors
    /// When /proc/stat, /proc/vmstat or the drive's statistics cannot be read.
    pub fn now(drive: &str) -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let vmstat = fs::read_to_string("/proc/vmstat").context("cannot read /proc/vmstat")?;
        let path = format!("/sys/block/{drive}/stat");
        let device = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        Self::parse(&stat, &vmstat, &device)
            .with_context(|| format!("cannot make sense of /proc/stat, /proc/vmstat or {path}"))
    }

    /// From the texts of /proc/stat, /proc/vmstat and of the drive's `stat`
    /// (Documentation/block/stat.rst).
    fn parse(stat: &str, vmstat: &str, device: &str) -> Option<Self> {
        let times: Vec<u64> = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        let refaults = vmstat
            .lines()
            .find_map(|line| line.strip_prefix("workingset_refault_file "))?;
        let mut fields = device.split_whitespace().map(str::parse::<u64>);
        let requests = fields.next()?.ok()?;
        let sectors = fields.nth(1)?.ok()?;
        Some(Counters {
            steal: *times.get(7)?,
            // Guests' time is part of user time already.
            total: times.iter().take(8).sum(),
            requests,
            read: sectors * 512,
            refaults: refaults.parse().ok()?,
        })
    }
}

/// Says how much of the processors' time other guests of the host took between two moments, if it was too much.
pub fn stolen(before: Counters, after: Counters) -> Option<String> {
    let total = after.total.saturating_sub(before.total);
    let steal = after.steal.saturating_sub(before.steal);
    let too_much = steal as f64 > MAX_STEAL * total as f64;
    too_much.then(|| format!("other guests took {steal} of {total} clock ticks"))
}

/// Describes what disturbed a launch between two moments; `known` is the number of bytes that the launch
/// and its prefetcher read.
pub fn judge(before: Counters, after: Counters, known: u64) -> Vec<String> {
    let mut found: Vec<String> = stolen(before, after).into_iter().collect();
    let foreign = after.read.saturating_sub(before.read).saturating_sub(known);
    let limit = FOREIGN_ALLOWANCE.max((known as f64 * MAX_FOREIGN_SHARE) as u64);
    if foreign > limit {
        found.push(format!("others read {} KiB from the drive", foreign >> 10));
    }
    let refaults = after.refaults.saturating_sub(before.refaults);
    let share = (known as f64 * MAX_REFAULT_SHARE) as u64 / PAGE_SIZE;
    if refaults > REFAULT_ALLOWANCE.max(share) {
        found.push(format!(
            "{refaults} pages were reclaimed and read once more"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        let stat = "cpu  100 1 20 1000 30 0 4 5 0 0\ncpu0 1 2 3\n";
        let device = "  10 0 2048 5 1 1 8 1 0 1 1 0 0 0 0 0 0\n";
        let vmstat = "nr_free_pages 3\nworkingset_refault_anon 4\nworkingset_refault_file 5\n";
        let counters = Counters::parse(stat, vmstat, device).unwrap();
        assert_eq!((counters.steal, counters.total), (5, 1160));
        assert_eq!((counters.requests, counters.read), (10, 1 << 20));
        assert_eq!(counters.refaults, 5);
        assert!(Counters::parse("intr 5\n", vmstat, device).is_none());
        assert!(Counters::parse(stat, "", device).is_none());
        assert!(Counters::parse(stat, vmstat, "1 2").is_none());
    }

    #[test]
    fn a_quiet_launch_is_not_disturbed() {
        let before = Counters::default();
        let after = Counters {
            steal: 2,
            requests: 9,
            total: 100,
            read: 50 << 20,
            // Of 49 MiB.
            refaults: 250,
        };
        assert_eq!(judge(before, after, 49 << 20), Vec::<String>::new());
    }

    #[test]
    fn steal_foreign_reads_and_reclaim_disturb() {
        let before = Counters::default();
        let after = Counters {
            steal: 9,
            requests: 9,
            total: 100,
            read: 60 << 20,
            refaults: 257,
        };
        let found = judge(before, after, 50 << 20);
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
