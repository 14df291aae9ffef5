//! `status` and `stats`, and the service's part of `list`.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::json;

use super::Failure;
use super::profiles::write_out;
use super::service::{app_argument, failed, running, service_or_files};
use super::writes;
use crate::cli::format;
use crate::cli::format::{date, mib, text_of};
use crate::service::control::bus::{Client, EVERYBODY, MAX_LAUNCHES};
use crate::service::control::{AppState, LaunchRecord, Status, word};

/// Launches that `stats` lists as text.
const LISTED: u32 = 20;

/// Launches that `stats --json` has.
const IN_JSON: u32 = MAX_LAUNCHES;

/// Prints the state of the service.
pub fn status(json: bool) -> Result<(), Failure> {
    let report = running()?.status().map_err(failed)?;
    write_out(&if json {
        format!("{:#}\n", json!(report))
    } else {
        status_text(&report)
    })
}

/// Prints the managed apps and their last launches.
pub fn stats(
    state_dir: &Path,
    user: Option<u32>,
    app: Option<&OsStr>,
    json: bool,
) -> Result<(), Failure> {
    let service = service_or_files(state_dir, Client::connect)?;
    let app = app.map(app_argument).transpose()?;
    let apps = service.apps(user, app.as_deref()).map_err(failed)?;
    let limit = if json { IN_JSON } else { LISTED };
    let launches = service.launches(user, app.as_deref(), limit);
    let launches = launches.map_err(failed)?;
    write_out(&if json {
        format!("{:#}\n", json!({ "apps": apps, "launches": launches }))
    } else {
        let mut lines = match app {
            Some(_) => apps.iter().flat_map(app_lines).collect(),
            None => {
                let mut lines = table(&apps, user.is_none());
                lines.extend(writes_line(&apps));
                lines
            }
        };
        lines.push(String::new());
        lines.extend(launches_table(&launches, user.is_none()));
        joined(&lines)
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
    let saved_s = report.saved_us as f64 / 1e6;
    let mut lines = vec![
        format!("paralfetch {version}, {mode} mode, since {since}"),
        format!(
            "{managed} apps managed: {with_profile} with a profile, {learning} to be learned, \
             {disabled} disabled"
        ),
        format!(
            "{launches_seen} launches seen, {lost_events} events lost, {excess_execs} executions past the \
             bound of their user"
        ),
        format!("{saved_s:.1} s of waiting for the drive saved"),
        format!("{memory} of memory, {profiles} of profiles"),
    ];
    lines.extend(writes::lines(&report.shield));
    lines.extend(report.abilities.iter().map(|line| format!("  {line}")));
    let warnings = report.warnings.iter();
    lines.extend(warnings.map(|line| format!("warning: {line}")));
    joined(&lines)
}

/// Everything that is known of one app.
fn app_lines(app: &AppState) -> Vec<String> {
    let why = match app.why.as_str() {
        "" => String::new(),
        why => format!(": {why}"),
    };
    let typical = duration(app.duration_us);
    let (with, without) = (duration(app.cold_with_us), duration(app.cold_without_us));
    vec![
        format!("{} ({}) of {}", app.app, app.name, user_name(app.uid)),
        format!("{}{why}; added by {}", app.phase, app.added_by),
        format!(
            "{} launches, {} of them prefetched; the last {}; typically {typical}",
            app.launches,
            app.prefetched,
            last(app)
        ),
        format!(
            "cold launches wait for the drive for {with}, and for {without} when they are not \
             prefetched; gain {}",
            gain(app)
        ),
        writes_line(std::slice::from_ref(app))
            .unwrap_or_else(|| "no launches beside other programs' writes".to_owned()),
        format!(
            "profile of {} entries, {:.1} KiB",
            app.entries,
            app.profile_bytes as f64 / 1024.0
        ),
    ]
}

/// What is known of these apps' launches beside other programs' writes; `None` if there were none.
fn writes_line(apps: &[AppState]) -> Option<String> {
    let sum = |figure: fn(&AppState) -> u64| apps.iter().map(figure).fold(0, u64::saturating_add);
    let launches = sum(|app| app.beside_writes);
    (launches > 0).then(|| {
        format!(
            "{launches} launches beside other programs' writes: writeback held back for {}, waited for writes for {}",
            format::seconds(sum(|app| app.writeback_held_us)),
            format::seconds(sum(|app| app.waited_for_writes_us)),
        )
    })
}

/// One line for each app, below a heading; with its user, if those of several are shown.
pub fn table(apps: &[AppState], shows_users: bool) -> Vec<String> {
    if apps.is_empty() {
        return vec!["no app is managed".to_owned()];
    }
    let mut lines = vec![format!(
        "{}{:<40} {:<11} {:>8}  {:<16} {:>10} {:>14} {:>8}",
        heading(shows_users),
        "app",
        "phase",
        "launches",
        "last",
        "typical",
        "gain",
        "entries"
    )];
    lines.extend(apps.iter().map(|app| {
        format!(
            "{}{:<40} {:<11} {:>8}  {:<16} {:>10} {:>14} {:>8}",
            user_column(app.uid, shows_users),
            app.app,
            app.phase,
            app.launches,
            last(app),
            duration(app.duration_us),
            gain(app),
            app.entries
        )
    }));
    lines
}

fn launches_table(launches: &[LaunchRecord], shows_users: bool) -> Vec<String> {
    if launches.is_empty() {
        return vec!["no launch was recorded".to_owned()];
    }
    let mut lines = vec![format!(
        "{:<16} {:<9} {:<7} {:>9} {:>9} {:>10}  {}app",
        "time",
        "done",
        "warmth",
        "took",
        "waited",
        "read",
        heading(shows_users)
    )];
    let line = |launch| launch_line(launch, shows_users);
    lines.extend(launches.iter().map(line));
    lines
}

/// One launch.
pub fn launch_line(launch: &LaunchRecord, shows_user: bool) -> String {
    let note = launch.note.as_ref();
    let note = note.map_or(String::new(), |note| format!(" ({note})"));
    format!(
        "{:<16} {:<9} {:<7} {:>9} {:>9} {:>10}  {}{}{note}",
        date(launch.time_s),
        launch.kind,
        launch.warmth.map_or(String::new(), word),
        format::seconds(launch.duration_us),
        format::seconds(launch.waiting_us),
        mib(launch.read_bytes),
        user_column(launch.uid, shows_user),
        launch.app,
    )
}

fn heading(shows_users: bool) -> String {
    match shows_users {
        true => format!("{:<10} ", "user"),
        false => String::new(),
    }
}

/// The name of a user in a column of its own, if the users of several are shown.
pub fn user_column(uid: u32, shows_user: bool) -> String {
    match shows_user {
        true => format!("{:<10} ", user_name(uid)),
        false => String::new(),
    }
}

/// The name of a user, or his number where he has no account.
fn user_name(uid: u32) -> String {
    if uid == EVERYBODY {
        return "all".to_owned();
    }
    let account = nix::unistd::User::from_uid(uid.into());
    let account = account.ok().flatten();
    account.map_or_else(|| uid.to_string(), |account| account.name)
}

fn last(app: &AppState) -> String {
    match app.last_s {
        0 => "never".to_owned(),
        seconds => date(seconds),
    }
}

/// What prefetching saves of the waiting time, and of each cold launch.
fn gain(app: &AppState) -> String {
    let Some(percent) = app.gain() else {
        return "-".to_owned();
    };
    let saved_us = app.cold_without_us as i64 - app.cold_with_us as i64;
    match (app.cold_with_us, app.cold_without_us) {
        (0, _) | (_, 0) => format!("{percent} %"),
        _ => format!("{percent} % {:.2} s", saved_us as f64 / 1e6),
    }
}

/// A time in microseconds; 0 stands for unknown.
fn duration(us: u64) -> String {
    match us {
        0 => "-".to_owned(),
        us => format::seconds(us),
    }
}

/// The lines as text, without control characters that names may contain.
pub fn joined(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| text_of(line.trim_end().as_bytes()) + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::history::Kind;

    #[test]
    fn unknown_figures_are_dashes() {
        let app = AppState {
            app: "/a".to_owned(),
            phase: "learning".to_owned(),
            gain_percent: AppState::GAIN_UNKNOWN,
            ..AppState::default()
        };
        let line = table(&[app], false).remove(1);
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["/a", "learning", "0", "never", "-", "-", "0"]);
        let app = AppState {
            gain_percent: 60,
            cold_with_us: 280_000,
            cold_without_us: 700_000,
            ..AppState::default()
        };
        assert_eq!(gain(&app), "60 % 0.42 s");
        let launch = LaunchRecord {
            waiting_us: 1_250_000,
            app: "/a".to_owned(),
            kind: Kind::Learned,
            note: Some("n".to_owned()),
            ..LaunchRecord::default()
        };
        for (shows_user, app) in [(false, "/a"), (true, "root /a")] {
            let line = launch_line(&launch, shows_user);
            let words: Vec<&str> = line.split_whitespace().skip(2).collect();
            let expected = format!("learned 0.000 s 1.250 s 0.0 MiB {app} (n)");
            assert_eq!(words.join(" "), expected);
        }
    }

    #[test]
    fn launches_beside_writes_are_summed_up_if_there_were_any() {
        let beside = |beside_writes| AppState {
            beside_writes,
            writeback_held_us: 750_000 * beside_writes,
            waited_for_writes_us: u64::MAX,
            ..AppState::default()
        };
        assert_eq!(writes_line(&[]), None);
        let quiet = AppState::default();
        assert_eq!(writes_line(std::slice::from_ref(&quiet)), None);
        let line = writes_line(&[beside(1), quiet, beside(3)]).unwrap();
        assert!(
            line.starts_with("4 launches beside") && line.contains("back for 3.000 s"),
            "{line}"
        );
    }

    #[test]
    fn control_characters_in_names_are_not_printed() {
        let app = AppState {
            app: "/a\u{1b}[2J".to_owned(),
            why: "w\ne".to_owned(),
            gain_percent: -7,
            ..AppState::default()
        };
        let text = joined(&app_lines(&app));
        assert_eq!(text.lines().count(), 6);
        assert!(
            !text.contains('\u{1b}') && text.contains("gain -7 %"),
            "{text}"
        );
    }

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
