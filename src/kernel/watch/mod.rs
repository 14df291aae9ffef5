//! Seeing launches in the kernel, wherever they come from, and counting what they cost.
//!
//! [`Watch`] is attached all the time. A program that nobody watches for costs it one look-up by name;
//! of the others it tells through [`Watch::fd`]. From then on the launch's tree of tasks is followed and
//! its reads and waits are counted ([`Watch::counts`]), until [`Watch::end`].
//!
//! [`Gate`] holds programs at their execve until something is in place: live learning must be attached
//! before the app runs.

mod event;
mod name_filter;
mod shared;
mod skel;
mod slots;
mod tracefs;
mod waits;
mod watcher;

pub use event::{LaunchEvent, LaunchEventKind};
pub use slots::{LaunchCounts, WatchedPage};
pub use waits::{CountingWaits, WaitPrograms};
pub use watcher::{Watch, WatchOptions, WatchedName};
