//! Learning an app, as its scenarios need it.

use std::time::Duration;

use anyhow::{Context, Result};
use paralfetch::apps::{Rules, identify_command};
use paralfetch::drive::drop_caches;
use paralfetch::learn::{LearnOptions, LearnSummary, learn};
use paralfetch::model::{Ended, GivenParams, LaunchLimits, Learned, Profile};
use paralfetch::process::User;

use super::background;
use super::disturbance::{Counters, stolen};
use super::learned_store::{LearnedStore, describe, needed};
use super::meanwhile::window_during;
use super::work::{TRIES, Work};
use crate::apps::{App, SessionBus};
use crate::methods::{LearnedSet, LearningRun};
use crate::record::{Record, Required, Tuned};
use crate::scenarios::{Condition, Scenario};

/// How long a launch may take that is learned exactly: without readahead, a disk with heads needs ten milliseconds for each
/// page, and Chromium reads 30,000.
const LONGEST_LESSON: Duration = Duration::from_secs(900);

/// A learned set and its figures.
pub(super) struct LearningResult {
    pub set: LearnedSet,
    /// What the launch required; of one that was really learned.
    pub required: Option<Required>,
    /// What dynamic scheduling did.
    pub tuned: Option<Tuned>,
}

impl Work {
    /// Learns what the scenarios need, or takes it from an earlier session.
    pub(super) fn learn_all(&mut self, app: &App, scenarios: &[Scenario]) -> Result<LearnedStore> {
        let mut store = LearnedStore::open(&self.job.out, &self.job.device, &app.name)?;
        for (when, how) in needed(scenarios) {
            if store.learned(when).get(how).is_some() {
                continue;
            }
            let background = match when {
                Condition::Background => Some(self.start_in_background()?),
                Condition::Idle | Condition::Live => None,
            };
            let learned = match when {
                _ if how == LearningRun::Dynamic => self.tuned(app, &store),
                Condition::Idle | Condition::Background => self
                    .learn(app, how.learned(), None)
                    .and_then(|first| self.learn_helpers(app, how, first)),
                // The first launch fills the caches, with the usual readahead: what learned exactly before
                // left in them is no page more than was needed.
                Condition::Live => drop_caches()
                    .map_err(anyhow::Error::from)
                    .and_then(|()| self.learn(app, Learned::Live, None))
                    .and_then(|_| self.learn(app, Learned::Live, None)),
            };
            drop(background);
            self.launcher.end_tree(None)?;
            let LearningResult {
                set,
                required,
                tuned,
            } = learned?;
            let exact = store.learned(Condition::Idle).get(LearningRun::Exact);
            let mut learned = describe(&set, &self.job.device, &app.name, when, how, exact);
            learned.required = required;
            learned.tuned = tuned;
            self.journal.add(&Record::Learned(learned))?;
            store.put(when, how, set, &self.job.root)?;
        }
        Ok(store)
    }

    /// Learns an app with a bus once more: what its helpers read is needed if it recurs.
    fn learn_helpers(
        &mut self,
        app: &App,
        how: LearningRun,
        first: LearningResult,
    ) -> Result<LearningResult> {
        if !app.bus {
            return Ok(first);
        }
        self.learn(app, how.learned(), Some(&first.set.profile))
    }

    /// Learns an app in one launch. `earlier` is what an earlier one has shown. A launch beside which other guests of the
    /// host took much of the processors' time is repeated: its access times would be taken for the app's computing.
    pub(super) fn learn(
        &mut self,
        app: &App,
        how: Learned,
        earlier: Option<&Profile>,
    ) -> Result<LearningResult> {
        let command = self.launcher.find(&app.command)?;
        let mut tries = 1;
        loop {
            eprintln!(
                "lab: learning {} on {} ({how:?})",
                app.name, self.job.device
            );
            let timeout = match how {
                Learned::Exact => LONGEST_LESSON.max(Duration::from_secs(self.job.timeout)),
                _ => Duration::from_secs(self.job.timeout),
            };
            let options = LearnOptions {
                app: identify_command(&Rules::builtin(), &command, User::uid_of(None)).app,
                how,
                limits: LaunchLimits {
                    timeout,
                    ..LaunchLimits::default()
                }
                .for_lesson(),
                // What a killed learning run leaves changed are settings of a drive that goes with it.
                keeper: None,
                earlier: earlier.cloned(),
                given: GivenParams::default(),
                state_dir: None,
                tell: |_| (),
            };
            let watch = self.watch_window(app)?;
            let _bus = self.start_bus()?;
            let spawn = self.launcher.spawn(&command);
            let before = Counters::now(&self.launcher.drive)?;
            let supervisor = &mut self.launcher.supervisor;
            let (learned, window_ns) = window_during(watch, || learn(spawn, options, supervisor))?;
            let stolen = stolen(before, Counters::now(&self.launcher.drive)?);
            let leader = learned.as_ref().ok().map(|learned| learned.started.pid);
            self.launcher.end_tree(leader)?;
            let learned = learned?;
            match (learned.profile, stolen) {
                (Ok(_), Some(stolen)) if tries < TRIES => {
                    eprintln!("lab: {}: {stolen}; again", app.name);
                }
                (Ok(profile), _) => {
                    let required = required(&profile.summary);
                    let mut set = LearnedSet::from(profile);
                    if set.profile.ended == Ended::Timeout {
                        eprintln!(
                            "lab: {}: its launch was not over after {} s: what it reads later is missing",
                            app.name,
                            timeout.as_secs()
                        );
                    }
                    set.window = window_ns
                        .and_then(|at| at.checked_sub(learned.started.time_ns))
                        .map(Duration::from_nanos);
                    return Ok(LearningResult {
                        set,
                        required: Some(required),
                        tuned: None,
                    });
                }
                (Err(error), _) if tries >= TRIES => {
                    return Err(error).with_context(|| format!("learning {}", app.name));
                }
                (Err(error), _) => eprintln!("lab: {}: {error}; again", app.name),
            }
            tries += 1;
        }
    }

    /// What the service makes of what was learned exactly.
    fn tuned(&mut self, app: &App, store: &LearnedStore) -> Result<LearningResult> {
        let exact = store.get(LearningRun::Exact)?;
        self.again(&format!("tuning {}", app.name), |work| {
            work.tune(app, exact)
        })
    }

    /// Starts the session bus, if the apps have one: before caches are emptied, as it runs already when users
    /// start an app.
    pub(super) fn start_bus(&self) -> Result<Option<SessionBus>> {
        let has_bus = self.job.apps.iter().any(|app| app.bus);
        has_bus
            .then(|| SessionBus::start(&self.job.root))
            .transpose()
    }

    /// Starts the app that runs in the background. It goes on when a launch is ended, until what is
    /// returned is dropped.
    pub(super) fn start_in_background(&mut self) -> Result<background::Process> {
        let app = self.job.background.clone();
        let app = app.context("no app is given to run in the background")?;
        let process = background::start(
            &app,
            &self.job.root,
            &self.display,
            Duration::from_secs(self.job.timeout),
        )?;
        self.launcher.subreaper.spare(process.pid())?;
        Ok(process)
    }
}

/// The paper counts metadata of data only; those of look-ups that caches held are missing ones too.
fn required(summary: &LearnSummary) -> Required {
    let of = &summary.required;
    Required {
        metadata_requests: of.metadata.requests,
        metadata_kib: of.metadata.kib,
        data_requests: of.data.requests,
        data_kib: of.data.kib,
        missing_metadata: of.missing_metadata + summary.resolved.path_metadata,
        files: of.files,
        mapped_files: of.mapped_files,
    }
}
