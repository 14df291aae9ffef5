//! `status`: what the service manages, saves, uses and can observe.

use serde_json::json;

use super::profiles::write_out;
use super::service::{failed, running};
use super::terminal::joined;
use super::{Failure, writes};
use crate::cli::format::{counted, date, mib};
use crate::service::control::Status;

/// Prints the state of the service.
pub fn main(json: bool, verbose: bool) -> Result<(), Failure> {
    let report = running()?.status().map_err(failed)?;
    write_out(&if json {
        format!("{:#}\n", json!(report))
    } else {
        status_text(&report, verbose)
    })
}

fn status_text(report: &Status, verbose: bool) -> String {
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
    let gained = match report.saved_us {
        0 => "nothing gained yet: the first launch of an app after a boot, once it was learned, is what becomes faster"
            .to_owned(),
        ..0 => format!("prefetching has cost {:.1} s at cold launches so far", -saved_s),
        _ => format!("{saved_s:.1} s saved at cold launches so far"),
    };
    let mut lines = vec![gained];
    lines.extend(anticipated(report));
    lines.extend([
        format!(
            "{apps} managed: {with_profile} with a profile, {learning} to be learned, \
             {disabled} disabled"
        ),
        format!("{launches} seen, {events} lost"),
    ]);
    lines.extend((*excess_execs > 0).then(|| {
        let execs = counted(*excess_execs, "execution", "executions");
        format!("{execs} past the bound of their user")
    }));
    lines.extend([
        format!("{memory} of memory, {profiles} of profiles"),
        format!("paralfetch {version}, {mode} mode, since {since}"),
    ]);
    if !verbose {
        let warnings = report.warnings.iter();
        lines.extend(warnings.map(|line| format!("warning: {line}")));
        lines.push(
            "`paralfetch status -v` says what can be observed here, and what was done about other programs' writes"
                .to_owned(),
        );
        return joined(&lines);
    }
    lines.extend(writes::lines(&report.shield));
    lines.extend(report.abilities.iter().map(|line| format!("  {line}")));
    let warnings = report.warnings.iter();
    lines.extend(warnings.map(|line| format!("warning: {line}")));
    joined(&lines)
}

/// What reading before launches has saved and cost, if there was any.
fn anticipated(report: &Status) -> Option<String> {
    let (used, unused) = (
        report.read_before_used_bytes,
        report.read_before_unused_bytes,
    );
    if report.anticipated == 0 && used == 0 && unused == 0 {
        return None;
    }
    Some(format!(
        "{:.1} s saved at {} (read ahead before the click: {} used, {} not)",
        report.anticipated_saved_us as f64 / 1e6,
        counted(
            report.anticipated,
            "anticipated launch",
            "anticipated launches"
        ),
        mib(used),
        mib(unused)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_greets_with_the_gain_and_lists_every_ability_where_asked() {
        let report = Status {
            mode: "manual".to_owned(),
            managed: 3,
            saved_us: 12_345_678,
            abilities: vec!["sees execve".to_owned()],
            warnings: vec!["disk full".to_owned()],
            ..Status::default()
        };
        let text = status_text(&report, true);
        assert!(
            text.contains("manual mode") && text.contains("3 apps managed"),
            "{text}"
        );
        assert!(
            text.ends_with("  sees execve\nwarning: disk full\n")
                && text.starts_with("12.3 s saved"),
            "{text}"
        );
        let short = status_text(&report, false);
        assert!(short.contains("warning: disk full\n"), "{short}");
        for hidden in ["sees execve", "past the bound", "writes: "] {
            assert!(!short.contains(hidden), "{hidden}: {short}");
        }
        let report = Status {
            saved_us: 0,
            excess_execs: 1,
            ..report
        };
        let text = status_text(&report, false);
        assert!(text.starts_with("nothing gained yet"), "{text}");
        assert!(text.contains("1 execution past the bound"), "{text}");
    }

    #[test]
    fn what_was_read_before_launches_is_told_with_its_waste() {
        assert_eq!(anticipated(&Status::default()), None);
        let report = Status {
            anticipated: 3,
            anticipated_saved_us: 4_200_000,
            read_before_used_bytes: 300 << 20,
            read_before_unused_bytes: 100 << 20,
            ..Status::default()
        };
        let expected = "4.2 s saved at 3 anticipated launches (read ahead before the click: 300.0 MiB used, 100.0 MiB not)";
        assert_eq!(anticipated(&report).as_deref(), Some(expected));
        assert!(status_text(&report, false).contains(expected));
    }
}
