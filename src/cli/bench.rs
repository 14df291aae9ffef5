//! `bench`: cold, prefetched and warm launches in turns.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use super::args;
use super::learn::{from_learn, identify, options, report, say_limit};
use super::profiles::write_out;
use super::progress::Progress;
use super::show::list_line;
use super::{Failure, output_file, say};
use crate::bench::{
    AppLauncher, BenchError, LaunchEnd, MeasuredLaunch, Results, Scenario, json, markdown, render,
    verdict,
};
use crate::drive::Sysfs;
use crate::fs::blockdev;
use crate::fs::mounts::MountTable;
use crate::kernel::{Meter, check};
use crate::learn::{LearnedProfile, learn};
use crate::model::{Ended, LaunchLimits, Learned};
use crate::prefetch::raise_open_files;
use crate::process::{Command, Subreaper, Supervisor};
use crate::profile::Store;

/// Measures, prints, and exports what was found.
pub fn main(state_dir: &Path, args: args::Bench) -> Result<(), Failure> {
    super::restore_after_crash();
    let command = Command::find(&args.launch.cmd, args.launch.root.as_deref())
        .map_err(Failure::not_started)?;
    let app = identify(&command, None);
    check()?;
    let to_json = export_file(args.export_json.as_deref())?;
    let to_markdown = export_file(args.export_markdown.as_deref())?;
    let mut supervisor = Supervisor::new()?;
    let subreaper = Subreaper::new()?;
    let store = Store::create(state_dir)?;
    let usual = LaunchLimits::default();
    let limits = LaunchLimits {
        timeout: args.how.timeout.unwrap_or(usual.timeout),
        ..usual
    };
    let mut launcher = AppLauncher {
        command: &command,
        app: &app.app,
        store: &store,
        end: args.until,
        limits,
        meter: Meter::load()?,
        supervisor: &mut supervisor,
        subreaper: &subreaper,
        open_files: raise_open_files(),
        shows_output: args.verbose,
        usual_status: None,
        tell: say,
    };
    let tell_how = |line: &str| {
        if args.verbose {
            say(line);
        }
    };

    // The first launch of an app often sets it up and differs from all later ones.
    tell_how(&format!("warming up: {}", shown(&args).join(" ")));
    launcher.warm_up().map_err(failure)?;
    if args.scenarios.contains(&Scenario::Prefetch) || args.until == LaunchEnd::Quiet {
        match store.load(app.app.key())? {
            Some(profile) if args.how.as_read && profile.learned == Learned::Exact => {
                say("learning one launch as read, since the profile is of an exact one");
                learn_first(&mut launcher, &args, &store)?;
            }
            // Its last read may have been made on the way out, which is not waited for.
            Some(profile) if args.until == LaunchEnd::Quiet && profile.ended == Ended::Exit => {
                say(
                    "learning one launch until it falls quiet, since the profile is of one until its exit",
                );
                learn_first(&mut launcher, &args, &store)?;
            }
            Some(profile) => tell_how(&format!("using the profile {}", list_line(&profile, ""))),
            None => {
                say("learning one launch, since there is no profile yet");
                learn_first(&mut launcher, &args, &store)?;
            }
        }
    }

    let mounts = MountTable::read()?;
    let mut results = Results {
        command: shown(&args),
        until: args.until,
        readahead_kib: Sysfs::default().read_ahead_kib(blockdev::below(app.app.dev, &mounts)),
        ..Results::default()
    };
    let runs = usize::from(args.runs);
    let mut progress = Progress::new();
    progress.show("the first launch", 0.0);
    let tell = |launch: MeasuredLaunch| {
        let (done, of) = (launch.done, launch.of);
        let name = launch.scenario.name();
        let line = format!("launch {done} of {of}: {name} {:.3} s", launch.seconds);
        progress.show(&line, done as f64 / of as f64);
    };
    let measured = launcher.measure(&args.scenarios, runs, &mut results, tell);
    drop(progress);
    measured.map_err(failure)?;
    let table = format!("{}\n{}\n", render(&results), verdict(&results));
    let as_json = format!("{:#}\n", json(&results));
    write_out(match args.json {
        true => &as_json,
        false => &table,
    })?;
    for (export, text) in [(to_json, as_json), (to_markdown, markdown(&results))] {
        export.map_or(Ok(()), |export| export.write(&text))?;
    }
    Ok(())
}

/// A file that results are written to.
struct ExportFile<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> ExportFile<'a> {
    /// Creates it, before the benchmark: that takes long, and the path may be wrong.
    fn create(path: &'a Path) -> Result<Self, Failure> {
        let file = output_file::create(path).map_err(|error| cannot_write(path, &error))?;
        Ok(ExportFile { path, file })
    }

    fn write(mut self, text: &str) -> Result<(), Failure> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| cannot_write(self.path, &error))
    }
}

fn export_file(path: Option<&Path>) -> Result<Option<ExportFile<'_>>, Failure> {
    path.map(ExportFile::create).transpose()
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::from(format!("cannot write {}: {error}", path.display()))
}

fn learn_first(
    launcher: &mut AppLauncher<'_>,
    args: &args::Bench,
    store: &Store,
) -> Result<(), Failure> {
    let options = options(&args.how, false, launcher.app.clone(), launcher.command);
    say_limit(options.limits.timeout);
    let learned = learn(launcher.spawn(), options, launcher.supervisor);
    let leader = learned.as_ref().ok().map(|learned| learned.started.pid);
    launcher.end_tree(leader)?;
    if let Some(signal) = launcher.supervisor.asked_to_end() {
        return Err(failure(BenchError::Interrupted(signal)));
    }
    let learned = learned.map_err(from_learn)?;
    let LearnedProfile {
        profile, summary, ..
    } = learned.profile?;
    store.save(&profile)?;
    if args.verbose {
        report(&profile, &summary, true);
    }
    Ok(())
}

fn shown(args: &args::Bench) -> Vec<String> {
    args.launch
        .cmd
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// An interrupted benchmark has the exit status that shells give for the signal.
fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Interrupted(signal) => Failure {
            message: format!("interrupted by signal {signal}"),
            code: Some(128 + signal as u8),
        },
        BenchError::Failed(why) => why.into(),
    }
}
