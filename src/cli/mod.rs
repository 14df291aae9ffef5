//! The command line: a thin face of the manager.
//!
//! Standard output belongs to the app and to what was asked for (`show`, `list`, `bench`); all that
//! we have to say goes to standard error, one line each, with our name before it.

mod args;
mod bench;
mod doctor;
mod learn;
mod profiles;
mod report;
mod run;
mod show;
mod words;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::device::{Leftovers, keep, restore_leftovers};
use crate::manager::RUN_DIR;
use args::{Cli, Command};

/// Exit status for a failure of ours, as env(1) and other wrappers have it; 126 and 127 are for apps
/// that cannot be started.
const OWN_FAILURE: u8 = 125;

/// Runs the command line. Does not return where an app was started: then the process ends as the app
/// ended.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Learn(args) => {
            restore_after_crash();
            learn::main(&cli.state_dir, args)
        }
        Command::Run(args) => run::main(&cli.state_dir, args),
        Command::Bench(args) => {
            restore_after_crash();
            bench::main(&cli.state_dir, args)
        }
        Command::Show(args) => profiles::show(&cli.state_dir, &args),
        Command::List(args) => profiles::list(&cli.state_dir, &args),
        Command::Forget(args) => profiles::forget(&cli.state_dir, &args),
        Command::Doctor(args) => doctor::main(&args),
        Command::KeepKnobs { limit } => {
            keep(Path::new(RUN_DIR), Duration::from_secs(limit)).map_err(Failure::own)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&failure.message);
            ExitCode::from(failure.code)
        }
    }
}

/// What goes wrong ends here, as one line and an exit status.
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    fn own(error: impl std::fmt::Display) -> Self {
        Failure::with_code(error, OWN_FAILURE)
    }

    fn with_code(error: impl std::fmt::Display, code: u8) -> Self {
        Failure {
            message: error.to_string(),
            code,
        }
    }
}

/// One line on standard error. If nobody reads it, the app is to run all the same.
fn say(message: &str) {
    let _ = writeln!(io::stderr(), "paralfetch: {message}");
}

/// Puts back what a run that was killed may have left changed.
fn restore_after_crash() {
    match restore_leftovers(Path::new(RUN_DIR)) {
        Ok(Leftovers::None | Leftovers::InUse) => {}
        Ok(Leftovers::Restored(count)) => {
            say(&format!(
                "restored {count} settings that a killed learning run had left changed"
            ));
        }
        Err(error) => say(&error.to_string()),
    }
}
