//! The drive under a file system: what it can do, and the kernel's knobs for it.

mod caches;
mod knobs;
mod memory;
mod page_out;
mod sysfs;
mod writes;
mod written;

pub use caches::{checkpoint_journal, drop_caches, drop_clean_caches};
pub use knobs::{
    ChangeId, IoClass, KnobError, Knobs, Setting, SystemBus, Undone, UnitProperty, check_record,
    keep, restore_leftovers,
};
pub use memory::{Memory, MemoryLimits};
pub use page_out::{FileMapping, page_out_mapped};
pub use sysfs::Sysfs;
pub use writes::{DirtyLimits, DirtyMemory, IoScheduler, WriteCounters};
pub use written::WrittenDrive;
