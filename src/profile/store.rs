//! The directory that holds one `.pf` file for each app.
//!
//! Profiles decide what a privileged thread opens and reads, so nothing is taken from a file that
//! someone else could have put there or changed (see `fs::root_owned`).

mod name;

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use name::{SUFFIX, base_name, file_name, file_prefix, sequence_name};

use super::{FormatError, MAX_FILE_BYTES, decode, encode};
use crate::fs::atomic_write;
use crate::fs::root_owned::{self, NotRootOwned};
use crate::model::{AppKey, Profile};

/// Why a profile cannot be loaded or saved.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory is missing, is none, or cannot be used.
    #[error("cannot use the profile directory {}: {cause}", .dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A profile cannot be read, written or removed.
    #[error("cannot {action} profile {}: {cause}", .path.display())]
    Io {
        /// What was tried: "read", "write" or "remove".
        action: &'static str,
        /// The profile's file.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Another user may have made or changed the file.
    #[error(
        "profile {} is not to be trusted: {why}; remove it, and learn it again with `paralfetch learn`",
        .path.display()
    )]
    Untrusted {
        /// The profile's file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The file's contents are no profile that this program can use.
    #[error("{cause} ({}); learn it again with `paralfetch learn`", .path.display())]
    Damaged {
        /// The profile's file.
        path: PathBuf,
        /// What is wrong with them.
        cause: FormatError,
    },
    /// The profile breaks a rule of the format, and was not written.
    #[error("cannot write profile {}: {cause}", .path.display())]
    Unwritable {
        /// The file that it would have had.
        path: PathBuf,
        /// The rule.
        cause: FormatError,
    },
    /// Several profiled apps have the name.
    #[error("{name} may be any of {}; give the whole path", .candidates.join(", "))]
    Ambiguous {
        /// The name that was looked for.
        name: String,
        /// Paths of the apps, each below its root directory.
        candidates: Vec<String>,
    },
}

/// A file of the store, as [`Store::list`] finds it.
#[derive(Debug)]
pub struct Stored {
    /// Its name in the directory.
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
    /// The store in `dir`, which must exist.
    ///
    /// # Errors
    /// [`StoreError::Directory`] if there is no such directory.
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
    /// [`StoreError::Directory`] if it cannot be made.
    pub fn create(dir: &Path) -> Result<Store, StoreError> {
        let parents = dir.parent().map_or(Ok(()), fs::create_dir_all);
        let made = parents.and_then(|()| DirBuilder::new().mode(0o700).create(dir));
        match made {
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
    /// [`StoreError::Directory`].
    pub fn remove_leftovers(&self) -> Result<usize, StoreError> {
        atomic_write::remove_leftovers(&self.dir).map_err(|cause| directory_error(&self.dir, cause))
    }

    /// The profile of `app`; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Untrusted`] or [`StoreError::Damaged`], all of which name
    /// the file.
    pub fn load(&self, app: AppKey) -> Result<Option<Profile>, StoreError> {
        let found = self.read(&self.dir.join(file_name(app)))?;
        // Names and checksums of two apps' files may agree, however unlikely.
        Ok(found.filter(|profile| profile.app.key() == app))
    }

    /// Writes `profile` in place of the one that its app has, if any. Concurrent readers, and those after
    /// a crash, find the old profile or the new one, whole. Returns the file's path.
    ///
    /// # Errors
    /// [`StoreError::Directory`] if nothing can be written there, [`StoreError::Unwritable`] if the
    /// profile breaks a rule of the format, [`StoreError::Io`].
    pub fn save(&self, profile: &Profile) -> Result<PathBuf, StoreError> {
        let path = self.dir.join(file_name(profile.app.key()));
        self.write(&path, profile)?;
        Ok(path)
    }

    fn write(&self, path: &Path, profile: &Profile) -> Result<(), StoreError> {
        let bytes = encode(profile).map_err(|cause| StoreError::Unwritable {
            path: path.to_owned(),
            cause,
        })?;
        // The kind alone: the temporary file's name would tell a user nothing.
        let file = atomic_write::new_file(&self.dir)
            .map_err(|cause| directory_error(&self.dir, cause.kind().into()))?;
        atomic_write::put(file, &bytes, path).map_err(|cause| io_error("write", path, cause))
    }

    /// The launch sequence that is kept beside the profile of `app`, as a profile whose entries are in
    /// access order; `None` if there is none.
    ///
    /// # Errors
    /// As [`Store::load`].
    pub fn load_sequence(&self, app: AppKey) -> Result<Option<Profile>, StoreError> {
        let found = self.read(&self.dir.join(sequence_name(app)))?;
        Ok(found.filter(|sequence| sequence.app.key() == app))
    }

    /// Keeps a launch sequence beside the profile of its app.
    ///
    /// # Errors
    /// As [`Store::save`].
    pub fn save_sequence(&self, sequence: &Profile) -> Result<(), StoreError> {
        self.write(&self.dir.join(sequence_name(sequence.app.key())), sequence)
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
    /// [`StoreError::Io`] if it cannot be removed.
    pub fn remove(&self, app: AppKey) -> Result<bool, StoreError> {
        let remove = |name: String| {
            let path = self.dir.join(name);
            match fs::remove_file(&path) {
                Ok(()) => Ok(true),
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(cause) => Err(io_error("remove", &path, cause)),
            }
        };
        remove(sequence_name(app))?;
        remove(file_name(app))
    }

    /// All profiles, in the order of their file names; one that cannot be used does not
    /// hide the others.
    ///
    /// # Errors
    /// [`StoreError::Directory`] if the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Stored>, StoreError> {
        let names = self.names()?.into_iter();
        let stored = names.filter_map(|file_name| {
            // `None`: removed since the directory was read.
            let profile = self.read(&self.dir.join(&file_name)).transpose()?;
            Some(Stored { file_name, profile })
        });
        Ok(stored.collect())
    }

    /// The profile that a user means by `name`: the app's id, its absolute path inside its root directory,
    /// the path's last component, or `LAUNCHER:NAME`. `None` if no profile fits.
    ///
    /// # Errors
    /// [`StoreError::Ambiguous`] if a last component fits several; otherwise as [`Store::load`],
    /// for a file that cannot be used and that may be the one meant.
    pub fn find(&self, name: &OsStr) -> Result<Option<Profile>, StoreError> {
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
        // The app of the system itself comes before those of images that have one of the same path.
        if found.iter().any(|profile| profile.app.id() == name) {
            found.retain(|profile| profile.app.id() == name);
        }
        if found.len() > 1 {
            let path = |found: &Profile| String::from_utf8_lossy(&found.app.id()).into();
            return Err(StoreError::Ambiguous {
                name: String::from_utf8_lossy(name).into(),
                candidates: found.iter().map(path).collect(),
            });
        }
        match (found.pop(), unusable) {
            (None, Some(error)) => Err(error),
            (profile, _) => Ok(profile),
        }
    }

    /// File names of all profiles, sorted.
    fn names(&self) -> Result<Vec<OsString>, StoreError> {
        let mut names = Vec::new();
        let directory = fs::read_dir(&self.dir);
        for entry in directory.map_err(|cause| directory_error(&self.dir, cause))? {
            let name = entry
                .map_err(|cause| directory_error(&self.dir, cause))?
                .file_name();
            let bytes = name.as_bytes();
            if bytes.ends_with(SUFFIX.as_bytes()) && !bytes.starts_with(b".") {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The profile in a file; `None` if there is no such file.
    fn read(&self, path: &Path) -> Result<Option<Profile>, StoreError> {
        let bytes = root_owned::read(path, MAX_FILE_BYTES).map_err(|error| match error {
            NotRootOwned::Untrusted(why) => StoreError::Untrusted {
                path: path.into(),
                why,
            },
            NotRootOwned::Io(cause) => io_error("read", path, cause),
        })?;
        let decoded = bytes.map(|bytes| decode(&bytes)).transpose();
        decoded.map_err(|cause| StoreError::Damaged {
            path: path.into(),
            cause,
        })
    }
}

fn directory_error(dir: &Path, cause: io::Error) -> StoreError {
    StoreError::Directory {
        dir: dir.into(),
        cause,
    }
}

fn io_error(action: &'static str, path: &Path, cause: io::Error) -> StoreError {
    StoreError::Io {
        action,
        path: path.into(),
        cause,
    }
}

#[cfg(test)]
mod tests;
