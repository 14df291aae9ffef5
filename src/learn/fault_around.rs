//! Faultaround while launches are learned live.
//!
//! At a fault on a cached page the kernel maps up to 16 cached pages around it, and which of them the launch uses
//! is not known. With a window of one page, each page that is touched makes a fault of its own. The setting is the
//! whole system's, and other programs make more faults meanwhile: it is changed only while a launch is learned,
//! for all launches that are learned at that time together.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::drive::{KnobError, Knobs, Sysfs};

/// Makes the command that runs [`crate::drive::keep`] for the record in a directory, for at most this long.
pub type KeeperCommand = fn(&Path, Duration) -> Option<Command>;

/// The size of faultaround's window, for the launches that are learned.
pub struct FaultAroundKnob {
    path: PathBuf,
    run_dir: PathBuf,
    keeper: KeeperCommand,
    narrowing: Mutex<Narrowing>,
}

#[derive(Default)]
struct Narrowing {
    /// Launches that need it.
    launches: usize,
    /// The changed knob, while there are such launches.
    knobs: Option<Knobs>,
    has_keeper: bool,
    is_closed: bool,
}

impl FaultAroundKnob {
    /// The kernel's knob, whose changes are recorded in `run_dir`. `None` if debugfs is not mounted, or kernel
    /// lockdown refuses it.
    pub fn find(sysfs: &Sysfs, run_dir: &Path, keeper: KeeperCommand) -> Option<Arc<Self>> {
        Some(Arc::new(FaultAroundKnob {
            path: sysfs.fault_around_knob()?,
            run_dir: run_dir.to_owned(),
            keeper,
            narrowing: Mutex::default(),
        }))
    }

    /// Has faults map one page until the last of these is dropped. A few small files in memory are written: a
    /// program that is held meanwhile waits some tens of microseconds longer. `None` while another process holds
    /// the knobs, as `paralfetch learn` does, and after [`FaultAroundKnob::close`].
    ///
    /// # Errors
    /// When the knob, or the record of it, cannot be written.
    pub fn narrow(self: &Arc<Self>) -> Result<Option<NarrowedFaults>, KnobError> {
        let mut narrowing = self.lock();
        if narrowing.is_closed {
            return Ok(None);
        }
        if narrowing.knobs.is_none() {
            let mut knobs = match Knobs::acquire(&self.run_dir, None) {
                Err(KnobError::Busy) => return Ok(None),
                knobs => knobs?,
            };
            knobs.set(&self.path, &one_page())?;
            narrowing.knobs = Some(knobs);
        }
        narrowing.launches += 1;
        Ok(Some(NarrowedFaults(Some(Arc::clone(self)))))
    }

    /// Restores the knob now and for good: the process is about to end, whether its threads have ended or not.
    ///
    /// # Errors
    /// When it cannot be restored.
    pub fn close(&self) -> Result<(), KnobError> {
        let mut narrowing = self.lock();
        narrowing.is_closed = true;
        narrowing.knobs.take().map_or(Ok(()), Knobs::restore)
    }

    fn release(&self) -> Result<(), KnobError> {
        let mut narrowing = self.lock();
        narrowing.launches -= 1;
        if narrowing.launches > 0 {
            return Ok(());
        }
        narrowing.has_keeper = false;
        narrowing.knobs.take().map_or(Ok(()), Knobs::restore)
    }

    // Nothing can panic while it is locked.
    fn lock(&self) -> MutexGuard<'_, Narrowing> {
        self.narrowing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value of the knob with which each fault maps one page.
pub(super) fn one_page() -> String {
    rustix::param::page_size().to_string()
}

/// Faults map one page while this lives, unless another process changes the knob.
pub struct NarrowedFaults(Option<Arc<FaultAroundKnob>>);

impl NarrowedFaults {
    /// Starts the process that restores the knob should this one be killed, or hang for longer than `limit`. Not
    /// part of [`FaultAroundKnob::narrow`]: to start a process takes a millisecond, in which no program shall wait.
    ///
    /// # Errors
    /// When it cannot be started: then the next start of the service restores the knob.
    pub fn start_keeper(&self, limit: Duration) -> Result<(), KnobError> {
        let Some(knob) = &self.0 else {
            return Ok(());
        };
        let mut narrowing = knob.lock();
        if narrowing.has_keeper {
            return Ok(());
        }
        narrowing.has_keeper = true;
        let command = (knob.keeper)(&knob.run_dir, limit);
        match narrowing.knobs.as_mut().zip(command) {
            Some((knobs, command)) => knobs.start_keeper(command),
            None => Ok(()),
        }
    }

    /// Whether faults still map one page each.
    pub fn is_in_force(&self) -> bool {
        let knob = self.0.as_ref();
        let value = knob.and_then(|knob| fs::read_to_string(&knob.path).ok());
        value.is_some_and(|value| value.trim() == one_page())
    }

    /// Restores the knob, unless another launch needs it.
    ///
    /// # Errors
    /// When it cannot be restored.
    pub fn end(mut self) -> Result<(), KnobError> {
        self.0.take().map_or(Ok(()), |knob| knob.release())
    }
}

impl Drop for NarrowedFaults {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.take().map(|knob| knob.release()) {
            eprintln!("paralfetch: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::{TempDir, tempdir};

    use super::*;

    /// A kernel whose window is 64 KiB.
    fn kernel() -> (TempDir, Arc<FaultAroundKnob>) {
        let dir = tempdir().unwrap();
        let debugfs = dir.path().join("kernel/debug");
        fs::create_dir_all(&debugfs).unwrap();
        fs::write(debugfs.join("fault_around_bytes"), "65536\n").unwrap();
        let sysfs = Sysfs::at(dir.path());
        let knob = FaultAroundKnob::find(&sysfs, &dir.path().join("run"), |_, _| None);
        (dir, knob.unwrap())
    }

    fn value(knob: &FaultAroundKnob) -> String {
        fs::read_to_string(&knob.path).unwrap().trim().to_owned()
    }

    #[test]
    fn the_window_is_one_page_until_the_last_learned_launch_has_ended() {
        let (_dir, knob) = kernel();
        let first = knob.narrow().unwrap().unwrap();
        assert_eq!(value(&knob), one_page());
        let second = knob.narrow().unwrap().unwrap();
        first.end().unwrap();
        assert_eq!(value(&knob), one_page());
        assert!(second.is_in_force());
        drop(second);
        assert_eq!(value(&knob), "65536");
        // And again.
        let third = knob.narrow().unwrap().unwrap();
        assert_eq!(value(&knob), one_page());
        third.end().unwrap();
        assert_eq!(value(&knob), "65536");
    }

    #[test]
    fn a_window_that_somebody_widens_meanwhile_is_noticed_and_kept() {
        let (_dir, knob) = kernel();
        let narrowed = knob.narrow().unwrap().unwrap();
        fs::write(&knob.path, "16384").unwrap();
        assert!(!narrowed.is_in_force());
        narrowed.end().unwrap();
        assert_eq!(value(&knob), "16384");
    }

    #[test]
    fn the_window_stays_as_it_is_while_another_process_holds_the_knobs() {
        let (_dir, knob) = kernel();
        let other = Knobs::acquire(&knob.run_dir, None).unwrap();
        assert!(knob.narrow().unwrap().is_none());
        assert_eq!(value(&knob), "65536");
        drop(other);
        assert!(knob.narrow().unwrap().is_some());
    }

    #[test]
    fn a_closed_knob_is_restored_and_stays_so() {
        let (_dir, knob) = kernel();
        let narrowed = knob.narrow().unwrap().unwrap();
        knob.close().unwrap();
        assert_eq!(value(&knob), "65536");
        assert!(knob.narrow().unwrap().is_none());
        narrowed.end().unwrap();
        assert_eq!(value(&knob), "65536");
    }

    #[test]
    fn a_kernel_without_the_knob_has_none() {
        let dir = tempdir().unwrap();
        let found = FaultAroundKnob::find(&Sysfs::at(dir.path()), dir.path(), |_, _| None);
        assert!(found.is_none());
    }
}
