//! What the shield does and did, for `status` and `doctor`.

use crate::cli::format;
use crate::service::control::{ShieldSummary, ShieldingState};

/// How many of the shieldings that have ended are listed; JSON has more.
const LISTED: usize = 5;

/// The shield in lines of text.
pub fn lines(shield: &ShieldSummary) -> Vec<String> {
    if !shield.enabled {
        return vec!["writes: the shield is switched off (writes.shield)".to_owned()];
    }
    let refused = match shield.refused {
        0 => String::new(),
        count => format!(", {count} launches and waits past their user's share of time"),
    };
    let mut lines = vec![format!(
        "writes: drives shielded {} times from other programs' writes{refused}",
        shield.taken
    )];
    lines.extend(shield.problem.iter().map(|why| format!("  problem: {why}")));
    let skipped = shield.ended.len().saturating_sub(LISTED);
    let last = shield.ended.iter().skip(skipped).map(|it| line("", it));
    let now = shield.in_force.iter().map(|it| line("now: ", it));
    lines.extend(last.chain(now));
    lines
}

/// One shielding: when, what was set, for how long, why it ended and what it cost the writers. `mark` goes before it.
pub fn line(mark: &str, shielding: &ShieldingState) -> String {
    let at = format::date(shielding.since_ms / 1000);
    let took = shielding.ended_ms.map(|ended| {
        let us = ended
            .saturating_sub(shielding.since_ms)
            .saturating_mul(1000);
        format!(" for {}", format::seconds(us))
    });
    let why = shielding
        .why_ended
        .as_ref()
        .map(|why| format!(", until {why}"));
    let rates = [
        (shielding.written_before, "before"),
        (shielding.written_during, "meanwhile"),
    ];
    let rates = rates.into_iter().filter_map(|(rate, when)| {
        let rate = rate? as f64 / 1e6;
        Some(format!("; it wrote {rate:.1} MB/s {when}"))
    });
    let parts = [took, why].into_iter().flatten().chain(rates);
    format!(
        "  {mark}{at} {}{}",
        shielding.target,
        parts.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shielding(ended_ms: Option<u64>) -> ShieldingState {
        ShieldingState {
            target: "sda: requests of 128 KiB".to_owned(),
            since_ms: 1_700_000_000_000,
            ended_ms,
            why_ended: ended_ms.map(|_| "the drive is written no longer".to_owned()),
            written_before: Some(25_000_000),
            ..ShieldingState::default()
        }
    }

    #[test]
    fn each_time_says_what_for_how_long_and_at_what_cost() {
        let shield = ShieldSummary {
            enabled: true,
            taken: 9,
            refused: 2,
            problem: Some("no room".to_owned()),
            in_force: vec![shielding(None)],
            ended: vec![shielding(Some(1_700_000_002_500)); 8],
        };
        let lines = lines(&shield);
        assert_eq!(lines.len(), 1 + 1 + LISTED + 1);
        assert!(lines[0].contains("9 times") && lines[0].contains("2 launches"));
        assert!(lines[1].contains("no room"));
        assert!(
            lines[2].ends_with(
                "sda: requests of 128 KiB for 2.500 s, until the drive is written no longer; it wrote 25.0 MB/s before"
            ),
            "{}",
            lines[2]
        );
        let now = lines.last().unwrap();
        assert!(now.contains("now: ") && !now.contains(" for "), "{now}");
    }

    #[test]
    fn a_shield_that_is_off_says_that_alone() {
        let lines = lines(&ShieldSummary::default());
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("off"), "{lines:?}");
    }
}
