//! The managed apps, and what is remembered of each from launch to launch.
//!
//! One file, written by rename after each launch. Losing it costs a few launches' worth of tuning, and
//! the user's wishes; so a file that cannot be used is kept beside the new one.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fs::atomic_write;
use crate::fs::root_owned::{self, NotRootOwned};
use crate::model::App;
use crate::policy::Managed;

/// The file's name in the state directory.
pub const FILE: &str = "managed.json";

/// Largest file that is read, in bytes: some thousand apps.
const MAX_BYTES: usize = 8 << 20;

/// Version of the file's layout.
const VERSION: u32 = 1;

/// Who had the app managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Added {
    /// The user named it.
    User,
    /// It has a .desktop entry, and was launched.
    Desktop,
    /// Its launches turned out large, slow and repeatable.
    Discovered,
    /// A launcher announced it.
    Announced,
}

impl Added {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Added::User => "user",
            Added::Desktop => "desktop",
            Added::Discovered => "discovered",
            Added::Announced => "announced",
        }
    }
}

/// How launches of an app are recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// Base names under which it, or its launcher, is executed.
    pub names: Vec<String>,
    /// The argument of its launcher that stands for it; `None` for a program of its own.
    pub argument: Option<String>,
}

/// A managed app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Absolute path as the system sees it, or `launcher:name`.
    pub id: String,
    /// For people.
    pub title: String,
    /// Who had it managed.
    pub added: Added,
    /// How it is recognised.
    pub marks: Marks,
    /// Whose profile it is, as the last launch had it; `None` before the first.
    pub app: Option<App>,
    /// Its phases.
    pub managed: Managed,
    /// Launches seen.
    pub launches: u64,
    /// Those of them that were prefetched.
    pub prefetched: u64,
    /// The last launches, in seconds since the epoch, oldest first.
    pub last_s: Vec<u64>,
}

/// Times of launches that are kept of each app.
const LAUNCH_TIMES: usize = 8;

impl Record {
    /// An app that has not been launched yet.
    pub fn new(id: String, title: String, added: Added, marks: Marks) -> Self {
        Record {
            id,
            title,
            added,
            marks,
            app: None,
            managed: Managed::default(),
            launches: 0,
            prefetched: 0,
            last_s: Vec::new(),
        }
    }

    /// Notes a launch at `now_s`, in seconds since the epoch.
    pub fn launched(&mut self, now_s: u64) {
        self.launches += 1;
        if self.last_s.len() >= LAUNCH_TIMES {
            self.last_s.remove(0);
        }
        self.last_s.push(now_s);
    }
}

/// What is stored.
#[derive(Serialize, Deserialize)]
struct StoredRegistry {
    version: u32,
    apps: Vec<Record>,
}

/// All managed apps.
#[derive(Debug)]
pub struct Registry {
    path: PathBuf,
    records: BTreeMap<String, Record>,
}

/// The registry cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {why}", .path.display())]
pub struct RegistryError {
    action: &'static str,
    path: PathBuf,
    why: String,
}

impl Registry {
    /// Reads the registry of a state directory. One that is damaged or not to be trusted is put aside,
    /// as `managed.json.damaged`, and an empty one takes its place: the second value says why.
    ///
    /// # Errors
    /// When the file cannot be read for another reason.
    pub fn load(state_dir: &Path) -> Result<(Registry, Option<String>), RegistryError> {
        let path = state_dir.join(FILE);
        let mut registry = Registry {
            path: path.clone(),
            records: BTreeMap::new(),
        };
        let failed = |why: String| RegistryError {
            action: "read",
            path: path.clone(),
            why,
        };
        let why = match root_owned::read(&path, MAX_BYTES) {
            Ok(None) => return Ok((registry, None)),
            Ok(Some(bytes)) if bytes.len() > MAX_BYTES => "it is too large".to_owned(),
            Ok(Some(bytes)) => match parse(&bytes) {
                Ok(apps) => {
                    registry.records = apps
                        .into_iter()
                        .map(|record| (record.id.clone(), record))
                        .collect();
                    return Ok((registry, None));
                }
                Err(why) => why,
            },
            Err(NotRootOwned::Untrusted(why)) => why.to_owned(),
            Err(NotRootOwned::Io(error)) => return Err(failed(error.to_string())),
        };
        let aside = path.with_extension("json.damaged");
        fs::rename(&path, &aside).map_err(|error| failed(error.to_string()))?;
        let warning = format!(
            "{} cannot be used ({why}): it is now {}, and apps are managed anew",
            path.display(),
            aside.display()
        );
        Ok((registry, Some(warning)))
    }

    /// The registry's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The contents of its file.
    ///
    /// # Errors
    /// None that is known: all of it can be expressed in JSON.
    pub fn encode(&self) -> Result<Vec<u8>, RegistryError> {
        let stored = StoredRegistry {
            version: VERSION,
            apps: self.records.values().cloned().collect(),
        };
        serde_json::to_vec(&stored).map_err(|error| write_error(&self.path, error))
    }

    /// Writes the registry, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written; the old file is still there then.
    pub fn save(&self) -> Result<(), RegistryError> {
        Self::write(&self.path, &self.encode()?)
    }

    /// Writes what [`Registry::encode`] gave.
    ///
    /// # Errors
    /// As [`Registry::save`].
    pub fn write(path: &Path, bytes: &[u8]) -> Result<(), RegistryError> {
        let write = || -> io::Result<()> {
            let dir = path.parent().unwrap_or(Path::new("/"));
            atomic_write::put(atomic_write::new_file(dir)?, bytes, path)
        };
        write().map_err(|error| write_error(path, error))
    }

    /// The app of this id.
    pub fn get(&self, id: &str) -> Option<&Record> {
        self.records.get(id)
    }

    /// The app of this id, to be changed.
    pub fn get_mut(&mut self, id: &str) -> Option<&mut Record> {
        self.records.get_mut(id)
    }

    /// Adds an app, in place of one of the same id.
    pub fn insert(&mut self, record: Record) {
        self.records.insert(record.id.clone(), record);
    }

    /// Removes an app; says whether it was there.
    pub fn remove(&mut self, id: &str) -> bool {
        self.records.remove(id).is_some()
    }

    /// All apps, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Number of apps.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

fn write_error(path: &Path, error: impl std::fmt::Display) -> RegistryError {
    RegistryError {
        action: "write",
        path: path.to_owned(),
        why: error.to_string(),
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Record>, String> {
    let stored: StoredRegistry =
        serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if stored.version != VERSION {
        return Err(format!("it is of version {}", stored.version));
    }
    Ok(stored.apps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str) -> Record {
        Record::new(id.into(), "App".into(), Added::User, Marks::default())
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let (mut registry, warning) = Registry::load(dir.path()).unwrap();
        assert!(registry.is_empty() && warning.is_none());
        let mut app = record("/usr/bin/app");
        for now in 0..20 {
            app.launched(now);
        }
        assert_eq!((app.launches, app.last_s.len()), (20, LAUNCH_TIMES));
        registry.insert(app.clone());
        registry.insert(record("flatpak:org.example.App"));
        registry.save().unwrap();
        let (mut again, warning) = Registry::load(dir.path()).unwrap();
        assert!(warning.is_none());
        assert_eq!(again.get("/usr/bin/app"), Some(&app));
        assert!(again.remove("/usr/bin/app") && !again.remove("/usr/bin/app"));
        assert_eq!(again.len(), 1);
    }

    #[test]
    fn a_damaged_file_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        for damage in [
            &b"{"[..],
            b"",
            b"[]",
            br#"{"version":9,"apps":[]}"#,
            b"\xff\xfe",
        ] {
            fs::write(&path, damage).unwrap();
            let (registry, warning) = Registry::load(dir.path()).unwrap();
            assert!(registry.is_empty());
            assert!(warning.unwrap().contains("managed.json.damaged"));
            assert!(!path.exists());
            assert_eq!(
                fs::read(path.with_extension("json.damaged")).unwrap(),
                damage
            );
            registry.save().unwrap();
        }
    }

    #[test]
    fn a_file_that_others_can_write_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(dir.path()).unwrap();
        registry.save().unwrap();
        let path = dir.path().join(FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let (_, warning) = Registry::load(dir.path()).unwrap();
        assert!(warning.unwrap().contains("others may write it"));
    }
}
