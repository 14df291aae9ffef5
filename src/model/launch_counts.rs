//! What the kernel counts of a launch.

use std::ops::Range;

use super::InodeId;

/// A read request that a launch tree made itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRead {
    /// The file; inode number 0 for metadata of the device.
    pub inode: InodeId,
    /// The pages, of 4 KiB.
    pub pages: Range<u64>,
}

/// What was counted of a launch so far. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchCounts {
    /// When execve was called, or had succeeded where calls are not seen.
    pub start_ns: u64,
    /// Tasks of the launch tree that are alive.
    pub tasks: u64,
    /// Whether waits were counted from the launch's beginning on. If not, [`LaunchCounts::switches`] and
    /// [`LaunchCounts::waiting_ns`] say nothing.
    pub waits_counted: bool,
    /// Context switches of the tree into a wait for the drive (`in_iowait`).
    pub switches: u64,
    /// Time of these waits, summed up over tasks.
    pub waiting_ns: u64,
    /// Read requests that the tree made itself.
    pub requests: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The last read request, of the tree or of the prefetch thread; 0 if there was none.
    pub last_ns: u64,
    /// Read requests of the prefetch thread.
    pub prefetch_requests: u64,
    /// Their size in bytes.
    pub prefetch_bytes: u64,
    /// The first of them; 0 if there was none.
    pub first_prefetch_ns: u64,
    /// When the completion page was used first; 0 if it was not, or is not known.
    pub completed_ns: u64,
    /// [`LaunchCounts::requests`] at that time.
    pub completed_requests: u64,
}
