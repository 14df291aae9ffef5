//! The work of one process: learning an app, launching it in turns, recording the launches.

use std::time::Duration;

use anyhow::{Context, Result};
use paralfetch::bench::completion::{self, FoundCompletion};
use paralfetch::kernel::{RecorderPool, TraceMode};

use super::disturbance::judge;
use super::job::Job;
use super::launcher::{Launcher, MeasuredLaunch, Request};
use super::learned_store::LearnedStore;
use super::live::LiveLearning;
use super::misses;
use super::progress::Progress;
use super::served;
use super::turns::{Task, launches, missing};
use super::writer::WrittenDrive;
use crate::apps::App;
use crate::display::{Display, Watch};
use crate::journal::Journal;
use crate::machine::now;
use crate::methods::{LearningRun, Method, Plan, PlannedDrive, WrongProfile, plan, swept_plan};
use crate::processes::cpu_of;
use crate::record::{Launch, Record};
use crate::scenarios::Scenario;

/// How often a failed launch or learning run is tried again.
pub(super) const TRIES: usize = 3;

/// An app that has been learned.
#[derive(Clone, Copy)]
pub(super) struct PreparedApp<'a> {
    pub app: &'a App,
    pub store: &'a LearnedStore,
    /// What was learned of another app, where a scenario prefetches that.
    pub other: Option<&'a LearnedStore>,
    /// Completion block of the app, where launches can be timed by it.
    pub completion: Option<&'a FoundCompletion>,
}

/// Performs a job. Belongs to the process's main thread.
///
/// # Errors
/// What could not be launched, learned or written.
pub fn perform(job: Job) -> Result<()> {
    let launcher = Launcher::new(&job.root, &job.drive, Duration::from_secs(job.timeout))?;
    let display = Display::of_environment()?;
    let (journal, records) = Journal::open(&job.out)?;
    let mut work = Work {
        launcher,
        display,
        journal,
        job,
    };
    if work.job.lessons > 0 {
        work.lessons(&records)
    } else if work.job.apps.len() > 1 {
        work.together(&records)
    } else {
        work.one_app(&records)
    }
}

/// A job under way.
pub(super) struct Work {
    pub launcher: Launcher,
    pub display: Display,
    pub journal: Journal,
    pub job: Job,
}

impl Work {
    /// Performs the launches of the app that `records` lack.
    ///
    /// # Errors
    /// When the app cannot be learned or launched, or a record cannot be written.
    pub(super) fn one_app(&mut self, records: &[Record]) -> Result<()> {
        let app = self.job.apps[0].clone();
        let scenarios: Vec<Scenario> = Scenario::parse_list(&self.job.scenarios)?
            .into_iter()
            // What ends by exit is too short for anything to go on beside it.
            .filter(|scenario| app.window.is_some() || !scenario.has_writer())
            // An app that is running already opens a window there: that is no launch.
            .filter(|scenario| !scenario.needs_other_app() || !self.is_background(&app))
            .collect();
        let done = launches(records, &self.job.device, &app.name);
        let order = |turn| Scenario::in_turn(&scenarios, turn);
        let mut tasks = missing(&done, order, self.job.runs);
        tasks.retain(|task| {
            task.scenario != Scenario::Service || !served::is_done(&done, task, self.job.launches)
        });
        let known = LearnedStore::open(&self.job.out, &self.job.device, &app.name)?;
        if tasks.is_empty() && misses::missing(&self.job, &scenarios, &app, &known).is_empty() {
            return Ok(());
        }
        self.settle(&app)?;
        let store = self.learn_all(&app, &scenarios)?;
        let other = match scenarios.iter().any(|scenario| scenario.takes_other_set()) {
            true => Some(self.learn_other()?),
            false => None,
        };
        let completion = completion::find(&store.get(LearningRun::Exact)?.profile);
        let prepared = PreparedApp {
            app: &app,
            store: &store,
            other: other.as_ref(),
            completion: completion.as_ref(),
        };
        let mut progress = Progress::new(tasks.len());
        let mut is_warm = false;
        for task in tasks {
            if task.scenario.is_warm() && !is_warm {
                self.try_launch(prepared, Scenario::Cold)?;
            }
            if task.scenario == Scenario::Service {
                self.serve(prepared, task.turn, &mut progress)?;
            } else {
                self.measure(prepared, &task, &mut progress)?;
            }
            is_warm = !task.scenario.is_prefetch_only();
        }
        for judged in misses::missing(&self.job, &scenarios, &app, &store) {
            misses::record(self, prepared, judged)?;
        }
        Ok(())
    }

    /// Launches an app without measuring it: before its first launch and before each warm one. The first
    /// launch on a display server does more than later ones: GTK looks through the GL drivers once and
    /// keeps the result in a property of the root window (GDK_VISUALS).
    pub(super) fn settle(&mut self, app: &App) -> Result<()> {
        let command = self.launcher.find(&app.command)?;
        let windows = self.watch_window(app)?.into_iter().collect();
        let bus = self.start_bus()?;
        self.launcher.launch(Request {
            windows,
            bus,
            ..Request::of(&command)
        })?;
        Ok(())
    }

    /// Learns the other app, the one that runs in the background elsewhere.
    fn learn_other(&mut self) -> Result<LearnedStore> {
        let other = self.job.background.clone();
        let other = other.context("no other app is given")?;
        let known = LearnedStore::open(&self.job.out, &self.job.device, &other.name)?;
        if known.get(LearningRun::Exact).is_err() {
            self.settle(&other)?;
        }
        self.learn_all(&other, &[Scenario::Prefetched(Method::Infill)])
    }

    fn is_background(&self, app: &App) -> bool {
        let background = self.job.background.as_ref();
        background.is_some_and(|background| background.name == app.name)
    }

    /// Starts to watch for the app's main window, if it has one.
    pub(super) fn watch_window(&self, app: &App) -> Result<Option<Watch>> {
        let rule = app.window.as_ref();
        rule.map(|rule| self.display.watch(rule)).transpose()
    }

    /// Performs one task, again if it was disturbed, and records each launch.
    fn measure(
        &mut self,
        prepared: PreparedApp<'_>,
        task: &Task<Scenario>,
        progress: &mut Progress,
    ) -> Result<()> {
        for attempt in 1..=super::turns::ATTEMPTS {
            let mut record = self.try_launch(prepared, task.scenario)?;
            record.turn = task.turn;
            let undisturbed = record.disturbed.is_empty();
            self.journal.add(&Record::Launch(record.clone()))?;
            if undisturbed || attempt == super::turns::ATTEMPTS {
                progress.step(&launch_line(&record));
                return Ok(());
            }
            eprintln!(
                "\nlab: {} again: {}",
                launch_line(&record),
                record.disturbed.join("; ")
            );
        }
        Ok(())
    }

    /// Calls `act` up to [`TRIES`] times: one launch that fails must not end an hour's session.
    pub(super) fn again<T>(
        &mut self,
        what: &str,
        mut act: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let mut tries = 1;
        loop {
            match act(self) {
                Ok(done) => return Ok(done),
                Err(error)
                    if tries >= TRIES || self.launcher.supervisor.asked_to_end().is_some() =>
                {
                    return Err(error.context(what.to_owned()));
                }
                Err(error) => eprintln!("\nlab: {what}: {error:#}; again"),
            }
            tries += 1;
        }
    }

    fn try_launch(&mut self, prepared: PreparedApp<'_>, scenario: Scenario) -> Result<Launch> {
        let what = format!("{} {scenario}", prepared.app.name);
        self.again(&what, |work| work.launch(prepared, scenario))
    }

    fn launch(&mut self, prepared: PreparedApp<'_>, scenario: Scenario) -> Result<Launch> {
        // Of one that failed.
        self.launcher.aside.clear();
        let PreparedApp {
            app,
            store,
            mut completion,
            ..
        } = prepared;
        let plan = match scenario {
            Scenario::Wrong(how) => Some(self.wrong_plan(prepared, how)?),
            _ => scenario
                .method()
                .map(|method| self.plan(method, scenario, store, completion))
                .transpose()?,
        };
        // Before anything is cached: in the service, it was loaded long before the launch.
        let recorder = if scenario.learns_live() {
            Some(RecorderPool::load(TraceMode::Touches)?)
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
        }
        let bus = self.start_bus()?;
        if !scenario.is_warm() {
            self.launcher.empty_caches()?;
        }
        let mut written = if scenario.has_writer() {
            Some(self.begin_writing(scenario.has_shield())?)
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
            let mut live = recorder
                .map(|recorder| LiveLearning::attach(recorder, &self.launcher.root))
                .transpose()?;
            self.launcher.launch(Request {
                windows,
                completion: completion.filter(|_| app.window.is_some()),
                plans: &plans,
                bus,
                mark: live.as_mut().and_then(LiveLearning::start_mark),
                live,
                shield: written.as_mut().and_then(WrittenDrive::shield),
                one_processor: scenario.has_one_processor(),
                warm: scenario.is_warm(),
                ..Request::of(&command)
            })?
        };
        self.complete(&mut record, &seen, emulator)?;
        if let Some(written) = written {
            self.end_writing(written, &mut record)?;
        }
        Ok(record)
    }

    pub(super) fn plan(
        &self,
        method: Method,
        scenario: Scenario,
        store: &LearnedStore,
        completion: Option<&FoundCompletion>,
    ) -> Result<Plan> {
        let drive = self.planned_drive();
        let learned = store.learned(scenario.condition());
        let plan = match scenario.swept() {
            Some(swept) => swept_plan(swept, learned, &drive)?,
            None => plan(method, learned, &drive)?,
        };
        // Only where launches are timed by it.
        Ok(match (completion, store.completion()?) {
            (Some(_), Some(page)) => plan.without(&page),
            _ => plan,
        })
    }

    /// The plan of a profile that is wrong.
    fn wrong_plan(&self, prepared: PreparedApp<'_>, how: WrongProfile) -> Result<Plan> {
        let store = match how {
            WrongProfile::OtherApp => prepared.other.context("no other app was learned")?,
            WrongProfile::OffByOne | WrongProfile::OtherPages => prepared.store,
        };
        let scenario = Scenario::Wrong(how);
        let plan = plan(
            Method::Infill,
            store.learned(scenario.condition()),
            &self.planned_drive(),
        )?;
        let plan = plan.made_wrong(how);
        Ok(match (prepared.completion, prepared.store.completion()?) {
            (Some(_), Some(page)) => plan.without(&page),
            _ => plan,
        })
    }

    fn planned_drive(&self) -> PlannedDrive {
        PlannedDrive {
            class: self.job.class,
            costs: self.job.costs,
        }
    }

    pub(super) fn begin(&self, app: &str, scenario: Scenario) -> Launch {
        Launch {
            device: self.job.device.clone(),
            app: app.to_owned(),
            scenario: scenario.to_string(),
            started: now(),
            ..Launch::default()
        }
    }

    pub(super) fn complete(
        &self,
        record: &mut Launch,
        seen: &MeasuredLaunch,
        emulator: f64,
    ) -> Result<()> {
        let reads = seen.reads;
        record.window = seen.window;
        record.completion = seen.completion;
        record.exit = seen.exit;
        record.app_requests = reads.app.requests;
        record.app_bytes = reads.app.bytes;
        record.prefetch_requests = reads.prefetch.requests;
        record.prefetch_bytes = reads.prefetch.bytes;
        record.cpu = seen.cpu.total();
        record.effort = seen.effort;
        record.emulator_cpu = self.emulator_cpu()? - emulator;
        record.disturbed = judge(
            seen.before,
            seen.after,
            reads.app.bytes + reads.prefetch.bytes,
        );
        Ok(())
    }

    pub(super) fn emulator_cpu(&self) -> Result<f64> {
        let time = self.job.emulator.map(cpu_of).transpose()?;
        Ok(time.unwrap_or_default().total())
    }
}

/// The launch and its time, as progress lines show it.
pub(super) fn launch_line(record: &Launch) -> String {
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
