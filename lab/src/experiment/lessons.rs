//! Learning an app several times in the same way: what the lessons have in common (FAST Figure 5).

use std::path::PathBuf;

use anyhow::Result;

use super::progress::Progress;
use super::work::Work;
use crate::apps::App;
use crate::methods::{CommonPages, LearnedApp, LearnedSet, LearningRun, by_lessons};
use crate::record::{Lessons, LessonsStep, Record};

/// As FAST learns, and as the product does.
const WAYS: [LearningRun; 2] = [LearningRun::AsRead, LearningRun::Exact];

impl Work {
    /// Learns the app until there are as many lessons of each way as were asked for, and records what they have in
    /// common, unless `records` have that. Lessons of earlier sessions count.
    ///
    /// # Errors
    /// When the app cannot be learned, or a record or a lesson cannot be written.
    pub(super) fn lessons(&mut self, records: &[Record]) -> Result<()> {
        let app = self.job.apps[0].clone();
        let mut lessons = (1..=self.job.lessons)
            .map(|number| LearnedApp::load(&self.directory(&app, number)))
            .collect::<Result<Vec<_>>>()?;
        let is_lacking = |lesson: &LearnedApp, how| lesson.get(how).is_none();
        let lacking =
            |how: &LearningRun| lessons.iter().filter(|one| is_lacking(one, *how)).count();
        let missing: usize = WAYS.iter().map(lacking).sum();
        if missing > 0 {
            self.settle(&app)?;
        }
        let mut progress = Progress::new(missing);
        // In turns, so that what drifts, drifts for both.
        for (lesson, number) in lessons.iter_mut().zip(1..) {
            for how in WAYS {
                if is_lacking(lesson, how) {
                    lesson.set(how, self.lesson(&app, how)?);
                    lesson.save(&self.directory(&app, number))?;
                    progress.step(&format!("{} {} {how} {number}", self.job.device, app.name));
                }
            }
        }
        for how in WAYS {
            let sets: Vec<LearnedSet> = lessons
                .iter()
                .filter_map(|lesson| lesson.get(how).cloned())
                .collect();
            let record = Record::Lessons(Lessons {
                device: self.job.device.clone(),
                app: app.name.clone(),
                how: how.to_string(),
                steps: by_lessons(&sets).into_iter().map(step).collect(),
            });
            if !records.contains(&record) {
                self.journal.add(&record)?;
            }
        }
        Ok(())
    }

    /// Each lesson has a directory of its own.
    fn directory(&self, app: &App, number: u32) -> PathBuf {
        let of_app = self
            .job
            .out
            .join("lessons")
            .join(&self.job.device)
            .join(&app.name);
        of_app.join("repeated").join(number.to_string())
    }

    fn lesson(&mut self, app: &App, how: LearningRun) -> Result<LearnedSet> {
        self.again(&format!("{} {how}", app.name), |work| {
            let learned = work.learn(app, how.learned(), None);
            work.launcher.end_tree(None)?;
            Ok(learned?.set)
        })
    }
}

fn step(common: CommonPages) -> LessonsStep {
    LessonsStep {
        in_all: common.in_all,
        in_two: common.in_two,
        in_any: common.in_any,
    }
}
