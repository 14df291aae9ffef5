//! `show`, `list` and `forget`.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use super::args::DEFAULT_STATE_DIR;
use super::status::{joined, table};
use super::{Failure, say, show as print};
use crate::model::Profile;
use crate::process::User;
use crate::profile::Store;
use crate::service::control::bus::{Address, Client};
use crate::service::control::{AppState, ServiceCalls};

/// Prints a profile.
pub fn show(state_dir: &Path, app: &OsStr, json: bool) -> Result<(), Failure> {
    let store = Store::open(state_dir)?;
    let profile = find(&store, app)?;
    let text = if json {
        format!("{:#}\n", print::json(&profile))
    } else {
        print::text(&profile)
    };
    write_out(&text)
}

/// Lists all profiles, and names those that cannot be read on standard error.
pub fn list(state_dir: &Path, json: bool) -> Result<(), Failure> {
    // Before anything was learned, there is no directory, and reading makes none.
    let stored = match state_dir.try_exists() {
        Ok(false) => Vec::new(),
        _ => Store::open(state_dir)?.list()?,
    };
    let mut profiles = Vec::new();
    for stored in stored {
        match stored.profile {
            Ok(profile) => profiles.push(profile),
            Err(error) => say(&error.to_string()),
        }
    }
    profiles.sort_by(|a, b| (&a.app.path, &a.app.root).cmp(&(&b.app.path, &b.app.root)));
    let managed = managed(state_dir);
    let text = if json {
        let all: Vec<_> = profiles
            .iter()
            .map(|profile| list_json(profile, &managed))
            .collect();
        format!("{:#}\n", serde_json::Value::from(all))
    } else {
        let mut lines: Vec<String> = profiles.iter().map(print::list_line).collect();
        if !managed.is_empty() {
            lines.push(String::new());
            lines.extend(table(&managed));
        }
        joined(&lines)
    };
    write_out(&text)
}

/// A profile, with what the service knows of the app's launches.
fn list_json(profile: &Profile, managed: &[AppState]) -> serde_json::Value {
    let mut value = print::list_json(profile);
    let state = managed
        .iter()
        .find(|state| state.app.as_bytes() == profile.app.id());
    if let Some(state) = state {
        value["service"] = serde_json::json!(state);
    }
    value
}

/// The apps that the service manages, if it runs and uses this state directory. `list` goes on without
/// them if the service does not answer, and says so.
fn managed(state_dir: &Path) -> Vec<AppState> {
    if state_dir != Path::new(DEFAULT_STATE_DIR) {
        return Vec::new();
    }
    let asked = match Client::connect(&Address::System) {
        Ok(None) => return Vec::new(),
        Ok(Some(client)) => client.apps(None).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    asked.unwrap_or_else(|error| {
        say(&format!("the service cannot be asked: {error}"));
        Vec::new()
    })
}

/// Removes a profile.
pub fn forget(state_dir: &Path, app: &OsStr) -> Result<(), Failure> {
    let store = Store::open(state_dir)?;
    let profile = find(&store, app)?;
    store.remove(profile.app.key())?;
    super::service::tell_of_profiles(state_dir);
    Ok(())
}

fn find(store: &Store, app: &OsStr) -> Result<Profile, Failure> {
    let user = User::invoking();
    let found = store.find(User::uid_of(user.as_ref()), app)?;
    found.ok_or_else(|| no_profile(app))
}

fn no_profile(app: &OsStr) -> Failure {
    Failure::from(format!(
        "there is no profile of {}; `paralfetch list` shows those there are",
        Path::new(app).display()
    ))
}

/// Writes to standard output. A reader that has exited, such as `head`, is not an error.
pub fn write_out(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::from(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}
