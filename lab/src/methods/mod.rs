//! The prefetching methods that are compared: those of other papers, and the stages of our own.
//!
//! Learning runs of the product leave [`LearnedApp`]: launch sequences with their tables. From them,
//! [`plan()`] makes what a [`Method`] would prefetch, and in which order: pure functions over plain
//! data. [`Running`] carries a [`Plan`] out beside a launch.
//!
//! What the methods share, so that only their ideas are compared: the trace and its launch sequences,
//! readahead in chunks that the kernel honours, files opened by handle, a thread of this process that
//! runs beside the app. Only `fast` opens files by path and reads metadata by system calls, since
//! these are its idea. FAST starts a process for that, which costs more than our thread, so the
//! comparison favours it.

mod blocks;
mod calls;
mod drives;
mod fast;
mod learned;
mod learned_files;
mod lessons;
mod lookup;
mod method;
mod order;
mod pages;
mod plan;
mod running;
#[cfg(test)]
pub(crate) mod samples;
mod swept;
#[cfg(test)]
mod tests;
mod wrong;

pub use blocks::{Block, BlockMap, Replay};
pub use calls::{Call, Calls};
pub use learned::{LearnedApp, LearnedSet, LearningRun};
pub use lessons::{CommonPages, by_lessons};
pub use method::Method;
pub use pages::{Completion, common_sequence, read_pages};
pub use plan::{Plan, PlannedDrive, plan, swept_plan};
pub use running::Running;
pub use swept::{Swept, SweptParameter};
pub use wrong::WrongProfile;
