//! The command line, a file a command.
//!
//! Standard output belongs to the app and to requested reports (`show`, `list`, `bench`). Messages go to
//! standard error, one line each, after the program's name.

mod args;
mod bench;
mod coverage;
mod doctor;
mod entry;
mod export;
pub mod format;
mod help;
mod import;
mod learn;
mod log_thread;
mod manage;
mod named;
mod notification;
mod notified;
mod notifier;
pub mod output_file;
mod page;
mod plot;
mod probe;
mod profiles;
mod progress;
mod report;
mod run;
mod serve;
mod service;
mod shielded;
mod show;
mod stats;
mod status;
mod tables;
pub mod terminal;
mod watch;
mod writes;
mod xdg;

pub use serve::serve;

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches;

use crate::drive::{ELEVATORS_DIR, Sysfs, keep, restore_leftovers};
use crate::learn::RUN_DIR;
use crate::policy::PhaseRequest;
use crate::process::SpawnError;
use crate::service::control::bus::Address;
use crate::service::{CannotWorkHere, Places, SHIELD_DIR};
use args::{AppRequest, Cli, CliCommand, WhichUser};

/// Exit status of a command that has failed.
const FAILED: u8 = 1;

/// Exit status of a command that needs the service, which is not running, as that of systemctl(1).
const NOT_RUNNING: u8 = 3;

/// Exit status for a failure of this program where it is given a command to start, as that of env(1). 126 and 127 stand
/// for commands that cannot be started.
const OWN_FAILURE: u8 = 125;

/// Exit status of a service that cannot work on this system (EX_UNAVAILABLE of sysexits.h). systemd does not
/// start it again (RestartPreventExitStatus).
const CANNOT_WORK_HERE: u8 = 69;

/// Runs the command line. Does not return where an app was started: then the process ends as the app
/// ended.
pub fn main() -> ExitCode {
    let given = help::command().get_matches_from(arguments(std::env::args_os()));
    let cli = Cli::from_arg_matches(&given).unwrap_or_else(|error| error.exit());
    let usual = match cli.command.starts_app() {
        true => OWN_FAILURE,
        false => FAILED,
    };
    let dir = cli.state_dir.as_path();
    let done = match cli.command {
        CliCommand::Learn(args) => learn::main(dir, args),
        CliCommand::Run(args) => run::main(dir, args),
        CliCommand::Bench(args) => bench::main(dir, args),
        CliCommand::Show {
            app,
            entries,
            json,
            user,
        } => profiles::show(dir, user.uid(), &app, entries, json),
        CliCommand::List { json, user } => profiles::list(dir, user.uid(), json),
        CliCommand::Forget { app, user } => profiles::forget(dir, user.uid(), &app),
        CliCommand::Export {
            app,
            output,
            all,
            user,
        } => match (app, all) {
            (Some(app), _) => export::one(dir, user.uid(), &app, output.as_deref()),
            (None, all) => export::all(dir, user.uid(), all.as_deref().unwrap_or(Path::new("."))),
        },
        CliCommand::Import { root, files } => import::main(dir, root.as_deref(), &files),
        CliCommand::Doctor { json } => doctor::main(dir, json),
        CliCommand::Probe { path, busy, json } => probe::main(dir, &path, busy, json),
        CliCommand::Enable(asked) => manage::ask(dir, asked, PhaseRequest::Prefetch),
        CliCommand::Relearn(asked) => manage::ask(dir, asked, PhaseRequest::Learn),
        CliCommand::Disable(asked) => manage::ask(dir, asked, PhaseRequest::Disable),
        CliCommand::Pfsetmode { request, app, user } => {
            let notify = false;
            manage::ask(dir, AppRequest { app, notify, user }, request)
        }
        CliCommand::Mode { mode } => manage::mode(dir, mode),
        CliCommand::Status {
            app: None,
            json,
            verbose,
            ..
        } => status::main(json, verbose),
        CliCommand::Status {
            app: Some(app),
            json,
            user,
            ..
        } => stats::main(dir, WhichUser::of(user).uid(), Some(&app), json),
        CliCommand::Stats { app, json, user } => stats::main(dir, user.uid(), app.as_deref(), json),
        CliCommand::Plot { app, output, user } => {
            plot::main(dir, user.uid(), &app, output.as_deref())
        }
        CliCommand::Watch { notify: true, .. } => notifier::main(),
        CliCommand::Watch { json, .. } => watch::main(json),
        CliCommand::Service {
            config_dir,
            run_dir,
            profiles_dir,
            no_bus,
        } => {
            let places = Places {
                state_dir: cli.state_dir,
                config_dir,
                run_dir,
                profiles_dir,
                sysfs: Sysfs::default(),
                leaves_own_commands: true,
            };
            serve(&places, (!no_bus).then(Address::default)).map_err(Failure::of_service)
        }
        CliCommand::KeepKnobs { limit, run_dir } => {
            keep(&run_dir, Duration::from_secs(limit)).map_err(Failure::from)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&failure.message);
            ExitCode::from(failure.code.unwrap_or(usual))
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

/// A failed command: one line, and an exit status other than the usual one of such a command.
struct Failure {
    message: String,
    code: Option<u8>,
}

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure {
            message: error.to_string(),
            code: None,
        }
    }
}

impl Failure {
    fn of_service(error: Box<dyn Error>) -> Self {
        Failure {
            code: error.is::<CannotWorkHere>().then_some(CANNOT_WORK_HERE),
            ..Failure::from(error)
        }
    }

    /// The command needs the service, which is not there: why.
    fn not_running(why: impl std::fmt::Display) -> Self {
        Failure {
            code: Some(NOT_RUNNING),
            ..Failure::from(why)
        }
    }

    /// A failed start has the exit status that a shell would give it.
    fn not_started(error: SpawnError) -> Self {
        Failure {
            code: Some(error.exit_code() as u8),
            ..Failure::from(error)
        }
    }
}

/// Prints one line on standard error, on a terminal broken between words. The app runs even if that fails.
fn say(message: &str) {
    say_all(&[message.to_owned()], said_columns());
}

/// By whom a line on standard error is: the app that was started writes there, too.
const BY: &str = "paralfetch: ";

/// Columns that a line on standard error has behind that, if they are bounded.
fn said_columns() -> Option<usize> {
    terminal::error_columns().map(|columns| columns.saturating_sub(BY.len()))
}

/// Prints lines on standard error. Those that are longer than so many columns are broken between words.
fn say_all(lines: &[String], columns: Option<usize>) {
    for line in fitted(lines, columns) {
        let _ = writeln!(io::stderr(), "{BY}{line}");
    }
}

fn fitted(lines: &[String], columns: Option<usize>) -> Vec<String> {
    let pieces = lines.iter().flat_map(|line| {
        let indent = line.len() - line.trim_start().len() + 2;
        terminal::wrapped(line, columns, indent)
    });
    pieces.collect()
}

/// Restores the settings that a killed run may have left changed.
fn restore_after_crash() {
    let run_dir = Path::new(RUN_DIR);
    for (dir, who) in [
        (run_dir.to_owned(), "learning run"),
        (run_dir.join(SHIELD_DIR), "launch beside writes"),
        (run_dir.join(ELEVATORS_DIR), "prefetch"),
    ] {
        match restore_leftovers(&dir) {
            Ok(0) => {}
            Ok(count) => {
                say(&format!(
                    "restored {count} settings that a killed {who} had left changed"
                ));
            }
            Err(error) => say(&error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_too_long_are_broken() {
        let lines = ["word ".repeat(20), "  row".to_owned(), String::new()];
        let broken = fitted(&lines, Some(40));
        assert!(broken.iter().all(|line| line.chars().count() <= 40));
        assert!(broken.len() > 4 && broken.ends_with(&lines[1..]));
        assert_eq!(fitted(&lines, None), lines);
    }

    #[test]
    fn called_by_its_name_it_is_pfsetmode() {
        let of = |given: &[&str]| arguments(given.iter().map(OsString::from));
        let expected = ["paralfetch", "pfsetmode", "9", "/a"];
        assert_eq!(of(&["/usr/sbin/pfsetmode", "9", "/a"]), expected);
        assert_eq!(of(&["./paralfetch", "pfsetmode", "9", "/a"]), expected);
        assert_eq!(of(&[]), ["paralfetch"]);
    }
}
