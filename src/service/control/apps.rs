//! The managed apps, as the calls name and show them.

use std::ffi::OsStr;

use super::types::AppState;
use super::{Answer, ControlError};
use crate::apps::{Rules, desktop};
use crate::policy::{GainVerdict, Phase};
use crate::service::cached_profile::CachedProfile;
use crate::service::dictionary::word;
use crate::service::history::{History, Typical};
use crate::service::managed_apps::off_reason;
use crate::service::registry::{Added, Record, Registry};
use crate::service::watchlist::PATH;

/// The managed app that a user means: by its id, the last component of its path, or its title.
pub(super) fn find<'a>(registry: &'a Registry, name: &str) -> Answer<&'a Record> {
    let ways: [fn(&Record, &str) -> bool; 3] = [
        |record, name| record.id == name,
        |record, name| record.id.rsplit('/').next() == Some(name),
        |record, name| record.title.eq_ignore_ascii_case(name),
    ];
    for fits in ways {
        let found: Vec<&Record> = registry
            .records
            .values()
            .filter(|&r| fits(r, name))
            .collect();
        match found[..] {
            [] => {}
            [record] => return Ok(record),
            _ => {
                let ids: Vec<&str> = found.iter().map(|record| record.id.as_str()).collect();
                return Err(ControlError::Refused(format!(
                    "{name} may be any of {}; give the whole path",
                    ids.join(", ")
                )));
            }
        }
    }
    Err(ControlError::Unknown(format!(
        "{name} is not managed (`paralfetch list` shows what is, `paralfetch enable` adds to it)"
    )))
}

/// The id of the app that a user means; an app that is not managed so far is managed from now on.
pub(super) fn find_or_add(registry: &mut Registry, name: &str, rules: &Rules) -> Answer<String> {
    let mut record = match find(registry, name) {
        Ok(record) => record.clone(),
        Err(ControlError::Unknown(_)) => new_record(name, rules)?,
        Err(error) => return Err(error),
    };
    // Whatever has made it managed, the user has named it now.
    record.added = Added::User;
    let id = record.id.clone();
    registry.insert(record);
    Ok(id)
}

/// An app that is installed and not managed so far.
fn new_record(app: &str, rules: &Rules) -> Answer<Record> {
    let path = OsStr::new(PATH);
    let entries = desktop::entries(&desktop::system_directories(), rules, path);
    let found =
        desktop::find_app(OsStr::new(app), &entries, rules, path).map_err(ControlError::Unknown)?;
    Record::of_installed(&found.identity, found.name, &found.names, Added::User)
        .ok_or_else(|| ControlError::Refused(format!("{app}: its path is not UTF-8")))
}

fn state_of(record: &Record, profile: Option<&CachedProfile>) -> AppState {
    let (phase, why) = match record.managed.phase() {
        Phase::Learning { .. } => ("learning", String::new()),
        Phase::Prefetching => ("prefetching", String::new()),
        Phase::Disabled { off, .. } => ("disabled", off_reason(off)),
    };
    let gain = match record.managed.verdict() {
        GainVerdict::Helps {
            with_us,
            without_us,
        }
        | GainVerdict::DoesNotHelp {
            with_us,
            without_us,
        } if without_us > 0 => (100 - with_us as i128 * 100 / i128::from(without_us)) as i32,
        _ => AppState::GAIN_UNKNOWN,
    };
    AppState {
        app: record.id.clone(),
        name: record.title.clone(),
        phase: phase.to_owned(),
        why,
        added_by: word(record.added),
        launches: record.launches,
        last_s: record.last_s.last().copied().unwrap_or(0),
        prefetched: record.prefetched,
        gain_percent: gain,
        profile_bytes: profile.map_or(0, |profile| profile.packed.len() as u64),
        entries: profile.map_or(0, |profile| profile.entries),
        ..AppState::default()
    }
}

/// The managed app that a user means, or all of them, as far as the registry and their profiles tell.
pub(super) fn states<'a>(
    registry: &Registry,
    app: Option<&str>,
    profile: impl Fn(&str) -> Option<&'a CachedProfile>,
) -> Answer<Vec<AppState>> {
    let state = |record: &Record| state_of(record, profile(&record.id));
    Ok(match app {
        Some(app) => vec![state(find(registry, app)?)],
        None => registry.records.values().map(state).collect(),
    })
}

/// Adds what the history knows of the apps' launches.
pub(super) fn add_times(mut apps: Vec<AppState>, history: &History) -> Answer<Vec<AppState>> {
    let waiting = |typical: Option<Typical>| typical.map_or(0, |typical| typical.waiting_us);
    for app in &mut apps {
        let summary = history.summary(&app.app).map_err(ControlError::failed)?;
        app.cold_with_us = waiting(summary.with);
        app.cold_without_us = waiting(summary.without);
        let typical = summary.with.or(summary.without);
        app.duration_us = typical.map_or(0, |typical| typical.duration_us);
        if let Some(gain) = summary.waiting_gain() {
            app.gain_percent = (gain * 100.0).round() as i32;
        }
    }
    Ok(apps)
}
