//! The prefetch phase: reading a profile's schedule into the disk caches while the app runs
//! (paper §4.3).
//!
//! [`Prefetch::start`] hands the schedule to a thread and returns at once, so that the app can start.
//! The thread only calls readahead(2), which fills the caches that the app reads through in any case:
//! a wrong or stale schedule costs time, never correctness. Where metadata are not read as blocks of a device, a few
//! more threads look paths up ahead; and where readahead(2) itself waits for the drive, several threads call it.

mod cached;
mod delayed_opens;
mod devices;
mod files;
mod free_room;
mod head_start;
mod headroom;
mod operations;
mod reader;
mod sys;
mod thread;
mod threads;

pub use files::raise_open_files;
pub use head_start::HeadStart;
pub use sys::has_cachestat;
pub use thread::{BeforeLaunch, Prefetch, PrefetchOptions, THREAD_NAME};
pub use threads::ThreadNotice;
