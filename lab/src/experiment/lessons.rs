//! What was learned of an app, kept for the next session.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use paralfetch::model::{LogEntry, PAGE_SIZE};

use super::accuracy;
use super::scenario::Scenario;
use crate::record::Learned;
use crate::rivals::{BlockMap, Completion, How, Lesson, Lessons, Method};

/// Under which conditions an app is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum While {
    /// No other app.
    Idle,
    /// One that shares files with it.
    Background,
    /// As it comes, with everything cached by a launch before: live learning.
    Live,
}

impl While {
    fn directory(self) -> &'static str {
        match self {
            While::Idle => "idle",
            While::Background => "background",
            While::Live => "live",
        }
    }
}

/// The learning runs that scenarios need; the exact one always, since its completion block times all
/// launches.
pub fn needed(scenarios: &[Scenario]) -> Vec<(While, How)> {
    let mut needed = vec![(While::Idle, How::Exact)];
    for scenario in scenarios {
        let of = scenario.method().map_or(&[][..], Method::needs);
        needed.extend(of.iter().map(|&how| (scenario.learned(), how)));
    }
    needed.sort();
    needed.dedup();
    needed
}

/// The lessons of one app on one drive, in `lessons/DEVICE/APP/` of the results directory.
pub struct Shelf {
    directory: PathBuf,
    idle: Lessons,
    background: Lessons,
    live: Lessons,
}

impl Shelf {
    /// Reads what earlier sessions have left.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn open(out: &Path, device: &str, app: &str) -> Result<Self> {
        let directory = out.join("lessons").join(device).join(app);
        let load = |when: While| Lessons::load(&directory.join(when.directory()));
        Ok(Shelf {
            idle: load(While::Idle)?,
            background: load(While::Background)?,
            live: load(While::Live)?,
            directory,
        })
    }

    /// What plans are made from.
    pub fn lessons(&self, when: While) -> &Lessons {
        match when {
            While::Idle => &self.idle,
            While::Background => &self.background,
            While::Live => &self.live,
        }
    }

    /// The lesson of a learning run on an idle system.
    ///
    /// # Errors
    /// When it was not learned.
    pub fn get(&self, how: How) -> Result<&Lesson> {
        let lesson = self.idle.get(how);
        lesson.with_context(|| format!("nothing was learned for '{how}'"))
    }

    /// The page that launches are timed by, if the app's launch has one.
    ///
    /// # Errors
    /// When the app was not learned exactly.
    pub fn completion(&self) -> Result<Option<Completion>> {
        Ok(Completion::of(&self.get(How::Exact)?.profile))
    }

    /// Keeps a lesson; once both as-read lessons are there, finds out by which paths their metadata
    /// can be read, in the image at `root`.
    ///
    /// # Errors
    /// When it cannot be written, or the image's metadata cannot be read.
    pub fn put(&mut self, when: While, how: How, lesson: Lesson, root: &Path) -> Result<()> {
        let lessons = match when {
            While::Idle => &mut self.idle,
            While::Background => &mut self.background,
            While::Live => &mut self.live,
        };
        lessons.set(how, lesson);
        if lessons.as_read.is_some() && lessons.as_read_again.is_some() && lessons.blocks.is_none()
        {
            lessons.blocks = Some(BlockMap::read(lessons, root)?);
        }
        lessons.save(&self.directory.join(when.directory()))
    }
}

/// A lesson in numbers; `exact` is what was learned of the same app exactly and on an idle system.
pub fn describe(
    lesson: &Lesson,
    device: &str,
    app: &str,
    when: While,
    how: How,
    exact: Option<&Lesson>,
) -> Learned {
    let bytes = |metadata: bool| {
        let of = |entry: &&LogEntry| entry.span.place.is_metadata() == metadata;
        let pages: u64 = lesson
            .log
            .iter()
            .filter(of)
            .map(|entry| entry.span.len)
            .sum();
        pages * PAGE_SIZE
    };
    let suffix = match when {
        While::Idle => "",
        While::Background => "-background",
        While::Live => "-live",
    };
    Learned {
        device: device.to_owned(),
        app: app.to_owned(),
        how: format!("{how}{suffix}"),
        log_entries: lesson.log.len() as u64,
        entries: lesson.profile.entries.len() as u64,
        metadata_bytes: bytes(true),
        data_bytes: bytes(false),
        files: lesson.profile.files.len() as u64,
        seconds: lesson.duration.as_secs_f64(),
        required: None,
        against_exact: exact
            .filter(|_| how != How::Dynamic)
            .map(|exact| accuracy::of(lesson, exact)),
        tuned: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_say_what_they_need() {
        let idle = |how| (While::Idle, how);
        assert_eq!(
            needed(&[Scenario::Cold, Scenario::Warm]),
            [idle(How::Exact)]
        );
        let fast = needed(&[Scenario::Prefetched(Method::Fast)]);
        assert_eq!(fast, [How::Exact, How::AsRead, How::AsReadAgain].map(idle));
        let dynamic = needed(&[Scenario::Prefetched(Method::Dynamic)]);
        assert_eq!(
            dynamic,
            [How::Exact, How::Dynamic].map(idle),
            "in this order"
        );
        let background = needed(&[Scenario::Background(Method::Infill)]);
        assert_eq!(
            background,
            [idle(How::Exact), (While::Background, How::Exact)]
        );
    }
}
