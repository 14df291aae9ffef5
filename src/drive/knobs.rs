//! Changing system knobs so that they are always restored.
//!
//! There are three nets, each for what the one before cannot catch. Dropping [`Knobs`] restores them. When the
//! process is killed, a keeper process that waits on a pipe from it restores them. When both are gone, as in a
//! killed session, the next start finds the record and restores them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::fs::atomic_write;
use crate::fs::root_owned::make_directory;

const LOCK: &str = "lock";
const RECORD: &str = "knobs.json";
/// Longest record, in bytes. Ours has a few lines; a longer one is not ours.
const MAX_RECORD: u64 = 1 << 20;

/// A knob could not be changed or restored.
#[derive(Debug, Error)]
pub enum KnobError {
    /// Another process is holding knobs.
    #[error(
        "another learning run, or the service, is learning a launch: wait until that has ended"
    )]
    Busy,
    /// A knob, or the record of knobs, cannot be read or written.
    #[error("cannot {action} {}: {error}", path.display())]
    File {
        /// What failed: "change" for a knob, "use" for the record and its directory.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The keeper process could not be started, or has ended.
    #[error("cannot start the process that restores knobs after a crash: {0}")]
    Keeper(io::Error),
    /// A knob no longer has the value that it was given: the keeper has restored it, or another program has changed
    /// it.
    #[error("{} did not keep its value: the run took too long, or another program has changed it", path.display())]
    Changed {
        /// The knob.
        path: PathBuf,
    },
}

/// Makes an error of what the system says of this file.
fn cannot(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KnobError {
    let path = path.to_owned();
    move |error| KnobError::File {
        action,
        path,
        error,
    }
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

impl Knobs {
    /// Takes the system-wide lock in `dir`, which a reboot must empty as it resets the knobs, and restores what
    /// a crashed run left changed. `keeper` is the command that runs [`keep`]; without one, the knobs of a
    /// killed process are restored at the next start only.
    ///
    /// # Errors
    /// When another process holds knobs, or `dir` cannot be used.
    pub fn acquire(dir: &Path, keeper: Option<Command>) -> Result<Self, KnobError> {
        make_directory(dir).map_err(cannot("use", dir))?;
        let lock = lock(dir, FlockOperation::NonBlockingLockExclusive)?.ok_or(KnobError::Busy)?;
        restore_record(dir)?;
        let mut knobs = Knobs {
            dir: dir.to_owned(),
            saved: Vec::new(),
            keeper: None,
            lock: Some(lock),
        };
        if let Some(command) = keeper {
            knobs.start_keeper(command)?;
        }
        Ok(knobs)
    }

    /// Starts the keeper process, for knobs that were taken without one. `command` runs [`keep`].
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start_keeper(&mut self, mut command: Command) -> Result<(), KnobError> {
        let keeper = command.stdin(Stdio::piped()).spawn();
        self.keeper = Some(keeper.map_err(KnobError::Keeper)?);
        match self.saved.is_empty() {
            true => Ok(()),
            false => self.start_limit(),
        }
    }

    /// Has the keeper's limit begin: from now on knobs are changed.
    fn start_limit(&mut self) -> Result<(), KnobError> {
        let pipe = self
            .keeper
            .as_mut()
            .and_then(|keeper| keeper.stdin.as_mut());
        let started = pipe.map_or(Ok(()), |pipe| pipe.write_all(b"\n"));
        started.map_err(KnobError::Keeper)
    }

    /// Writes `value` to the knob at `path`, after recording what it was. A knob that already has
    /// the value is left alone.
    ///
    /// # Errors
    /// When the knob or the record cannot be written; then the knob is unchanged.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<(), KnobError> {
        let old = fs::read_to_string(path).map_err(cannot("change", path))?;
        if old.trim() == value {
            return Ok(());
        }
        if self.saved.is_empty() {
            self.start_limit()?;
        }
        self.saved.push(Saved {
            path: path.to_owned(),
            value: old.trim().to_owned(),
        });
        write_record(&self.dir, &self.saved)?;
        fs::write(path, value).map_err(cannot("change", path))
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

/// Restores what a crashed run left changed, and returns the number of knobs. A run that is under way restores
/// its own.
///
/// # Errors
/// When a knob cannot be written or the record cannot be read.
pub fn restore_leftovers(dir: &Path) -> Result<usize, KnobError> {
    if !dir.join(RECORD).exists() {
        return Ok(0);
    }
    match lock(dir, FlockOperation::NonBlockingLockExclusive)? {
        None => Ok(0),
        Some(_lock) => restore_record(dir),
    }
}

/// The keeper process: waits until its standard input is closed, as it is once the process that changed the
/// knobs has ended in any way, and restores the knobs that are still recorded. It waits no longer than `limit` after
/// the first knob was changed, of which a byte on standard input tells it: that process hangs, was stopped, or waits
/// for something that other processes hold up. The limit is of CLOCK_MONOTONIC.
///
/// # Errors
/// When a knob cannot be written or the record cannot be read.
pub fn keep(dir: &Path, limit: Duration) -> Result<(), KnobError> {
    // systemd asks all processes of a service that was killed to end: this one has to restore its knobs first.
    let _ = SigSet::from(Signal::SIGTERM).thread_block();
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
    let stdin = io::stdin();
    let mut deadline: Option<Instant> = None;
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return false;
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return true,
        }
        match rustix::io::read(&stdin, &mut [0; 1]) {
            Ok(1..) => drop(deadline.get_or_insert_with(|| Instant::now() + limit)),
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return true,
        }
    }
}

/// Takes the lock; `None` if another process has it. Only root may open its file: a process that holds it
/// blocks all learning and restoring.
fn lock(dir: &Path, operation: FlockOperation) -> Result<Option<File>, KnobError> {
    let path = dir.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(cannot("use", &path))?;
    match flock(&file, operation) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(cannot("use", &path)(errno.into())),
    }
}

fn write_record(dir: &Path, saved: &[Saved]) -> Result<(), KnobError> {
    let path = dir.join(RECORD);
    serde_json::to_vec(saved)
        .map_err(io::Error::from)
        .and_then(|bytes| atomic_write::put(atomic_write::new_file(dir)?, &bytes, &path))
        .map_err(cannot("use", &path))
}

fn remove_record(dir: &Path) -> Result<(), KnobError> {
    let path = dir.join(RECORD);
    match fs::remove_file(&path) {
        // The keeper has removed it first.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(cannot("use", &path)),
    }
}

/// Restores the knobs of the record, if there is one, and removes it. Returns the number of knobs.
fn restore_record(dir: &Path) -> Result<usize, KnobError> {
    let path = dir.join(RECORD);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => file.map_err(cannot("use", &path))?,
    };
    let saved: Vec<Saved> = serde_json::from_reader(file.take(MAX_RECORD))
        .map_err(|error| cannot("use", &path)(error.into()))?;
    restore(&saved)?;
    remove_record(dir)?;
    Ok(saved.len())
}

/// Restores all knobs that can be; the first error is returned.
fn restore(saved: &[Saved]) -> Result<(), KnobError> {
    let mut restored = Ok(());
    // The same knob may have been changed twice: its first value must be the last that is written.
    for knob in saved.iter().rev() {
        match fs::write(&knob.path, &knob.value) {
            // The device and its knob are gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            written => {
                restored = restored.and(written.map_err(cannot("change", &knob.path)));
            }
        }
    }
    restored
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use tempfile::{TempDir, tempdir};

    use super::*;

    /// A directory with a knob that is 128, and the paths of the knob and of a directory for the record.
    fn knob() -> (TempDir, PathBuf, PathBuf) {
        let dir = tempdir().unwrap();
        let (knob, run) = (dir.path().join("knob"), dir.path().join("run"));
        fs::write(&knob, "128\n").unwrap();
        (dir, knob, run)
    }

    fn value(path: &Path) -> String {
        fs::read_to_string(path).expect("a knob")
    }

    #[test]
    fn dropping_restores_the_first_value() {
        let (_dir, knob, run) = knob();
        let mut knobs = Knobs::acquire(&run, None).unwrap();
        knobs.set(&knob, "0").unwrap();
        knobs.set(&knob, "1").unwrap();
        assert_eq!(value(&knob), "1");
        drop(knobs);
        assert_eq!(value(&knob), "128");
        assert_eq!(restore_leftovers(&run).unwrap(), 0);
    }

    #[test]
    fn the_next_start_restores_after_a_crash() {
        let (_dir, knob, run) = knob();
        let mut knobs = Knobs::acquire(&run, None).unwrap();
        knobs.set(&knob, "0").unwrap();
        assert_eq!(restore_leftovers(&run).unwrap(), 0, "it is in use");
        assert_eq!(value(&knob), "0");
        assert!(matches!(Knobs::acquire(&run, None), Err(KnobError::Busy)));
        // A crash: destructors do not run, and the lock is released with the process.
        knobs.saved.clear();
        drop(knobs);
        assert_eq!(value(&knob), "0");
        assert_eq!(restore_leftovers(&run).unwrap(), 1);
        assert_eq!(value(&knob), "128");
    }

    #[test]
    fn a_knob_that_cannot_be_restored_does_not_keep_others_from_it() {
        let (dir, knob, _) = knob();
        let saved =
            [dir.path().to_owned(), knob.clone(), "/no/such/knob".into()].map(|path| Saved {
                path,
                value: "64".into(),
            });
        let error = restore(&saved).unwrap_err().to_string();
        assert!(error.contains(dir.path().to_str().unwrap()), "{error}");
        assert_eq!(value(&knob), "64");
    }

    #[test]
    fn others_cannot_reach_the_lock() {
        let dir = tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let _knobs = Knobs::acquire(dir.path(), None).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(dir.path()), 0o755);
        assert_eq!(mode(&dir.path().join(LOCK)), 0o600);

        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        let error = Knobs::acquire(&link, None)
            .err()
            .map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("not a directory")));
    }

    #[test]
    fn a_damaged_record_is_an_error_that_names_it() {
        let dir = tempdir().unwrap();
        fs::write(dir.path().join(RECORD), "{").unwrap();
        let error = restore_leftovers(dir.path()).unwrap_err().to_string();
        assert!(error.contains(RECORD), "{error}");
    }
}
