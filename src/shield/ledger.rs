//! What was done, when, and what it cost the writer.

use std::collections::VecDeque;
use std::time::Duration;

use super::status::{MOST_ENDED, MeasureReport};
use crate::policy::{Measure, MeasureEnd};

/// What the drive writes is watched for no longer than this after a measure.
const LONGEST_AFTER: Duration = Duration::from_secs(10);

/// The measures in force and the last that ended.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    in_force: Vec<Entry>,
    ended: VecDeque<Entry>,
    /// Measures taken so far.
    pub taken: u64,
    /// What the drives wrote at the last look, in bytes per second.
    rate: Option<u64>,
    looked: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Entry {
    id: u64,
    report: MeasureReport,
    since: Duration,
    during: Written,
    after: Written,
    /// Until when what is written after it counts; `None`: it is in force.
    after_until: Option<Duration>,
}

/// Bytes and the time in which they were written.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    bytes: u128,
    time: Duration,
}

impl Written {
    fn add(&mut self, rate: u64, time: Duration) {
        self.bytes += u128::from(rate) * time.as_millis() / 1000;
        self.time += time;
    }

    /// In bytes per second.
    fn rate(&self) -> Option<u64> {
        let rate = (self.bytes * 1000).checked_div(self.time.as_millis())?;
        u64::try_from(rate).ok()
    }
}

impl Ledger {
    /// A measure was taken. `unix_ms` and `now` are one time, `until` is its bound.
    pub fn begins(
        &mut self,
        id: u64,
        (measure, target): (&Measure, String),
        uid: Option<u32>,
        (now, unix_ms): (Duration, u64),
        until: Duration,
    ) {
        self.taken += 1;
        let longest = until.saturating_sub(now);
        self.in_force.push(Entry {
            id,
            report: MeasureReport {
                kind: measure.kind(),
                target,
                uid,
                since_ms: unix_ms,
                until_ms: unix_ms.saturating_add(ms(longest)),
                ended_ms: None,
                why_ended: None,
                written_before: self.rate,
                written_during: None,
                written_after: None,
            },
            since: now,
            during: Written::default(),
            after: Written::default(),
            after_until: None,
        });
    }

    /// The measures in force.
    pub fn ids(&self) -> Vec<u64> {
        self.in_force.iter().map(|entry| entry.id).collect()
    }

    /// A measure has another form, account or bound.
    pub fn changes(&mut self, id: u64, target: Option<String>, uid: Option<u32>, until: Duration) {
        let Some(entry) = self.in_force.iter_mut().find(|entry| entry.id == id) else {
            return;
        };
        entry.report.uid = uid;
        entry.report.until_ms = entry.report.since_ms + ms(until.saturating_sub(entry.since));
        if let Some(target) = target {
            entry.report.target = target;
        }
    }

    /// A measure ended.
    pub fn ends(
        &mut self,
        id: u64,
        why: MeasureEnd,
        note: Option<&str>,
        (now, unix_ms): (Duration, u64),
    ) {
        let Some(at) = self.in_force.iter().position(|entry| entry.id == id) else {
            return;
        };
        let mut entry = self.in_force.remove(at);
        let lasted = now.saturating_sub(entry.since);
        entry.report.ended_ms = Some(unix_ms);
        let why = why.explanation();
        entry.report.why_ended = Some(note.map_or(why.to_owned(), |note| format!("{why}; {note}")));
        entry.after_until = Some(now.saturating_add(lasted.min(LONGEST_AFTER)));
        self.ended.push_back(entry);
        while self.ended.len() > MOST_ENDED {
            self.ended.pop_front();
        }
    }

    /// What the drives wrote since the last look, in bytes per second; `None` at the first look.
    pub fn looked(&mut self, rate: Option<u64>, now: Duration) {
        let last = self.looked.replace(now);
        self.rate = rate;
        let (Some(last), Some(rate)) = (last, rate) else {
            return;
        };
        for entry in &mut self.in_force {
            entry
                .during
                .add(rate, now.saturating_sub(last.max(entry.since)));
        }
        for entry in &mut self.ended {
            if entry.after_until.is_some_and(|until| last < until) {
                entry.after.add(rate, now.saturating_sub(last));
            }
        }
    }

    /// No looks follow for now.
    pub fn pauses(&mut self) {
        (self.rate, self.looked) = (None, None);
    }

    /// Whether looks are needed for what comes after a measure.
    pub fn needs_looks(&self, now: Duration) -> bool {
        let mut ended = self.ended.iter();
        ended.any(|entry| entry.after_until.is_some_and(|until| now < until))
    }

    /// The reports of measures in force, and of those that ended.
    pub fn reports(&self) -> (Vec<MeasureReport>, Vec<MeasureReport>) {
        let report = |entry: &Entry| MeasureReport {
            written_during: entry.during.rate(),
            written_after: entry.after.rate(),
            ..entry.report.clone()
        };
        (
            self.in_force.iter().map(report).collect(),
            self.ended.iter().map(report).collect(),
        )
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::DirtyThresholds;

    #[test]
    fn what_is_written_before_during_and_after_is_told_apart() {
        let at = |s: u64| Duration::from_secs(s);
        let hold = Measure::Hold(DirtyThresholds::Bytes {
            background: 1,
            dirty: 2,
        });
        let mut ledger = Ledger::default();
        ledger.looked(None, at(0));
        ledger.looked(Some(30), at(1));
        ledger.begins(
            7,
            (&hold, "system".into()),
            Some(1000),
            (at(1), 1_000_000),
            at(6),
        );
        ledger.looked(Some(0), at(2));
        ledger.looked(Some(10), at(3));
        let (in_force, ended) = ledger.reports();
        assert_eq!(
            (in_force[0].written_before, in_force[0].written_during),
            (Some(30), Some(5))
        );
        assert_eq!((in_force[0].until_ms, ended.len()), (1_005_000, 0));
        ledger.ends(7, MeasureEnd::NotNeeded, None, (at(3), 1_002_000));
        assert!(ledger.needs_looks(at(4)));
        ledger.looked(Some(50), at(4));
        ledger.looked(Some(40), at(5));
        ledger.looked(Some(9), at(6));
        assert!(!ledger.needs_looks(at(6)));
        let (in_force, ended) = ledger.reports();
        assert_eq!((in_force.len(), ended.len(), ledger.taken), (0, 1, 1));
        assert_eq!(
            (ended[0].written_after, ended[0].ended_ms),
            (Some(45), Some(1_002_000))
        );
        for id in 8..90 {
            ledger.begins(id, (&hold, String::new()), None, (at(9), 0), at(10));
            ledger.ends(id, MeasureEnd::Bound, Some("left alone"), (at(10), 0));
        }
        assert_eq!(ledger.reports().1.len(), MOST_ENDED);
    }
}
