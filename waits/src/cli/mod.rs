//! The command line: who waits uninterruptibly, for what and for whom, on the whole system or in a command.
//!
//! Standard output belongs to the command, or else to what was asked for. Messages go to standard error, a line each,
//! after the program's name.

mod args;
mod command;
mod json;
mod live;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use paralfetch::cli::terminal;
use paralfetch::process::SpawnError;

use crate::RunTimeStats;
use args::WaitsArgs;

/// Exit status of a failure.
const FAILED: u8 = 1;

/// Exit status of a failure where there is a command to start, as that of env(1).
const OWN_FAILURE: u8 = 125;

/// Runs the command line. Does not return where a command was started: then the process ends as the command ended.
pub fn main() -> ExitCode {
    let args = WaitsArgs::parse();
    let usual = match args.cmd.is_empty() {
        true => FAILED,
        false => OWN_FAILURE,
    };
    let Err(error) = watch(&args) else {
        return ExitCode::SUCCESS;
    };
    say(&format!("{error:#}"));
    // A failed start has the exit status that a shell would give it.
    let of_start = error.downcast_ref::<SpawnError>();
    ExitCode::from(of_start.map_or(usual, |error| error.exit_code() as u8))
}

/// Watches the system, or a command that it starts.
fn watch(args: &WaitsArgs) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "seeing who waits for what needs root: run it with sudo"
    );
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

/// By whom a line on standard error is: the command that was started writes there, too.
const BY: &str = "paralfetch-waits: ";

/// Prints one line on standard error, on a terminal broken between words. The command runs even if that fails.
fn say(message: &str) {
    say_all(&[message.to_owned()], said_columns());
}

/// Columns that a line on standard error has behind the program's name, if they are bounded.
fn said_columns() -> Option<usize> {
    terminal::error_columns().map(|columns| columns.saturating_sub(BY.len()))
}

/// Prints lines on standard error. Those that are longer than so many columns are broken between words.
fn say_all(lines: &[String], columns: Option<usize>) {
    for line in lines {
        let indent = line.len() - line.trim_start().len() + 2;
        for piece in terminal::wrapped(line, columns, indent) {
            let _ = writeln!(io::stderr(), "{BY}{piece}");
        }
    }
}
