//! Changing system knobs so that they are always restored.
//!
//! There are three nets, each for what the one before cannot catch. Dropping [`Knobs`] restores them. When the
//! process is killed, a keeper process that waits on a pipe from it restores them. When both are gone, as in a
//! killed session, the next start finds the record and restores them.
//!
//! A knob is restored only while it has our value. What an administrator, tuned, udev or a power profile has set
//! since is left alone, and so is what has come in the place of a device that has gone.

mod file;
mod keeper;
mod record;
mod setting;
mod shared;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::fs::atomic_write;
use crate::fs::root_owned::make_directory;
use file::FileChange;
use keeper::{Keeper, Notice};
use setting::cannot;

pub use keeper::keep;
pub use record::check_record;
pub use setting::{ChangeId, KnobError, Setting, Undone};
pub use shared::{HeldKnobs, KeeperCommand, SharedKnobs};

const LOCK: &str = "lock";

/// Holds changed knobs and restores them when dropped. Each directory is a guard of its own, and one process at a
/// time has it: no process takes a changed value for the original. Two guards must not change the same knob: each would
/// take the other for an administrator.
pub struct Knobs {
    dir: PathBuf,
    /// Oldest first.
    changes: Vec<(ChangeId, FileChange)>,
    /// Changes whose making failed and could not be undone: nobody else knows their ids.
    orphans: Vec<ChangeId>,
    made: u64,
    keeper: Option<Keeper>,
    lock: Option<File>,
}

impl Knobs {
    /// Takes the lock in `dir`, which a reboot must empty as it resets the knobs, and restores what
    /// a crashed run left changed. `keeper` is the command that runs [`keep`]; without one, the knobs of a
    /// killed process are restored at the next start only.
    ///
    /// # Errors
    /// When another process holds knobs, or `dir` cannot be used, or what was left cannot be restored: its record is
    /// kept for the next attempt.
    pub fn acquire(dir: &Path, keeper: Option<Command>) -> Result<Self, KnobError> {
        make_directory(dir).map_err(cannot("use", dir))?;
        let lock = lock_now(dir)?.ok_or(KnobError::Busy)?;
        restore_record(dir)?;
        let mut knobs = Knobs {
            dir: dir.to_owned(),
            changes: Vec::new(),
            orphans: Vec::new(),
            made: 0,
            keeper: None,
            lock: Some(lock),
        };
        if let Some(command) = keeper {
            knobs.start_keeper(command)?;
        }
        Ok(knobs)
    }

    /// Starts the keeper process, for knobs that were taken without one. `command` runs [`keep`]. Until then, what a
    /// killed process has changed stays so until the next start: start it before the first change if that
    /// matters.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start_keeper(&mut self, command: Command) -> Result<(), KnobError> {
        self.keeper = Some(Keeper::start(command).map_err(KnobError::Keeper)?);
        match self.changes.is_empty() {
            true => Ok(()),
            false => self.tell(Notice::Begin).map_err(KnobError::Keeper),
        }
    }

    fn tell(&mut self, notice: Notice) -> io::Result<()> {
        let keeper = self.keeper.as_mut();
        keeper.map_or(Ok(()), |keeper| keeper.tell(notice))
    }

    /// Writes `value` to the knob at `path`, after recording what it was. A knob that already has
    /// the value is left alone. All that is set together has one limit, from the first on.
    ///
    /// # Errors
    /// When the knob or the record cannot be written; then the knob is unchanged. When the keeper's limit has passed.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<(), KnobError> {
        let Some(change) = FileChange::prepare(path, value)? else {
            return Ok(());
        };
        self.tell(Notice::Begin).map_err(KnobError::Keeper)?;
        self.make(change).map(drop)
    }

    /// Makes this setting, after recording what it was. `None` if it is so already. The keeper's limit begins anew: it
    /// is for a process that hangs, and this one does not. A keeper that has ended is started again.
    ///
    /// A drive's `scheduler` waits for the requests under way. The others do not wait.
    ///
    /// # Errors
    /// When the knob or the record cannot be written, or the keeper cannot be started. Then the knob is unchanged, or,
    /// where even that cannot be had, it stays recorded and is restored with the others, or by
    /// [`Knobs::undo_orphans`].
    pub fn change(&mut self, setting: Setting) -> Result<Option<ChangeId>, KnobError> {
        let Some(change) = FileChange::prepare(&setting.path, &setting.value)? else {
            return Ok(None);
        };
        self.begin_anew()?;
        self.make(change)
    }

    /// Has the keeper's limit begin anew while something is changed, as [`Knobs::change`] does: this process does not
    /// hang.
    ///
    /// # Errors
    /// When the keeper has ended and cannot be started again.
    pub fn renew(&mut self) -> Result<(), KnobError> {
        match self.changes.is_empty() {
            true => Ok(()),
            false => self.begin_anew(),
        }
    }

    fn begin_anew(&mut self) -> Result<(), KnobError> {
        if self.tell(Notice::Renew).is_err() {
            if let Some(keeper) = &mut self.keeper {
                keeper.start_again().map_err(KnobError::Keeper)?;
            }
            self.tell(Notice::Renew).map_err(KnobError::Keeper)?;
        }
        Ok(())
    }

    /// Whether the knob of this change still has our value, which a later change may have given it.
    ///
    /// # Errors
    /// When the knob cannot be read or has gone. [`KnobError::NotChanged`] if the change has been undone.
    pub fn has_our_value(&self, id: ChangeId) -> Result<bool, KnobError> {
        let (_, change) = &self.changes[self.position(id)?];
        let mut latest_first = self.changes.iter().rev();
        let latest = latest_first.find(|(_, other)| other.is_same_knob(change));
        let latest = latest.map_or(change, |(_, latest)| latest);
        latest.has_our_value()
    }

    /// Whether this knob was changed and has not been restored by this guard.
    pub fn has_changed(&self, path: &Path) -> bool {
        self.changes.iter().any(|(_, change)| change.is_of(path))
    }

    fn position(&self, id: ChangeId) -> Result<usize, KnobError> {
        let at = self.changes.iter().position(|(known, _)| *known == id);
        at.ok_or(KnobError::NotChanged)
    }

    /// Makes a change that has been prepared.
    fn make(&mut self, change: FileChange) -> Result<Option<ChangeId>, KnobError> {
        let id = ChangeId(self.made);
        self.made += 1;
        self.changes.push((id, change));
        let made = self.record().and_then(|()| self.carry_out());
        let made = match made {
            Ok(true) => self.record().map(|()| true),
            made => made,
        };
        if let Ok(true) = made {
            return Ok(Some(id));
        }
        // Nothing has changed, or it is not known or not recorded what has.
        let undone = self.changes.last().map(|(_, change)| change.undo());
        if matches!(undone, Some(Ok(_))) {
            self.changes.pop();
            self.record()?;
        } else {
            self.orphans.push(id);
        }
        made.map(|_| None)
    }

    /// Makes the latest change. Whether that changed anything.
    fn carry_out(&mut self) -> Result<bool, KnobError> {
        let latest = self.changes.last_mut();
        latest.map_or(Ok(false), |(_, change)| change.make())
    }

    /// Restores what this change has changed, and says what became of it. If the same knob was changed again since, the
    /// later change takes the original value over, and the knob keeps the later value.
    ///
    /// # Errors
    /// When the knob cannot be restored: the change stays recorded, and can be undone again. When the record cannot
    /// be written. [`KnobError::NotChanged`] if the change has been undone.
    pub fn undo(&mut self, id: ChangeId) -> Result<Undone, KnobError> {
        let at = self.position(id)?;
        let (_, change) = &self.changes[at];
        let later =
            (at + 1..self.changes.len()).find(|&later| self.changes[later].1.is_same_knob(change));
        let undone = match later {
            None => change.undo()?,
            Some(later) => {
                let original = change.clone();
                self.changes[later].1.take_over(original);
                Undone::Restored
            }
        };
        self.changes.remove(at);
        self.record()?;
        if self.changes.is_empty() {
            // A keeper that has ended has nothing to be told.
            let _ = self.tell(Notice::AllRestored);
        }
        Ok(undone)
    }

    /// Tries again to undo changes that could not be undone when making them failed, until one cannot be. Whether some
    /// are left.
    pub fn undo_orphans(&mut self) -> bool {
        while let Some(&id) = self.orphans.first() {
            match self.undo(id) {
                Ok(_) | Err(KnobError::NotChanged) => {
                    self.orphans.remove(0);
                }
                Err(_) => {
                    // The next attempt begins with another one.
                    self.orphans.rotate_left(1);
                    return true;
                }
            }
        }
        false
    }

    /// Restores all knobs that still have our values.
    ///
    /// # Errors
    /// The first knob that could not be restored; the others are.
    pub fn restore(mut self) -> Result<(), KnobError> {
        self.restore_all()
    }

    fn restore_all(&mut self) -> Result<(), KnobError> {
        if self.changes.is_empty() {
            return Ok(());
        }
        let changes = std::mem::take(&mut self.changes);
        let changes = changes.into_iter().map(|(_, change)| change).collect();
        undo_all(&self.dir, changes).map(drop)
    }

    fn record(&self) -> Result<(), KnobError> {
        record::write(&self.dir, self.changes.iter().map(|(_, change)| change))
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        if let Err(error) = self.restore_all() {
            let _ = writeln!(io::stderr(), "paralfetch: {error}");
        }
        // The keeper waits for the lock if something is left to restore. Closing it is not enough: a process that
        // another thread is starting just now has a copy until its execve.
        if let Some(lock) = self.lock.take() {
            let _ = flock(&lock, FlockOperation::Unlock);
        }
        if let Some(Err(error)) = self.keeper.take().map(Keeper::end) {
            let _ = writeln!(io::stderr(), "paralfetch: waiting for the keeper: {error}");
        }
    }
}

/// Restores what a crashed run left changed, removes what it had begun to write, and returns the number of knobs that have their old values again. A run
/// that is under way restores its own.
///
/// # Errors
/// When a knob cannot be written or the record cannot be read.
pub fn restore_leftovers(dir: &Path) -> Result<usize, KnobError> {
    match atomic_write::remove_leftovers(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        removed => removed.map_err(cannot("clean up", dir))?,
    };
    if !record::exists(dir) {
        return Ok(0);
    }
    match lock_now(dir)? {
        None => Ok(0),
        Some(_lock) => restore_record(dir),
    }
}

/// Takes the lock; `None` if another process has it. Only root may open its file: a process that holds it
/// blocks all learning and restoring.
fn lock_now(dir: &Path) -> Result<Option<File>, KnobError> {
    let path = dir.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(cannot("use", &path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(cannot("use", &path)(errno.into())),
    }
}

/// Restores the knobs of the record, if there is one, and removes it. Returns the number of knobs.
fn restore_record(dir: &Path) -> Result<usize, KnobError> {
    match record::read(dir)? {
        None => Ok(0),
        Some(changes) => undo_all(dir, changes),
    }
}

/// Restores all knobs that can be, and returns how many have their old values again. Those that cannot be restored
/// stay recorded, and the first error is returned.
fn undo_all(dir: &Path, mut changes: Vec<FileChange>) -> Result<usize, KnobError> {
    let (mut restored, mut failed, mut left) = (0, Ok(()), Vec::new());
    // The same knob may have been changed twice: its first value must be the last that is written.
    while let Some(change) = changes.pop() {
        match change.undo() {
            Ok(undone) => restored += usize::from(undone == Undone::Restored),
            Err(error) => {
                failed = failed.and(Err(error));
                left.push(change);
            }
        }
    }
    record::write(dir, left.iter().rev())?;
    failed.map(|()| restored)
}

#[cfg(test)]
mod tests;
