//! What the shield does and did, for `status` and `doctor`.

use crate::cli::format;
use crate::policy::MeasureKind;
use crate::service::control::{MeasureState, ShieldSummary};

/// Measures that have ended which are listed; JSON has more.
const LISTED: usize = 5;

/// The shield in lines of text.
pub fn lines(shield: &ShieldSummary) -> Vec<String> {
    if !shield.enabled {
        return vec!["writes: the shield is switched off (writes.shield)".to_owned()];
    }
    let mut lines = vec![format!(
        "writes: {} measures taken for launches beside other programs' writes, {} refused by the bounds of a user",
        shield.taken, shield.refused
    )];
    lines.extend(shield.problem.iter().map(|why| format!("  problem: {why}")));
    let now = shield.in_force.iter().map(|measure| ("now", measure));
    let skipped = shield.ended.len().saturating_sub(LISTED);
    let last = shield
        .ended
        .iter()
        .skip(skipped)
        .map(|measure| ("", measure));
    lines.extend(last.chain(now).map(|(mark, measure)| line(mark, measure)));
    lines.extend(shield.lacks.iter().map(|lack| format!("  cannot: {lack}")));
    lines
}

/// One measure: when, what, for how long, why it ended and what it cost the writer.
pub fn line(mark: &str, measure: &MeasureState) -> String {
    let at = format::date(measure.since_ms / 1000);
    let until = measure.ended_ms.unwrap_or(measure.until_ms);
    let took = format::seconds(until.saturating_sub(measure.since_ms).saturating_mul(1000));
    let took = match (measure.ended_ms, &measure.why_ended) {
        (None, _) => format!("at most {took}"),
        (Some(_), None) => took,
        (Some(_), Some(why)) => format!("{took}, until {why}"),
    };
    let what = match measure.kind.parse::<MeasureKind>() {
        Ok(kind) => words(kind),
        Err(_) => &measure.kind,
    };
    let cost = cost(measure).map_or(String::new(), |cost| format!("; {cost}"));
    let mark = match mark {
        "" => String::new(),
        mark => format!("{mark}: "),
    };
    format!("  {mark}{at} {what} ({}) for {took}{cost}", measure.target)
}

/// The kind of a measure, in a few words.
fn words(kind: MeasureKind) -> &'static str {
    match kind {
        MeasureKind::Journal => "better I/O priority",
        MeasureKind::Hold => "writeback held back",
        MeasureKind::Backlog => "a drive's dirty pages limited",
        MeasureKind::Dirty => "the system's dirty pages limited",
        MeasureKind::Group => "a writer's memory limited",
        MeasureKind::Requests => "a drive's queue changed",
    }
}

/// What the drive wrote before, during and after a measure: what that cost the writer.
fn cost(measure: &MeasureState) -> Option<String> {
    let rates = [
        (measure.written_before, "before"),
        (measure.written_during, "meanwhile"),
        (measure.written_after, "after it"),
    ];
    let known = rates.into_iter().filter_map(|(rate, when)| {
        let rate = rate? as f64 / 1e6;
        Some(format!("{rate:.1} MB/s {when}"))
    });
    let known: Vec<String> = known.collect();
    (!known.is_empty()).then(|| format!("the drive wrote {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(kind: &str, ended_ms: Option<u64>) -> MeasureState {
        MeasureState {
            kind: kind.to_owned(),
            target: "sda".to_owned(),
            since_ms: 1_700_000_000_000,
            until_ms: 1_700_000_005_000,
            ended_ms,
            why_ended: ended_ms.map(|_| "the launch was over".to_owned()),
            written_before: Some(25_000_000),
            written_during: Some(300_000),
            ..MeasureState::default()
        }
    }

    #[test]
    fn measures_say_when_for_how_long_and_at_what_cost() {
        let shield = ShieldSummary {
            enabled: true,
            taken: 9,
            problem: Some("no room".to_owned()),
            lacks: vec!["group: version 1".to_owned()],
            in_force: vec![measure("hold", None)],
            ended: vec![measure("later-invention", Some(1_700_000_002_500)); 8],
            ..ShieldSummary::default()
        };
        let lines = lines(&shield);
        assert_eq!(lines.len(), 1 + 1 + LISTED + 1 + 1);
        let now = lines.iter().find(|line| line.contains("now: ")).unwrap();
        assert!(
            now.contains("writeback held back (sda) for at most 5.000 s; the drive wrote 25.0 MB/s before, 0.3"),
            "{now}"
        );
        let last = &lines[2];
        assert!(
            last.contains("later-invention (sda) for 2.500 s, until the launch was over"),
            "{last}"
        );
        assert_eq!(lines.last().unwrap(), "  cannot: group: version 1");
    }

    #[test]
    fn a_shield_that_is_off_says_that_alone() {
        let lines = lines(&ShieldSummary::default());
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("off"), "{lines:?}");
    }
}
