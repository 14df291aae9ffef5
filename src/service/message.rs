//! Messages of other threads to the event loop.

use std::collections::{BTreeMap, HashMap};

use super::cached_profile::CachedProfile;
use super::catalogue::Candidate;
use super::event_loop::Service;
use super::reschedule::Rescheduled;
use crate::kernel::CountingWaits;
use crate::learn::LiveNews;

/// A message to the event loop.
pub enum Message {
    /// News of the recorder thread of this number.
    Recorder(u64, LiveNews),
    /// The programs that count waits have been attached or detached, or cannot be.
    Waits(std::io::Result<Option<CountingWaits>>),
    /// The prefetch thread of this launch has ended.
    Prefetched(u64),
    /// The profiles that are in the store now.
    Profiles {
        /// By app.
        found: HashMap<String, CachedProfile>,
        /// Apps that had a profile when the store was read.
        known: Vec<String>,
    },
    /// A profile was scheduled anew.
    Rescheduled {
        /// The app.
        id: String,
        /// What came of it.
        result: RescheduleResult,
    },
    /// The files of a profile were checked, and obsolete entries were found.
    Checked {
        /// The app.
        id: String,
        /// Obsolete entries.
        obsolete: u64,
        /// Entries before.
        entries: u64,
        /// The profile without them; `None` if it cannot be stored.
        profile: Option<Box<CachedProfile>>,
    },
    /// A new profile could not be stored.
    NotKept {
        /// The app.
        id: String,
        /// Why.
        why: String,
    },
    /// The apps with .desktop entries.
    Candidates(BTreeMap<String, Candidate>),
    /// Something is wrong.
    Warning(String),
    /// A call of the control surface, to be run on the service.
    Control(Box<dyn FnOnce(&mut Service<'_>) + Send>),
}

/// What came of scheduling a profile anew.
pub enum RescheduleResult {
    /// It is stored.
    Done(Box<CachedProfile>),
    /// The schedule would be the same.
    NoEffect,
    /// Why it cannot be done.
    Failed(String),
}

impl RescheduleResult {
    /// Has a finished profile stored.
    pub fn of(
        rescheduled: Rescheduled,
        store: impl FnOnce(&crate::model::Profile) -> Result<CachedProfile, String>,
    ) -> Self {
        match rescheduled {
            Rescheduled::NoEffect => RescheduleResult::NoEffect,
            Rescheduled::Failed(why) => RescheduleResult::Failed(why),
            Rescheduled::Done(profile) => match store(&profile) {
                Ok(profile) => RescheduleResult::Done(Box::new(profile)),
                Err(why) => RescheduleResult::Failed(why),
            },
        }
    }
}
