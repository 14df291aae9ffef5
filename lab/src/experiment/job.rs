//! What a session asks one process to do: all launches of one app, or of several at once. A process of
//! its own for each, so that the app gets a clean environment and a failure ends nothing else.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use paralfetch::bench::completion::{self, FoundCompletion};
use paralfetch::kernel::{LoadedTracer, Storage, TraceMode};
use paralfetch::model::DriveClass;
use serde::{Deserialize, Serialize};

use super::disturbance::judge;
use super::journal::Journal;
use super::launcher::{Launcher, Request, Seen};
use super::lessons::{Shelf, While};
use super::live::LiveLearning;
use super::misses;
use super::processes::cpu_of;
use super::progress::Progress;
use super::scenario::Scenario;
use super::served;
use super::timelines;
use super::turns::{Task, launches, missing};
use super::writer::Writer;
use crate::apps::App;
use crate::display::{Display, Watch};
use crate::record::{Launch, Record};
use crate::rivals::{How, Method, Plan, plan};

/// How often a failed launch or learning run is tried again.
pub(super) const TRIES: usize = 3;

/// The work of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Name of the drive's profile.
    pub device: String,
    /// The drive's kernel name, such as `loop3`.
    pub drive: String,
    /// What kind of drive it is: a loop device cannot say so.
    pub class: DriveClass,
    /// Process that emulates the drive.
    pub emulator: Option<u32>,
    /// Where the image is mounted.
    pub root: PathBuf,
    /// Where results go.
    pub out: PathBuf,
    /// The apps: one, or several to be launched at once.
    pub apps: Vec<App>,
    /// What runs in the background while learning for the `background-…` scenarios.
    pub background: Option<App>,
    /// Scenarios, as [`Scenario::parse_list`] reads them.
    pub scenarios: String,
    /// Turns.
    pub runs: u32,
    /// Launches of each round with the service on.
    pub launches: u32,
    /// Whether to record timelines.
    pub timelines: bool,
    /// Longest launch, in seconds.
    pub timeout: u64,
}

impl Job {
    /// Does it. Belongs to the process's main thread.
    ///
    /// # Errors
    /// What could not be launched, learned or written.
    pub fn run(self) -> Result<()> {
        let launcher = Launcher::new(&self.root, &self.drive, Duration::from_secs(self.timeout))?;
        let display = Display::of_environment()?;
        let (journal, records) = Journal::open(&self.out)?;
        let mut work = Work {
            launcher,
            display,
            journal,
            job: self,
        };
        if work.job.apps.len() > 1 {
            work.together(&records)
        } else {
            work.one_app(&records)
        }
    }

    /// How the app, or the apps together, are called in the records.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.apps.iter().map(|app| app.name.as_str()).collect();
        names.join("+")
    }
}

/// An app with what is known of it.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub app: &'a App,
    pub shelf: &'a Shelf,
    /// Where its launches can be timed by it.
    pub completion: Option<&'a FoundCompletion>,
}

/// A job under way.
pub(super) struct Work {
    pub launcher: Launcher,
    pub display: Display,
    pub journal: Journal,
    pub job: Job,
}

impl Work {
    fn one_app(&mut self, records: &[Record]) -> Result<()> {
        let app = self.job.apps[0].clone();
        let scenarios: Vec<Scenario> = Scenario::parse_list(&self.job.scenarios)?
            .into_iter()
            // What ends by exit is too short for anything to go on beside it.
            .filter(|scenario| app.window.is_some() || !scenario.has_writer())
            // An app that is running already opens a window there: that is no launch.
            .filter(|scenario| scenario.learned() != While::Background || !self.is_background(&app))
            .collect();
        let done = launches(records, &self.job.device, &app.name);
        let order = |turn| Scenario::in_turn(&scenarios, turn);
        let mut tasks = missing(&done, order, self.job.runs);
        tasks.retain(|task| {
            task.scenario != Scenario::Service
                || !served::is_done(&done, task.turn, self.job.launches)
        });
        let known = Shelf::open(&self.job.out, &self.job.device, &app.name)?;
        if tasks.is_empty()
            && timelines::missing(&self.job, &app, &known).is_empty()
            && !misses::are_missing(&self.job, &app, &known)
        {
            return Ok(());
        }
        self.settle(&app)?;
        let shelf = self.learn_all(&app, &scenarios)?;
        let completion = completion::find(&shelf.get(How::Exact)?.profile);
        let subject = Subject {
            app: &app,
            shelf: &shelf,
            completion: completion.as_ref(),
        };
        let mut progress = Progress::new(tasks.len());
        let mut is_warm = false;
        for task in tasks {
            if task.scenario.is_warm() && !is_warm {
                self.try_launch(subject, Scenario::Cold)?;
            }
            if task.scenario == Scenario::Service {
                self.serve(subject, task.turn, &mut progress)?;
            } else {
                self.measure(subject, &task, &mut progress)?;
            }
            is_warm = !task.scenario.is_prefetch_only();
        }
        for wanted in timelines::missing(&self.job, &app, &shelf) {
            timelines::record(self, subject, wanted)?;
        }
        if misses::are_missing(&self.job, &app, &shelf) {
            misses::record(self, subject)?;
        }
        Ok(())
    }

    /// Launches an app and measures nothing: before anything else is done with it, and before each warm
    /// launch. The first launch on a display server
    /// does what later ones need not: GTK looks through the GL drivers once, and leaves what it found in
    /// a property of the root window (GDK_VISUALS).
    pub(super) fn settle(&mut self, app: &App) -> Result<()> {
        let command = self.launcher.find(&app.command)?;
        let windows = self.watch_window(app)?.into_iter().collect();
        self.launcher.launch(Request {
            command: &command,
            windows,
            completion: None,
            plans: &[],
            held: false,
            mark: None,
            live: None,
            service: None,
        })?;
        Ok(())
    }

    fn is_background(&self, app: &App) -> bool {
        let background = self.job.background.as_ref();
        background.is_some_and(|background| background.name == app.name)
    }

    /// Begins to look for the app's main window, if it has one.
    pub(super) fn watch_window(&self, app: &App) -> Result<Option<Watch>> {
        let rule = app.window.as_ref();
        rule.map(|rule| self.display.watch(rule)).transpose()
    }

    /// Performs one task, again if it is disturbed, and records what came of it.
    fn measure(
        &mut self,
        subject: Subject<'_>,
        task: &Task<Scenario>,
        progress: &mut Progress,
    ) -> Result<()> {
        for attempt in 1..=super::turns::ATTEMPTS {
            let mut record = self.try_launch(subject, task.scenario)?;
            record.turn = task.turn;
            let undisturbed = record.disturbed.is_empty();
            self.journal.add(&Record::Launch(record.clone()))?;
            if undisturbed || attempt == super::turns::ATTEMPTS {
                progress.step(&words(&record));
                return Ok(());
            }
            eprintln!(
                "\nlab: {} again: {}",
                words(&record),
                record.disturbed.join("; ")
            );
        }
        Ok(())
    }

    /// A launch that fails for once is no reason to give up an hour's session.
    fn try_launch(&mut self, subject: Subject<'_>, scenario: Scenario) -> Result<Launch> {
        let name = &subject.app.name;
        let mut tries = 1;
        loop {
            match self.launch(subject, scenario) {
                Ok(record) => return Ok(record),
                Err(error)
                    if tries >= TRIES || self.launcher.supervisor.asked_to_end().is_some() =>
                {
                    return Err(error.context(format!("{name} {scenario}")));
                }
                Err(error) => eprintln!("\nlab: {name} {scenario}: {error:#}; again"),
            }
            tries += 1;
        }
    }

    fn launch(&mut self, subject: Subject<'_>, scenario: Scenario) -> Result<Launch> {
        let Subject {
            app,
            shelf,
            mut completion,
        } = subject;
        let plan = scenario
            .method()
            .map(|method| self.plan(method, scenario, shelf, completion))
            .transpose()?;
        let mut storage = Storage::new();
        // Before anything is cached: in the service, it was loaded long before the launch.
        let loaded = if scenario.learns_live() {
            Some(LoadedTracer::load(&mut storage, TraceMode::Touches)?)
        } else {
            None
        };
        if scenario.is_warm() {
            // The processor's caches, too: what ran before, such as the loading just now, is in them.
            self.settle(app)?;
            // Where it stays cached, the window alone times the launch.
            if let Some(found) = completion {
                completion = found.evict()?.then_some(found);
            }
        } else {
            self.launcher.empty_caches()?;
        }
        let writer = if scenario.has_writer() {
            Some(Writer::start(
                &self.launcher.root.join("root"),
                &self.job.drive,
            )?)
        } else {
            None
        };
        let mut record = self.begin(&app.name, scenario);
        let emulator = self.emulator_cpu()?;
        let seen = if let (true, Some(plan)) = (scenario.is_prefetch_only(), &plan) {
            self.launcher.prefetch_only(plan)?
        } else {
            let command = self.launcher.find(&app.command)?;
            let windows = self.watch_window(app)?.into_iter().collect();
            let plans: Vec<&Plan> = plan.iter().collect();
            let mut live = loaded
                .map(|loaded| LiveLearning::attach(loaded, &self.launcher.root))
                .transpose()?;
            self.launcher.launch(Request {
                command: &command,
                windows,
                completion: completion.filter(|_| app.window.is_some()),
                plans: &plans,
                held: scenario.method().is_some_and(Method::held),
                mark: live.as_mut().and_then(LiveLearning::start_mark),
                live,
                service: None,
            })?
        };
        self.complete(&mut record, &seen, emulator)?;
        if let Some(writer) = writer {
            writer.end()?;
        }
        Ok(record)
    }

    pub(super) fn plan(
        &self,
        method: Method,
        scenario: Scenario,
        shelf: &Shelf,
        completion: Option<&FoundCompletion>,
    ) -> Result<Plan> {
        let plan = plan(method, shelf.lessons(scenario.learned()), self.job.class)?;
        // Only where launches are timed by it.
        Ok(match (completion, shelf.completion()?) {
            (Some(_), Some(page)) => plan.without(&page),
            _ => plan,
        })
    }

    pub(super) fn begin(&self, app: &str, scenario: Scenario) -> Launch {
        Launch {
            device: self.job.device.clone(),
            app: app.to_owned(),
            scenario: scenario.to_string(),
            started: jiff::Timestamp::now().as_second().unsigned_abs(),
            ..Launch::default()
        }
    }

    pub(super) fn complete(&self, record: &mut Launch, seen: &Seen, emulator: f64) -> Result<()> {
        let reads = seen.reads;
        record.window = seen.window;
        record.completion = seen.completion;
        record.exit = seen.exit;
        record.app_requests = reads.app.requests;
        record.app_bytes = reads.app.bytes;
        record.prefetch_requests = reads.prefetch.requests;
        record.prefetch_bytes = reads.prefetch.bytes;
        record.cpu = seen.cpu;
        record.emulator_cpu = self.emulator_cpu()? - emulator;
        record.disturbed = judge(
            seen.before,
            seen.after,
            reads.app.bytes + reads.prefetch.bytes,
        );
        Ok(())
    }

    pub(super) fn emulator_cpu(&self) -> Result<f64> {
        self.job.emulator.map_or(Ok(0.0), cpu_of)
    }
}

pub(super) fn words(record: &Launch) -> String {
    let time = record
        .window
        .or(record.exit)
        .or(record.completion)
        .unwrap_or(f64::NAN);
    format!(
        "{} {} {} {time:.3} s",
        record.device, record.app, record.scenario
    )
}
