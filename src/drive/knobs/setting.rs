//! What a guard can change, and what can go wrong.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A knob and the value that it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A file of sysfs, of /proc/sys or of a cgroup.
    File {
        /// The file.
        path: PathBuf,
        /// What is written to it, in its own unit.
        value: String,
    },
    /// A resource limit of a systemd unit, set through the system's manager for as long as the system runs.
    UnitProperty {
        /// A service, scope or slice, such as `backup.service`.
        unit: String,
        /// Which limit.
        property: UnitProperty,
        /// In the property's unit.
        value: u64,
    },
    /// The I/O priority of one task (ioprio_set(2)). Only bfq and mq-deadline honour it.
    IoPriority {
        /// Its thread id. Kernel threads such as jbd2's can be given.
        tid: i32,
        /// The class.
        class: IoClass,
        /// From 0, the highest, to 7. 0 for the classes that have no levels.
        level: u8,
    },
}

/// A resource limit of a systemd unit (systemd.resource-control(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitProperty {
    /// `MemoryHigh`, in bytes; `u64::MAX` is no limit.
    MemoryHigh,
    /// `IOWeight`, from 1 to 10000; `u64::MAX` is systemd's default.
    IoWeight,
}

impl UnitProperty {
    /// As systemd calls it.
    pub fn name(self) -> &'static str {
        match self {
            UnitProperty::MemoryHigh => "MemoryHigh",
            UnitProperty::IoWeight => "IOWeight",
        }
    }
}

/// A class of I/O priorities (ioprio_set(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoClass {
    /// None of its own: that of its niceness.
    None,
    /// Before all others.
    RealTime,
    /// The usual one.
    BestEffort,
    /// Only when no one else uses the drive.
    Idle,
}

/// Names one change of a [`Knobs`](super::Knobs), for as long as that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChangeId(pub(super) u64);

/// What became of a knob that was to be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It has the value that it had before.
    Restored,
    /// It no longer had our value: an administrator, tuned, udev or another program has set it since. It was
    /// left alone.
    ChangedByOthers,
    /// The device, unit or task is no longer there, or has been replaced by another one of its name, which has values
    /// of its own.
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
    /// A limit of a unit cannot be read or set.
    #[error("cannot change {} of {unit}: {error}", property.name())]
    Unit {
        /// The unit.
        unit: String,
        /// Which limit.
        property: UnitProperty,
        /// What the bus or systemd says.
        error: String,
    },
    /// The I/O priority of a task cannot be read or set. The error is ESRCH if there is no such task.
    #[error("cannot change the I/O priority of task {tid}: {error}")]
    Task {
        /// Its thread id.
        tid: i32,
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
