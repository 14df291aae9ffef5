//! What the shield's report says of one launch.

use std::ops::Range;

use crate::policy::MeasureKind;
use crate::shield::{MeasureReport, ShieldStatus};

/// For how much of this time, in milliseconds since the epoch, writeback was held back, in milliseconds. Holds of
/// several drives at once count once.
pub fn held_ms(status: &ShieldStatus, time: &Range<u64>) -> u64 {
    let holds = measures(status).filter(|report| report.kind == MeasureKind::Hold);
    let mut held: Vec<Range<u64>> = holds.map(|report| within(report, time)).collect();
    held.retain(|held| !held.is_empty());
    held.sort_by_key(|held| held.start);
    let (mut total, mut counted_until) = (0, time.start);
    for held in held {
        let start = held.start.max(counted_until);
        total += held.end.saturating_sub(start);
        counted_until = counted_until.max(held.end);
    }
    total
}

/// Whether a measure was taken in this time on the account of this user.
pub fn was_measured_for(status: &ShieldStatus, uid: u32, time: &Range<u64>) -> bool {
    let mut of_user = measures(status).filter(|report| report.uid == Some(uid));
    of_user.any(|report| time.contains(&report.since_ms))
}

fn measures(status: &ShieldStatus) -> impl Iterator<Item = &MeasureReport> {
    status.ended.iter().chain(&status.in_force)
}

/// The part of this time for which a measure was in force.
fn within(report: &MeasureReport, time: &Range<u64>) -> Range<u64> {
    let end = report.ended_ms.unwrap_or(u64::MAX);
    report.since_ms.max(time.start)..end.min(time.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(kind: MeasureKind, uid: u32, since_ms: u64, ended_ms: Option<u64>) -> MeasureReport {
        MeasureReport {
            kind,
            target: "sda".to_owned(),
            uid: Some(uid),
            since_ms,
            until_ms: since_ms + 5000,
            ended_ms,
            why_ended: None,
            written_before: None,
            written_during: None,
            written_after: None,
        }
    }

    #[test]
    fn the_time_of_a_launch_counts_once_however_often_writeback_was_held() {
        use MeasureKind::{Backlog, Hold};
        let status = ShieldStatus {
            ended: vec![
                measure(Hold, 7, 100, Some(900)),
                measure(Hold, 7, 900, Some(1300)),
                measure(Hold, 7, 1200, Some(1400)),
                measure(Backlog, 7, 1000, Some(9000)),
            ],
            in_force: vec![measure(Hold, 7, 1800, None)],
            ..ShieldStatus::default()
        };
        for (time, held) in [
            (1000..2000, 400 + 200),
            (0..5000, 800 + 500 + 3200),
            (1450..1700, 0),
            (2000..2000, 0),
        ] {
            assert_eq!(held_ms(&status, &time), held, "{time:?}");
        }
    }

    #[test]
    fn a_measure_counts_for_its_user_and_its_time() {
        let status = ShieldStatus {
            in_force: vec![measure(MeasureKind::Journal, 7, 1000, None)],
            ..ShieldStatus::default()
        };
        for (uid, time, expected) in [
            (7, 900..1100, true),
            (7, 1100..1200, false),
            (8, 900..1100, false),
        ] {
            assert_eq!(was_measured_for(&status, uid, &time), expected, "{time:?}");
        }
    }
}
