//! What became of one launch.

use serde::{Deserialize, Serialize};

use crate::model::{LaunchCounts, MissedRequests, PrefetchReport, Skipped};
use crate::policy::took::{Completion, took_us};

/// Share in percent of what the app's launches usually read that the drive must have read for a launch to count as
/// cold. The paper checks "the overall disk read size … to remove the results from the warm cache"
/// (§3.3) and names no bound. Launches are compared with each other by their times, so that they
/// must have had about the same to read.
const COLD_PERCENT: u64 = 75;

/// Share of the schedule's bytes, in percent, that a cold launch reads at least, although programs keep libraries cached.
const LEAST_COLD_PERCENT: u64 = 25;

/// Share in percent below which a launch counts as warm: it read too little to be evidence of anything.
const WARM_PERCENT: u64 = 5;

/// Share of the schedule's bytes, in percent, that must have been read before a launch for it to be anticipated. Of what is
/// less, the launch would have found most in the caches anyway.
const ANTICIPATED_PERCENT: u64 = 25;

/// How much of what a launch needs had to come from the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warmth {
    /// Nearly all that launches of its app usually read: 75 % or more.
    Cold,
    /// Some of it.
    Partly,
    /// Next to nothing: less than 5 %.
    Warm,
}

/// What became of a launch: what the kernel counted from its execve to its end, and what its prefetch thread
/// did. Of a launch whose waits were not counted, the switches and the time that it waited say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchFigures {
    /// What the kernel counted.
    pub counts: LaunchCounts,
    /// When its last task exited, by CLOCK_MONOTONIC in nanoseconds.
    pub exited_ns: Option<u64>,
    /// When it was complete by the profile that was learned from it; `None` if none was. Later launches are timed by the pages
    /// of that, and so is this one: the kernel counted by older ones, or by none.
    pub learned_completion: Option<Completion>,
    /// Bytes of the app's whole schedule; 0 without a profile.
    pub schedule_bytes: u64,
    /// The most that one of the app's last prefetched launches read, in bytes; 0 if none is known. Then it is all of the
    /// schedule.
    pub usual_bytes: u64,
    /// Read requests that a cold launch of the app makes without prefetching, about
    /// ([`crate::policy::estimate_cold_requests`]); 0 without a profile.
    pub cold_requests: u64,
    /// Of [`LaunchFigures::own_readaheads`] those for pages that the profile does not hold, by kind, as those that were
    /// noted tell: with the others, the app came before the prefetch thread, and learning again would not change that.
    /// `None` if it was not prefetched, or was warm, or if that cannot be told.
    pub missed: Option<MissedRequests>,
    /// What the prefetch thread did; `None` if there was none, or if it was stopped.
    pub report: Option<PrefetchReport>,
    /// Bytes that the drive read for its app before it began, since the launch before ([`crate::policy::ReadBefore`]).
    pub read_before: u64,
    /// Context switches that the launch tree made from execve until the prefetch thread's end (paper
    /// §3.3, "during the prefetching period"). Only switches into a wait for the drive count (`in_iowait` at
    /// sched_switch), or all where they cannot be told apart.
    pub switches: u64,
}

impl LaunchFigures {
    /// How long the launch took, in microseconds, by the one definition of that ([`took_us`]). `None` also without a
    /// profile: whether the app has completion pages is not known then.
    pub fn took_us(&self) -> Option<u64> {
        if self.schedule_bytes == 0 {
            return None;
        }
        let completion = self.learned_completion.unwrap_or(counted(&self.counts));
        took_us(self.counts.start_ns, completion, self.exited_ns)
    }

    /// Time that the tasks of the launch tree waited for the drive, in microseconds, summed up; `None` if that was not counted
    /// from the launch's beginning on.
    pub fn waiting_us(&self) -> Option<u64> {
        let counts = &self.counts;
        counts.waits_counted.then_some(counts.waiting_ns / 1000)
    }

    /// Bytes that the drive read for the launch tree and the prefetch thread.
    pub fn read_bytes(&self) -> u64 {
        self.counts.bytes + self.counts.prefetch_bytes
    }

    /// Reads that the launch tree had to begin itself (paper §4.3): until it was complete, if that is
    /// known. What an app reads behind its window is not what it was learned for.
    pub fn own_readaheads(&self) -> u64 {
        match self.counts.completed_ns {
            0 => self.counts.requests,
            _ => self.counts.completed_requests,
        }
    }

    /// How warm the launch was, by the bytes that the drive read.
    pub fn warmth(&self) -> Warmth {
        let percent = |bytes: u64, share: u64| u128::from(bytes) * u128::from(share);
        let read = u128::from(self.read_bytes()) * 100;
        let scheduled = self.schedule_bytes;
        let usual = match self.usual_bytes {
            0 => scheduled,
            usual => usual.min(scheduled),
        };
        if scheduled == 0 || read < percent(scheduled, WARM_PERCENT) {
            Warmth::Warm
        } else if read < percent(usual, COLD_PERCENT).max(percent(scheduled, LEAST_COLD_PERCENT)) {
            Warmth::Partly
        } else {
            Warmth::Cold
        }
    }

    /// Whether the launch found its data because they were read before it began.
    pub fn is_anticipated(&self) -> bool {
        let least = u128::from(self.schedule_bytes) * u128::from(ANTICIPATED_PERCENT);
        self.schedule_bytes > 0
            && u128::from(self.read_before) * 100 >= least
            && self.warmth() == Warmth::Warm
    }

    /// Whether it was prefetched on all devices: the thread has neither refused, nor given up for lack of memory or
    /// because of another program, nor taken the launch for a warm one. An app that ended before its schedule did was
    /// prefetched: dynamic scheduling is there for prefetching that comes too late.
    pub fn is_prefetched(&self) -> bool {
        let by_system = [
            Skipped::DeviceGone,
            Skipped::Unclear,
            Skipped::NoNode,
            Skipped::ReadaheadOff,
            Skipped::Refused,
        ];
        self.report.as_ref().is_some_and(|report| {
            report.scheduled > 0
                && report.refused.is_none()
                && report.ran_short.is_none()
                && report.slow_opens.is_none()
                && !report.warm
                && by_system
                    .iter()
                    .all(|reason| !report.skipped.contains_key(reason))
        })
    }
}

/// When the launch was complete, as the kernel saw it. What it began to see late tells no time.
fn counted(counts: &LaunchCounts) -> Completion {
    match (counts.has_completion, counts.completed_ns) {
        (false, _) => Completion::None,
        (true, 0) => Completion::Missed,
        (true, _) if counts.completion_late => Completion::Missed,
        (true, at_ns) => Completion::At(at_ns),
    }
}

/// Figures of a cold launch for tests: prefetching served it well.
#[cfg(test)]
pub fn well_prefetched() -> LaunchFigures {
    LaunchFigures {
        counts: LaunchCounts {
            waits_counted: true,
            waiting_ns: 100_000,
            bytes: 100,
            ..LaunchCounts::default()
        },
        exited_ns: Some(1_000_000),
        schedule_bytes: 100,
        cold_requests: 100,
        report: Some(PrefetchReport {
            scheduled: 100,
            ..PrefetchReport::default()
        }),
        ..LaunchFigures::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn waits_are_told_if_they_were_counted_and_reads_with_those_ahead() {
        let mut figures = well_prefetched();
        assert_eq!(figures.waiting_us(), Some(100));
        figures.counts.prefetch_bytes = 30;
        assert_eq!(figures.read_bytes(), 130);
        figures.counts.waits_counted = false;
        assert_eq!(figures.waiting_us(), None);
    }

    #[test]
    fn a_learned_launch_is_timed_by_the_pages_that_later_ones_are_timed_by() {
        let took = |has_completion, completed_ns, learned_completion, schedule_bytes| {
            let counts = LaunchCounts {
                start_ns: 1_000_000,
                has_completion,
                completed_ns,
                ..LaunchCounts::default()
            };
            let figures = LaunchFigures {
                counts,
                exited_ns: Some(9_000_000),
                learned_completion,
                schedule_bytes,
                ..LaunchFigures::default()
            };
            figures.took_us()
        };
        let took_us = |has_completion, completed_ns, learned_completion| {
            took(has_completion, completed_ns, learned_completion, 1)
        };
        assert_eq!(took(false, 0, None, 0), None, "without a profile");
        assert_eq!(took_us(true, 3_000_000, None), Some(2000));
        assert_eq!(took_us(true, 0, None), None);
        assert_eq!(took_us(false, 0, None), Some(8000));
        let learned = Completion::At(5_000_000);
        assert_eq!(took_us(false, 0, Some(learned)), Some(4000));
        assert_eq!(took_us(true, 3_000_000, Some(learned)), Some(4000));
        let none = Some(Completion::None);
        assert_eq!(took_us(true, 3_000_000, none), Some(8000));
    }

    #[test]
    fn a_completion_that_was_looked_for_too_late_tells_no_time() {
        let counts = LaunchCounts {
            has_completion: true,
            completed_ns: 3_000_000,
            completion_late: true,
            ..LaunchCounts::default()
        };
        let figures = LaunchFigures {
            counts,
            exited_ns: Some(9_000_000),
            schedule_bytes: 1,
            ..LaunchFigures::default()
        };
        assert_eq!(figures.took_us(), None);
    }

    /// A launch that read so many bytes itself, of an app with a schedule of so many.
    fn that_read(bytes: u64, schedule_bytes: u64) -> LaunchFigures {
        LaunchFigures {
            counts: LaunchCounts {
                bytes,
                ..LaunchCounts::default()
            },
            schedule_bytes,
            ..LaunchFigures::default()
        }
    }

    #[test]
    fn warmth_goes_by_the_share_that_was_read() {
        let warmth = |bytes, schedule_bytes| that_read(bytes, schedule_bytes).warmth();
        assert_eq!(warmth(4_999, 100_000), Warmth::Warm);
        assert_eq!(warmth(5_000, 100_000), Warmth::Partly);
        assert_eq!(warmth(74_999, 100_000), Warmth::Partly);
        assert_eq!(warmth(75_000, 100_000), Warmth::Cold);
        assert_eq!(warmth(u64::MAX, u64::MAX), Warmth::Cold);
        assert_eq!(warmth(10, 0), Warmth::Warm);
        // Where other programs keep half of it cached.
        let beside = |usual_bytes, bytes| {
            let figures = LaunchFigures {
                usual_bytes,
                ..that_read(bytes, 100_000)
            };
            figures.warmth()
        };
        assert_eq!(beside(50_000, 37_500), Warmth::Cold);
        assert_eq!(beside(50_000, 37_499), Warmth::Partly);
        assert_eq!(beside(20_000, 24_999), Warmth::Partly);
        assert_eq!(beside(20_000, 25_000), Warmth::Cold);
        assert_eq!(beside(900_000, 75_000), Warmth::Cold);
        assert_eq!(beside(1, 4_999), Warmth::Warm);
    }

    #[test]
    fn a_warm_launch_of_which_much_was_read_before_is_anticipated() {
        let is_anticipated = |read_before, bytes, schedule_bytes| {
            let figures = LaunchFigures {
                read_before,
                ..that_read(bytes, schedule_bytes)
            };
            figures.is_anticipated()
        };
        assert!(is_anticipated(250, 49, 1000));
        assert!(!is_anticipated(249, 49, 1000), "it would have been warm");
        assert!(!is_anticipated(1000, 50, 1000), "it was not warm");
        assert!(!is_anticipated(0, 0, 0), "there is no profile");
        assert!(is_anticipated(u64::MAX, 0, u64::MAX));
    }

    #[test]
    fn only_what_was_prefetched_on_all_devices_counts() {
        let is_prefetched = |change: &dyn Fn(&mut PrefetchReport)| {
            let mut report = PrefetchReport {
                scheduled: 10,
                ..PrefetchReport::default()
            };
            change(&mut report);
            let figures = LaunchFigures {
                report: Some(report),
                ..LaunchFigures::default()
            };
            figures.is_prefetched()
        };
        let skipped = |reason| {
            is_prefetched(&|report| {
                report.skipped.insert(reason, Default::default());
            })
        };
        assert!(!LaunchFigures::default().is_prefetched());
        assert!(is_prefetched(&|_| ()));
        assert!(is_prefetched(&|report| report.cut_short = true));
        assert!(skipped(Skipped::Gone));
        assert!(!is_prefetched(&|report| report.warm = true));
        assert!(!is_prefetched(&|report| report.scheduled = 0));
        assert!(!is_prefetched(
            &|report| report.refused = Some(String::new())
        ));
        assert!(!is_prefetched(
            &|report| report.ran_short = Some(String::new())
        ));
        assert!(!is_prefetched(&|report| {
            report.slow_opens = Some(Duration::from_millis(2));
        }));
        for reason in [
            Skipped::DeviceGone,
            Skipped::Unclear,
            Skipped::NoNode,
            Skipped::ReadaheadOff,
            Skipped::Refused,
        ] {
            assert!(!skipped(reason), "{reason:?}");
        }
    }
}
