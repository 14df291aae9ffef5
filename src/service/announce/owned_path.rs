//! What this process makes at a path and removes again.

use std::fs::{self, FileType, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::AnnounceError;
use crate::fs::root_owned::make_directory;

/// A kind of file that may be replaced when a crash has left it behind.
pub(super) struct FileKind {
    /// For error messages.
    pub name: &'static str,
    /// Whether a file is of this kind.
    pub is: fn(&FileType) -> bool,
    /// Whether another process receives there.
    pub is_used: fn(&Path) -> io::Result<bool>,
    /// Permissions of the file.
    pub mode: u32,
}

/// A file at a path. It is removed when this is dropped, unless another has taken its place.
#[derive(Debug)]
pub(super) struct OwnedPath {
    path: PathBuf,
    dev: u64,
    ino: u64,
}

impl OwnedPath {
    /// Makes a file at `dir`/`name` by calling `make`, and gives it its permissions. One of the same kind
    /// that nobody uses is replaced.
    pub fn make<T>(
        dir: &Path,
        name: &str,
        kind: &FileKind,
        make: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<(Self, T), AnnounceError> {
        let cannot = |action: &str, path: &Path, error: io::Error| {
            AnnounceError::Failed(format!("cannot {action} {}: {error}", path.display()))
        };
        make_directory(dir).map_err(|error| cannot("use the directory", dir, error))?;
        let path = dir.join(name);
        let cannot_make = |error| cannot("make", &path, error);
        match fs::symlink_metadata(&path) {
            Ok(found) if !(kind.is)(&found.file_type()) => {
                return Err(AnnounceError::Failed(format!(
                    "{} is not a {}: remove it and start again",
                    path.display(),
                    kind.name
                )));
            }
            Ok(_) if (kind.is_used)(&path).map_err(cannot_make)? => {
                return Err(AnnounceError::Failed(format!(
                    "another service receives announcements at {}: stop it first",
                    path.display()
                )));
            }
            Ok(_) => fs::remove_file(&path).map_err(cannot_make)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot_make(error)),
        }
        let made = make(&path).map_err(cannot_make)?;
        let found = fs::symlink_metadata(&path).map_err(cannot_make)?;
        // Separately, because the umask takes part when a file is made.
        let permissions = Permissions::from_mode(kind.mode);
        let owned = OwnedPath {
            dev: found.dev(),
            ino: found.ino(),
            path: path.clone(),
        };
        fs::set_permissions(&path, permissions).map_err(cannot_make)?;
        Ok((owned, made))
    }
}

impl Drop for OwnedPath {
    fn drop(&mut self) {
        let removed = match fs::symlink_metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == (self.dev, self.ino) => {
                fs::remove_file(&self.path)
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}
