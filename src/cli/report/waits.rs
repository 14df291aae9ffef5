//! The section of a report on the waits of a launch for writes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::waits::{json as lines, text};
use crate::judge::{SeenWaits, WaitNames, WaitTotals, for_writes};
use crate::model::Wait;

/// The waits of a launch for writes.
#[derive(Debug, Default)]
pub struct LaunchWaits {
    waits: Vec<Wait>,
    totals: WaitTotals,
    names: WaitNames,
    /// How much of the launch's beginning was not watched.
    late: Duration,
    /// Waits that were seen and of which nobody knows whether they were for writes: there were too many.
    unlisted: u64,
    lost: u64,
    missing: Vec<String>,
}

impl LaunchWaits {
    /// What was seen from the start to the end of a launch, CLOCK_MONOTONIC in nanoseconds.
    pub fn of(seen: SeenWaits, start_ns: u64, end_ns: u64) -> Self {
        let mut waits: Vec<Wait> = for_writes(&seen.waits).into_iter().cloned().collect();
        waits.retain(|wait| (start_ns..end_ns).contains(&wait.start_ns));
        let unlisted = seen.unlisted();
        LaunchWaits {
            totals: waits.iter().collect(),
            waits,
            names: seen.names,
            late: Duration::from_nanos(seen.since_ns.saturating_sub(start_ns)),
            unlisted,
            lost: seen.lost,
            missing: seen.missing,
        }
    }
}

/// The section for a person to read, its table in so many columns; `duration` is that of the launch.
pub fn section(
    waits: &Result<LaunchWaits, String>,
    duration: Duration,
    columns: Option<usize>,
) -> Vec<String> {
    let waits = match waits {
        Ok(waits) => waits,
        Err(why) => return vec![format!("waits for writes are not known: {why}")],
    };
    let summary = text::summary(&waits.totals, &waits.names, duration);
    let mut section = vec![format!("waits for writes: {summary}")];
    if waits.totals.all.count > 0 {
        section.extend(text::causes(&waits.totals, columns));
    }
    section.extend((!waits.late.is_zero()).then(|| {
        format!(
            "of the first {:.1} ms of the launch they are not known: the detector was not ready",
            waits.late.as_secs_f64() * 1e3
        )
    }));
    section.extend((waits.unlisted > 0).then(|| {
        let unlisted = text::counted(waits.unlisted);
        format!("not looked at: {unlisted}; there may be more for writes")
    }));
    section.extend(text::caveats(waits.lost, &waits.missing));
    section
}

/// A line for each wait, then one with their sums.
pub fn json_lines(waits: &Result<LaunchWaits, String>) -> Vec<Value> {
    let waits = match waits {
        Ok(waits) => waits,
        Err(why) => return vec![json!({ "type": "waits", "problem": why })],
    };
    let mut sums = lines::sums(&waits.totals, &waits.names);
    sums["type"] = json!("waits");
    sums["problem"] = Value::Null;
    sums["unwatched_us"] = json!(u64::try_from(waits.late.as_micros()).unwrap_or(u64::MAX));
    sums["unlisted"] = json!(waits.unlisted);
    sums["lost"] = json!(waits.lost);
    sums["missing"] = json!(waits.missing);
    let single = waits.waits.iter();
    let single = single.map(|wait| lines::wait(wait, &waits.names));
    single.chain([sums]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::waits::text::tests::wait as example;
    use crate::model::WaitCause;

    /// Watched from 1.5 s on; launches begin at 1 s.
    fn waits() -> LaunchWaits {
        let read = Wait {
            for_whom: None,
            ..example(WaitCause::Drive, 9_000_000)
        };
        let before = Wait {
            start_ns: 999_999_999,
            ..example(WaitCause::Sync, 8_000_000)
        };
        let waits = vec![
            example(WaitCause::JournalCommit, 7_000_000),
            read,
            before,
            example(WaitCause::Sync, 3_000_000),
        ];
        let seen = SeenWaits {
            since_ns: 1_500_000_000,
            until_ns: 4_000_000_000,
            totals: waits.iter().collect(),
            waits,
            ..SeenWaits::default()
        };
        LaunchWaits::of(seen, 1_000_000_000, 3_000_000_000)
    }

    #[test]
    fn only_waits_for_writes_in_the_launch_are_listed() {
        let section = section(&Ok(waits()), Duration::from_secs(2), None);
        assert_eq!(
            section,
            [
                "waits for writes: 2 waits in 2.0 s, 0.010 s in sum, worst 7.0 ms (gimp[12]: \
                 journal-commit at 4000:77777 inode 9, for dd[7])",
                "  waits    total s   worst ms  cause           for whom",
                "      1      0.007        7.0  journal-commit  dd[7] 100 %",
                "      1      0.003        3.0  sync            dd[7] 100 %",
                "of the first 500.0 ms of the launch they are not known: the detector was not ready",
            ]
        );
        let lines = json_lines(&Ok(waits()));
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1]["cause"], "sync");
        assert_eq!(lines[2]["type"], "waits");
        assert_eq!(lines[2]["total_ns"], 10_000_000);
        assert_eq!(lines[2]["unwatched_us"], 500_000);
        assert_eq!(lines[2]["unlisted"], 0);
    }

    #[test]
    fn waits_that_were_not_looked_at_are_counted() {
        let all = [
            example(WaitCause::Sync, 7_000_000),
            example(WaitCause::Sync, 3_000_000),
        ];
        let seen = SeenWaits {
            waits: all[..1].to_vec(),
            totals: all.iter().collect(),
            ..SeenWaits::default()
        };
        let waits = Ok(LaunchWaits::of(seen, 0, u64::MAX));
        let section = section(&waits, Duration::from_secs(1), None);
        assert_eq!(
            section.last().unwrap(),
            "not looked at: 1 wait; there may be more for writes"
        );
        assert_eq!(json_lines(&waits)[1]["unlisted"], 1);
    }

    #[test]
    fn without_the_detector_a_line_says_why() {
        let none = Err("no tracepoint".to_owned());
        let text = section(&none, Duration::ZERO, None);
        assert_eq!(text, ["waits for writes are not known: no tracepoint"]);
        let lines = json_lines(&none);
        assert_eq!(
            lines,
            [json!({"type": "waits", "problem": "no tracepoint"})]
        );
        let quiet = section(&Ok(LaunchWaits::default()), Duration::from_secs(1), None);
        assert_eq!(quiet, ["waits for writes: no waits in 1.0 s"]);
    }
}
