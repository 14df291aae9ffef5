//! The drive under a file system: what it can do, and the kernel's knobs for it.

mod caches;
mod elevator;
mod identity;
mod knobs;
mod measured;
mod memory;
mod page_out;
mod probe;
mod sleep;
mod stack;
mod sysfs;
mod vm_counters;
mod writes;

pub use caches::{checkpoint_journal, drop_caches, drop_clean_caches};
pub use elevator::{ELEVATORS_DIR, Elevators};
pub use identity::{DriveIdentity, identities};
pub use knobs::{
    ChangeId, HeldKnobs, KeeperCommand, KnobError, Knobs, Setting, SharedKnobs, Undone,
    check_record, keep, restore_leftovers,
};
pub use measured::{
    KnownDrive, MeasuredDrive, MeasuredDrives, MeasuredDrivesError, costs_of, drives_of,
    known_drives,
};
pub use memory::{Memory, MemoryLimits, total_memory};
pub use page_out::{FileMapping, page_out_mapped};
pub use probe::{ProbeError, ProbedDrive, probe, probe_drive};
pub use sleep::SpinningDisks;
pub use stack::DriveBelow;
pub use sysfs::{DriveClaim, Sysfs};
pub use vm_counters::VmCounters;
pub use writes::{IoScheduler, WriteCounters};
