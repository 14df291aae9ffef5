//! The sets that were learned of an app.

use std::fmt;
use std::time::Duration;

use paralfetch::learn;
use paralfetch::model::{Learned, LogEntry, Profile, Span};

use super::blocks::BlockMap;

/// Which learning run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LearningRun {
    /// With the drive's readahead off: the pages that the launch touched.
    Exact,
    /// With the usual readahead: the pages that the drive read.
    AsRead,
    /// The pages that the drive read a second time, for what the two have in common.
    AsReadAgain,
    /// Exact, with the schedule that the service has arrived at since.
    Dynamic,
}

impl LearningRun {
    /// All of them.
    pub const ALL: [LearningRun; 4] = [
        LearningRun::Exact,
        LearningRun::AsRead,
        LearningRun::AsReadAgain,
        LearningRun::Dynamic,
    ];

    /// Name in records and of the files that it is kept in.
    pub fn name(self) -> &'static str {
        match self {
            LearningRun::Exact => "exact",
            LearningRun::AsRead => "as-read",
            LearningRun::AsReadAgain => "as-read-again",
            LearningRun::Dynamic => "dynamic",
        }
    }

    /// How the product calls it.
    pub fn learned(self) -> Learned {
        match self {
            LearningRun::Exact | LearningRun::Dynamic => Learned::Exact,
            LearningRun::AsRead | LearningRun::AsReadAgain => Learned::AsRead,
        }
    }
}

impl fmt::Display for LearningRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The result of one learning run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedSet {
    /// The profile that the product would keep.
    pub profile: Profile,
    /// The launch sequence; its places are by the profile's tables.
    pub log: Vec<LogEntry>,
    /// Pages of the log that the drive did not read, as [`learn::LearnedProfile::unread`].
    pub unread: Vec<Span>,
    /// From execve to the end of the launch.
    pub duration: Duration,
    /// From the start of the app to its main window, if that came while it was being learned.
    pub window: Option<Duration>,
}

impl From<learn::LearnedProfile> for LearnedSet {
    fn from(set: learn::LearnedProfile) -> Self {
        LearnedSet {
            profile: set.profile,
            log: set.log,
            unread: set.unread,
            duration: set.summary.duration,
            window: None,
        }
    }
}

/// The learned sets of one app on one drive; scenarios need some of them ([`super::Method::needs`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LearnedApp {
    /// Learned exactly.
    pub exact: Option<LearnedSet>,
    /// Learned as read.
    pub as_read: Option<LearnedSet>,
    /// Learned as read a second time.
    pub as_read_again: Option<LearnedSet>,
    /// Learned exactly, and tuned by the service.
    pub dynamic: Option<LearnedSet>,
    /// By which paths the metadata blocks that the two have in common can be read.
    pub blocks: Option<BlockMap>,
}

impl LearnedApp {
    /// The set of that learning run, if there was one.
    pub fn get(&self, how: LearningRun) -> Option<&LearnedSet> {
        match how {
            LearningRun::Exact => self.exact.as_ref(),
            LearningRun::AsRead => self.as_read.as_ref(),
            LearningRun::AsReadAgain => self.as_read_again.as_ref(),
            LearningRun::Dynamic => self.dynamic.as_ref(),
        }
    }

    /// Replaces the set of that learning run and drops what was derived from the old one: the map of
    /// blocks, or the tuned schedule.
    pub fn set(&mut self, how: LearningRun, set: LearnedSet) {
        match how {
            LearningRun::Exact => self.dynamic = None,
            LearningRun::AsRead | LearningRun::AsReadAgain => self.blocks = None,
            LearningRun::Dynamic => {}
        }
        *self.slot(how) = Some(set);
    }

    pub(super) fn slot(&mut self, how: LearningRun) -> &mut Option<LearnedSet> {
        match how {
            LearningRun::Exact => &mut self.exact,
            LearningRun::AsRead => &mut self.as_read,
            LearningRun::AsReadAgain => &mut self.as_read_again,
            LearningRun::Dynamic => &mut self.dynamic,
        }
    }
}
