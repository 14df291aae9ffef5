//! Inputs and outputs of an app's phases.

use serde::{Deserialize, Serialize};

use crate::model::{DataPages, DriveClass, MissedRequests, Params, Revision};
use crate::policy::launch_figures::LaunchFigures;
use crate::policy::no_gain::NoGainReason;
use crate::policy::tuned_parameter::TuningRules;

/// What the next launch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The next launch is learned.
    Learning {
        /// Launches in a row that should have been learned and could not be.
        attempts: u32,
    },
    /// The next launch is prefetched.
    Prefetching,
    /// Launches are left alone.
    Disabled {
        /// Why.
        off: Off,
        /// Since when, in seconds since the epoch.
        since_s: u64,
    },
}

impl Phase {
    /// The phase byte of the original (paper §4.1), as `pfsetmode` shows and takes it.
    pub fn byte(self) -> u8 {
        match self {
            Phase::Learning { .. } => 3,
            Phase::Prefetching => 1,
            Phase::Disabled { .. } => 9,
        }
    }
}

/// Why an app is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Off {
    /// The user switched it off, and only the user can switch it on.
    Asked,
    /// Launches are not faster with prefetching. Median times that they take, in microseconds.
    NoGain {
        /// With prefetching.
        with_us: u64,
        /// Without.
        without_us: u64,
        /// Why, if that is known.
        #[serde(default)]
        why: Option<NoGainReason>,
    },
    /// Another program is asked before each file is opened and answers late, so that opening files ahead costs more than
    /// reading them saves.
    SlowOpens {
        /// How late, in microseconds.
        delay_us: u64,
    },
    /// The app's launches read nothing that could be learned.
    NothingToLearn,
    /// The app starts other apps, so that no two of its launches need be alike.
    StartsOthers,
}

/// What to do with the launch about to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// Learn from it.
    Learn,
    /// Prefetch it.
    Prefetch,
    /// Do not prefetch it, but measure it, to compare it with prefetched ones.
    Withhold,
    /// Leave it alone.
    Leave,
}

/// What the user asks for (`pfsetmode`, `enable`, `disable`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseRequest {
    /// Learn the next launch (phase byte 3).
    Learn,
    /// Prefetch (phase byte 1); learn first if there is no profile.
    Prefetch,
    /// Leave the app alone (phase byte 9).
    Disable,
}

impl PhaseRequest {
    /// The request that a phase byte of the original means; `None` for any other number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            3 => Some(PhaseRequest::Learn),
            1 => Some(PhaseRequest::Prefetch),
            9 => Some(PhaseRequest::Disable),
            _ => None,
        }
    }
}

/// A cold launch without prefetching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdLaunch {
    /// How long it took, in microseconds; `None` if that is not known.
    pub took_us: Option<u64>,
    /// How long it waited for the drive, in microseconds; `None` if that was not counted.
    pub waiting_us: Option<u64>,
    /// Read requests that it made.
    pub requests: u64,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Observation<'a> {
    /// A launch was learned, and there is a new profile.
    Learned {
        /// Class of the drive that it was scheduled for.
        class: DriveClass,
        /// The profile's history.
        history: &'a [Revision],
        /// What the launch showed, if it can stand for a launch without prefetching: it was learned live, from
        /// cold caches.
        cold: Option<ColdLaunch>,
        /// Pages of the profile; `None` if it was not learned live.
        pages: Option<DataPages>,
        /// Whether it was recorded from its beginning.
        is_whole: bool,
        /// How many launches are learned in a row, at most.
        most: u32,
    },
    /// A launch should have been learned and could not be.
    NotLearned,
    /// A launch ended that should have been prefetched, or from which prefetching was withheld.
    Launched {
        /// The profile's history; the last parameters were in force.
        history: &'a [Revision],
        /// The figures.
        figures: &'a LaunchFigures,
        /// How schedules are tuned.
        rules: TuningRules,
    },
    /// The last [`Decision::Reschedule`] would not change the schedule, tuned so.
    NoEffect(TuningRules),
    /// The last [`Decision::Reschedule`] could not be carried out.
    NotRescheduled,
    /// The daily pass ([`super::check_files`]) has removed or refreshed obsolete entries.
    Checked {
        /// Obsolete entries.
        obsolete: u64,
        /// All entries before the pass.
        entries: u64,
    },
    /// The app's executable is another file than when it was learned.
    NewExecutable,
    /// The profile is gone, cannot be used or could not be stored.
    NoProfile,
    /// The user has made a request.
    Asked(PhaseRequest),
    /// The menus show that it starts other apps.
    StartsOthers,
}

/// Why the app is learned again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecisionReason {
    /// The 10 % rule (paper §4.3): what the last launch read itself that its profile lacks.
    Missed(MissedRequests),
    /// Too many entries are obsolete.
    Obsolete,
    /// The app's executable is another file.
    NewExecutable,
    /// There is no profile.
    NoProfile,
    /// The user asked for it.
    Asked,
    /// To find out what is still used.
    Periodic,
}

/// What to change before the next launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Keep,
    /// Schedule the profile anew with these parameters and add them to its history.
    Reschedule(Params),
    /// Find replaced files again by their paths, and drop files that are gone.
    Refresh,
    /// Learn the next launch. The old profile stays until there is a new one.
    Relearn(DecisionReason),
    /// The app was switched off; tell the user.
    SwitchedOff(Off),
}
