//! `run`: the app, with its profile read ahead.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::args::Run;
use super::show::app_name;
use super::words::mib;
use super::{Failure, say};
use crate::launch::{Command, Exit, Spawn, Supervisor, User};
use crate::prefetch::{Options, Prefetch, Report, raise_open_files};
use crate::profile::{App, Ended, Store};

/// Starts the app, prefetched if there is a profile, and ends as it ends. Whatever fails in us, the
/// app is started.
pub fn main(state_dir: &Path, args: Run) -> Result<(), Failure> {
    let user = User::invoking();
    let command = Command::find_for(&args.launch.cmd, args.launch.root.as_deref(), user.as_ref())
        .map_err(|error| Failure::with_code(&error, error.exit_code() as u8))?;
    let mut supervisor = Supervisor::new().map_err(Failure::own)?;
    let open_files = raise_open_files();
    let running = match Running::start(state_dir, &command.app()) {
        Ok(running) => Some(running),
        Err(why) => {
            say_unprefetched(&why);
            None
        }
    };
    let spawn = Spawn {
        user,
        open_files: Some(open_files),
        ..Spawn::new(command)
    };
    supervisor
        .start(spawn)
        .map_err(|error| Failure::with_code(&error, error.exit_code() as u8))?;
    // After the prefetch and the app have been started: they do not wait for it.
    super::restore_after_crash();
    let exit = supervisor.wait().map_err(Failure::own)?;
    if let Some(running) = running {
        running.finish(&exit, args.verbose);
    }
    exit.finish()
}

/// How long a prefetch may go on when the process that was started has exited and its launch need not
/// be over.
const LAUNCH_GOES_ON: Duration = Duration::from_secs(10);

/// A prefetch under way, and where its profile is.
struct Running {
    prefetch: Prefetch,
    store: Store,
    app: App,
    /// Set once the profile is loaded.
    loaded: Arc<OnceLock<Loaded>>,
}

/// What of a profile is needed when the app has ended.
struct Loaded {
    /// When it was learned, in seconds since the epoch.
    created: u64,
    /// How the learned launch ended.
    ended: Ended,
    /// Stale files that the user has been told of.
    known_obsolete: u32,
}

impl Running {
    /// Starts the prefetch thread, which loads the profile. If there is none, the thread says so.
    fn start(state_dir: &Path, app: &App) -> Result<Self, String> {
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
        let load = move || {
            let found = source.load(name.key()).map_err(|error| error.to_string());
            match found.and_then(|profile| profile.ok_or(missing)) {
                Ok(profile) => {
                    place.get_or_init(|| Loaded {
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
        let prefetch = Prefetch::start(load, Options::default())
            .map_err(|error| format!("cannot start the prefetch thread: {error}"))?;
        Ok(Running {
            prefetch,
            store,
            app: app.clone(),
            loaded,
        })
    }

    /// Reports what there is to say: all of it if `verbose`, else only what is new and wrong.
    fn finish(self, exit: &Exit, verbose: bool) {
        // A launcher that exits at once leaves the launch to its children.
        let report = match self.loaded.get().map(|loaded| loaded.ended) {
            Some(Ended::Quiet | Ended::Timeout) => self.prefetch.finish_within(LAUNCH_GOES_ON),
            Some(Ended::Exit) | None => self.prefetch.finish(),
        };
        let (Some(report), Some(loaded)) = (report, self.loaded.get()) else {
            return;
        };
        if verbose {
            print_report(&report, exit);
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
            // Files that an app itself replaces at each launch are worth one warning, not one a day.
            if let Err(error) = self
                .store
                .note_obsolete(self.app.key(), loaded.created, stale)
            {
                say(&error.to_string());
            }
        }
    }
}

fn say_unprefetched(why: &str) {
    say(&format!("{why}; started without prefetching"));
}

fn print_report(report: &Report, exit: &Exit) {
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
