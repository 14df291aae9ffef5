//! The figures of one launch.

use serde::{Deserialize, Serialize};

use crate::model::{PrefetchReport, Skipped};

/// Share of the schedule's bytes, in percent, that the drive must have read for a launch to count as
/// cold. The paper checks "the overall disk read size … to remove the results from the warm cache"
/// (§3.3) and names no bound. Launches are compared with each other by their times, so that they
/// must have had about the same to read; the rest leaves room for shared libraries that other
/// programs keep cached.
const COLD_PERCENT: u64 = 75;

/// Share in percent below which a launch counts as warm: it read too little to be evidence of anything.
const WARM_PERCENT: u64 = 5;

/// How much of what a launch needs had to come from the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warmth {
    /// Nearly everything.
    Cold,
    /// Some of it.
    Partly,
    /// Next to nothing.
    Warm,
}

/// The figures of a launch that should have been prefetched, or from which prefetching was withheld.
///
/// All counts are of the launch alone, from its execve to its end. A launch of which events or counters were
/// lost is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchFigures {
    /// Length of the launch, in microseconds: from execve to the completion block's arrival, or to
    /// the app's exit.
    pub duration_us: u64,
    /// Time that the tasks of the launch tree waited for the drive, in microseconds, summed up.
    pub waiting_us: u64,
    /// Bytes that the drive read for the launch tree and the prefetch thread.
    pub read_bytes: u64,
    /// Bytes of the whole schedule.
    pub schedule_bytes: u64,
    /// Synchronous readaheads of the launch tree (paper §4.3): reads that it had to begin itself.
    pub own_readaheads: u64,
    /// What the prefetch thread did; `None` if prefetching was withheld.
    pub prefetched: Option<PrefetchFigures>,
}

/// The figures of prefetching itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchFigures {
    /// Prefetch entries of the schedule.
    pub entries: u64,
    /// Context switches that the launch tree made from execve until the prefetch thread's end (paper
    /// §3.3, "during the prefetching period"). Only switches into a wait for the drive count (`in_iowait` at
    /// sched_switch), or all where they cannot be told apart.
    pub switches: u64,
    /// Files that were gone, replaced or truncated.
    pub stale_files: u64,
    /// Whether it was done, and on all devices: neither refused, nor given up for lack of memory, nor taken
    /// for a warm launch.
    pub done: bool,
}

impl PrefetchFigures {
    /// From the report of the prefetch thread. An app that ended before its schedule did counts: dynamic
    /// scheduling is there for prefetching that comes too late.
    pub fn new(report: &PrefetchReport, switches: u64) -> Self {
        let by_system = [
            Skipped::DeviceGone,
            Skipped::NoNode,
            Skipped::ReadaheadOff,
            Skipped::Refused,
        ];
        let kept_from = by_system
            .iter()
            .any(|reason| report.skipped.contains_key(reason));
        PrefetchFigures {
            entries: report.scheduled,
            switches,
            stale_files: report.stale_files,
            done: report.scheduled > 0
                && report.refused.is_none()
                && report.ran_short.is_none()
                && !report.warm
                && !kept_from,
        }
    }
}

impl LaunchFigures {
    /// How warm the launch was, by the bytes that the drive read.
    pub fn warmth(&self) -> Warmth {
        let percent = |share: u64| u128::from(self.schedule_bytes) * u128::from(share);
        let read = u128::from(self.read_bytes) * 100;
        if self.schedule_bytes == 0 || read < percent(WARM_PERCENT) {
            Warmth::Warm
        } else if read < percent(COLD_PERCENT) {
            Warmth::Partly
        } else {
            Warmth::Cold
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warmth_goes_by_the_share_that_was_read() {
        let warmth = |read_bytes, schedule_bytes| {
            let figures = LaunchFigures {
                duration_us: 0,
                waiting_us: 0,
                read_bytes,
                schedule_bytes,
                own_readaheads: 0,
                prefetched: None,
            };
            figures.warmth()
        };
        assert_eq!(warmth(4_999, 100_000), Warmth::Warm);
        assert_eq!(warmth(5_000, 100_000), Warmth::Partly);
        assert_eq!(warmth(74_999, 100_000), Warmth::Partly);
        assert_eq!(warmth(75_000, 100_000), Warmth::Cold);
        assert_eq!(warmth(u64::MAX, u64::MAX), Warmth::Cold);
        assert_eq!(warmth(10, 0), Warmth::Warm);
    }

    #[test]
    fn only_what_was_prefetched_on_all_devices_counts() {
        let done = |change: fn(&mut PrefetchReport)| {
            let mut report = PrefetchReport {
                scheduled: 10,
                stale_files: 2,
                ..PrefetchReport::default()
            };
            change(&mut report);
            let prefetched = PrefetchFigures::new(&report, 5);
            assert_eq!((prefetched.switches, prefetched.stale_files), (5, 2));
            prefetched.done
        };
        assert!(done(|_| ()));
        assert!(done(|report| report.cut_short = true));
        assert!(done(|report| {
            report.skipped.insert(Skipped::Gone, Default::default());
        }));
        assert!(!done(|report| report.warm = true));
        assert!(!done(|report| report.scheduled = 0));
        assert!(!done(|report| report.refused = Some("no memory".to_owned())));
        assert!(!done(
            |report| report.ran_short = Some("no memory".to_owned())
        ));
        for reason in [
            Skipped::DeviceGone,
            Skipped::NoNode,
            Skipped::ReadaheadOff,
            Skipped::Refused,
        ] {
            let mut report = PrefetchReport {
                scheduled: 10,
                ..PrefetchReport::default()
            };
            report.skipped.insert(reason, Default::default());
            assert!(!PrefetchFigures::new(&report, 0).done, "{reason:?}");
        }
    }
}
