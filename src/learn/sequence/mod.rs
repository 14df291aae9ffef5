//! The launch sequence: the reads of a launch in the order of first access, each page once, with the
//! metadata that they depend on.
//!
//! In live learning, reads that the tracepoint does not report are added (`unreported_reads`). Accesses are
//! grouped by file (`accessed_file`), and each file is examined once ([`Probe`]). Then the accesses are
//! walked in time order (`walk`): pages that were accessed before are dropped, the others are cut where the
//! disk's extents end, and neighbours are joined. Last, missing metadata are inserted (`metadata`). Questions
//! that one launch leaves open may be answered by an [`Earlier`] one of the same app.

mod accessed_file;
mod earlier;
mod metadata;
#[cfg(test)]
mod relearning_tests;
mod report;
mod requirements;
mod superseded;
#[cfg(test)]
mod tests;
mod unreported_reads;
mod walk;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use accessed_file::{AccessedFile, FileGroups};
pub use accessed_file::{FileFacts, NoFacts, Probe};
pub use earlier::Earlier;
pub use metadata::{Dependencies, block_pages};
pub use report::{FileCount, LeftOut, ResolveReport};
pub use requirements::{RequestCounts, Requirements};
use superseded::leave_out_superseded;

use super::lookups::{FsOperation, ImpliedReads, implied_reads};
use super::probe::LiveProbe;
use crate::fs::mounts::MountTable;
use crate::kernel::Namespaces;
use crate::model::{
    Access, By, Device, DriveClass, File, HelperRead, LogEntry, Operation, PathUse, Span,
    UnusedPages,
};

/// Most files of helpers alone that the system is asked about. On a system that starts thousands of programs
/// during the launch, they are chance.
const MOST_HELPER_FILES: usize = 4096;

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

    /// Adds an operation on this device, unless the device table is full.
    fn add_operation(&mut self, operation: FsOperation, device: &Device, start_ns: u64) {
        let Some(device) = self.device_number(device) else {
            return;
        };
        self.operations.push(Operation {
            device,
            path: operation.path,
            kind: operation.kind,
            time_us: operation.time_ns.saturating_sub(start_ns) / 1000,
        });
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

/// Makes the launch sequence of what was traced, by asking the system about each file and device. `class`
/// gives a device's class by its number (`st_dev`).
///
/// `None` if `is_late` says before the end that it takes too long. What cannot be resolved is left out and reported. Dirty
/// data should have been written back (`sync`) since files were last changed, or their blocks may have no place on the disk
/// yet.
pub fn resolve(
    observed: &Observed<'_>,
    mounts: &MountTable,
    class: &dyn Fn(u64) -> DriveClass,
    is_late: &dyn Fn() -> bool,
) -> Option<Sequence> {
    let mut probe = LiveProbe::new(mounts, class, observed.started, is_late);
    let ImpliedReads {
        accesses: implied,
        operations,
        counts,
    } = implied_reads(observed, mounts, &mut probe);
    let mut accesses = [observed.accesses, &implied].concat();
    if let Ok(program) = fs::metadata("/proc/self/exe") {
        leave_to_others(&mut accesses, program.dev(), program.ino());
    }
    // The sort is stable: reads for a look-up are traced before the look-up is reported, and stay before it.
    accesses.sort_by_key(|access| access.time_ns);
    if observed.touches {
        unreported_reads::extend_reads(&mut accesses);
    }
    let observed = Observed {
        accesses: &accesses,
        ..*observed
    };
    let mut ask = |key, pages: &[_], windows: &[_]| probe.look_at(key, pages, windows);
    let mut sequence = resolve_with(&observed, &mut ask);
    for operation in operations {
        if let Some(device) = probe.served(operation.dev) {
            sequence.add_operation(operation, &device, observed.start_ns);
        }
    }
    sequence.report.paths = counts;
    sequence.report.warnings = probe.warnings;
    (!is_late()).then_some(sequence)
}

/// Takes helpers that read this program's own file for other tasks: what records a launch starts processes of it, which
/// do nothing for the app.
fn leave_to_others(accesses: &mut [Access], dev: u64, ino: u64) {
    for access in accesses {
        if access.by == By::Helper && (access.dev, access.ino) == (dev, ino) {
            access.by = By::Other;
        }
    }
}

/// The launch sequence of what was traced, apart from paths, by the answers of `probe`.
pub fn resolve_with(observed: &Observed<'_>, probe: &mut Probe<'_>) -> Sequence {
    let mut report = ResolveReport::default();
    let kept = observed.earlier.kept(observed.start_ns);
    let mut groups = FileGroups::default();
    let of_observed = groups.add(observed.accesses, observed.touches);
    let is_used: Vec<bool> = groups.files.iter().map(AccessedFile::is_used).collect();
    let of_kept = groups.add(&kept, observed.touches);
    let of_earlier = groups.add_earlier(&observed.earlier.sequence);
    let mut files = groups.files;
    let mut of_helpers = 0;
    for file in &mut files {
        of_helpers += usize::from(file.is_of_helpers());
        if of_helpers <= MOST_HELPER_FILES || !file.is_of_helpers() {
            file.decide(probe, &mut report);
        }
    }
    report.outdated_pages += leave_out_superseded(&mut files, &is_used, observed.earlier);
    let mut builder = walk::SequenceBuilder::new(observed, &files, report);
    builder.walk_tree(&of_observed);
    builder.keep_earlier(&of_earlier);
    builder.walk_helpers(observed.accesses, &of_observed);
    builder.walk_kept(&kept, &of_kept);
    builder.finish()
}
