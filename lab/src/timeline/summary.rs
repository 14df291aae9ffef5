//! A timeline in a few lines, and how long series are shortened.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::format::{Timeline, Why};
use super::steps::{area, from_intervals, intervals, thin_last, thin_mean};

/// Most steps or intervals of a series in the file, and most entries of a sequence.
const MAX_STEPS: usize = 1500;
const MAX_ENTRIES: usize = 2500;
/// Most misses in the file.
const MAX_MISSES: usize = 1200;
/// Longest name of a file in the file, in characters: beyond it, the end is kept.
const MAX_NAME: usize = 120;

/// Sums over a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Time in which a task of the launch tree was on a processor, in microseconds.
    pub cpu_us: u64,
    /// Time in which none was and one waited for I/O, in microseconds.
    pub waiting_us: u64,
    /// Time in which a request was in flight at the drive, in microseconds.
    pub busy_us: u64,
    /// Mean number of requests in flight during that time.
    pub queue_depth: f64,
    /// Number of misses by reason, and the time that tasks waited for them, in microseconds.
    pub misses: BTreeMap<Why, (u64, u64)>,
}

impl Totals {
    /// The sums of a timeline's series.
    pub fn of(timeline: &Timeline) -> Totals {
        let end = timeline.end_us();
        let busy = intervals(&timeline.queue, end);
        let busy_us = covered(&busy);
        let mut misses = BTreeMap::new();
        for miss in &timeline.misses {
            let sum: &mut (u64, u64) = misses.entry(miss.why).or_default();
            sum.0 += 1;
            sum.1 += miss.wait_us;
        }
        let both = timeline.cpu.iter().chain(&timeline.waiting);
        let spans = both.map(|part| (part[0], part[1]));
        let either = intervals(&super::steps::count(spans), end);
        let cpu_us = covered(&timeline.cpu);
        Totals {
            cpu_us,
            waiting_us: covered(&either).saturating_sub(cpu_us),
            busy_us,
            queue_depth: area(&busy) as f64 / busy_us.max(1) as f64,
            misses,
        }
    }
}

/// The sum of the intervals' lengths.
fn covered(intervals: &[[u64; 3]]) -> u64 {
    intervals.iter().map(|part| part[1] - part[0]).sum()
}

impl Timeline {
    /// Microseconds from the execve to the end of what is shown.
    pub(super) fn end_us(&self) -> u64 {
        let steps = self.queue.iter().map(|step| step[0]);
        let parts = self.cpu.iter().chain(&self.waiting).map(|part| part[1]);
        let shown = steps.chain(parts).max().unwrap_or(0);
        shown.max((self.seconds.clamp(0.0, 3600.0) * 1e6).ceil() as u64)
    }

    /// The launch's shares, its misses by reason, and the drive's mean queue depth, in a few lines.
    pub fn summary(&self) -> String {
        let totals = self.totals.clone().unwrap_or_else(|| Totals::of(self));
        let end = self.end_us().max(1);
        let share = |part: u64| 100.0 * part as f64 / end as f64;
        let mut text = format!(
            "{} on {}, {}: {:.3} s, of which app running {:.0} %, only waiting for I/O {:.0} %; \
             drive busy {:.0} %, {:.1} requests in flight while busy\n",
            self.app,
            self.device,
            self.scenario,
            self.seconds,
            share(totals.cpu_us),
            share(totals.waiting_us),
            share(totals.busy_us),
            totals.queue_depth,
        );
        if totals.misses.is_empty() {
            text.push_str("no misses\n");
        }
        for (why, (number, wait_us)) in &totals.misses {
            let wait = *wait_us as f64 / 1000.0;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{number} misses: {}, waited {wait:.1} ms",
                why.description()
            );
        }
        text
    }

    /// Shortens what is long, as [`Timeline`] says, and long paths to their last characters, so that
    /// the file stays below 500 KB.
    pub(super) fn downsample(&mut self) {
        let end = self.end_us();
        for series in [&mut self.cpu, &mut self.waiting] {
            if series.len() > MAX_STEPS {
                let steps = from_intervals(series);
                *series = intervals(&thin_mean(steps, end, MAX_STEPS), end);
            }
        }
        self.queue = thin_mean(std::mem::take(&mut self.queue), end, MAX_STEPS);
        for series in [&mut self.prefetch, &mut self.app_position] {
            *series = thin_last(std::mem::take(series), MAX_STEPS);
        }
        for sequence in [&mut self.before, &mut self.after] {
            let every = sequence.len().div_ceil(MAX_ENTRIES).max(1);
            *sequence = sequence.iter().step_by(every).copied().collect();
        }
        if self.misses.len() > MAX_MISSES {
            self.misses
                .sort_by_key(|miss| std::cmp::Reverse(miss.wait_us));
            self.misses.truncate(MAX_MISSES);
            self.misses.sort_by_key(|miss| miss.time_us);
        }
        for miss in &mut self.misses {
            let length = miss.what.chars().count();
            if length > MAX_NAME {
                let end: String = miss.what.chars().skip(length - MAX_NAME + 1).collect();
                miss.what = format!("…{end}");
            }
        }
    }
}
