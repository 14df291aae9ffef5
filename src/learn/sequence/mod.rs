//! The launch sequence: the reads of a launch in the order of first access, each page once, with the
//! metadata that they depend on.
//!
//! Where uses count, those that the kernel passes over are made up for (`passed_over`).
//! Accesses are grouped by file (`subjects`), and each file is looked at once ([`Probe`]). Then the
//! accesses are walked in time order (`walk`): what was accessed before is taken off, the rest is cut
//! where the disk does (`split`), and neighbours are joined (`log`). Last, missing metadata are
//! inserted (`metadata`). What one launch leaves open, an [`Earlier`] one of the same app may settle.

mod accessed_file;
mod earlier;
mod log;
mod metadata;
mod probe;
#[cfg(test)]
mod relearning_tests;
mod report;
mod requirements;
mod split;
#[cfg(test)]
mod tests;
mod unreported_reads;
mod walk;

use std::time::SystemTime;

pub use earlier::Earlier;
pub use metadata::Dependencies;
pub use probe::{DeviceState, Facts, FileKey, FileState, Probe};
pub use report::{FileCount, LeftOut, ResolveReport};
pub use requirements::{RequestCounts, Requirements};

use super::lookups;
use super::probe::LiveProbe;
use crate::fs::mounts::MountTable;
use crate::kernel::Namespaces;
use crate::model::DriveClass;
use crate::model::{Access, PathUse};
use crate::model::{Device, File, HelperRead};
use crate::model::{LogEntry, Span};

/// Most files of newcomers alone that the system is asked about: on a system that starts thousands of
/// programs meanwhile, they are chance.
const MOST_OF_NEWCOMERS: usize = 4096;

/// A launch sequence with the tables that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Devices, in the order of their first log entry.
    pub devices: Vec<Device>,
    /// Files, in the order of their first log entry.
    pub files: Vec<File>,
    /// For each file, whether the launch reached it through page faults: whether it was mapped. Always
    /// false where the kernel does not tell of faults ([`crate::kernel::Trace::hooks`]).
    pub mapped: Vec<bool>,
    /// The log entries, in access order. No page occurs twice.
    pub log: Vec<LogEntry>,
    /// Pages of the log that the drive did not read in the launch: file pages that were cached before
    /// it, then missing metadata that were inserted.
    pub unread: Vec<Span>,
    /// Pages of the log that were mapped along with a page that the launch touched, and need not have
    /// been touched themselves: of the window around it, or of its large folio.
    pub fault_around: Vec<Span>,
    /// What processes that were started since the launch began accessed and the launch tree did not. Of
    /// these, the log holds those that recur.
    pub helpers: Vec<HelperRead>,
    /// What was left out, and why.
    pub report: ResolveReport,
}

/// What was seen of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Accesses to pages, in time order.
    pub accesses: &'a [Access],
    /// Paths that were looked up, in time order.
    pub paths: &'a [PathUse],
    /// The mount namespaces that they were looked up in, but for ours.
    pub namespaces: &'a Namespaces,
    /// Start of the launch on the trace's clock, CLOCK_MONOTONIC in nanoseconds.
    pub start_ns: u64,
    /// Start of the launch on the file systems' clock.
    pub started: SystemTime,
    /// Whether the sequence is to hold the file pages that the launch used (live learning), rather
    /// than those that were read from the drive and those that were cached before.
    pub touches: bool,
    /// What was learned of the app before.
    pub earlier: &'a Earlier,
}

/// Makes the launch sequence of what was seen by asking the system about each file and device. `class`
/// tells a device's class by its number (`st_dev`).
///
/// Never fails: what cannot be resolved is left out and reported. Dirty data should have been written
/// back (`sync`) since files were last changed, or their blocks may have no place on the disk yet.
pub fn resolve(
    seen: &Observed<'_>,
    mounts: &MountTable,
    class: &dyn Fn(u64) -> DriveClass,
) -> Sequence {
    let mut probe = LiveProbe::new(mounts, class, seen.started);
    let looked_up = lookups::accesses(seen.paths, seen.namespaces, mounts, &mut probe);
    let mut accesses = [seen.accesses, &looked_up.accesses].concat();
    // What was read for a look-up comes before the look-up is reported; the sort keeps it so.
    accesses.sort_by_key(|access| access.time_ns);
    if seen.touches {
        unreported_reads::extend_reads(&mut accesses);
    }
    let seen = Observed {
        accesses: &accesses,
        ..*seen
    };
    let mut sequence = resolve_with(&seen, &mut probe);
    sequence.report.paths = looked_up.counts;
    sequence.report.warnings.extend(looked_up.warnings);
    sequence
}

/// The launch sequence of what was seen, but for its paths, by the answers of `probe`.
pub fn resolve_with(seen: &Observed<'_>, probe: &mut dyn Probe) -> Sequence {
    let mut report = ResolveReport::default();
    let kept = seen.earlier.kept(seen.start_ns);
    let all = [seen.accesses, &kept].concat();
    let (mut subjects, of_access) = accessed_file::group(&all, seen.touches);
    let mut of_newcomers = 0;
    for subject in &mut subjects {
        of_newcomers += usize::from(subject.is_of_newcomers());
        if of_newcomers <= MOST_OF_NEWCOMERS || !subject.is_of_newcomers() {
            subject.decide(probe, &mut report);
        }
    }
    let (of_seen, of_kept) = of_access.split_at(seen.accesses.len());
    let mut walk = walk::SequenceBuilder::new(seen, &subjects, probe, report);
    walk.tree(of_seen);
    walk.newcomers(seen.accesses, of_seen, Earlier::by_newcomers);
    walk.newcomers(&kept, of_kept, Earlier::recurring);
    walk.finish()
}
