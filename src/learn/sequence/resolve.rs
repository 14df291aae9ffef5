//! Making the launch sequence: the paths of a launch are walked, its files are examined, and its accesses put in order.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::accessed_file::{AccessedFile, FileGroups, Probe};
use super::report::ResolveReport;
use super::superseded::leave_out_superseded;
use super::{Observed, Sequence, unreported_reads, walk};
use crate::fs::mounts::MountTable;
use crate::learn::lookups::{FsOperation, ImpliedReads, implied_reads};
use crate::learn::probe::LiveProbe;
use crate::model::{Access, By, Device, DriveClass, Operation};

/// Most files of helpers alone that the system is asked about. On a system that starts thousands of programs
/// during the launch, they are chance.
const MOST_HELPER_FILES: usize = 4096;

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
        of_paths,
        of_files,
        operations,
        counts,
    } = implied_reads(observed, mounts, &mut probe);
    let mut accesses = [&of_files, observed.accesses, &of_paths].concat();
    if let Ok(program) = fs::metadata("/proc/self/exe") {
        leave_to_others(&mut accesses, program.dev(), program.ino());
    }
    // The sort is stable: reads for a look-up are traced before the look-up is reported, and stay before it; a file is
    // looked up before it is used.
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
            add_operation(&mut sequence, operation, &device, observed.start_ns);
        }
    }
    sequence.report.paths = counts;
    sequence.report.warnings = probe.warnings;
    (!is_late()).then_some(sequence)
}

/// Adds an operation on this device, unless the device table is full.
fn add_operation(sequence: &mut Sequence, operation: FsOperation, device: &Device, start_ns: u64) {
    let Some(device) = sequence.device_number(device) else {
        return;
    };
    sequence.operations.push(Operation {
        device,
        path: operation.path,
        kind: operation.kind,
        time_us: operation.time_ns.saturating_sub(start_ns) / 1000,
    });
}

/// Takes helpers that read this program's own file for other tasks: what records a launch starts processes of it, which
/// do nothing for the app.
pub(super) fn leave_to_others(accesses: &mut [Access], dev: u64, ino: u64) {
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
