//! `learn`: one watched launch.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::args::{Learn, Learning, ScheduleArgs};
use super::show::app_name;
use super::{Failure, say};
use crate::apps::{CommandApp, LAUNCHERS_DIR, Rules, identify_command};
use crate::cli::format::{mib, text_of};
use crate::drive::{DriveBelow, Sysfs};
use crate::fs::blockdev;
use crate::fs::mounts::MountTable;
use crate::kernel::check;
use crate::learn::{
    LearnError, LearnOptions, LearnSummary, LearnedProfile, RUN_DIR, keeper_command, knobs_limit,
    launch_sequence, learn,
};
use crate::model::{App, DriveClass, Ended, GivenParams, LaunchLimits, Learned, Profile};
use crate::process::{AppStatus, Command, Spawn, Supervisor, User};
use crate::profile::Store;

/// The longest launch that is learned exactly from a disk with heads: Chromium's reads 30,000 pages.
const LONGEST_ON_DISK: Duration = Duration::from_secs(300);

/// Learns one launch, keeps the profile, and ends as the app ends.
pub fn main(state_dir: &Path, args: Learn) -> Result<(), Failure> {
    super::restore_after_crash();
    let user = User::invoking();
    let command = Command::find_for(&args.launch.cmd, args.launch.root.as_deref(), user.as_ref())
        .map_err(Failure::not_started)?;
    let app = identify(&command, user.as_ref());
    check()?;
    let mut supervisor = Supervisor::new()?;
    // Before the caches are dropped: an unwritable directory would make the learning run useless.
    let store = Store::create(state_dir)?;
    let spawn = Spawn {
        user,
        ..Spawn::new(command)
    };
    let mut options = LearnOptions {
        state_dir: Some(state_dir.to_owned()),
        given: given(&args.schedule),
        ..options(&args.how, args.live, app.app.clone(), &spawn.command)
    };
    match store.load_latest_sequence(app.app.key()) {
        Ok(earlier) => options.earlier = earlier,
        // This learning run replaces it.
        Err(error) => say(&format!("nothing is known of earlier launches: {error}")),
    }
    say_limit(options.limits.timeout);
    let learned = learn(spawn, options, &mut supervisor).map_err(from_learn)?;
    match learned.profile {
        Ok(LearnedProfile {
            profile,
            log,
            summary,
            ..
        }) => match store
            .save_sequence(&launch_sequence(&profile, &log))
            .and_then(|()| store.save(&profile))
        {
            Ok(_) => {
                if !app.distinct {
                    say(&format!(
                        "the arguments of {} do not tell which app it starts: `run` uses this profile, the \
                         service does not",
                        app_name(&app.app)
                    ));
                }
                super::service::tell_of_profiles(state_dir);
                match &args.json {
                    Some(file) => write_json(file.as_deref(), &profile, &summary),
                    None => {
                        report(&profile, &summary, args.verbose);
                        if let Some(more) = still_runs(learned.exit.is_some(), profile.ended) {
                            say(more);
                        }
                    }
                }
                if let Some(AppStatus::Code(code @ 1..)) = learned.exit.map(|exit| exit.status) {
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
        None => supervisor.wait()?,
    };
    exit.finish()
}

/// The app that a command starts for this user, by the rules that the service goes by. Says what is wrong with the
/// administrator's rules.
pub fn identify(command: &Command, user: Option<&User>) -> CommandApp {
    let (rules, warnings) = Rules::load(Path::new(LAUNCHERS_DIR));
    warnings.iter().for_each(|warning| say(warning));
    identify_command(&rules, command, User::uid_of(user))
}

fn given(schedule: &ScheduleArgs) -> GivenParams {
    GivenParams {
        shift_bytes: schedule.shift.map(|kib| kib << 10),
        merge_distance: schedule.distance,
        hole_pages: schedule.hole,
    }
}

/// How `learn` and `bench` learn an app that this command starts.
pub fn options(how: &Learning, live: bool, app: App, command: &Command) -> LearnOptions {
    let learned = match (live, how.as_read) {
        (true, _) => Learned::Live,
        (false, true) => Learned::AsRead,
        (false, false) => Learned::Exact,
    };
    let timeout = how.timeout.unwrap_or_else(|| longest(learned, command));
    LearnOptions {
        app,
        how: learned,
        limits: LaunchLimits {
            timeout,
            ..LaunchLimits::default()
        }
        .for_lesson(),
        keeper: keeper_command(Path::new(RUN_DIR), knobs_limit(timeout)),
        earlier: None,
        given: GivenParams::default(),
        state_dir: None,
        tell: say,
    }
}

/// The longest time that a launch may take while it is learned. Without readahead, a disk with heads needs ten
/// milliseconds for each page. A claim to rotate is believed here of virtual drives, too: a disk may be below one, and
/// nothing but time is lost where none is.
fn longest(learned: Learned, command: &Command) -> Duration {
    let mounts = MountTable::read();
    let file = fs::metadata(command.file()).ok().zip(mounts.ok());
    let dev = file.map(|(file, mounts)| blockdev::below(file.dev(), &mounts));
    let sysfs = Sysfs::default();
    let rotates = |drive: DriveBelow| sysfs.claim(drive.dev).class == DriveClass::Rotational;
    let is_slow =
        |dev: &u64| learned == Learned::Exact && sysfs.drives_below(*dev).into_iter().any(rotates);
    match dev.filter(is_slow) {
        Some(_) => LONGEST_ON_DISK,
        None => LaunchLimits::default().timeout,
    }
}

/// As [`Failure::not_started`], if that is why the launch was not learned.
pub fn from_learn(error: LearnError) -> Failure {
    match error {
        LearnError::Spawn(error) => Failure::not_started(error),
        error => error.into(),
    }
}

/// Writes the learning run's result as one line of JSON, to a file or to standard error. The app goes on
/// if that fails.
fn write_json(file: Option<&Path>, profile: &Profile, summary: &LearnSummary) {
    let line = format!("{}\n", json(profile, summary));
    let Some(path) = file else {
        let _ = io::stderr().write_all(line.as_bytes());
        return;
    };
    if let Err(error) = fs::write(path, line) {
        say(&format!("cannot write {}: {error}", path.display()));
    }
}

/// A learning run's result.
fn json(profile: &Profile, summary: &LearnSummary) -> Value {
    let pages: u64 = profile.entries.iter().map(|entry| entry.span.len).sum();
    json!({
        // The app's path, or `launcher:name`.
        "app": text_of(&profile.app.path),
        // The directory that it is chrooted into, or null.
        "root": profile.app.root.as_deref().map(text_of),
        // How: `Learned`.
        "learned": profile.learned,
        // What ended the launch: `Ended`.
        "ended": profile.ended,
        // Reads of the launch sequence.
        "log_entries": profile.log_entries,
        // Prefetch entries.
        "entries": profile.entries.len(),
        // What they read, in pages of 4 KiB.
        "pages": pages,
        // Files of which they read data.
        "files": profile.scheduled_files(),
        // From execve to the end of the launch, in seconds.
        "duration_s": summary.duration.as_secs_f64(),
        // What the launch required, as the paper's Table 1 counts it: `Requirements`.
        "required": summary.required,
        // What the launch sequence was made from, and what was left out: `ResolveReport`.
        "resolved": summary.resolved,
        // Time for finding missing metadata and places on the disk, in seconds.
        "resolving_s": summary.resolving.as_secs_f64(),
        // Time for the schedule, in seconds.
        "scheduling_s": summary.scheduling.as_secs_f64(),
        // How uses of cached pages were traced: `Hooks`.
        "hooks": profile.hooks,
        // Whether a fault on a cached page tells the page that was touched; otherwise one of 16 around it.
        "exact_faults": summary.exact_faults,
        // Look-ups of paths that could not be recorded.
        "lost_paths": summary.lost_paths,
    })
}

/// Says on a terminal how long learning may take. The terminal is the app's until it ends: there is no place for a line that
/// moves.
pub fn say_limit(timeout: Duration) {
    if io::stderr().is_terminal() {
        say(&format!(
            "recording until the app exits or its disk falls quiet, {} s at most",
            timeout.as_secs_f64().ceil()
        ));
    }
}

/// Says what was learned, and in the end what that is good for.
pub fn report(profile: &Profile, summary: &LearnSummary, is_verbose: bool) {
    if is_verbose {
        report_how(profile, summary);
    }
    // What other programs had in memory was not seen: the profile lacks it.
    for loss in profile.hooks.losses() {
        say(&loss);
    }
    if summary.lost_paths > 0 {
        say(&format!(
            "{} look-ups of paths could not be recorded: what they need may be missing",
            summary.lost_paths
        ));
    }
    let pages: u64 = profile.entries.iter().map(|entry| entry.span.len).sum();
    say(&format!(
        "learned {} in {:.3} s: its launch reads {} of {} files. Start it by `paralfetch run`, or by the service, and \
         they are read ahead",
        app_name(&profile.app),
        summary.duration.as_secs_f64(),
        mib(pages * crate::model::PAGE_SIZE),
        profile.scheduled_files(),
    ));
}

/// What is to be said of a launch that was not recorded until the app's exit.
fn still_runs(has_exited: bool, ended: Ended) -> Option<&'static str> {
    match (has_exited, ended) {
        (true, _) | (false, Ended::Exit) => None,
        (false, Ended::Quiet) => Some(
            "its disk fell quiet, and the app runs on: what it reads from now on was not recorded. The service learns that of \
             later launches, if the app is managed",
        ),
        (false, Ended::Timeout) => Some(
            "time was up, and the app runs on: what it reads from now on was not recorded. --timeout allows more",
        ),
    }
}

/// How it was recorded and scheduled.
fn report_how(profile: &Profile, summary: &LearnSummary) {
    let resolved = &summary.resolved;
    say(&format!(
        "{} log entries, {} prefetch entries; {} missing metadata blocks found",
        profile.log_entries,
        profile.entries.len(),
        resolved.missing_metadata,
    ));
    for line in summary.required.lines() {
        say(&line);
    }
    say(&format!(
        "resolved in {:.1} ms, scheduled in {:.1} ms; events lost: 0",
        summary.resolving.as_secs_f64() * 1e3,
        summary.scheduling.as_secs_f64() * 1e3,
    ));
    for line in resolved.lines() {
        say(&line);
    }
    if resolved.window_pages > 0 && !summary.exact_faults {
        say(
            "of the pages that were cached, some were mapped along with others of the 16 around them and \
             need not have been touched (this kernel's lockdown refuses fault_around_bytes, or debugfs is \
             not mounted)",
        );
    }
    say(&format!(
        "cached pages that were used: reads {}, page faults {}",
        profile.hooks.reads, profile.hooks.faults
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_that_runs_on_is_said_to_read_what_was_not_recorded() {
        assert_eq!(still_runs(true, Ended::Exit), None);
        // It exited after the quiet, while its profile was made.
        assert_eq!(still_runs(true, Ended::Quiet), None);
        for (ended, part) in [
            (Ended::Quiet, "fell quiet"),
            (Ended::Timeout, "--timeout allows more"),
        ] {
            let more = still_runs(false, ended).unwrap();
            assert!(more.contains(part) && more.contains("runs on"), "{more}");
        }
    }
}
