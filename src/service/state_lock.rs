//! The lock on the state directory: one service writes it at a time.
//!
//! The lock is the kernel's (flock(2)), so that it ends with the process that has it. A process that was killed while one of
//! its threads waits for a drive uninterruptibly has it until the drive answers, and writes nothing any more: nobody waits
//! for that.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use thiserror::Error;

use crate::process::task_state;

/// The lock's name in the state directory.
const NAME: &str = "service.lock";

/// Longest process id, in bytes.
const MAX_PID: u64 = 10;

/// Holds the state directory until this is dropped.
#[derive(Debug)]
pub struct StateLock {
    /// `None` if the file system is read-only: nobody writes there.
    _file: Option<File>,
}

/// The state directory cannot be had.
#[derive(Debug, Error)]
pub enum StateLockError {
    /// Another process has it.
    #[error("{} is in use by {}", dir.display(), named(*pid))]
    Held {
        /// The state directory.
        dir: PathBuf,
        /// The process, if it has said who it is.
        pid: Option<i32>,
    },
    /// The lock's file cannot be used.
    #[error("cannot lock {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

fn named(pid: Option<i32>) -> String {
    pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    )
}

impl StateLock {
    /// Takes the lock of a state directory, which must be there. Does not wait.
    ///
    /// # Errors
    /// [`StateLockError`].
    pub fn take(dir: &Path) -> Result<Self, StateLockError> {
        Self::take_unless(dir, is_alive)
    }

    /// Takes the lock unless a process has it that may still write, as `is_alive` says.
    fn take_unless(dir: &Path, is_alive: impl Fn(i32) -> bool) -> Result<Self, StateLockError> {
        let path = dir.join(NAME);
        let cannot = |error: io::Error| StateLockError::File {
            path: path.clone(),
            error,
        };
        loop {
            let mut file = match open(&path) {
                Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                    return Ok(StateLock { _file: None });
                }
                file => file.map_err(cannot)?,
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Another process may have put a file of its own there meanwhile.
                Ok(()) if !is_at(&file, &path).map_err(cannot)? => {}
                Ok(()) => {
                    file.set_len(0).map_err(cannot)?;
                    write!(file, "{}", std::process::id()).map_err(cannot)?;
                    return Ok(StateLock { _file: Some(file) });
                }
                Err(Errno::WOULDBLOCK) => {
                    let mut text = String::new();
                    let read = (&file).take(MAX_PID).read_to_string(&mut text);
                    read.map_err(cannot)?;
                    let pid = text.trim().parse().ok();
                    if pid.is_none_or(&is_alive) {
                        let dir = dir.to_owned();
                        return Err(StateLockError::Held { dir, pid });
                    }
                    // What it has locked is nobody's any more; from here on, another file is.
                    if is_at(&file, &path).map_err(cannot)? {
                        fs::remove_file(&path).map_err(cannot)?;
                    }
                }
                Err(errno) => return Err(cannot(errno.into())),
            }
        }
    }
}

/// Only root may open it: whoever does can keep it.
fn open(path: &Path) -> io::Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

/// Whether the path leads to this file still.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a process has not ended, as far as its first thread goes.
fn is_alive(pid: i32) -> bool {
    match task_state(pid) {
        Ok(Some(task)) => !matches!(task.state, b'Z' | b'X'),
        Ok(None) => false,
        // Without /proc nobody knows.
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_directory_has_one_holder_at_a_time_who_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let lock = StateLock::take(dir.path()).unwrap();
        // Another description of the same file: as in another process.
        let held = StateLock::take(dir.path()).unwrap_err().to_string();
        let own = std::process::id();
        let expected = format!("{} is in use by process {own}", dir.path().display());
        assert_eq!(held, expected);
        drop(lock);
        assert!(StateLock::take(dir.path()).is_ok());
    }

    #[test]
    fn a_holder_that_is_dead_and_cannot_end_keeps_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let _dead = StateLock::take(dir.path()).unwrap();
        assert!(StateLock::take_unless(dir.path(), |_| true).is_err());
        let next = StateLock::take_unless(dir.path(), |_| false);
        let third = StateLock::take_unless(dir.path(), |_| true);
        assert!(next.is_ok() && third.is_err());
    }

    #[test]
    fn a_lock_that_is_no_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.path().join(NAME)).unwrap();
        let error = StateLock::take(dir.path()).unwrap_err();
        assert!(matches!(error, StateLockError::File { .. }), "{error}");
    }
}
