//! What a guard can change, and what can go wrong.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A knob and the value that it is to have: a file of sysfs or debugfs, such as an attribute of a drive's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The file.
    pub path: PathBuf,
    /// What is written to it, in its own unit.
    pub value: String,
}

/// Names one change of a [`Knobs`](super::Knobs), for as long as that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChangeId(pub(super) u64);

/// What became of a knob that was to be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The knob has the value that it had before.
    Restored,
    /// The knob no longer had our value: an administrator, tuned, udev or another program has set it since. It was left
    /// alone.
    ChangedByOthers,
    /// The device is no longer there, or has been replaced by another one of its name, which has values of its own.
    Gone,
}

/// A knob could not be changed or restored.
#[derive(Debug, Error)]
pub enum KnobError {
    /// Another process is holding knobs.
    #[error(
        "a learning run, a shielded launch or the service holds these knobs: wait until it has released them"
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
    /// There is no change with this id any more: it has been undone.
    #[error("this change has been undone before")]
    NotChanged,
}

/// Makes an error of what the system says of this file.
pub(super) fn cannot(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KnobError {
    let path = path.to_owned();
    move |error| KnobError::File {
        action,
        path,
        error,
    }
}
