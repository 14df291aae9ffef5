//! The directory that holds one `.pf` file for each app.
//!
//! Profiles decide what a privileged thread opens and reads, so nothing is taken from a file that
//! another user could have put there or changed (see `fs::root_owned`).

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{MAX_FILE_BYTES, decode, encode};
use crate::fs::atomic_write;
use crate::fs::root_owned::{self, NotRootOwned};
use crate::model::{AppKey, Profile};

/// The end of every profile's name.
const SUFFIX: &str = ".pf";

/// The end of the name of the launch sequence that is kept beside a profile.
const SEQUENCE_SUFFIX: &str = ".seq";

/// Why a profile cannot be loaded, saved or removed: one line that names its file or the directory.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(String);

/// A file of the store, as [`Store::list`] finds it.
#[derive(Debug)]
pub struct Stored {
    /// Name of the file in the directory.
    pub file_name: OsString,
    /// What it holds, or why that cannot be used.
    pub profile: Result<Profile, StoreError>,
}

/// A directory of profiles.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// Directory of the store.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The store in `dir`, which must exist.
    ///
    /// # Errors
    /// If there is no such directory.
    pub fn open(dir: &Path) -> Result<Store, StoreError> {
        match fs::metadata(dir) {
            Ok(found) if found.is_dir() => Ok(Store { dir: dir.into() }),
            Ok(_) => Err(directory_error(dir, io::ErrorKind::NotADirectory.into())),
            Err(cause) => Err(directory_error(dir, cause)),
        }
    }

    /// The store in `dir`, which is made if it is missing: accessible to its owner alone, below
    /// parents with the usual permissions.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(dir: &Path) -> Result<Store, StoreError> {
        let parents = dir.parent().map_or(Ok(()), fs::create_dir_all);
        match parents.and_then(|()| DirBuilder::new().mode(0o700).create(dir)) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                Err(directory_error(dir, cause))
            }
            _ => Store::open(dir),
        }
    }

    /// Removes the temporary files that killed processes have left in the directory, those of the
    /// service's other files included. To be called before anything is saved.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn remove_leftovers(&self) -> Result<usize, StoreError> {
        atomic_write::remove_leftovers(&self.dir).map_err(|cause| directory_error(&self.dir, cause))
    }

    /// The profile of `app`; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or another user could have made or changed it.
    pub fn load(&self, app: AppKey) -> Result<Option<Profile>, StoreError> {
        self.load_from(&file_name(app, SUFFIX), app)
    }

    /// The launch sequence that is kept beside the profile of `app`, as a profile whose entries are in
    /// access order; `None` if there is none.
    ///
    /// # Errors
    /// As [`Store::load`].
    pub fn load_sequence(&self, app: AppKey) -> Result<Option<Profile>, StoreError> {
        self.load_from(&file_name(app, SEQUENCE_SUFFIX), app)
    }

    /// The launch sequence that the profile of `app` was made from or, if it is not there any more, the profile; `None`
    /// if there is no profile.
    ///
    /// # Errors
    /// As [`Store::load`].
    pub fn load_latest_sequence(&self, app: AppKey) -> Result<Option<Profile>, StoreError> {
        let profile = self.load(app)?;
        let sequence = self.load_sequence(app).ok().flatten();
        Ok(profile.map(|profile| {
            let sequence = sequence.filter(|sequence| sequence.created == profile.created);
            sequence.unwrap_or(profile)
        }))
    }

    fn load_from(&self, name: &str, app: AppKey) -> Result<Option<Profile>, StoreError> {
        let found = self.read(&self.dir.join(name))?;
        // Names and checksums of two apps' files may agree, however unlikely.
        Ok(found.filter(|profile| profile.app.key() == app))
    }

    /// Writes `profile` in place of the one that its app has, if any. Concurrent readers, and those after
    /// a crash, find the old profile or the new one, whole. Returns the file's path.
    ///
    /// # Errors
    /// If it cannot be written, or breaks a rule of the format.
    pub fn save(&self, profile: &Profile) -> Result<PathBuf, StoreError> {
        self.write(&file_name(profile.app.key(), SUFFIX), profile)
    }

    /// Keeps a launch sequence beside the profile of its app.
    ///
    /// # Errors
    /// As [`Store::save`].
    pub fn save_sequence(&self, sequence: &Profile) -> Result<(), StoreError> {
        let name = file_name(sequence.app.key(), SEQUENCE_SUFFIX);
        self.write(&name, sequence).map(drop)
    }

    fn write(&self, name: &str, profile: &Profile) -> Result<PathBuf, StoreError> {
        let path = self.dir.join(name);
        let bytes = encode(profile).map_err(|why| file_error("write", &path, &why))?;
        // The kind alone: the temporary file's name would tell a user nothing.
        let file = atomic_write::new_file(&self.dir)
            .map_err(|cause| directory_error(&self.dir, cause.kind().into()))?;
        atomic_write::put(file, &bytes, &path).map_err(|why| file_error("write", &path, &why))?;
        Ok(path)
    }

    /// Notes in the app's profile that was `created` then, in seconds since the epoch, that `count` of
    /// its files were found stale. One that was learned since is left alone.
    ///
    /// # Errors
    /// As [`Store::load`] and [`Store::save`].
    pub fn note_obsolete(&self, app: AppKey, created: u64, count: u32) -> Result<(), StoreError> {
        let found = self.load(app)?;
        if let Some(mut profile) = found.filter(|profile| profile.created == created) {
            profile.obsolete = count;
            self.save(&profile)?;
        }
        Ok(())
    }

    /// Removes the profile of `app`, readable or not; says whether there was one.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, app: AppKey) -> Result<bool, StoreError> {
        let remove = |suffix| {
            let path = self.dir.join(file_name(app, suffix));
            match fs::remove_file(&path) {
                Ok(()) => Ok(true),
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(cause) => Err(file_error("remove", &path, &cause)),
            }
        };
        remove(SEQUENCE_SUFFIX)?;
        remove(SUFFIX)
    }

    /// All profiles, in the order of their file names; one that cannot be used does not hide the others.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Stored>, StoreError> {
        let names = self.names()?.into_iter();
        let stored = names.filter_map(|file_name| {
            // `None`: removed since the directory was read.
            let profile = self.read(&self.dir.join(&file_name)).transpose()?;
            Some(Stored { file_name, profile })
        });
        Ok(stored.collect())
    }

    /// The profile that the user `uid` means by `name`: the app's id, its absolute path inside its root directory,
    /// the path's last component, or `LAUNCHER:NAME`. The user's own profiles come before those of others. `None` if
    /// no profile fits.
    ///
    /// # Errors
    /// If a last component fits several; as [`Store::load`], for a file that may be the one meant.
    pub fn find(&self, uid: u32, name: &OsStr) -> Result<Option<Profile>, StoreError> {
        let (mut found, unusable) = self.meant(name)?;
        if found.iter().any(|profile| profile.app.uid == uid) {
            found.retain(|profile| profile.app.uid == uid);
        }
        prefer_system(&mut found, name);
        if found.len() > 1 {
            return Err(ambiguous(name, &found));
        }
        match (found.pop(), unusable) {
            (None, Some(error)) => Err(error),
            (found, _) => Ok(found),
        }
    }

    /// The profiles of one app for all users that have one, by the same names.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub fn find_all(&self, name: &OsStr) -> Result<Vec<Profile>, StoreError> {
        let (mut found, unusable) = self.meant(name)?;
        prefer_system(&mut found, name);
        if found
            .iter()
            .any(|other| other.app.id() != found[0].app.id())
        {
            return Err(ambiguous(name, &found));
        }
        unusable.filter(|_| found.is_empty()).map_or(Ok(found), Err)
    }

    /// The profiles of all users that a name may mean, and why another cannot be used.
    fn meant(&self, name: &OsStr) -> Result<(Vec<Profile>, Option<StoreError>), StoreError> {
        let name = name.as_bytes();
        let prefix = file_prefix(name);
        let is_meant = |profile: &Profile| {
            let id = profile.app.id();
            if name.contains(&b'/') {
                id == name || profile.app.path == name
            } else {
                base_name(&id) == name
            }
        };
        let mut found: Vec<Profile> = Vec::new();
        let mut unusable = None;
        let mut names = self.names()?;
        names.retain(|file| file.as_bytes().starts_with(prefix.as_bytes()));
        for file in names {
            match self.read(&self.dir.join(file)) {
                Ok(profile) => found.extend(profile.filter(is_meant)),
                Err(error) => unusable = Some(error),
            }
        }
        Ok((found, unusable))
    }

    /// File names of all profiles, sorted.
    fn names(&self) -> Result<Vec<OsString>, StoreError> {
        let listed = fs::read_dir(&self.dir).and_then(|entries| {
            let names = entries.map(|entry| Ok(entry?.file_name()));
            names.collect::<io::Result<Vec<OsString>>>()
        });
        let mut names = listed.map_err(|cause| directory_error(&self.dir, cause))?;
        names.retain(|name| {
            let name = name.as_bytes();
            name.ends_with(SUFFIX.as_bytes()) && !name.starts_with(b".")
        });
        names.sort();
        Ok(names)
    }

    /// The profile in a file; `None` if there is no such file.
    fn read(&self, path: &Path) -> Result<Option<Profile>, StoreError> {
        let shown = path.display();
        let bytes = root_owned::read(path, MAX_FILE_BYTES).map_err(|error| match error {
            NotRootOwned::Untrusted(why) => StoreError(format!(
                "profile {shown} is not to be trusted: {why}; remove it, and learn it again with \
                 `paralfetch learn`"
            )),
            NotRootOwned::Io(cause) => file_error("read", path, &cause),
        })?;
        let decoded = bytes.map(|bytes| decode(&bytes)).transpose();
        decoded.map_err(|why| {
            StoreError(format!(
                "{why} ({shown}); learn it again with `paralfetch learn`"
            ))
        })
    }
}

/// The app of the system itself comes before those of images that have one of the same path.
fn prefer_system(found: &mut Vec<Profile>, name: &OsStr) {
    if found
        .iter()
        .any(|profile| profile.app.id() == name.as_bytes())
    {
        found.retain(|profile| profile.app.id() == name.as_bytes());
    }
}

fn ambiguous(name: &OsStr, found: &[Profile]) -> StoreError {
    let of_user = |found: &Profile| {
        let id = found.app.id();
        format!("{} of user {}", String::from_utf8_lossy(&id), found.app.uid)
    };
    let candidates: Vec<String> = found.iter().map(of_user).collect();
    StoreError(format!(
        "{} may be any of {}; give the whole path, as that user",
        name.to_string_lossy(),
        candidates.join(", ")
    ))
}

fn directory_error(dir: &Path, cause: io::Error) -> StoreError {
    let dir = dir.display();
    StoreError(format!("cannot use the profile directory {dir}: {cause}"))
}

fn file_error(action: &str, path: &Path, why: &dyn Display) -> StoreError {
    StoreError(format!("cannot {action} profile {}: {why}", path.display()))
}

/// `<last component of the path>-<CRC-32 of root, NUL, path>-<uid><suffix>`: readable, and different for apps of
/// one name in different directories or root directories, and for each user.
fn file_name(app: AppKey, suffix: &str) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(app.root.unwrap_or_default());
    hasher.update(&[0]);
    hasher.update(app.path);
    let (prefix, sum, uid) = (file_prefix(app.path), hasher.finalize(), app.uid);
    format!("{prefix}{sum:08x}-{uid}{suffix}")
}

/// The name of the file in a directory that holds portable profiles: readable, and different for each app.
pub fn portable_name(app: &str) -> String {
    let (prefix, sum) = (file_prefix(app.as_bytes()), crc32fast::hash(app.as_bytes()));
    format!("{prefix}{sum:08x}.json")
}

/// The start of the names of all files whose apps have the last component of `path`.
fn file_prefix(path: &[u8]) -> String {
    /// With the checksum and the suffix well below NAME_MAX, 255 bytes.
    const LONGEST: usize = 64;
    let plain = |&c: &u8| match c {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'+' | b'-' => char::from(c),
        _ => '_',
    };
    let mut prefix: String = base_name(path).iter().take(LONGEST).map(plain).collect();
    if prefix.starts_with('.') {
        prefix.replace_range(..1, "_");
    }
    prefix + "-"
}

/// The last component of a path.
fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&c| c == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
