//! `status`: what the service manages, saves, uses and can observe.

use serde_json::json;

use super::profiles::write_out;
use super::service::{failed, running};
use super::terminal::joined;
use super::{Failure, writes};
use crate::cli::format::{counted, date, mib};
use crate::service::control::Status;

/// Prints the state of the service.
pub fn main(json: bool) -> Result<(), Failure> {
    let report = running()?.status().map_err(failed)?;
    write_out(&if json {
        format!("{:#}\n", json!(report))
    } else {
        status_text(&report)
    })
}

fn status_text(report: &Status) -> String {
    let Status {
        version,
        mode,
        managed,
        with_profile,
        learning,
        disabled,
        launches_seen,
        lost_events,
        excess_execs,
        ..
    } = report;
    let since = date(report.since_s);
    let (memory, profiles) = (mib(report.resident_bytes), mib(report.profiles_bytes));
    let apps = counted(*managed, "app", "apps");
    let launches = counted(*launches_seen, "launch", "launches");
    let events = counted(*lost_events, "event", "events");
    let saved_s = report.saved_us as f64 / 1e6;
    let mut lines = vec![
        format!("paralfetch {version}, {mode} mode, since {since}"),
        format!(
            "{apps} managed: {with_profile} with a profile, {learning} to be learned, \
             {disabled} disabled"
        ),
        format!("{launches} seen, {events} lost"),
        format!("{excess_execs} executions past the bound of their user"),
        format!("{saved_s:.1} s of waiting for the drive saved"),
        format!("{memory} of memory, {profiles} of profiles"),
    ];
    lines.extend(writes::lines(&report.shield));
    lines.extend(report.abilities.iter().map(|line| format!("  {line}")));
    let warnings = report.warnings.iter();
    lines.extend(warnings.map(|line| format!("warning: {line}")));
    joined(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_lists_every_ability_and_warning() {
        let report = Status {
            mode: "manual".to_owned(),
            managed: 3,
            saved_us: 12_345_678,
            abilities: vec!["sees execve".to_owned()],
            warnings: vec!["disk full".to_owned()],
            ..Status::default()
        };
        let text = status_text(&report);
        assert!(
            text.contains("manual mode") && text.contains("3 apps managed"),
            "{text}"
        );
        assert!(
            text.ends_with("  sees execve\nwarning: disk full\n")
                && text.contains("12.3 s of waiting"),
            "{text}"
        );
    }
}
