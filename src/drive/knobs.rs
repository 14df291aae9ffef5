//! Changing system knobs so that they are always restored.
//!
//! Three nets, each for what the one before cannot catch: dropping [`Knobs`] restores them; when the
//! process is killed, a keeper process that waits on a pipe from it does; and when both are gone (a
//! killed session, a power cut without a reboot), the next start finds the record and does.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::fs::root_owned::make_directory;

const LOCK: &str = "lock";
const RECORD: &str = "knobs.json";
/// Longest record, in bytes. Ours has a few lines; a longer one is not ours.
const MAX_RECORD: u64 = 1 << 20;

/// A knob could not be changed or restored.
#[derive(Debug, Error)]
pub enum KnobError {
    /// Another process is holding knobs.
    #[error("another learning run is under way: wait until it has ended")]
    Busy,
    /// The directory for the record cannot be used.
    #[error("cannot use {}: {error}", path.display())]
    Record {
        /// What could not be used.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A knob cannot be read or written.
    #[error("cannot change {}: {error}", path.display())]
    Knob {
        /// The knob.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The keeper process could not be started.
    #[error("cannot start the process that restores knobs after a crash: {0}")]
    Keeper(io::Error),
}

/// A knob and the value to restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    path: PathBuf,
    value: String,
}

/// Holds changed knobs and restores them when dropped. A system has only one at a time, so that no process
/// takes a changed value for the original.
pub struct Knobs {
    dir: PathBuf,
    saved: Vec<Saved>,
    keeper: Option<Child>,
    lock: Option<File>,
}

/// What [`restore_leftovers`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// Nothing to do.
    None,
    /// A crashed run left this many knobs changed; they are restored.
    Restored(usize),
    /// A run is under way and will restore its own.
    InUse,
}

impl Knobs {
    /// Takes the system-wide lock in `dir` (a directory that a reboot empties, as the knobs' values
    /// are) and puts back what a crashed run left. `keeper` is the command that runs
    /// [`keep`]; without one, a killed process is repaired at the next start only.
    ///
    /// # Errors
    /// When another process holds knobs, or `dir` cannot be used.
    pub fn acquire(dir: &Path, keeper: Option<Command>) -> Result<Self, KnobError> {
        make_directory(dir).map_err(|error| record_error(dir, error))?;
        let lock = lock(dir, FlockOperation::NonBlockingLockExclusive)?.ok_or(KnobError::Busy)?;
        restore_record(dir)?;
        let keeper = keeper
            .map(|mut command| command.stdin(Stdio::piped()).spawn())
            .transpose()
            .map_err(KnobError::Keeper)?;
        Ok(Knobs {
            dir: dir.to_owned(),
            saved: Vec::new(),
            keeper,
            lock: Some(lock),
        })
    }

    /// Writes `value` to the knob at `path`, after recording what it was. A knob that already has
    /// the value is left alone.
    ///
    /// # Errors
    /// When the knob or the record cannot be written; then the knob is unchanged.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<(), KnobError> {
        let knob_error = |error| KnobError::Knob {
            path: path.to_owned(),
            error,
        };
        let old = fs::read_to_string(path)
            .map_err(knob_error)?
            .trim()
            .to_owned();
        if old == value {
            return Ok(());
        }
        self.saved.push(Saved {
            path: path.to_owned(),
            value: old,
        });
        write_record(&self.dir, &self.saved)?;
        fs::write(path, value).map_err(knob_error)
    }

    /// Restores all knobs.
    ///
    /// # Errors
    /// The first knob that could not be restored; the others are.
    pub fn restore(mut self) -> Result<(), KnobError> {
        self.restore_all()
    }

    fn restore_all(&mut self) -> Result<(), KnobError> {
        if !self.saved.is_empty() {
            restore(&std::mem::take(&mut self.saved))?;
            remove_record(&self.dir)?;
        }
        Ok(())
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        if let Err(error) = self.restore_all() {
            let _ = writeln!(io::stderr(), "paralfetch: {error}");
        }
        // The keeper waits for the lock if something is left to restore.
        drop(self.lock.take());
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            if let Err(error) = keeper.wait() {
                let _ = writeln!(io::stderr(), "paralfetch: waiting for the keeper: {error}");
            }
        }
    }
}

/// Restores what a crashed run left changed, unless a run is under way.
///
/// # Errors
/// When a knob cannot be written or the record cannot be read.
pub fn restore_leftovers(dir: &Path) -> Result<Leftovers, KnobError> {
    if !dir.join(RECORD).exists() {
        return Ok(Leftovers::None);
    }
    match lock(dir, FlockOperation::NonBlockingLockExclusive)? {
        None => Ok(Leftovers::InUse),
        Some(_lock) => match restore_record(dir)? {
            0 => Ok(Leftovers::None),
            count => Ok(Leftovers::Restored(count)),
        },
    }
}

/// The keeper process: waits until its standard input is closed, which it is when the process that
/// changed the knobs is gone in whatever way, and restores what is still recorded. After `limit` it
/// does not wait any longer: that process hangs, or was stopped.
///
/// # Errors
/// When a knob cannot be written or the record cannot be read.
pub fn keep(dir: &Path, limit: Duration) -> Result<(), KnobError> {
    let closed = wait_for_end(limit);
    if !dir.join(RECORD).exists() {
        return Ok(());
    }
    // A dying process closes its pipe and its lock one after the other. If a new run has the lock, it has
    // restored this record and may have written its own, which must be left alone. A process that hangs keeps
    // its lock: then the record is still the one to restore.
    let _lock = match closed {
        true => lock(dir, FlockOperation::LockExclusive)?,
        false => None,
    };
    restore_record(dir).map(drop)
}

/// Whether standard input was closed in time.
fn wait_for_end(limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let stdin = io::stdin();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        // Nothing is written to the pipe: its only event is its end.
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return true,
        }
    }
}

fn record_error(path: &Path, error: io::Error) -> KnobError {
    KnobError::Record {
        path: path.to_owned(),
        error,
    }
}

/// `None` if another process has it. Only root may open it: a process that holds it blocks all learning and
/// restoring.
fn lock(dir: &Path, operation: FlockOperation) -> Result<Option<File>, KnobError> {
    let path = dir.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|error| record_error(&path, error))?;
    match flock(&file, operation) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(record_error(&path, error.into())),
    }
}

fn write_record(dir: &Path, saved: &[Saved]) -> Result<(), KnobError> {
    let path = dir.join(RECORD);
    let write = || -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        serde_json::to_writer(&mut file, saved)?;
        file.flush()?;
        file.persist(&path)?;
        Ok(())
    };
    write().map_err(|error| record_error(&path, error))
}

fn remove_record(dir: &Path) -> Result<(), KnobError> {
    let path = dir.join(RECORD);
    match fs::remove_file(&path) {
        // The keeper has removed it first.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(record_error(&path, error)),
        _ => Ok(()),
    }
}

/// Number of knobs restored.
fn restore_record(dir: &Path) -> Result<usize, KnobError> {
    let path = dir.join(RECORD);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(record_error(&path, error)),
    };
    let saved: Vec<Saved> = serde_json::from_reader(file.take(MAX_RECORD))
        .map_err(|error| record_error(&path, error.into()))?;
    restore(&saved)?;
    remove_record(dir)?;
    Ok(saved.len())
}

fn restore(saved: &[Saved]) -> Result<(), KnobError> {
    let mut first_error = Ok(());
    // The same knob may have been changed twice: its first value must be the last that is written.
    for knob in saved.iter().rev() {
        match fs::write(&knob.path, &knob.value) {
            Ok(()) => {}
            // The device and its knob are gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if first_error.is_ok() => {
                first_error = Err(KnobError::Knob {
                    path: knob.path.clone(),
                    error,
                });
            }
            Err(_) => {}
        }
    }
    first_error
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn value(path: &Path) -> String {
        fs::read_to_string(path).expect("a knob")
    }

    #[test]
    fn dropping_restores_the_first_value() {
        let dir = tempfile::tempdir().unwrap();
        let knob = dir.path().join("knob");
        fs::write(&knob, "128\n").unwrap();
        let run = dir.path().join("run");
        let mut knobs = Knobs::acquire(&run, None).unwrap();
        knobs.set(&knob, "0").unwrap();
        knobs.set(&knob, "1").unwrap();
        assert_eq!(value(&knob), "1");
        drop(knobs);
        assert_eq!(value(&knob), "128");
        assert_eq!(restore_leftovers(&run).unwrap(), Leftovers::None);
    }

    #[test]
    fn the_next_start_restores_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let knob = dir.path().join("knob");
        fs::write(&knob, "128").unwrap();
        let run = dir.path().join("run");
        let mut knobs = Knobs::acquire(&run, None).unwrap();
        knobs.set(&knob, "0").unwrap();
        assert_eq!(restore_leftovers(&run).unwrap(), Leftovers::InUse);
        // A crash: destructors do not run, and the lock is released with the process.
        knobs.saved.clear();
        drop(knobs);
        assert_eq!(value(&knob), "0");
        assert_eq!(restore_leftovers(&run).unwrap(), Leftovers::Restored(1));
        assert_eq!(value(&knob), "128");
    }

    #[test]
    fn only_one_holds_knobs() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let _first = Knobs::acquire(&run, None).unwrap();
        assert!(matches!(Knobs::acquire(&run, None), Err(KnobError::Busy)));
    }

    #[test]
    fn others_cannot_reach_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let _knobs = Knobs::acquire(dir.path(), None).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(dir.path()), 0o755);
        assert_eq!(mode(&dir.path().join(LOCK)), 0o600);

        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        let Err(error) = Knobs::acquire(&link, None) else {
            panic!("a link leads anywhere");
        };
        assert!(error.to_string().contains("not a directory"), "{error}");
    }

    #[test]
    fn a_damaged_record_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(RECORD), "{").unwrap();
        let error = restore_leftovers(dir.path()).unwrap_err().to_string();
        assert!(error.contains(RECORD), "{error}");
    }
}
