//! The command line, a file a command.
//!
//! Standard output belongs to the app and to requested reports (`show`, `list`, `bench`). Messages go to
//! standard error, one line each, after the program's name.

mod args;
mod bench;
mod doctor;
mod format;
mod learn;
mod manage;
mod profiles;
mod report;
mod run;
mod serve;
mod service;
mod show;
mod status;
mod watch;

pub use serve::serve;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::drive::{keep, restore_leftovers};
use crate::learn::RUN_DIR;
use args::{Cli, CliCommand};

/// Exit status for a failure of this program, as that of env(1). 126 and 127 stand for apps that cannot be
/// started.
const OWN_FAILURE: u8 = 125;

/// Runs the command line. Does not return where an app was started: then the process ends as the app
/// ended.
pub fn main() -> ExitCode {
    let cli = Cli::parse_from(arguments(std::env::args_os()));
    let done = match cli.command {
        CliCommand::Learn(args) => {
            restore_after_crash();
            learn::main(&cli.state_dir, args)
        }
        CliCommand::Run(args) => run::main(&cli.state_dir, args),
        CliCommand::Bench(args) => {
            restore_after_crash();
            bench::main(&cli.state_dir, args)
        }
        CliCommand::Show(args) => profiles::show(&cli.state_dir, &args),
        CliCommand::List(args) => profiles::list(&cli.state_dir, &args),
        CliCommand::Forget(args) => profiles::forget(&cli.state_dir, &args),
        CliCommand::Doctor(args) => doctor::main(&args),
        CliCommand::Enable(args) => manage::enable(&cli.state_dir, &args),
        CliCommand::Disable(args) => manage::disable(&cli.state_dir, &args),
        CliCommand::Mode(args) => manage::mode(&cli.state_dir, &args),
        CliCommand::Status(args) => status::status(&args),
        CliCommand::Stats(args) => status::stats(&cli.state_dir, &args),
        CliCommand::Watch(args) => watch::main(&args),
        CliCommand::Pfsetmode(args) => manage::pfsetmode(&cli.state_dir, &args),
        CliCommand::Service(args) => serve::main(&cli.state_dir, args),
        CliCommand::KeepKnobs { limit } => {
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

/// The arguments. A program that is called `pfsetmode`, as the paper's front end (paper §4.1), is that
/// command.
fn arguments(mut given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let called = given.next().unwrap_or_default();
    let mut arguments = vec![OsString::from("paralfetch")];
    let is_pfsetmode = Path::new(&called).file_name() == Some(OsStr::new("pfsetmode"));
    arguments.extend(is_pfsetmode.then(|| OsString::from("pfsetmode")));
    arguments.extend(given);
    arguments
}

/// A failed command: one line and an exit status.
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

/// Prints one line on standard error. The app runs even if that fails.
fn say(message: &str) {
    let _ = writeln!(io::stderr(), "paralfetch: {message}");
}

/// Restores the settings that a killed run may have left changed.
fn restore_after_crash() {
    match restore_leftovers(Path::new(RUN_DIR)) {
        Ok(0) => {}
        Ok(count) => {
            say(&format!(
                "restored {count} settings that a killed learning run had left changed"
            ));
        }
        Err(error) => say(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn called_by_its_name_it_is_pfsetmode() {
        let of = |given: &[&str]| arguments(given.iter().map(OsString::from));
        let expected = ["paralfetch", "pfsetmode", "9", "/a"];
        assert_eq!(of(&["/usr/sbin/pfsetmode", "9", "/a"]), expected);
        assert_eq!(of(&["./paralfetch", "pfsetmode", "9", "/a"]), expected);
        assert_eq!(of(&[]), ["paralfetch"]);
    }
}
