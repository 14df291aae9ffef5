//! One launch of an application: which file it is, starting it, and when the launch is over.
//!
//! The app must not notice us. [`Command`] finds the file that execvp(3) would find, [`User`] is who
//! called for it through sudo or pkexec, [`Spawn`] starts it in that user's name with the signal
//! dispositions and limits that we were started with, and [`Supervisor`] passes on signals, stops
//! when the app stops, and hands back an [`Exit`] that the caller can repeat as its own.
//! [`Cgroup`] is who it shares its limits with. [`EndDetector`] decides when the launch is over, and [`Subreaper`] ends an app that was
//! started only to be measured.

mod cgroup;
mod command;
mod exit;
mod io_limit;
mod launch_end;
mod processes;
mod session;
pub(crate) mod signals;
mod spawn;
mod supervise;
mod tree;
mod user;

pub use cgroup::{Cgroup, CgroupMemory, CgroupUnit, UnitManager};
pub(crate) use cgroup::{directory as cgroup_directory, unified as unified_cgroup};
pub use command::Command;
pub use exit::{AppStatus, Exit, Usage};
pub use io_limit::{is_limited, limited_reads, limits_reads};
pub use launch_end::{
    Clocks, EndDetector, LaunchLook, LaunchOver, ReadSample, process_threads, thread_states,
};
pub(crate) use processes::one as task_state;
pub use processes::{Kin, TaskState, parse_stat};
pub use session::real_uid;
pub use spawn::{BeforeExec, Spawn, SpawnError, Stdio};
pub use supervise::{Started, Supervisor};
pub use tree::Subreaper;
pub use user::User;
