//! `show`, `list` and `forget`.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::args::DEFAULT_STATE_DIR;
use super::entry::id_of_entry;
use super::service::{app_argument, failed, running};
use super::tables::{apps_table, user_column};
use super::terminal::{columns, joined};
use super::{Failure, say, show as print};
use crate::cli::format::text_of;
use crate::drive::{KnownDrive, MeasuredDrives, Sysfs, known_drives};
use crate::fs::mounts::MountTable;
use crate::model::Profile;
use crate::process::User;
use crate::profile::{Store, decode};
use crate::service::control::bus::{Address, Client};
use crate::service::control::{AppState, ControlError, ServiceCalls};

/// Prints a profile: what it covers, or its entries.
pub fn show(
    state_dir: &Path,
    user: Option<u32>,
    app: &OsStr,
    entries: bool,
    json: bool,
) -> Result<(), Failure> {
    let profile = match is_the_services(state_dir) {
        true => profile_of_service(user, app)?,
        false => {
            let store = Store::open(state_dir)?;
            let of_entry = id_of_entry(app)?;
            find(&store, user, of_entry.as_deref().unwrap_or(app))?
        }
    };
    let drives = drives(state_dir, &profile);
    let text = if json {
        format!("{:#}\n", print::json(&profile, &drives))
    } else {
        joined(&print::lines(&profile, &drives, entries, columns()))
    };
    write_out(&text)
}

/// Whether the service has to be asked: only root reads its files.
fn is_the_services(state_dir: &Path) -> bool {
    state_dir == Path::new(DEFAULT_STATE_DIR) && !rustix::process::geteuid().is_root()
}

/// The profile that the running service has of a user's app.
fn profile_of_service(user: Option<u32>, app: &OsStr) -> Result<Profile, Failure> {
    let service = running()?;
    let found = service.profile(user, &app_argument(app)?).map_err(failed)?;
    decode(&found.pf).map_err(|error| {
        Failure::from(format!(
            "the service's profile cannot be read, it may be of another version: {error}"
        ))
    })
}

/// The drives that a profile's devices are on. What cannot be known of them is left out, and said on standard error.
fn drives(state_dir: &Path, profile: &Profile) -> Vec<KnownDrive> {
    // Only root may read what was measured of them, and the numbers of its class in its place would contradict that.
    if is_the_services(state_dir) {
        return Vec::new();
    }
    let kept = MeasuredDrives::load(state_dir).unwrap_or_else(|error| {
        say(&error.to_string());
        MeasuredDrives::default()
    });
    let mounts = match MountTable::read() {
        Ok(mounts) => mounts,
        Err(error) => {
            say(&format!("cannot read the mount table: {error}"));
            return Vec::new();
        }
    };
    let devices = profile.devices.iter().map(|device| device.dev);
    known_drives(devices, &Sysfs::default(), &mounts, &kept)
}

/// Lists the profiles of a user or of all, and names those that cannot be read on standard error. Only root reads them:
/// other users get what the service knows of their apps.
pub fn list(state_dir: &Path, user: Option<u32>, json: bool) -> Result<(), Failure> {
    if is_the_services(state_dir) {
        let apps = running()?.apps(user, None).map_err(failed)?;
        return write_out(&match json {
            true => {
                let apps = apps.iter().map(json_without_profile);
                format!("{:#}\n", apps.collect::<serde_json::Value>())
            }
            false => joined(&apps_table(&apps, user.is_none())),
        });
    }
    // Before anything was learned, there is no directory, and reading makes none.
    let stored = match state_dir.try_exists() {
        Ok(false) => Vec::new(),
        _ => Store::open(state_dir)?.list()?,
    };
    let mut profiles = Vec::new();
    for stored in stored {
        match stored.profile {
            Ok(profile) if user.is_some_and(|uid| uid != profile.app.uid) => {}
            Ok(profile) => profiles.push(profile),
            Err(error) => say(&error.to_string()),
        }
    }
    profiles.sort_by(|a, b| (&a.app.path, &a.app.root).cmp(&(&b.app.path, &b.app.root)));
    let managed = managed(state_dir, user);
    let text = if json {
        format!("{:#}\n", list_json(&profiles, &managed))
    } else {
        let line = |profile: &Profile| {
            let user = user_column(profile.app.uid, user.is_none());
            print::list_line(profile, &user)
        };
        let mut lines: Vec<String> = profiles.iter().map(line).collect();
        if !managed.is_empty() {
            lines.push(String::new());
            lines.extend(apps_table(&managed, user.is_none()));
        }
        joined(&lines)
    };
    write_out(&text)
}

/// The profiles, each with what the service knows of the app's launches, and then the managed apps that have none.
fn list_json(profiles: &[Profile], managed: &[AppState]) -> serde_json::Value {
    let is_of = |state: &AppState, profile: &Profile| {
        state.uid == profile.app.uid && state.app.as_bytes() == profile.app.id()
    };
    let with_profile = profiles.iter().map(|profile| {
        let mut value = print::list_json(profile);
        if let Some(state) = managed.iter().find(|state| is_of(state, profile)) {
            value["service"] = serde_json::json!(state);
        }
        value
    });
    let has_none = |state: &&AppState| !profiles.iter().any(|profile| is_of(state, profile));
    let without = managed.iter().filter(has_none).map(json_without_profile);
    with_profile.chain(without).collect()
}

/// An app of which no profile can be read.
fn json_without_profile(app: &AppState) -> serde_json::Value {
    serde_json::json!({"path": app.app, "uid": app.uid, "service": app})
}

/// The apps that the service manages, if it runs and uses this state directory. `list` goes on without
/// them if the service does not answer, and says so.
fn managed(state_dir: &Path, user: Option<u32>) -> Vec<AppState> {
    if state_dir != Path::new(DEFAULT_STATE_DIR) {
        return Vec::new();
    }
    let asked = match Client::connect(&Address::System) {
        Ok(None) => return Vec::new(),
        Ok(Some(client)) => client.apps(user, None).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    asked.unwrap_or_else(|error| {
        say(&format!("the service cannot be asked: {error}"));
        Vec::new()
    })
}

/// Forgets an app of a user or of all: the service does, if it runs and knows the app, and otherwise its profile is
/// removed.
pub fn forget(state_dir: &Path, user: Option<u32>, app: &OsStr) -> Result<(), Failure> {
    let is_root = rustix::process::geteuid().is_root();
    let of_entry = id_of_entry(app)?;
    let app = of_entry.as_deref().unwrap_or(app);
    if state_dir == Path::new(DEFAULT_STATE_DIR) {
        let service = match is_root {
            true => Client::connect(&Address::System)?,
            false => Some(running()?),
        };
        if let Some(service) = service {
            match service.forget(user, &app_argument(app)?) {
                // There may be a profile of an app that is not managed.
                Err(ControlError::Unknown(_)) if is_root => {}
                forgotten => {
                    forgotten.map_err(failed)?;
                    return say_forgotten(app);
                }
            }
        }
    }
    let store = Store::open(state_dir)?;
    let found = match user {
        Some(_) => vec![find(&store, user, app)?],
        None => store.find_all(app)?,
    };
    if found.is_empty() {
        return Err(no_profile(app));
    }
    for profile in found {
        store.remove(profile.app.key())?;
    }
    super::service::tell_of_profiles(state_dir);
    say_forgotten(app)
}

fn say_forgotten(app: &OsStr) -> Result<(), Failure> {
    write_out(&format!("{}: forgotten\n", text_of(app.as_bytes())))
}

fn find(store: &Store, user: Option<u32>, app: &OsStr) -> Result<Profile, Failure> {
    let uid = user.unwrap_or_else(|| User::uid_of(User::invoking().as_ref()));
    let found = store.find(uid, app)?;
    // The store answers with another user's profile if this one has none.
    let found = found.filter(|found| user.is_none_or(|uid| uid == found.app.uid));
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
    write_while_read(text).map(|_| ())
}

/// The same for a command that goes on writing; false if nobody reads any more.
pub fn write_while_read(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::from(format!(
            "cannot write to standard output: {error}"
        ))),
    }
}
