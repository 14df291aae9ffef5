//! `run`: the app, with its profile read ahead.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use super::args::RunArgs;
use super::learn::identify;
use super::report::{self, Case, Judging, Target};
use super::show::app_name;
use super::{Failure, say};
use crate::apps::CommandApp;
use crate::cli::format::mib;
use crate::judge::Recorder;
use crate::model::LaunchLimits;
use crate::model::PrefetchReport;
use crate::model::{App, Ended, Profile};
use crate::prefetch::{Prefetch, PrefetchOptions, raise_open_files};
use crate::process::{Command, Exit, Spawn, Supervisor, User};
use crate::profile::Store;

/// Starts the app, prefetched if there is a profile, and ends as it ends. The app is started whatever
/// fails in this program.
pub fn main(state_dir: &Path, args: RunArgs) -> Result<(), Failure> {
    let user = User::invoking();
    let command = Command::find_for(&args.launch.cmd, args.launch.root.as_deref(), user.as_ref())
        .map_err(Failure::not_started)?;
    let app = identify(&command);
    let mut supervisor = Supervisor::new()?;
    let open_files = raise_open_files();
    // Before the prefetch thread is started, so that the recorder can tell its reads from the app's.
    let reporter = args.report.as_ref().and_then(|file| {
        Reporter::start(file.as_deref())
            .inspect_err(|why| say(&format!("{why}; there will be no report")))
            .ok()
    });
    let running = match Running::start(state_dir, &app) {
        Ok(running) => Some(running),
        Err(why) => {
            say_unprefetched(&why);
            None
        }
    };
    // Without a prefetch every read is a miss, and the report would say nothing.
    let reporter = reporter.filter(|_| running.is_some());
    let mut spawn = Spawn {
        user,
        open_files: Some(open_files),
        ..Spawn::new(command)
    };
    if let Some(reporter) = &reporter {
        let mark = reporter.recorder.start_mark();
        spawn.before_exec = Some(Box::new(move || mark.set()));
    }
    let started = SystemTime::now();
    supervisor.start(spawn).map_err(Failure::not_started)?;
    // After the prefetch and the app have been started, so that they do not wait for it.
    super::restore_after_crash();
    let exit = match (running, reporter) {
        (Some(running), Some(reporter)) => {
            reporter.supervise(&mut supervisor, running, started, args.verbose)?
        }
        (running, _) => {
            let exit = supervisor.wait()?;
            if let Some(Running { prefetch, app }) = running {
                let outcome = app.outcome(prefetch);
                app.tell(outcome.as_ref(), &exit, args.verbose);
            }
            exit
        }
    };
    exit.finish()
}

/// Records a launch for `--report`.
struct Reporter {
    recorder: Recorder,
    target: Target,
}

impl Reporter {
    fn start(file: Option<&Path>) -> Result<Self, String> {
        let recorder =
            Recorder::attach(LaunchLimits::default()).map_err(|error| error.to_string())?;
        let target = Target::open(file)?;
        Ok(Reporter { recorder, target })
    }

    /// Supervises the app to its end, and reports.
    fn supervise(
        self,
        supervisor: &mut Supervisor,
        running: Running,
        started: SystemTime,
        verbose: bool,
    ) -> Result<Exit, Failure> {
        let Running { prefetch, app } = running;
        let learned = || app.loaded.get().map(|loaded| loaded.ended);
        let (exit, recorded) = self.recorder.follow(supervisor, learned, LAUNCH_GOES_ON)?;
        let judging = match recorded {
            Ok(recording) => {
                let (first, second) = (app.clone(), app.clone());
                Judging::start(Case {
                    started,
                    recording,
                    outcome: Box::new(move || first.outcome(prefetch)),
                    profile: Box::new(move || second.profile()),
                })
                .map_err(|error| format!("cannot start a thread: {error}"))
            }
            Err(error) => Err(error.to_string()),
        };
        let exit = match exit {
            Some(exit) => exit,
            None => supervisor.wait()?,
        };
        let (outcome, verdict) = match judging {
            Ok(judging) => judging.finish(),
            Err(why) => (None, Err(why)),
        };
        app.tell(outcome.as_ref(), &exit, verbose);
        report::write(self.target, verdict);
        Ok(exit)
    }
}

/// How long a prefetch may go on after the started process has exited, since its children may go on with
/// the launch.
const LAUNCH_GOES_ON: Duration = Duration::from_secs(10);

/// A prefetch under way.
struct Running {
    prefetch: Prefetch,
    app: RunPrefetch,
}

/// The app whose launch is prefetched, and its profile.
#[derive(Clone)]
struct RunPrefetch {
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

impl Running {
    /// Starts the prefetch thread, which loads the profile. If there is none, the thread says so.
    fn start(state_dir: &Path, command: &CommandApp) -> Result<Self, String> {
        let app = &command.app;
        if !rustix::process::geteuid().is_root() {
            return Err("prefetching needs root".to_owned());
        }
        let missing = format!(
            "no profile of {} in {} (`paralfetch learn` makes one)",
            app_name(app),
            state_dir.display()
        );
        let store = match Store::open(state_dir) {
            Ok(store) => store,
            // Nothing was ever learned.
            Err(_) if !state_dir.exists() => return Err(missing),
            Err(error) => return Err(error.to_string()),
        };
        let loaded = Arc::new(OnceLock::new());
        let (place, source, name) = (Arc::clone(&loaded), store.clone(), app.clone());
        let by_path = command.by_path.clone();
        let load = move || {
            let found = source.load(name.key()).map_err(|error| error.to_string());
            let missing = || match by_path.filter(|old| is_stored(&source, old)) {
                Some(old) => format!(
                    "no profile of {}, and that of {} is for whatever it starts: learn the app again with \
                     `paralfetch learn`",
                    app_name(&name),
                    app_name(&old)
                ),
                None => missing,
            };
            match found.and_then(|profile| profile.ok_or_else(missing)) {
                Ok(profile) => {
                    place.get_or_init(|| LoadedProfile {
                        created: profile.created,
                        ended: profile.ended,
                        known_obsolete: profile.obsolete,
                    });
                    Some(profile)
                }
                Err(why) => {
                    say_unprefetched(&why);
                    None
                }
            }
        };
        let prefetch = Prefetch::start(load, PrefetchOptions::default())
            .map_err(|error| format!("cannot start the prefetch thread: {error}"))?;
        Ok(Running {
            prefetch,
            app: RunPrefetch {
                store,
                app: app.clone(),
                loaded,
            },
        })
    }
}

impl RunPrefetch {
    /// Ends the prefetch, or lets it go on if the launch does, and says what it did.
    fn outcome(&self, prefetch: Prefetch) -> Option<PrefetchReport> {
        // A launcher that exits at once leaves the launch to its children.
        match self.loaded.get().map(|loaded| loaded.ended) {
            Some(Ended::Quiet | Ended::Timeout) => prefetch.finish_within(LAUNCH_GOES_ON),
            Some(Ended::Exit) | None => prefetch.finish(),
        }
    }

    /// Reads the prefetched profile again: keeping it would cost memory in every launch.
    fn profile(&self) -> Result<Profile, String> {
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
        let news = stale > loaded.known_obsolete;
        if let Some(warning) = report.warning(news || verbose) {
            say(&warning);
        }
        if news {
            // An app may replace files at each launch. One warning is enough.
            if let Err(error) = self
                .store
                .note_obsolete(self.app.key(), loaded.created, stale)
            {
                say(&error.to_string());
            }
        }
    }
}

/// Whether there is a usable profile of the app.
fn is_stored(store: &Store, app: &App) -> bool {
    store.load(app.key()).is_ok_and(|profile| profile.is_some())
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
    let skipped: Vec<String> = report
        .skipped
        .iter()
        .map(|(reason, count)| format!("{} ({reason})", count.entries))
        .collect();
    say(&format!(
        "skipped: {}; files stale: {}, written to since: {}",
        if skipped.is_empty() {
            "none".to_owned()
        } else {
            skipped.join(", ")
        },
        report.stale_files,
        report.changed_files
    ));
    say(&format!(
        "missed: the app itself read {} and waited for {} page faults",
        mib(exit.usage.sectors_read * 512),
        exit.usage.major_faults
    ));
}
