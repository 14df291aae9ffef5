//! Learning an app, as its scenarios need it.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use paralfetch::launch::Limits;
use paralfetch::manager::{LearnOptions, learn};

use super::background;
use super::job::{TRIES, Work};
use super::lessons::{Shelf, While, describe, needed};
use super::scenario::Scenario;
use crate::apps::App;
use crate::record::Record;
use crate::rivals::{How, Lesson};

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
                (While::Idle, _) => None,
            };
            let learned = self.learn(app, how);
            drop(background);
            self.launcher.end_tree(None)?;
            let lesson = learned?;
            let learned = describe(&lesson, &self.job.device, &app.name, when, how);
            self.journal.add(&Record::Learned(learned))?;
            shelf.put(when, how, lesson, &self.job.root)?;
        }
        Ok(shelf)
    }

    fn learn(&mut self, app: &App, how: How) -> Result<Lesson> {
        let command = self.launcher.find(&app.command)?;
        let mut tries = 1;
        loop {
            eprintln!("lab: learning {} on {} ({how})", app.name, self.job.device);
            let options = LearnOptions {
                how: how.learned(),
                limits: Limits {
                    timeout: Duration::from_secs(self.job.timeout),
                    ..Limits::default()
                },
                // What a killed learning run leaves changed are settings of a drive that goes with it.
                keeper: None,
            };
            let spawn = self.launcher.spawn(&command);
            let learned = learn(spawn, options, &mut self.launcher.supervisor);
            let leader = learned.as_ref().ok().map(|learned| learned.started.pid);
            self.launcher.end_tree(leader)?;
            match learned?.lesson {
                Ok(lesson) => return Ok(lesson.into()),
                Err(error) if tries >= TRIES => {
                    return Err(error).with_context(|| format!("learning {}", app.name));
                }
                Err(error) => eprintln!("lab: {}: {error}; again", app.name),
            }
            tries += 1;
        }
    }

    fn start_in_background(&self, app: &App) -> Result<background::Process> {
        let watch = app
            .window
            .as_ref()
            .map(|rule| self.display.watch(rule))
            .transpose()?;
        background::start(
            app,
            &self.job.root,
            watch,
            Duration::from_secs(self.job.timeout),
        )
    }
}
