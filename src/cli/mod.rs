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
mod failure;
pub mod format;
mod help;
mod import;
mod learn;
mod leftovers;
mod log_thread;
mod manage;
mod messages;
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

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches;

use crate::drive::{Sysfs, keep};
use crate::policy::PhaseRequest;
use crate::service::Places;
use crate::service::control::bus::Address;
use args::{AppRequest, Cli, CliCommand, WhichUser};
use failure::{FAILED, Failure, OWN_FAILURE};
use leftovers::restore_after_crash;
use messages::{said_columns, say, say_all};

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
        } => match all {
            Some(all) => export::all(dir, user.uid(), &all),
            // Without the other, the app is required.
            None => export::one(dir, user.uid(), &app.unwrap_or_default(), output.as_deref()),
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
