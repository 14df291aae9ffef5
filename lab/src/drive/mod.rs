//! Drives to measure on: emulated by `flashsim`, or the host's.
//!
//! An emulated drive is real to the kernel: a loop device with direct I/O over the one file of a FUSE
//! file system, which a process of its own ([`serve`]) answers from memory. It delays each request
//! until the moment that a [`model`] of the drive computes. So file systems, readahead and request
//! queues above it are the kernel's own. It cannot be faster than a request's way through these layers
//! ([`Drive::overhead`]) and the machine's wake-ups; [`mod@check`] measures that limit.

mod attach;
mod check;

mod content;
mod control;
mod fio;
mod loopdev;
pub mod model;
mod pending;
mod probe;
mod profile;
mod server;
mod sysfs;

pub use attach::Drive;
pub use check::{Checked, check, check_alone};
pub use control::Overhead;
pub use loopdev::LoopDevice;

pub use probe::{ProbedFigure, probe_alone};
pub use profile::{Bus, Claims, DriveProfile, Flash, Heads, built_in, parse};
pub use server::serve;
pub use sysfs::Scheduler;
