//! The launch sequence: the reads of a launch in the order of first access, each page once, with the
//! metadata that they depend on.
//!
//! In live learning, reads that the tracepoint does not report are added (`unreported_reads`). Accesses are
//! grouped by file (`accessed_file`), and each file is examined once ([`Probe`]). Then the accesses are
//! walked in time order (`walk`): pages that were accessed before are dropped, the others are cut where the
//! disk's extents end, and neighbours are joined. Last, missing metadata are inserted (`metadata`). Questions
//! that one launch leaves open may be answered by an [`Earlier`] one of the same app.

mod accessed_file;
mod dependencies;
mod earlier;
mod metadata;
#[cfg(test)]
mod relearning_tests;
mod report;
mod requirements;
mod resolve;
mod superseded;
#[cfg(test)]
mod tests;
mod unreported_reads;
mod walk;

use std::time::SystemTime;

pub use accessed_file::{FileFacts, NoFacts, Probe};
pub use dependencies::{Dependencies, block_pages};
pub use earlier::Earlier;
pub use report::{FileCount, LeftOut, PathCounts, ResolveReport};
pub use requirements::{RequestCounts, Requirements};
pub use resolve::{resolve, resolve_with};

use crate::kernel::Namespaces;
use crate::model::{
    Access, Device, File, HelperRead, LogEntry, Operation, PathUse, Span, UnusedPages,
};

/// A launch sequence with the tables that it refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Devices, in the order of their first log entry.
    pub devices: Vec<Device>,
    /// Files, in the order of their first log entry.
    pub files: Vec<File>,
    /// How many of them the launch had mapped, which its page faults show, where the kernel reports them.
    pub mapped_files: u64,
    /// The log entries, in access order. No page occurs twice.
    pub log: Vec<LogEntry>,
    /// What the launch asked of file systems whose metadata are not read as blocks, in the order of its questions.
    pub operations: Vec<Operation>,
    /// Pages of the log that the drive did not read in the launch: file pages that were cached before it, and
    /// missing metadata that were inserted.
    pub unread: Vec<Span>,
    /// Pages of the log that a fault on another page of the window or folio mapped: they may be untouched.
    pub fault_around: Vec<Span>,
    /// Pages of the log that only earlier launches used.
    pub unused: Vec<UnusedPages>,
    /// What helpers accessed and the launch tree did not. The log holds those that recur.
    pub helpers: Vec<HelperRead>,
    /// When the launch last accessed data that it was asked to open, which are no part of the app, in microseconds
    /// since its execve; 0 if it opened none.
    pub data_until_us: u64,
    /// What was left out, and why.
    pub report: ResolveReport,
}

impl Sequence {
    /// The device's index in the device table, into which it is taken; `None` if the table is full.
    fn device_number(&mut self, device: &Device) -> Option<u16> {
        let known = self.devices.iter().position(|it| it.dev == device.dev);
        let number = u16::try_from(known.unwrap_or(self.devices.len())).ok()?;
        if known.is_none() {
            self.devices.push(device.clone());
        }
        Some(number)
    }
}

/// What was traced of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Accesses to pages, in time order.
    pub accesses: &'a [Access],
    /// Paths that were looked up, in time order.
    pub paths: &'a [PathUse],
    /// The mount namespaces other than ours that they were looked up in.
    pub namespaces: &'a Namespaces,
    /// Start of the launch on the trace's clock, CLOCK_MONOTONIC in nanoseconds.
    pub start_ns: u64,
    /// Start of the launch on the file systems' clock.
    pub started: SystemTime,
    /// Live learning: the sequence is to hold the file pages that were used, not those that were read.
    pub touches: bool,
    /// What was learned of the app before.
    pub earlier: &'a Earlier,
    /// The user whose launch it was. Paths that lead through directories that he cannot enter are not walked: what is
    /// there must not show in his profile.
    pub uid: u32,
}
