//! `run`: the app, with its profile read ahead.

use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use std::{io, thread};

use super::args::RunArgs;
use super::learn::identify;
use super::profiles::seed_places;
use super::report::{ReportFile, ReportVerdict, judge, print, write};
use super::shielded::ShieldedRun;
use super::show::app_name;
use super::{Failure, say, writes};
use crate::apps::CommandApp;
use crate::cli::format::mib;
use crate::judge::{Recorder, Recording};
use crate::learn::own_elevators;
use crate::model::{App, Ended, LaunchLimits, PrefetchReport, Profile};
use crate::prefetch::{Prefetch, PrefetchOptions, raise_open_files};
use crate::process::{Command, Exit, Spawn, Supervisor, User};
use crate::profile::Store;
use crate::service::control::ShieldingState;

/// How long a prefetch may go on after the started process has exited, since its children may go on with
/// the launch.
const LAUNCH_GOES_ON: Duration = Duration::from_secs(10);

/// How long to wait for the judgement when the app has ended. It takes some milliseconds, if the
/// drive answers.
const JUDGING: Duration = Duration::from_secs(20);

/// Starts the app, prefetched if there is a profile, and ends as it ends. The app is started whatever
/// fails in this program.
pub fn main(state_dir: &Path, args: RunArgs) -> Result<(), Failure> {
    let user = User::invoking();
    let command = Command::find_for(&args.launch.cmd, args.launch.root.as_deref(), user.as_ref())
        .map_err(Failure::not_started)?;
    let app = identify(&command, user.as_ref());
    let command_app = app.app.clone();
    let mut supervisor = Supervisor::new()?;
    let open_files = raise_open_files();
    // Before the prefetch thread is started, so that the recorder can tell its reads from the app's.
    let reporter = args.report.as_ref().and_then(|file| {
        prepare_report(file.as_deref())
            .inspect_err(|why| say(&format!("{why}; there will be no report")))
            .ok()
    });
    let running = PrefetchedApp::start(state_dir, &app)
        .inspect_err(|why| say_unprefetched(why))
        .ok();
    // Without a prefetch every read is a miss, and the report would say nothing.
    let reporter = reporter.filter(|_| running.is_some());
    let mut spawn = Spawn {
        user,
        open_files: Some(open_files),
        ..Spawn::new(command)
    };
    if let Some((recorder, _)) = &reporter {
        let mark = recorder.start_mark();
        spawn.before_exec = Some(Box::new(move || mark.set()));
    }
    let started = SystemTime::now();
    supervisor.start(spawn).map_err(Failure::not_started)?;
    // After the prefetch and the app have been started, so that they do not wait for it.
    super::restore_after_crash();
    let shielded = match args.no_shield {
        true => None,
        false => ShieldedRun::start(&command_app),
    };
    let Some((app, prefetch)) = running else {
        let exit = supervisor.wait()?;
        end_shield(shielded, args.verbose);
        exit.finish();
    };
    let (exit, report, verdict) = match reporter {
        None => (supervisor.wait()?, app.end_prefetch(prefetch), None),
        Some((recorder, file)) => {
            let (exit, (report, verdict)) =
                app.record(recorder, prefetch, &mut supervisor, started)?;
            (exit, report, Some((verdict, file)))
        }
    };
    end_shield(shielded, args.verbose);
    app.tell(report.as_ref(), &exit, args.verbose);
    match verdict {
        Some((Ok(verdict), Some(file))) => write(&verdict, file),
        Some((Ok(verdict), None)) => print(&verdict),
        Some((Err(why), _)) => say(&format!("{why}; there is no report")),
        None => {}
    }
    exit.finish()
}

/// Restores what was changed for the launch, and says what that was if `verbose`.
fn end_shield(shielded: Option<ShieldedRun>, verbose: bool) {
    let all = shielded.map_or_else(Vec::new, ShieldedRun::end);
    if verbose {
        for shielding in all {
            say(writes::line("", &ShieldingState::from(shielding)).trim_start());
        }
    }
}

/// Makes ready what `--report` needs before the launch, the file too: an unwritable one is known early.
fn prepare_report(file: Option<&Path>) -> Result<(Recorder, Option<ReportFile>), String> {
    let recorder = Recorder::attach(LaunchLimits::default()).map_err(|error| error.to_string())?;
    Ok((recorder, file.map(ReportFile::create).transpose()?))
}

/// The report of the prefetch, and the misses or why there are none to list. Both lack if the drive does not
/// answer.
type Judged = (Option<PrefetchReport>, Result<ReportVerdict, String>);

/// The app whose launch is prefetched, and its profile.
#[derive(Clone)]
struct PrefetchedApp {
    store: Store,
    app: App,
    /// Set once the profile is loaded.
    loaded: Arc<OnceLock<LoadedProfile>>,
}

/// The part of a profile that is needed when the app has ended.
struct LoadedProfile {
    /// When it was learned, in seconds since the epoch.
    created: u64,
    /// How the learned launch ended.
    ended: Ended,
    /// Stale files that the user has been warned about.
    known_obsolete: u32,
}

impl PrefetchedApp {
    /// Starts the prefetch thread, which loads the profile. If there is none, the thread says so.
    fn start(state_dir: &Path, command: &CommandApp) -> Result<(Self, Prefetch), String> {
        if !rustix::process::geteuid().is_root() {
            return Err("prefetching needs root".to_owned());
        }
        let missing = format!(
            "no profile of {} in {} (`paralfetch learn` makes one)",
            app_name(&command.app),
            state_dir.display()
        );
        let store = match Store::open(state_dir) {
            Ok(store) => store,
            // Nothing was ever learned.
            Err(_) if !state_dir.exists() => return Err(missing),
            Err(error) => return Err(error.to_string()),
        };
        let app = PrefetchedApp {
            store,
            app: command.app.clone(),
            loaded: Arc::default(),
        };
        let (loader, by_path) = (app.clone(), command.by_path.clone());
        let load = move || {
            loader
                .load(by_path.as_ref(), missing)
                .inspect_err(|why| say_unprefetched(why))
                .ok()
        };
        let options = PrefetchOptions {
            elevators: own_elevators(),
            ..PrefetchOptions::default()
        };
        let prefetch = Prefetch::start(load, options)
            .map_err(|error| format!("cannot start the prefetch thread: {error}"))?;
        Ok((app, prefetch))
    }

    /// Loads the profile. `by_path` is the app that the command was taken for before launchers were told
    /// from their apps; `missing` is the error if neither has a profile.
    fn load(&self, by_path: Option<&App>, missing: String) -> Result<Profile, String> {
        let found = self.store.load(self.app.key());
        let found = found.map_err(|error| error.to_string())?;
        let imported = || seed_places(self.store.dir()).profile(self.app.key());
        let Some(profile) = found.or_else(imported) else {
            let is_stored = |old: &&App| matches!(self.store.load(old.key()), Ok(Some(_)));
            return Err(by_path.filter(is_stored).map_or(missing, |old| {
                format!(
                    "no profile of {}, and that of {} is for whatever it starts: learn the app again with \
                     `paralfetch learn`",
                    app_name(&self.app),
                    app_name(old)
                )
            }));
        };
        self.loaded.get_or_init(|| LoadedProfile {
            created: profile.created,
            ended: profile.ended,
            known_obsolete: profile.obsolete,
        });
        Ok(profile)
    }

    /// Ends the prefetch, or lets it go on if the launch does, and returns its report.
    fn end_prefetch(&self, prefetch: Prefetch) -> Option<PrefetchReport> {
        // A launcher that exits at once leaves the launch to its children.
        match self.loaded.get().map(|loaded| loaded.ended) {
            Some(Ended::Quiet | Ended::Timeout) => prefetch.finish_within(LAUNCH_GOES_ON),
            Some(Ended::Exit) | None => prefetch.finish(),
        }
    }

    /// Records the launch for `--report`, and judges it.
    fn record(
        &self,
        recorder: Recorder,
        prefetch: Prefetch,
        supervisor: &mut Supervisor,
        started: SystemTime,
    ) -> Result<(Exit, Judged), Failure> {
        let learned = || self.loaded.get().map(|loaded| loaded.ended);
        let (exit, recorded) = recorder.follow(supervisor, learned, LAUNCH_GOES_ON)?;
        let judging = recorded
            .map_err(|error| error.to_string())
            .and_then(|recording| self.judge(prefetch, recording, started));
        let exit = match exit {
            Some(exit) => exit,
            None => supervisor.wait()?,
        };
        let judged = judging.and_then(|judging| {
            let too_late = |_| "the launch could not be judged in time".to_owned();
            judging.recv_timeout(JUDGING).map_err(too_late)
        });
        Ok((exit, judged.unwrap_or_else(|why| (None, Err(why)))))
    }

    /// Judges the launch in a thread of its own: the app is still running, and its signals are to be passed
    /// on.
    fn judge(
        &self,
        prefetch: Prefetch,
        recording: Recording,
        started: SystemTime,
    ) -> Result<Receiver<Judged>, String> {
        let (send, judged) = sync_channel(1);
        let app = self.clone();
        let judging = move || {
            let report = app.end_prefetch(prefetch);
            let verdict = match &report {
                Some(report) => app
                    .load_again()
                    .and_then(|profile| judge(&recording, started, &profile, report)),
                None => Err("nothing was prefetched".to_owned()),
            };
            // The receiver may have given up.
            let _ = send.send((report, verdict));
        };
        // Not joined: nobody should wait for a thread that a drive holds.
        thread::Builder::new()
            .name("pf-report".to_owned())
            .spawn(judging)
            .map_err(|error: io::Error| format!("cannot start a thread: {error}"))?;
        Ok(judged)
    }

    /// Reads the prefetched profile again: keeping it would cost memory in every launch.
    fn load_again(&self) -> Result<Profile, String> {
        let created = self.loaded.get().map(|loaded| loaded.created);
        let found = self.store.load(self.app.key());
        found
            .map_err(|error| error.to_string())?
            .filter(|profile| Some(profile.created) == created)
            .ok_or_else(|| "the profile was replaced or removed meanwhile".to_owned())
    }

    /// Reports a prefetch: all of it if `verbose`, else only new problems.
    fn tell(&self, report: Option<&PrefetchReport>, exit: &Exit, verbose: bool) {
        let (Some(report), Some(loaded)) = (report, self.loaded.get()) else {
            return;
        };
        if verbose {
            print_report(report, exit);
        }
        if let Some(why) = &report.refused {
            say(&format!("{why}; nothing was prefetched"));
        }
        let stale = u32::try_from(report.stale_files).unwrap_or(u32::MAX);
        let is_news = stale > loaded.known_obsolete;
        if let Some(warning) = report.warning(is_news || verbose) {
            say(&warning);
        }
        if is_news {
            // An app may replace files at each launch. One warning is enough.
            let noted = self
                .store
                .note_obsolete(self.app.key(), loaded.created, stale);
            if let Err(error) = noted {
                say(&error.to_string());
            }
        }
    }
}

fn say_unprefetched(why: &str) {
    say(&format!("{why}; started without prefetching"));
}

fn print_report(report: &PrefetchReport, exit: &Exit) {
    if report.warm {
        say("everything sampled of the schedule was cached: nothing was prefetched");
    } else {
        say(&format!(
            "prefetched {} of {} entries: {} of metadata, {} of data, in {} calls and {:.1} ms, \
             the first after {:.1} ms{}",
            report.metadata.entries + report.data.entries,
            report.scheduled,
            mib(report.metadata.bytes()),
            mib(report.data.bytes()),
            report.calls,
            report.duration.as_secs_f64() * 1e3,
            report.until_first.unwrap_or_default().as_secs_f64() * 1e3,
            if report.cut_short {
                "; the app ended before that"
            } else {
                ""
            }
        ));
    }
    if report.operations > 0 {
        say(&format!("looked {} paths up ahead", report.operations));
    }
    let skipped = report.skipped.iter();
    let skipped: Vec<String> = skipped
        .map(|(reason, count)| format!("{} ({reason})", count.entries))
        .collect();
    let skipped = match &*skipped {
        [] => "none".to_owned(),
        _ => skipped.join(", "),
    };
    say(&format!(
        "skipped: {skipped}; files stale: {}, written to since: {}",
        report.stale_files, report.changed_files
    ));
    say(&format!(
        "missed: the app itself read {} and waited for {} page faults",
        mib(exit.usage.sectors_read * 512),
        exit.usage.major_faults
    ));
}
