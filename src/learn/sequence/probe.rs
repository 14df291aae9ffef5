//! What making a launch sequence must ask the system: the seam between plain functions and the kernel.

use std::ops::Range;

use super::metadata::Dependencies;
use crate::fs::fiemap::FileExtent;
use crate::fs::support::Support;
use crate::model::{Device, InodeId};

/// What is on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// A file system that can be prefetched.
    Usable {
        /// For the profile's device table.
        device: Device,
        /// Whether the block device can be read, so that its metadata can be found and prefetched.
        metadata: bool,
    },
    /// A file system that is left out.
    LeftOut {
        /// Its type, such as `tmpfs`.
        fs_type: String,
        /// Kind of that type.
        support: Support,
    },
    /// Not mounted here, or not to be opened.
    Unknown,
}

/// A regular file as it is after the launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// Size, in bytes.
    pub size: u64,
    /// Time of last modification, in nanoseconds since the epoch.
    pub mtime_ns: i64,
    /// Path from the file system's own root, where it is known.
    pub path: Option<Vec<u8>>,
    /// The pages asked about that are in the page cache, in 4 KiB pages, in order.
    pub cached: Vec<Range<u64>>,
    /// Extents of the pages asked about, in file order; they do not overlap.
    pub extents: Vec<FileExtent>,
    /// The metadata that the data depend on; none if they cannot be found.
    pub dependencies: Dependencies,
}

/// The state of a file after the launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// It exists and has not changed since the launch began.
    Present(Box<FileFacts>),
    /// Deleted, replaced, no regular file, or not to be opened.
    Gone,
    /// Written or changed since the launch began.
    Written,
}

/// Answers about the system.
pub trait Probe {
    /// What is on the device. Asked for each file; the answer must stay the same.
    fn device(&mut self, dev: u64) -> DeviceState;

    /// A file on a usable device. Asked once for each. `pages` are to be located on the disk, `windows` in
    /// the page cache. Both are in order, in 4 KiB pages, and may reach past the file's end.
    fn file(&mut self, key: InodeId, pages: &[Range<u64>], windows: &[Range<u64>]) -> FileState;

    /// What to tell the user about the answers, a line each.
    fn warnings(&mut self) -> Vec<String>;
}
