//! The I/O scheduler of an image's drive.

use std::fs;
use std::path::PathBuf;

use crate::root::Root;
use crate::skipped;

/// The I/O scheduler of a drive; it gets back the one that it had when this is dropped.
pub struct Scheduler {
    knob: PathBuf,
    before: String,
}

impl Scheduler {
    /// Of the drive that the image is on.
    pub fn of(root: &Root) -> Scheduler {
        let name = root.image.device().file_name().unwrap().to_owned();
        let knob = PathBuf::from("/sys/block")
            .join(name)
            .join("queue/scheduler");
        let text = fs::read_to_string(&knob).unwrap();
        let (_, behind) = text.split_once('[').unwrap();
        let (before, _) = behind.split_once(']').unwrap();
        Scheduler {
            before: before.to_owned(),
            knob,
        }
    }

    /// False, with the reason, where the kernel does not have it.
    pub fn choose(&self, name: &str) -> bool {
        match fs::write(&self.knob, name) {
            Ok(()) => true,
            Err(error) => {
                skipped(&format!("there is no I/O scheduler {name}: {error}"));
                false
            }
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = fs::write(&self.knob, &self.before);
    }
}
