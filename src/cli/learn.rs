//! `learn`: one watched launch.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process;
use std::time::Duration;

use super::args::{Learn, Learning};
use super::show::app_name;
use super::words::mib;
use super::{Failure, say};
use crate::launch::{Command, Limits, Spawn, SpawnError, Status, Supervisor, User};
use crate::manager::{LearnError, LearnOptions, Lesson, Summary, learn};
use crate::profile::{Profile, Store};
use crate::trace::check;

/// Learns one launch, keeps the profile, and ends as the app ends.
pub fn main(state_dir: &Path, args: Learn) -> Result<(), Failure> {
    let user = User::invoking();
    let command = Command::find_for(&args.launch.cmd, args.launch.root.as_deref(), user.as_ref())
        .map_err(|error| Failure::with_code(&error, error.exit_code() as u8))?;
    check().map_err(Failure::own)?;
    let mut supervisor = Supervisor::new().map_err(Failure::own)?;
    // Better to know before the caches are dropped that the profile cannot be kept.
    let store = Store::create(state_dir).map_err(Failure::own)?;
    let spawn = Spawn {
        user,
        ..Spawn::new(command)
    };
    let learned = learn(spawn, options(&args.how), &mut supervisor).map_err(from_learn)?;
    match learned.lesson {
        Ok(Lesson {
            profile, summary, ..
        }) => match store.save(&profile) {
            Ok(_) => {
                report(&profile, &summary);
                if let Some(Status::Code(code @ 1..)) = learned.exit.map(|exit| exit.status) {
                    say(&format!(
                        "the app ended with status {code}: if its launch failed, learn again"
                    ));
                }
            }
            Err(error) => say(&error.to_string()),
        },
        Err(why) => say(&why.to_string()),
    }
    let exit = match learned.exit {
        Some(exit) => exit,
        None => supervisor.wait().map_err(Failure::own)?,
    };
    exit.finish()
}

/// How `learn` and `bench` learn.
pub fn options(how: &Learning) -> LearnOptions {
    LearnOptions {
        exact: !how.as_read,
        limits: Limits {
            timeout: how.timeout,
            ..Limits::default()
        },
        keeper: keeper(how.timeout),
    }
}

/// A failed start has the exit status that a shell would give it.
pub fn from_learn(error: LearnError) -> Failure {
    match &error {
        LearnError::Spawn(spawn) => Failure::with_code(&error, spawn_code(spawn)),
        _ => Failure::own(error),
    }
}

fn spawn_code(error: &SpawnError) -> u8 {
    u8::try_from(error.exit_code()).unwrap_or(super::OWN_FAILURE)
}

/// Time beyond the launch's own limit that a learning run may take: dropping the caches above all.
const KEEPER_MARGIN: Duration = Duration::from_secs(60);

/// This program again, as the process that restores knobs when this one is killed. In a process group
/// of its own, so that Ctrl-C does not reach it.
fn keeper(timeout: Duration) -> Option<process::Command> {
    let mut command = process::Command::new(std::env::current_exe().ok()?);
    command
        .arg("keep-knobs")
        .arg((timeout + KEEPER_MARGIN).as_secs().to_string())
        .stdout(process::Stdio::null())
        .stderr(process::Stdio::null());
    command.process_group(0);
    Some(command)
}

/// What was learned, in a few lines.
pub fn report(profile: &Profile, summary: &Summary) {
    let resolved = &summary.resolved;
    let pages: u64 = profile.entries.iter().map(|entry| entry.span.len).sum();
    say(&format!(
        "learned {} in {:.3} s: {} log entries, {} prefetch entries, {} in {} files; \
         {} missing metadata blocks found",
        app_name(&profile.app),
        summary.duration.as_secs_f64(),
        profile.log_entries,
        profile.entries.len(),
        mib(pages * crate::schedule::PAGE_SIZE),
        profile.files.len(),
        resolved.missing_metadata,
    ));
    say(&format!(
        "resolved in {:.1} ms, scheduled in {:.1} ms; events lost: 0",
        summary.resolving.as_secs_f64() * 1e3,
        summary.scheduling.as_secs_f64() * 1e3,
    ));
    for line in resolved.lines() {
        say(&line);
    }
    say(&format!(
        "cached pages that were used: reads {}, page faults {}",
        profile.hooks.reads, profile.hooks.faults
    ));
    for loss in profile.hooks.losses() {
        say(&loss);
    }
}
