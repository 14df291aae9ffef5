//! Pre-scheduling: from the launch sequence to the order and size of prefetch requests.
//!
//! Pure functions over plain data. A [`LogEntry`] is one recorded read, in access order; the result
//! is a list of [`PrefetchEntry`], in the order in which the prefetch thread executes them.
//! The order of work is merge → shift (paper §3.2 and §4.2; infill from Mobifetch §2).
//! [`reorder`] and [`resequence`] undo it, for a schedule that is made anew with other parameters (dynamic
//! scheduling, paper §3.3).

mod choose;
mod merge;
mod regions;
mod reschedule;
mod shift;
mod simulate;

#[cfg(test)]
mod generate;

use crate::model::{DeviceParams, Infill, LogEntry, Params, PrefetchEntry};

pub use choose::{Choices, ChosenSchedule, SchedulePlan, choose};
pub use regions::{RegionPlan, RegionalSchedule, regional};
pub use reschedule::{Located, Resequenced, reorder, resequence};
pub use shift::metadata_shift;
pub use simulate::{AppWait, LaunchSimulator, QueueLength, Simulation};

/// All of pre-scheduling: range merge, infill merge if `params` say so, metadata shift.
///
/// `log` is a launch sequence in access order that names no page twice; the result is what the
/// prefetch thread executes, in its order. Both merges count I/O distances in positions of `log`.
pub fn schedule(log: &[LogEntry], params: &Params) -> Vec<PrefetchEntry> {
    schedule_for(log, &DeviceParams::uniform(*params))
}

/// The same for drives of several classes, each with its own parameters. They merge by I/O distances that count the
/// positions of all devices. Metadata of a class pass data of that class: drives have queues of their own, and
/// another drive's metadata keep none of them filled.
pub fn schedule_for(log: &[LogEntry], params: &DeviceParams) -> Vec<PrefetchEntry> {
    let passes = |class| {
        let params = params.of(class);
        let range = Infill {
            distance: params.merge_distance,
            hole_pages: 0,
        };
        [Some(range), params.infill]
    };
    let merged = merge::merge(log, |device| passes(params.class(device)));
    let class = |entry: &LogEntry| params.class(entry.device);
    shift::shift(&merged, |entry| entry.span, class, params)
        .into_iter()
        .map(|entry| PrefetchEntry {
            span: entry.span,
            time_us: entry.time_us,
        })
        .collect()
}
