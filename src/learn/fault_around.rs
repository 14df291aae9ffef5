//! Faultaround while launches are learned live.
//!
//! At a fault on a cached page the kernel maps up to 16 cached pages around it, and which of them the launch uses
//! is not known. With a window of one page, each page that is touched makes a fault of its own. The setting is the
//! whole system's, and other programs make more faults meanwhile: it is changed only while a launch is learned,
//! for all launches that are learned at that time together.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::drive::{HeldKnobs, KeeperCommand, KnobError, SharedKnobs, Sysfs};

/// The size of faultaround's window, for the launches that are learned.
pub struct FaultAroundKnob {
    path: PathBuf,
    shared: Arc<SharedKnobs>,
}

impl FaultAroundKnob {
    /// The kernel's knob, whose changes are recorded in `run_dir`. `None` if debugfs is not mounted, or kernel
    /// lockdown refuses it.
    pub fn find(sysfs: &Sysfs, run_dir: &Path, keeper: KeeperCommand) -> Option<Arc<Self>> {
        Some(Arc::new(FaultAroundKnob {
            path: sysfs.fault_around_knob()?,
            shared: SharedKnobs::new(run_dir, keeper),
        }))
    }

    /// Has faults map one page until the last of these is dropped. `None` while another process holds the knobs, as
    /// `paralfetch learn` does, and after [`FaultAroundKnob::close`].
    ///
    /// # Errors
    /// When the knob, or the record of it, cannot be written.
    pub fn narrow(&self) -> Result<Option<NarrowedFaults>, KnobError> {
        let held = self.shared.hold(&[(self.path.clone(), one_page())], None)?;
        let path = self.path.clone();
        Ok(held.map(|held| NarrowedFaults { path, held }))
    }

    /// Restores the knob now and for good: the process is about to end, whether its threads have ended or not.
    ///
    /// # Errors
    /// When it cannot be restored.
    pub fn close(&self) -> Result<(), KnobError> {
        self.shared.close()
    }
}

/// The value of the knob with which each fault maps one page.
pub(super) fn one_page() -> String {
    rustix::param::page_size().to_string()
}

/// Faults map one page while this lives, unless another process changes the knob.
pub struct NarrowedFaults {
    path: PathBuf,
    held: HeldKnobs,
}

impl NarrowedFaults {
    /// As [`HeldKnobs::start_keeper`].
    ///
    /// # Errors
    /// As [`HeldKnobs::start_keeper`].
    pub fn start_keeper(&self, limit: Duration) -> Result<(), KnobError> {
        self.held.start_keeper(limit)
    }

    /// As [`HeldKnobs::renew`].
    ///
    /// # Errors
    /// As [`HeldKnobs::renew`].
    pub fn renew(&self) -> Result<(), KnobError> {
        self.held.renew()
    }

    /// Whether faults still map one page each.
    pub fn is_in_force(&self) -> bool {
        let value = fs::read_to_string(&self.path);
        value.is_ok_and(|value| value.trim() == one_page())
    }

    /// Restores the knob, unless another launch needs it.
    ///
    /// # Errors
    /// When it cannot be restored.
    pub fn end(self) -> Result<(), KnobError> {
        self.held.end()
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_window_that_somebody_widens_meanwhile_is_noticed_and_kept() {
        let dir = tempdir().unwrap();
        let debugfs = dir.path().join("kernel/debug");
        fs::create_dir_all(&debugfs).unwrap();
        let path = debugfs.join("fault_around_bytes");
        fs::write(&path, "65536\n").unwrap();
        let sysfs = Sysfs::at(dir.path());
        let knob = FaultAroundKnob::find(&sysfs, &dir.path().join("run"), |_, _| None).unwrap();
        let narrowed = knob.narrow().unwrap().unwrap();
        assert!(narrowed.is_in_force());
        fs::write(&path, "16384").unwrap();
        assert!(!narrowed.is_in_force());
        narrowed.end().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "16384");
    }

    #[test]
    fn a_kernel_without_the_knob_has_none() {
        let dir = tempdir().unwrap();
        let found = FaultAroundKnob::find(&Sysfs::at(dir.path()), dir.path(), |_, _| None);
        assert!(found.is_none());
    }
}
