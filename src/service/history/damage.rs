//! The database file: private to its owner, and moved aside when it is damaged.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::HistoryError;

/// Suffix of a damaged file that was moved aside.
const DAMAGED: &str = ".damaged";

/// Suffixes of the files that SQLite keeps beside a database: the rollback journal, and the write-ahead
/// log of a database that another program made. A new database must not find them.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Creates the file if it is missing, and makes it accessible to its owner alone; SQLite creates its
/// journal with the same permissions. Returns whether the file is empty.
pub(super) fn make_private(path: &Path) -> Result<bool, HistoryError> {
    // NONBLOCK: opening a FIFO would wait for a process that opens its other end.
    let flags = OFlags::RDWR
        | OFlags::CREATE
        | OFlags::CLOEXEC
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY;
    let failed = |errno: Errno| io_error("open", path, errno.into());
    let mode = Mode::RUSR | Mode::WUSR;
    let file = match rustix::fs::open(path, flags, mode) {
        Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Err(not_a_file(path)),
        opened => opened.map_err(failed)?,
    };
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(not_a_file(path));
    }
    if Mode::from_raw_mode(stat.st_mode) != mode {
        rustix::fs::fchmod(&file, mode).map_err(failed)?;
    }
    Ok(stat.st_size == 0)
}

/// Device and inode number of the file at the path.
pub(super) fn identity(path: &Path) -> Result<(u64, u64), HistoryError> {
    let found = fs::symlink_metadata(path).map_err(|cause| io_error("open", path, cause))?;
    Ok((found.dev(), found.ino()))
}

/// Moves the file and those beside it aside, over older damaged ones. Returns the file's new path.
pub(super) fn move_aside(path: &Path) -> Result<PathBuf, HistoryError> {
    let aside = append(path, DAMAGED);
    for suffix in BESIDE.into_iter().chain([""]) {
        let (from, to) = (append(path, suffix), append(&aside, suffix));
        match fs::rename(&from, &to) {
            // The file of an older damaged database would be taken for this one's.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => remove(&to)?,
            renamed => renamed.map_err(|cause| io_error("move aside", &from, cause))?,
        }
    }
    Ok(aside)
}

fn remove(path: &Path) -> Result<(), HistoryError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(io_error("move aside", path, cause))
        }
        _ => Ok(()),
    }
}

fn append(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn not_a_file(path: &Path) -> HistoryError {
    HistoryError::NotAFile { path: path.into() }
}

fn io_error(action: &'static str, path: &Path, cause: io::Error) -> HistoryError {
    HistoryError::Io {
        action,
        path: path.into(),
        cause,
    }
}
