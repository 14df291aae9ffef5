//! The system service: sees every launch, and does for each what its app's phase asks for.
//!
//! One thread, the event loop ([`event_loop::Service`]), owns all state. It waits for no drive between a launch
//! and its prefetch. Beside it run the prefetch threads, the recorder threads
//! ([`crate::learn::LiveLearner`]), the worker, which writes state and schedules anew, and the bus's.
//!
//! ```text
//!  kernel, timers, threads, bus
//!     │ events
//!     ▼
//!  event_loop ──► launch: a state machine for each launch ──► parts: what the machine asks of the
//!                 (pure; step, table)          actions          kernel, the threads and the apps
//! ```

mod allowance;
pub mod announce;
mod cached_profile;
mod catalogue;
mod clock;
pub mod config;
pub mod control;
mod diagnostics;
mod dictionary;
mod discovery;
mod drive_probes;
mod event_loop;
mod executables;
pub mod history;
mod late_reads;
mod launch;
mod launch_threads;
mod located_executables;
mod login;
mod mailbox;
mod managed_apps;
mod marks;
mod message;
mod missed;
mod notify;
mod own_commands;
mod own_links;
mod own_process;
mod own_profile;
mod own_reads;
mod packages;
mod parts;
mod pending_writes;
mod prefetchers;
mod probe_round;
mod profile_jobs;
mod profile_room;
mod program_switch;
mod rate;
mod recorders;
mod recording_share;
mod records;
pub mod registry;
mod reschedule;
mod roots;
pub mod seeds;
mod shield;
mod start;
mod state_lock;
mod told_gains;
mod warm_up;
mod watchdog;
mod watchlist;
mod worker;

use std::path::PathBuf;

use crate::drive::Sysfs;

pub use cached_profile::main_class;
pub use located_executables::PATH as SEARCH_PATH;
pub use parts::CannotWorkHere;
pub use shield::{GUARD_DIR as SHIELD_DIR, KEEPER_LIMIT as SHIELD_KEEPER_LIMIT, guard_dir};
pub use start::run;

/// Where the service finds and keeps things; other places than the defaults are for tests.
#[derive(Clone, Debug)]
pub struct Places {
    /// Profiles, the registry and the history.
    pub state_dir: PathBuf,
    /// `config.toml`, its drop-ins and launcher rules.
    pub config_dir: PathBuf,
    /// The socket and the file for announcements, and the record of changed knobs.
    pub run_dir: PathBuf,
    /// Profiles that packages and images bring.
    pub profiles_dir: PathBuf,
    /// Where the kernel says what kinds of drives there are.
    pub sysfs: Sysfs,
    /// Whether apps that a process of this very program starts are its own affair, as those of `learn`, `run` and
    /// `bench` are. The laboratory's program starts apps as users do.
    pub leaves_own_commands: bool,
}

/// The directory of `config.toml`.
pub const CONFIG_DIR: &str = "/etc/paralfetch";
