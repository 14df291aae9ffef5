//! The managed apps: for each, how it is recognised, its phase, and what its launches have shown.
//!
//! All are in one file, which is written by rename after each launch. Losing it costs the tuning of a few
//! launches and what the user asked for. So a file that cannot be used is kept beside the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fs::atomic_write;
use crate::fs::root_owned::{self, NotRootOwned};
use crate::model::{App, Identity, UserApp};
use crate::policy::{Managed, Phase, ReadBefore};
use crate::profile::Store;
use crate::service::marks::Marks;

/// The file's name in the state directory.
pub const FILE: &str = "managed.json";

/// Largest file that is read, in bytes: some thousand apps.
const MAX_BYTES: usize = 8 << 20;

/// How often the files of all profiles are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// As many apps are managed, of all users, as the automatic ones of so many users.
const MOST_USERS: u64 = 16;

/// Version of the file's layout. In another one, all apps are managed anew.
const VERSION: u32 = 2;

/// Stands for the user id in the record of an app that the administrator has named for all users: the kernel has no
/// user of this id. A user's own record takes its place at his first launch.
pub const EVERY_USER: u32 = u32::MAX;

/// Why the app is managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Added {
    /// The administrator named it.
    User,
    /// The user whose launches it is about named it.
    Owner,
    /// The app has a .desktop entry, and was launched.
    Desktop,
    /// The app's launches turned out large, slow and repeatable.
    Discovered,
    /// A launcher announced it.
    Announced,
    /// The app stands for its user's logins.
    Login,
    /// A profile of it was imported, or came with a package, and it was launched.
    Imported,
}

/// A managed app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What it is, and whose launches it is about.
    pub key: UserApp,
    /// Name of the app as people know it.
    pub title: String,
    /// Why it is managed.
    pub added: Added,
    /// How it is recognised.
    pub marks: Marks,
    /// The app as its last launch was; `None` before the first.
    pub app: Option<App>,
    /// Phase of the app, and what the policy remembers of its launches.
    pub managed: Managed,
    /// What was read before its launches.
    #[serde(default)]
    pub read_before: ReadBefore,
    /// Number of launches.
    pub launches: u64,
    /// Number of launches that were prefetched.
    pub prefetched: u64,
    /// When the last launch began, in seconds since the epoch, as the last value; empty before the first.
    pub last_s: Vec<u64>,
}

impl Record {
    /// An app that has not been launched yet.
    pub fn new(key: UserApp, title: String, added: Added, marks: Marks) -> Self {
        Record {
            key,
            title,
            added,
            marks,
            app: None,
            managed: Managed::default(),
            read_before: ReadBefore::default(),
            launches: 0,
            prefetched: 0,
            last_s: Vec::new(),
        }
    }

    /// An installed app that may be executed under `names`, for all users; `None` if its path is not UTF-8.
    pub fn of_installed(
        identity: &Identity,
        title: String,
        names: &[OsString],
        added: Added,
    ) -> Option<Self> {
        let app = identity.app(EVERY_USER, None);
        let key = app.user_app()?;
        Some(Record::new(key, title, added, Marks::new(&app, names)))
    }

    /// The record that the app has for one user before he has launched it.
    pub fn for_user(&self, uid: u32) -> Self {
        let key = UserApp::new(uid, self.key.id.clone());
        let mut record = Record::new(key, self.title.clone(), self.added, self.marks.clone());
        if matches!(self.managed.phase(), Phase::Disabled { .. }) {
            record.managed = self.managed.clone();
        }
        record
    }

    /// Notes a launch at `now_s`, in seconds since the epoch.
    pub fn launched(&mut self, now_s: u64) {
        self.launches += 1;
        self.last_s = vec![now_s];
    }

    /// Whether the next launch of the app is to be learned.
    pub fn is_to_learn(&self) -> bool {
        matches!(self.managed.phase(), Phase::Learning { .. })
    }
}

/// The file's content.
#[derive(Default, Serialize, Deserialize)]
struct StoredRegistry {
    version: u32,
    apps: Vec<Record>,
    /// [`Registry::checked_s`].
    #[serde(default)]
    checked_s: u64,
}

/// All managed apps.
#[derive(Clone, Debug)]
pub struct Registry {
    path: PathBuf,
    /// Of each user, and of [`EVERY_USER`].
    pub records: BTreeMap<UserApp, Record>,
    /// When the files of all profiles were checked last, in seconds since the epoch; 0: never.
    checked_s: u64,
}

/// The registry cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {error}", .path.display())]
pub struct RegistryError {
    action: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl Registry {
    /// Reads the registry of a state directory. A file that is damaged or not to be trusted is put aside,
    /// as `managed.json.damaged`, and an empty registry takes its place: the second value says why.
    ///
    /// # Errors
    /// When the file cannot be read for another reason, or not be put aside.
    pub fn load(state_dir: &Path) -> Result<(Registry, Option<String>), RegistryError> {
        let path = state_dir.join(FILE);
        let cannot_read = |error| RegistryError {
            action: "read",
            path: path.clone(),
            error,
        };
        let read = match root_owned::read(&path, MAX_BYTES) {
            Ok(None) => Ok(StoredRegistry::default()),
            Ok(Some(bytes)) if bytes.len() > MAX_BYTES => Err("it is too large".to_owned()),
            Ok(Some(bytes)) => parse(&bytes),
            Err(NotRootOwned::Untrusted(why)) => Err(why.to_owned()),
            Err(NotRootOwned::Io(error)) => return Err(cannot_read(error)),
        };
        let mut warning = None;
        let stored = match read {
            Ok(stored) => stored,
            Err(why) => {
                let aside = path.with_extension("json.damaged");
                fs::rename(&path, &aside).map_err(cannot_read)?;
                warning = Some(format!(
                    "{} cannot be used ({why}): it is now {}, and apps are managed anew",
                    path.display(),
                    aside.display()
                ));
                StoredRegistry::default()
            }
        };
        let by_key = |record: Record| (record.key.clone(), record);
        let registry = Registry {
            path,
            records: stored.apps.into_iter().map(by_key).collect(),
            checked_s: stored.checked_s,
        };
        Ok((registry, warning))
    }

    /// Writes the registry, whole or not at all, also if the directory was removed meanwhile.
    ///
    /// # Errors
    /// When it cannot be written; the old file is still there then.
    pub fn save(&self) -> Result<(), RegistryError> {
        let stored = StoredRegistry {
            version: VERSION,
            apps: self.records.values().cloned().collect(),
            checked_s: self.checked_s,
        };
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let write = || {
            Store::create(directory).map_err(io::Error::other)?;
            let json = serde_json::to_vec(&stored)?;
            atomic_write::put(atomic_write::new_file(directory)?, &json, &self.path)
        };
        write().map_err(|error| RegistryError {
            action: "write",
            path: self.path.clone(),
            error,
        })
    }

    /// Adds an app, in place of the user's one of the same id.
    pub fn insert(&mut self, record: Record) {
        self.records.insert(record.key.clone(), record);
    }

    /// The users who have launched a managed app, or have named one.
    pub fn users(&self) -> Vec<u32> {
        let users = self.records.keys().map(|key| key.uid);
        let users: BTreeSet<u32> = users.filter(|&uid| uid != EVERY_USER).collect();
        users.into_iter().collect()
    }

    /// The record that the first launch of a user makes, if the administrator has named the app for all users.
    pub fn named_for_all(&self, key: &UserApp) -> Option<Record> {
        let named = self
            .records
            .get(&UserApp::new(EVERY_USER, key.id.as_str()))?;
        Some(named.for_user(key.uid))
    }

    /// Whether one more app of this user may be managed, if `most` of his may, besides those that the administrator has
    /// named.
    pub fn has_room_for(&self, uid: u32, is_named: bool, most: u64) -> bool {
        let is_of_user = |key: &&UserApp| key.uid == uid;
        let of_user = || self.records.keys().filter(is_of_user).count() as u64;
        let in_all = self.records.len() as u64;
        in_all < most.saturating_mul(MOST_USERS) && (is_named || of_user() < most)
    }

    /// Notes that the files of all profiles are checked at `now_s`, in seconds since the epoch.
    pub fn checked(&mut self, now_s: u64) {
        self.checked_s = now_s;
    }

    /// Time until the files of all profiles are to be checked again. None is left if the clock was ahead at the last
    /// check and has been set back since.
    pub fn until_check(&self, now_s: u64) -> Duration {
        match now_s.checked_sub(self.checked_s) {
            Some(since_s) => CHECK_INTERVAL.saturating_sub(Duration::from_secs(since_s)),
            None => Duration::ZERO,
        }
    }
}

fn parse(bytes: &[u8]) -> Result<StoredRegistry, String> {
    let stored: StoredRegistry =
        serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if stored.version != VERSION {
        return Err(format!("it is of version {}", stored.version));
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_registry_is_loaded_and_knows_the_last_launches() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, warning) = Registry::load(dir.path()).unwrap();
        assert_eq!((registry.records.len(), warning), (0, None));
        let mut app = Record::new(
            UserApp::new(7, "/app"),
            "App".into(),
            Added::User,
            Marks::default(),
        );
        app.launched(1);
        app.launched(2);
        assert_eq!((app.launches, &app.last_s[..]), (2, &[2][..]));
        registry.insert(app.clone());
        registry.save().unwrap();
        let (again, warning) = Registry::load(dir.path()).unwrap();
        assert_eq!(warning, None);
        assert_eq!(again.records, BTreeMap::from([(app.key.clone(), app)]));
    }

    #[test]
    fn the_apps_of_a_user_leave_room_for_those_of_others_and_for_named_ones() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        const MOST: u64 = 3;
        for uid in 0..MOST_USERS as u32 {
            for number in 0..MOST {
                assert!(registry.has_room_for(uid, false, MOST));
                let key = UserApp::new(uid, format!("/{number}"));
                registry.insert(Record::new(
                    key,
                    "App".into(),
                    Added::Announced,
                    Marks::default(),
                ));
            }
            assert!(!registry.has_room_for(uid, false, MOST));
            let is_last = uid + 1 == MOST_USERS as u32;
            assert_eq!(registry.has_room_for(uid, true, MOST), !is_last);
        }
    }

    #[test]
    fn the_daily_check_is_due_a_day_after_the_last_whenever_the_service_runs() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, _) = Registry::load(dir.path()).unwrap();
        let day = CHECK_INTERVAL.as_secs();
        assert!(registry.until_check(day).is_zero(), "never checked");
        registry.checked(10 * day);
        registry.save().unwrap();
        let (registry, _) = Registry::load(dir.path()).unwrap();
        for (now_s, left) in [
            (10 * day, day),
            (10 * day + 1, day - 1),
            (11 * day, 0),
            (day, 0),
        ] {
            assert_eq!(registry.until_check(now_s).as_secs(), left, "at {now_s}");
        }
    }

    #[test]
    fn a_damaged_or_untrusted_file_is_put_aside() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let wrong_version = &br#"{"version":9,"apps":[]}"#[..];
        for (content, mode, why) in [
            (&b"{"[..], 0o600, "EOF"),
            (b"", 0o600, "EOF"),
            (b"[]", 0o600, "invalid length"),
            (b"\xff\xfe", 0o600, "expected value"),
            (wrong_version, 0o600, "it is of version 9"),
            (br#"{"version":2,"apps":[]}"#, 0o666, "others may write it"),
        ] {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let (registry, warning) = Registry::load(dir.path()).unwrap();
            assert!(registry.records.is_empty());
            let warning = warning.unwrap();
            let says = warning.contains("managed.json.damaged") && warning.contains(why);
            assert!(says, "{warning}");
            assert!(!path.exists());
            let aside = path.with_extension("json.damaged");
            assert_eq!(fs::read(aside).unwrap(), content);
            registry.save().unwrap();
        }
    }
}
