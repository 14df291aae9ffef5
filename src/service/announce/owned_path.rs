//! The directory, and what is made in it and removed again.

use std::fs::{self, FileType, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::AnnounceError;
use crate::fs::root_owned::make_directory;

/// What was made at a path; removed when dropped, unless somebody has put something else there.
#[derive(Debug)]
pub(super) struct OwnedPath {
    path: PathBuf,
    dev: u64,
    ino: u64,
}

impl OwnedPath {
    /// Makes something at `dir`/`name` with `make`, and gives it the mode `mode`.
    ///
    /// What a crash left there is replaced, and so recognised: `is_kind` knows its type, which
    /// `kind` names, and `is_used` says whether a process still receives there.
    ///
    /// # Errors
    /// When the directory cannot be used, something else is in the place, or the system refuses.
    pub fn make<T>(
        (dir, name): (&Path, &str),
        mode: u32,
        (kind, is_kind): (&'static str, fn(&FileType) -> bool),
        is_used: impl FnOnce(&Path) -> io::Result<bool>,
        make: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<(Self, T), AnnounceError> {
        make_directory(dir).map_err(|error| AnnounceError::Directory {
            path: dir.to_owned(),
            error,
        })?;
        let path = dir.join(name);
        let cannot_make = |error| AnnounceError::Make {
            path: path.clone(),
            error,
        };
        match fs::symlink_metadata(&path) {
            Ok(found) if !is_kind(&found.file_type()) => {
                return Err(AnnounceError::Foreign {
                    path,
                    expected: kind,
                });
            }
            Ok(_) if is_used(&path).map_err(cannot_make)? => {
                return Err(AnnounceError::InUse { path });
            }
            Ok(_) => fs::remove_file(&path).map_err(cannot_make)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot_make(error)),
        }
        let made = make(&path).map_err(cannot_make)?;
        let found = fs::symlink_metadata(&path).map_err(cannot_make)?;
        let place = OwnedPath {
            dev: found.dev(),
            ino: found.ino(),
            path: path.clone(),
        };
        // Only now, since the umask took part in the making.
        fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(cannot_make)?;
        Ok((place, made))
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
            let path = self.path.display();
            let _ = writeln!(io::stderr(), "paralfetch: cannot remove {path}: {error}");
        }
    }
}
