//! `show`, `list` and `forget`.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::args::DEFAULT_STATE_DIR;
use super::entry::id_of_entry;
use super::named;
use super::service::{failed, hint_to_start, running, service_or_files};
use super::tables::{apps_table, user_column};
use super::terminal::{columns, joined};
use super::{Failure, say, show as print};
use crate::cli::format::text_of;
use crate::drive::{KnownDrive, MeasuredDrives, Sysfs, known_drives};
use crate::fs::mounts::MountTable;
use crate::model::{Learned, Profile};
use crate::process::User;
use crate::profile::{Store, decode};
use crate::service::control::bus::{Address, Client};
use crate::service::control::{AppState, ServiceCalls};
use crate::service::seeds::{SHIPPED_DIR, SeedPlaces};

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
        false => stored_profile(state_dir, user, app)?,
    };
    let drives = drives(state_dir, &profile);
    let text = if json {
        format!("{:#}\n", print::json(&profile, &drives))
    } else {
        joined(&print::lines(&profile, &drives, entries, columns()))
    };
    write_out(&text)
}

/// The profile in the state directory of the app that is named.
pub(super) fn stored_profile(
    state_dir: &Path,
    user: Option<u32>,
    app: &OsStr,
) -> Result<Profile, Failure> {
    let store = open_store(state_dir)?;
    let seeds = seed_places(state_dir).store()?;
    let found = find_named(state_dir, user, app, |name| {
        let own = store.iter().map(|store| find(store, user, name));
        // One that was learned elsewhere is everybody's.
        let seeds = seeds.iter().map(|seeds| find(seeds, None, name));
        let found = own.chain(seeds).find(|found| !matches!(found, Ok(None)));
        found.unwrap_or(Ok(None))
    })?;
    found.ok_or_else(|| no_profile(app))
}

/// Where seeds are kept beside this state directory's profiles.
pub(super) fn seed_places(state_dir: &Path) -> SeedPlaces {
    SeedPlaces {
        shipped_dir: SHIPPED_DIR.into(),
        state_dir: state_dir.to_owned(),
        sysfs: Sysfs::default(),
    }
}

/// The store, if anything was learned.
pub(super) fn open_store(state_dir: &Path) -> Result<Option<Store>, Failure> {
    match state_dir.try_exists() {
        Ok(false) => Ok(None),
        _ => Ok(Some(Store::open(state_dir)?)),
    }
}

/// What `find` finds in the state directory by a name of the app: as it was named, or by the id of the managed app that it
/// means.
fn find_named<T>(
    state_dir: &Path,
    user: Option<u32>,
    app: &OsStr,
    mut find: impl FnMut(&OsStr) -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    let of_entry = id_of_entry(app)?;
    if let Some(found) = find(of_entry.as_deref().unwrap_or(app))? {
        return Ok(Some(found));
    }
    let service = service_or_files(state_dir, Client::connect)?;
    let managed = named::ask_if_known(&service, user, app, |app| {
        service.calls.apps(user, Some(app))
    })?;
    let id = managed.and_then(|apps| Some(apps.first()?.app.clone()));
    let found = id.map(|id| find(OsStr::new(&id))).transpose()?;
    Ok(found.flatten())
}

/// Whether the service has to be asked: only root reads its files.
fn is_the_services(state_dir: &Path) -> bool {
    state_dir == Path::new(DEFAULT_STATE_DIR) && !rustix::process::geteuid().is_root()
}

/// The profile that the running service has of a user's app.
fn profile_of_service(user: Option<u32>, app: &OsStr) -> Result<Profile, Failure> {
    let client = running()?;
    let service = service_or_files(Path::new(DEFAULT_STATE_DIR), Client::connect)?;
    let found = named::ask(&service, user, app, |app| client.profile(user, app))?;
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
    let stored = match open_store(state_dir)? {
        None => Vec::new(),
        Some(store) => store.list()?,
    };
    let seeds = seed_places(state_dir).store()?;
    let seeds = seeds.map(|seeds| seeds.list()).transpose()?;
    let mut profiles = Vec::new();
    for stored in stored.into_iter().chain(seeds.into_iter().flatten()) {
        match stored.profile {
            Ok(profile) if profile.learned == Learned::Imported => profiles.push(profile),
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
        joined(&list_lines(&profiles, &managed, user.is_none()))
    };
    write_out(&text)
}

/// The managed apps, and below them what their profiles hold.
fn list_lines(profiles: &[Profile], managed: &[AppState], shows_users: bool) -> Vec<String> {
    let mut lines = match (managed, profiles) {
        ([], [_, ..]) => Vec::new(),
        _ => apps_table(managed, shows_users),
    };
    if profiles.is_empty() {
        return lines;
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.push("profiles:".to_owned());
    lines.extend(profiles.iter().map(|profile| {
        let user = user_column(profile.app.uid, shows_users);
        print::list_line(profile, &user)
    }));
    lines
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

/// The apps that the service manages, or would if it ran, if it uses this state directory. `list` goes on without
/// them if the service does not answer, and says so.
fn managed(state_dir: &Path, user: Option<u32>) -> Vec<AppState> {
    if state_dir != Path::new(DEFAULT_STATE_DIR) {
        return Vec::new();
    }
    let asked = service_or_files(state_dir, Client::connect).and_then(|service| {
        if service.is_down {
            say(&format!(
                "the service is not running ({}): this is what its files hold",
                hint_to_start()
            ));
        }
        service.calls.apps(user, None).map_err(failed)
    });
    asked.unwrap_or_else(|failure| {
        say(&format!("the service cannot be asked: {}", failure.message));
        Vec::new()
    })
}

/// Forgets an app of a user or of all: the service does, if it runs and knows the app, and otherwise its profile is
/// removed.
pub fn forget(state_dir: &Path, user: Option<u32>, app: &OsStr) -> Result<(), Failure> {
    let is_root = rustix::process::geteuid().is_root();
    let was_imported = is_root && user.is_none() && forget_imported(state_dir, app)?;
    let was_learned = forget_learned(state_dir, user, app, is_root)?;
    match was_imported || was_learned {
        true => write_out(&format!("{}: forgotten\n", text_of(app.as_bytes()))),
        false => Err(no_profile(app)),
    }
}

/// Forgets what was imported of an app; false if nothing was.
fn forget_imported(state_dir: &Path, app: &OsStr) -> Result<bool, Failure> {
    let places = seed_places(state_dir);
    let Some(store) = places.store()? else {
        return Ok(false);
    };
    let of_entry = id_of_entry(app)?;
    let seed = find(&store, None, of_entry.as_deref().unwrap_or(app))?;
    let removed = seed.map(|seed| places.remove(&seed)).transpose()?;
    if removed == Some(true) {
        super::service::tell_of_profiles(state_dir);
    }
    Ok(removed == Some(true))
}

/// Forgets what was learned of an app, and its launches; false if nothing was.
fn forget_learned(
    state_dir: &Path,
    user: Option<u32>,
    app: &OsStr,
    is_root: bool,
) -> Result<bool, Failure> {
    if state_dir == Path::new(DEFAULT_STATE_DIR) {
        let client = match is_root {
            true => Client::connect(&Address::System)?,
            false => Some(running()?),
        };
        if let Some(client) = client {
            let service = service_or_files(state_dir, Client::connect)?;
            let forget = |name: &str| client.forget(user, name);
            // There may be a profile of an app that is not managed, which root can remove.
            let forgotten = match is_root {
                true => named::ask_if_known(&service, user, app, forget)?,
                false => Some(named::ask(&service, user, app, forget)?),
            };
            if forgotten.is_some() {
                return Ok(true);
            }
        }
    }
    let store = open_store(state_dir)?;
    let found = find_named(state_dir, user, app, |name| match &store {
        None => Ok(None),
        Some(store) => {
            let found: Vec<Profile> = match user {
                Some(_) => find(store, user, name)?.into_iter().collect(),
                None => store.find_all(name)?,
            };
            Ok(Some(found).filter(|found| !found.is_empty()))
        }
    })?;
    let Some(found) = found else {
        return Ok(false);
    };
    for (profile, store) in found.iter().zip(store.iter().cycle()) {
        store.remove(profile.app.key())?;
    }
    super::service::tell_of_profiles(state_dir);
    Ok(true)
}

fn find(store: &Store, user: Option<u32>, app: &OsStr) -> Result<Option<Profile>, Failure> {
    let uid = user.unwrap_or_else(|| User::uid_of(User::invoking().as_ref()));
    let found = store.find(uid, app)?;
    // The store answers with another user's profile if this one has none.
    Ok(found.filter(|found| user.is_none_or(|uid| uid == found.app.uid)))
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

/// Writes as [`write_out`], for a command that goes on writing; false if nobody reads any more.
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
