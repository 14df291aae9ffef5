//! The learned sets of an app, kept for the next session.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use paralfetch::model::{LogEntry, PAGE_SIZE};

use super::{accuracy, stretches};
use crate::methods::{BlockMap, Completion, LearnedApp, LearnedSet, LearningRun, Method};
use crate::record::Learned;
use crate::scenarios::{Condition, Scenario};

/// The directory of what was learned so.
fn directory_of(condition: Condition) -> &'static str {
    match condition {
        Condition::Idle => "idle",
        Condition::Background => "background",
        Condition::Live => "live",
    }
}

/// The learning runs that scenarios need; the exact one always, since its completion block times all
/// launches.
pub fn needed(scenarios: &[Scenario]) -> Vec<(Condition, LearningRun)> {
    let mut needed = vec![(Condition::Idle, LearningRun::Exact)];
    for scenario in scenarios {
        let of = scenario.method().map_or(&[][..], Method::needs);
        needed.extend(of.iter().map(|&how| (scenario.condition(), how)));
    }
    needed.sort();
    needed.dedup();
    needed
}

/// The learned sets of one app on one drive, in `lessons/DEVICE/APP/` of the results directory.
pub struct LearnedStore {
    directory: PathBuf,
    idle: LearnedApp,
    background: LearnedApp,
    live: LearnedApp,
}

impl LearnedStore {
    /// Reads the sets that earlier sessions have saved.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn open(out: &Path, device: &str, app: &str) -> Result<Self> {
        let directory = out.join("lessons").join(device).join(app);
        let load =
            |condition: Condition| LearnedApp::load(&directory.join(directory_of(condition)));
        Ok(LearnedStore {
            idle: load(Condition::Idle)?,
            background: load(Condition::Background)?,
            live: load(Condition::Live)?,
            directory,
        })
    }

    /// The sets that plans are made from.
    pub fn learned(&self, when: Condition) -> &LearnedApp {
        match when {
            Condition::Idle => &self.idle,
            Condition::Background => &self.background,
            Condition::Live => &self.live,
        }
    }

    /// The set of a learning run on an idle system.
    ///
    /// # Errors
    /// When it was not learned.
    pub fn get(&self, how: LearningRun) -> Result<&LearnedSet> {
        let set = self.idle.get(how);
        set.with_context(|| format!("the learned set `{how}` is missing"))
    }

    /// The page that launches are timed by, if the app's launch has one.
    ///
    /// # Errors
    /// When the app was not learned exactly.
    pub fn completion(&self) -> Result<Option<Completion>> {
        Ok(Completion::of(&self.get(LearningRun::Exact)?.profile))
    }

    /// Saves a set. Once both as-read sets are there, finds the paths by which their metadata can be
    /// read in the image at `root`.
    ///
    /// # Errors
    /// When it cannot be written, or the image's metadata cannot be read.
    pub fn put(
        &mut self,
        when: Condition,
        how: LearningRun,
        set: LearnedSet,
        root: &Path,
    ) -> Result<()> {
        let learned = match when {
            Condition::Idle => &mut self.idle,
            Condition::Background => &mut self.background,
            Condition::Live => &mut self.live,
        };
        learned.set(how, set);
        if learned.as_read.is_some() && learned.as_read_again.is_some() && learned.blocks.is_none()
        {
            learned.blocks = Some(BlockMap::read(learned, root)?);
        }
        learned.save(&self.directory.join(directory_of(when)))
    }
}

/// The figures of a set; `exact` is the exact set of the same app, learned on an idle system.
pub fn describe(
    set: &LearnedSet,
    device: &str,
    app: &str,
    when: Condition,
    how: LearningRun,
    exact: Option<&LearnedSet>,
) -> Learned {
    let bytes = |metadata: bool| {
        let of = |entry: &&LogEntry| entry.span.place.is_metadata() == metadata;
        let pages: u64 = set.log.iter().filter(of).map(|entry| entry.span.len).sum();
        pages * PAGE_SIZE
    };
    let suffix = match when {
        Condition::Idle => "",
        Condition::Background => "-background",
        Condition::Live => "-live",
    };
    Learned {
        device: device.to_owned(),
        app: app.to_owned(),
        how: format!("{how}{suffix}"),
        log_entries: set.log.len() as u64,
        entries: set.profile.entries.len() as u64,
        metadata_bytes: bytes(true),
        data_bytes: bytes(false),
        files: set.profile.files.len() as u64,
        seconds: set.duration.as_secs_f64(),
        required: None,
        against_exact: exact
            .filter(|_| how != LearningRun::Dynamic)
            .map(|exact| accuracy::of(set, exact)),
        stretches: (when == Condition::Idle && how == LearningRun::AsRead)
            .then(|| stretches::of(set))
            .flatten(),
        tuned: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_say_what_they_need() {
        let idle = |how| (Condition::Idle, how);
        assert_eq!(
            needed(&[Scenario::Cold, Scenario::Warm]),
            [idle(LearningRun::Exact)]
        );
        let fast = needed(&[Scenario::Prefetched(Method::Fast)]);
        assert_eq!(
            fast,
            [
                LearningRun::Exact,
                LearningRun::AsRead,
                LearningRun::AsReadAgain
            ]
            .map(idle)
        );
        let dynamic = needed(&[Scenario::Prefetched(Method::Dynamic)]);
        assert_eq!(
            dynamic,
            [LearningRun::Exact, LearningRun::Dynamic].map(idle),
            "in this order"
        );
        let background = needed(&[Scenario::Background(Method::Infill)]);
        assert_eq!(
            background,
            [
                idle(LearningRun::Exact),
                (Condition::Background, LearningRun::Exact)
            ]
        );
    }
}
