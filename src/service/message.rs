//! What other threads tell the event loop.

use std::collections::{BTreeMap, HashMap};

use super::catalogue::Candidate;
use super::core::Service;
use super::reschedule::Rescheduled;
use crate::kernel::CountingWaits;
use crate::learn::LiveNews;
use crate::service::cached_profile::CachedProfile;

/// A message to the event loop.
pub enum Message {
    /// From the learning thread of this number.
    Learning(u64, LiveNews),
    /// Waits are counted from now on, or are not any more, or cannot be.
    Waits(std::io::Result<Option<CountingWaits>>),
    /// The prefetch thread of this launch has ended.
    Prefetched(u64),
    /// The profiles, as they are in the store now.
    Profiles {
        /// By app.
        found: HashMap<String, CachedProfile>,
        /// Apps that had one when it was asked for.
        known: Vec<String>,
    },
    /// A profile was scheduled anew.
    Rescheduled {
        /// Of this app.
        id: String,
        /// What came of it; a finished one is ready.
        outcome: Outcome,
    },
    /// The daily pass has looked at a profile.
    Checked {
        /// Of this app.
        id: String,
        /// Obsolete entries.
        obsolete: u64,
        /// Entries before.
        entries: u64,
        /// The profile without them, if it was changed.
        ready: Option<CachedProfile>,
    },
    /// What was learned of an app could not be stored.
    NotKept {
        /// The app.
        id: String,
        /// What is wrong.
        why: String,
    },
    /// Apps with .desktop entries.
    Candidates(BTreeMap<String, Candidate>),
    /// What is wrong.
    Warning(String),
    /// A call of the bus, to be run on the service.
    Control(Box<dyn FnOnce(&mut Service<'_>) + Send>),
}

/// What came of scheduling anew.
pub enum Outcome {
    /// It is in force.
    Done(CachedProfile),
    /// The schedule would be the same.
    NoEffect,
    /// It cannot be done.
    Failed(String),
}

impl Outcome {
    /// Of what `reschedule` gave, once a finished profile has been stored.
    pub fn of(
        rescheduled: Rescheduled,
        store: impl FnOnce(&crate::model::Profile) -> Result<CachedProfile, String>,
    ) -> Self {
        match rescheduled {
            Rescheduled::NoEffect => Outcome::NoEffect,
            Rescheduled::Failed(why) => Outcome::Failed(why),
            Rescheduled::Done(profile) => match store(&profile) {
                Ok(ready) => Outcome::Done(ready),
                Err(why) => Outcome::Failed(why),
            },
        }
    }
}
