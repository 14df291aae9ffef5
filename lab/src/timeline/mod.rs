//! What happens in one launch, moment by moment, for the report's picture of it.
//!
//! A [`Recorder`] watches one launch with BPF programs of its own (`bpf/timeline.bpf.c`): the launch
//! tree's tasks on and off the processors, the drive's requests, the pages that app and prefetcher
//! reach. [`analyse()`] makes a [`Timeline`] of what it saw, with each read that the app still had to
//! wait for and the reason.

mod analyse;
mod event;
mod ffi;
mod format;
mod idle;
mod pages;
mod record;
mod requests;
mod skel;
mod steps;
mod summary;
mod tasks;

#[cfg(test)]
mod tests;

pub use analyse::analyse;
pub use event::{By, Event, FileId, Place, Raw, What};
pub use format::{Facts, Miss, Timeline, Why};
pub use idle::Idle;
pub use record::Recorder;
pub use summary::Totals;
