//! `stats`, and `status` of one app: what is known of apps and their launches.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::json;

use super::Failure;
use super::named;
use super::profiles::write_out;
use super::service::{failed, service_or_files};
use super::tables::{
    anticipated, apps_table, duration, launches_table, own_reads_table, user_name,
};
use super::terminal::{columns, joined};
use crate::cli::format;
use crate::cli::format::date;
use crate::policy::Warmth;
use crate::service::control::bus::{Client, MAX_LAUNCHES};
use crate::service::control::{AppState, LaunchRecord};
use crate::service::history::Kind;

/// Launches that are listed as text.
const LISTED: usize = 20;

/// Prints what is known of one app, or of all managed apps, and the newest launches.
pub fn main(
    state_dir: &Path,
    user: Option<u32>,
    app: Option<&OsStr>,
    json: bool,
) -> Result<(), Failure> {
    let service = service_or_files(state_dir, Client::connect)?;
    let apps = match app {
        Some(app) => named::ask(&service, user, app, |app| {
            service.calls.apps(user, Some(app))
        })?,
        None => service.calls.apps(user, None).map_err(failed)?,
    };
    // All of them have the same id.
    let id = app.and(apps.first()).map(|app| app.app.as_str());
    // Those of one app are counted, not only listed.
    let limit = match json || app.is_some() {
        true => MAX_LAUNCHES,
        false => LISTED as u32,
    };
    let launches = service.calls.launches(user, id, limit);
    let launches = launches.map_err(failed)?;
    if json {
        return write_out(&format!(
            "{:#}\n",
            json!({ "apps": apps, "launches": launches })
        ));
    }
    let mut lines = match app {
        Some(_) => apps
            .iter()
            .flat_map(|app| app_lines(app, &launches))
            .collect(),
        None => {
            let mut lines = apps_table(&apps, user.is_none());
            lines.extend(beside_writes(&apps));
            lines
        }
    };
    lines.push(String::new());
    let listed = &launches[..launches.len().min(LISTED)];
    lines.extend(launches_table(listed, user.is_none(), app.is_none()));
    if app.is_some() {
        let own_reads = own_reads_table(listed, columns());
        lines.extend((!own_reads.is_empty()).then(String::new));
        lines.extend(own_reads);
    }
    write_out(&joined(&lines))
}

/// Everything that is known of one app, with its newest launches.
fn app_lines(app: &AppState, launches: &[LaunchRecord]) -> Vec<String> {
    let why = match app.why.as_str() {
        "" => String::new(),
        why => format!(": {why}"),
    };
    let last = app.last_s.map_or_else(|| "never".to_owned(), date);
    let mut lines = vec![
        format!("{} ({}) of {}", app.app, app.name, user_name(app.uid)),
        format!("  phase     {}{why}; {}", app.phase, why_managed(app)),
        match app.profile_bytes {
            0 => "  profile   none is known".to_owned(),
            bytes => format!(
                "  profile   {} entries, {:.1} KiB",
                app.entries,
                bytes as f64 / 1024.0
            ),
        },
        format!(
            "  launches  {}, of which {} {} prefetched; last {last}",
            app.launches,
            app.prefetched,
            if app.prefetched == 1 { "was" } else { "were" }
        ),
        match (app.cold_with_us, app.cold_without_us) {
            (Some(with_us), Some(without_us)) => format!(
                "  typical   {} when cold and prefetched, {} without",
                format::seconds(with_us),
                format::seconds(without_us)
            ),
            _ => format!("  typical   {}", duration(app.duration_us)),
        },
        match (app.waiting_with_us, app.waiting_without_us) {
            (None, None) => "  waiting   not known before cold launches".to_owned(),
            (Some(with_us), Some(without_us)) => format!(
                "  waiting   for the drive {} when cold and prefetched, {} without",
                format::seconds(with_us),
                format::seconds(without_us)
            ),
            (None, Some(without_us)) => format!(
                "  waiting   for the drive {} when cold; with prefetching not known yet",
                format::seconds(without_us)
            ),
            (Some(with_us), None) => format!(
                "  waiting   for the drive {} when cold and prefetched; without not known",
                format::seconds(with_us)
            ),
        },
        format!("  saved     {}", saved(app, launches)),
    ];
    let before = anticipated(app);
    lines.extend(before.map(|before| format!("  before    {before}")));
    let beside = beside_writes(std::slice::from_ref(app));
    lines.extend(beside.map(|beside| format!("  writes    {beside}")));
    lines
}

/// Why an app is managed, in words.
fn why_managed(app: &AppState) -> String {
    match app.added_by.as_str() {
        "user" => "named by the administrator".to_owned(),
        "owner" => "named by its user".to_owned(),
        "desktop" => "it has a .desktop entry".to_owned(),
        "discovered" => "its launches are large and slow".to_owned(),
        "announced" => "its launcher announced it".to_owned(),
        "login" => "what its user's logins read".to_owned(),
        "imported" => "a profile of it was imported".to_owned(),
        // Of a later version.
        other => format!("added: {other}"),
    }
}

/// What prefetching has saved of the time of an app's launches: at each prefetched cold launch that is known, what it
/// typically saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedTime {
    /// The app's prefetched cold launches.
    pub launches: usize,
    /// What each of them saves, in microseconds; below 0 where prefetching costs time.
    pub each_us: i64,
    /// What each saves, in percent of a cold launch without prefetching.
    pub percent: i32,
}

impl SavedTime {
    /// By what is typical of the app, and by those of these launches that are its user's. `None` before cold launches
    /// with and without prefetching.
    pub fn of(app: &AppState, launches: &[LaunchRecord]) -> Option<Self> {
        let percent = app.gain_percent?;
        let (with_us, without_us) = (app.cold_with_us?, app.cold_without_us?);
        let has_saved = |launch: &&LaunchRecord| {
            launch.uid == app.uid
                && launch.app == app.app
                && launch.kind == Kind::Prefetched
                && launch.warmth == Some(Warmth::Cold)
        };
        let signed = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
        Some(SavedTime {
            launches: launches.iter().filter(has_saved).count(),
            each_us: signed(without_us) - signed(with_us),
            percent,
        })
    }

    /// What all of them have saved, in microseconds.
    pub fn total_us(&self) -> i64 {
        let launches = i64::try_from(self.launches).unwrap_or(i64::MAX);
        self.each_us.saturating_mul(launches)
    }
}

fn saved(app: &AppState, launches: &[LaunchRecord]) -> String {
    let Some(saved) = SavedTime::of(app, launches) else {
        return "not known before cold launches with and without prefetching".to_owned();
    };
    format!(
        "{:.1} s in {}, {:.2} s ({} %) each",
        saved.total_us() as f64 / 1e6,
        format::counted(saved.launches as u64, "cold launch", "cold launches"),
        saved.each_us as f64 / 1e6,
        saved.percent
    )
}

/// How many launches of these apps were beside other programs' writes, if any.
fn beside_writes(apps: &[AppState]) -> Option<String> {
    let launches = apps.iter().map(|app| app.beside_writes);
    let launches = launches.fold(0, u64::saturating_add);
    let counted = format::counted(launches, "launch", "launches");
    (launches > 0).then(|| format!("{counted} beside other programs' writes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_beside_writes_are_counted_if_there_were_any() {
        let beside = |launches| AppState {
            beside_writes: launches,
            ..AppState::default()
        };
        assert_eq!(beside_writes(&[]), None);
        let quiet = AppState::default();
        assert_eq!(beside_writes(std::slice::from_ref(&quiet)), None);
        let line = beside_writes(&[beside(1), quiet, beside(3)]);
        let expected = "4 launches beside other programs' writes";
        assert_eq!(line.as_deref(), Some(expected));
    }

    #[test]
    fn control_characters_in_names_are_not_printed() {
        let app = AppState {
            app: "/a\u{1b}[2J".to_owned(),
            why: "w\ne".to_owned(),
            ..AppState::default()
        };
        let text = joined(&app_lines(&app, &[]));
        assert_eq!(text.lines().count(), 7);
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn waiting_is_not_known_before_cold_launches() {
        let app = AppState::default();
        let waiting = |app: &AppState| app_lines(app, &[]).swap_remove(5);
        assert_eq!(waiting(&app), "  waiting   not known before cold launches");
        let app = AppState {
            waiting_without_us: Some(750_000),
            ..app
        };
        let known = waiting(&app);
        assert!(
            known.contains("drive 0.750 s when cold; with prefetching not known"),
            "{known}"
        );
    }

    #[test]
    fn what_was_saved_is_that_of_the_apps_own_cold_launches() {
        let app = AppState {
            app: "/a".to_owned(),
            gain_percent: Some(60),
            cold_with_us: Some(300_000),
            cold_without_us: Some(750_000),
            beside_writes: 1,
            anticipated: 2,
            anticipated_saved_us: 900_000,
            ..AppState::default()
        };
        let launch = |app: &str, kind, warmth| LaunchRecord {
            app: app.to_owned(),
            kind,
            warmth: Some(warmth),
            ..LaunchRecord::default()
        };
        let launches = [
            launch("/a", Kind::Prefetched, Warmth::Cold),
            launch("/a", Kind::Prefetched, Warmth::Cold),
            launch("/a", Kind::Prefetched, Warmth::Warm),
            launch("/a", Kind::Withheld, Warmth::Cold),
            launch("/b", Kind::Prefetched, Warmth::Cold),
        ];
        assert_eq!(
            saved(&app, &launches),
            "0.9 s in 2 cold launches, 0.45 s (60 %) each"
        );
        let lines = app_lines(&app, &launches);
        let typical = "  typical   0.300 s when cold and prefetched, 0.750 s without";
        assert_eq!(lines[4], typical);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{lines:?}"
        );
        let beside = "  writes    1 launch beside other programs' writes";
        assert_eq!(lines.last().map(String::as_str), Some(beside));
        let before = "  before    2 launches anticipated, 0.9 s saved";
        assert_eq!(lines[lines.len() - 2], before);
        let app = AppState {
            gain_percent: None,
            ..app
        };
        assert!(saved(&app, &launches).starts_with("not known"));
    }
}
