//! The system service: sees every launch by itself, and does with it what its app's phase asks for.
//!
//! One thread, the event loop ([`Service::run`]), owns all state and waits for no drive between a launch
//! and its prefetch. Beside it:
//! the prefetch threads, the learning threads ([`crate::learn::LiveLearner`]), the worker, which writes
//! state and schedules anew, and the bus's.
//!
//! ```text
//!  kernel ── execve ──► launching ──► active ──► ending ──► deciding, by the app's phase
//!     └──── held ──────► learning ──────┘            │            │
//!                                                    └ history    └ worker: schedule anew
//! ```

mod active;
pub mod announce;
mod announcement;
mod cached_profile;
mod catalogue;
pub mod config;
pub mod control;
mod core;
mod daily;
mod deciding;
mod discover;
mod ending;
mod exec_gate;
pub mod history;
mod launching;
mod learners;
mod learning;
mod message;
mod messages;
mod notify;
mod packages;
mod pending_execs;
mod preparing;
mod priority;
mod records;
pub mod registry;
mod reschedule;
mod resident;
mod start;
mod trim;
mod waits;
mod wake;
mod worker;

use std::path::PathBuf;

use crate::drive::Sysfs;

pub use cached_profile::main_class;
pub use start::{ServiceError, run};

/// Where the service finds and keeps things; other places than the defaults are for tests.
#[derive(Clone, Debug)]
pub struct Places {
    /// Profiles, the registry and the history.
    pub state_dir: PathBuf,
    /// `config.toml`, its drop-ins and launcher rules.
    pub config_dir: PathBuf,
    /// The socket and the file for announcements, and the record of changed knobs.
    pub run_dir: PathBuf,
    /// Where the kernel says what kinds of drives there are.
    pub sysfs: Sysfs,
}

/// The directory of `config.toml`.
pub const CONFIG_DIR: &str = "/etc/paralfetch";
