//! `waits`: who waits uninterruptibly, for what and for whom, on the whole system or in a command.

mod command;
pub mod json;
mod live;
pub mod text;

use super::args::WaitsArgs;
use super::{Failure, say};
use crate::kernel::RunTimeStats;

/// Watches the system, or a command that it starts: then it ends as the command does.
pub fn main(args: &WaitsArgs) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::from(
            "seeing who waits for what needs root: run it with sudo",
        ));
    }
    match args.cmd.is_empty() {
        true => live::main(args),
        false => command::main(args),
    }
}

/// Has the kernel measure for as long as this exists what the detector's programs take. Without that, only the cost of
/// reading is known.
fn measure_programs() -> Option<RunTimeStats> {
    RunTimeStats::enable()
        .inspect_err(|error| say(&error.to_string()))
        .ok()
}
