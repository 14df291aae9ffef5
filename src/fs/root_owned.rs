//! Files that control a privileged process, and directories for them.
//!
//! A file is read only if no other user could have created or changed it: it must be a regular file, not a
//! link, owned by root or by the user that this program runs as, and writable by its owner alone.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::node::O_LOOKUP;
use super::safe_open;

/// Why a file cannot be read.
#[derive(Debug)]
pub(crate) enum NotRootOwned {
    /// What is wrong with it, as the end of a sentence: "it is a symbolic link".
    Untrusted(&'static str),
    /// The kernel's error.
    Io(io::Error),
}

/// The first `max + 1` bytes of a file, so that the caller can tell if it is too long; `None` if there is no
/// such file.
///
/// # Errors
/// [`NotRootOwned`].
pub(crate) fn read(path: &Path, max: usize) -> Result<Option<Vec<u8>>, NotRootOwned> {
    read_at(CWD, path, max)
}

/// As [`read`], of a file in an open directory.
///
/// # Errors
/// [`NotRootOwned`].
pub(crate) fn read_at(
    dir: impl AsFd,
    path: &Path,
    max: usize,
) -> Result<Option<Vec<u8>>, NotRootOwned> {
    let io = |errno: Errno| NotRootOwned::Io(errno.into());
    let found = match rustix::fs::openat(dir, path, O_LOOKUP, Mode::empty()) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(io(errno)),
    };
    let stat = rustix::fs::fstat(&found).map_err(io)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Err(NotRootOwned::Untrusted("it is a symbolic link"));
    }
    objection(&stat).map_or(Ok(()), |why| Err(NotRootOwned::Untrusted(why)))?;
    let file = safe_open::regular(&found, OFlags::empty()).map_err(io)?;
    let (file, _) = file.ok_or(NotRootOwned::Untrusted("it is not a regular file"))?;
    let mut bytes = Vec::new();
    let read = File::from(file)
        .take(max as u64 + 1)
        .read_to_end(&mut bytes);
    read.map_err(NotRootOwned::Io)?;
    Ok(Some(bytes))
}

/// Why a file or directory is not to be trusted, as the end of a sentence; `None` if it is.
pub(crate) fn objection(stat: &Stat) -> Option<&'static str> {
    if stat.st_uid != 0 && stat.st_uid != rustix::process::geteuid().as_raw() {
        return Some("it belongs to another user");
    }
    if Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
        return Some("others may write it");
    }
    None
}

/// Creates a directory that everybody may enter and only this user may write, or takes an existing one.
///
/// # Errors
/// When something else has its name, or the system refuses.
pub(crate) fn make_directory(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(dir)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(
            "it is not a directory of this user; remove it",
        ));
    }
    if found.mode() & 0o7777 != 0o755 {
        fs::set_permissions(dir, Permissions::from_mode(0o755))?;
    }
    Ok(())
}
