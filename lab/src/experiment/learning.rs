//! Learning an app, as its scenarios need it.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use paralfetch::drive::drop_caches;
use paralfetch::learn::{LearnOptions, LearnSummary, learn};
use paralfetch::model::LaunchLimits;
use paralfetch::model::Learned;

use super::background;
use super::job::{TRIES, Work};
use super::lessons::{Shelf, While, describe, needed};
use super::meanwhile::window_during;
use super::scenario::Scenario;
use crate::apps::App;
use crate::record::{Record, Required, Tuned};
use crate::rivals::{How, Lesson};

/// What came of a learning run.
pub(super) struct Taught {
    pub lesson: Lesson,
    /// What the launch required; of one that was really learned.
    pub required: Option<Required>,
    /// What dynamic scheduling did.
    pub tuned: Option<Tuned>,
}

impl Work {
    /// Learns what the scenarios need, or takes it from an earlier session.
    pub(super) fn learn_all(&mut self, app: &App, scenarios: &[Scenario]) -> Result<Shelf> {
        let mut shelf = Shelf::open(&self.job.out, &self.job.device, &app.name)?;
        for (when, how) in needed(scenarios) {
            if shelf.lessons(when).get(how).is_some() {
                continue;
            }
            let background = match (when, self.job.background.clone()) {
                (While::Background, Some(other)) => Some(self.start_in_background(&other)?),
                (While::Background, None) => bail!("no app is given to run in the background"),
                (While::Idle | While::Live, _) => None,
            };
            let learned = match when {
                _ if how == How::Dynamic => self.tuned(app, &shelf),
                While::Idle | While::Background => self.learn(app, how.learned()),
                // The first launch fills the caches, with the usual readahead: what learned exactly before
                // left in them is no page more than was needed.
                While::Live => drop_caches()
                    .map_err(anyhow::Error::from)
                    .and_then(|()| self.learn(app, Learned::Live))
                    .and_then(|_| self.learn(app, Learned::Live)),
            };
            drop(background);
            self.launcher.end_tree(None)?;
            let Taught {
                lesson,
                required,
                tuned,
            } = learned?;
            let exact = shelf.lessons(While::Idle).get(How::Exact);
            let mut learned = describe(&lesson, &self.job.device, &app.name, when, how, exact);
            learned.required = required;
            learned.tuned = tuned;
            self.journal.add(&Record::Learned(learned))?;
            shelf.put(when, how, lesson, &self.job.root)?;
        }
        Ok(shelf)
    }

    fn learn(&mut self, app: &App, how: Learned) -> Result<Taught> {
        let command = self.launcher.find(&app.command)?;
        let mut tries = 1;
        loop {
            eprintln!(
                "lab: learning {} on {} ({how:?})",
                app.name, self.job.device
            );
            let options = LearnOptions {
                how,
                limits: LaunchLimits {
                    timeout: Duration::from_secs(self.job.timeout),
                    ..LaunchLimits::default()
                },
                // What a killed learning run leaves changed are settings of a drive that goes with it.
                keeper: None,
                earlier: None,
            };
            let watch = self.watch_window(app)?;
            let spawn = self.launcher.spawn(&command);
            let supervisor = &mut self.launcher.supervisor;
            let (learned, window_ns) = window_during(watch, || learn(spawn, options, supervisor))?;
            let leader = learned.as_ref().ok().map(|learned| learned.started.pid);
            self.launcher.end_tree(leader)?;
            let learned = learned?;
            match learned.lesson {
                Ok(lesson) => {
                    let required = required(&lesson.summary);
                    let mut lesson = Lesson::from(lesson);
                    lesson.window = window_ns
                        .and_then(|at| at.checked_sub(learned.started.time_ns))
                        .map(Duration::from_nanos);
                    return Ok(Taught {
                        lesson,
                        required: Some(required),
                        tuned: None,
                    });
                }
                Err(error) if tries >= TRIES => {
                    return Err(error).with_context(|| format!("learning {}", app.name));
                }
                Err(error) => eprintln!("lab: {}: {error}; again", app.name),
            }
            tries += 1;
        }
    }

    /// What the service makes of what was learned exactly.
    fn tuned(&mut self, app: &App, shelf: &Shelf) -> Result<Taught> {
        let exact = shelf.get(How::Exact)?;
        let mut tries = 1;
        loop {
            match self.tune(app, exact) {
                Ok(taught) => return Ok(taught),
                Err(error)
                    if tries >= TRIES || self.launcher.supervisor.asked_to_end().is_some() =>
                {
                    return Err(error.context(format!("tuning {}", app.name)));
                }
                Err(error) => eprintln!("lab: {}: {error:#}; again", app.name),
            }
            tries += 1;
        }
    }

    fn start_in_background(&self, app: &App) -> Result<background::Process> {
        background::start(
            app,
            &self.job.root,
            self.watch_window(app)?,
            Duration::from_secs(self.job.timeout),
        )
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
