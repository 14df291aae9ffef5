//! Messages of other threads to the event loop.

use super::cached_profile::{CachedProfile, CachedProfiles, KnownProfiles};
use super::config::WritesConfig;
use super::control::{Answer, AskedPhase, ControlCall, Reply};
use super::located_executables::LocatedExecutables;
use super::missed::LaunchResult;
use super::probe_round::ProbesEnded;
use super::profile_jobs::ProfileNews;
use super::registry::Record;
use super::seeds::FoundSeeds;
use super::warm_up::LikelyApps;
use super::watchlist::FoundEntries;
use crate::kernel::{LaunchPrograms, ProgramLinks};
use crate::learn::{LiveResult, MissedReads};
use crate::model::UserApp;
use crate::shield::Shield;

/// A message to the event loop.
pub enum Message {
    /// A recorder was made ready, or is not needed any more; otherwise why no launch can be recorded from its beginning.
    RecorderKept(Result<(), String>),
    /// The recording of a launch has ended.
    Recorded {
        result: Box<LiveResult>,
        /// The profile that it has, ready to be prefetched.
        cached: Option<Box<Result<CachedProfile, String>>>,
    },
    /// What a launch that is over read itself, and what of that its profile does not hold; `None` if that cannot be told.
    Missed {
        launch: Box<LaunchResult>,
        missed: Option<MissedReads>,
    },
    /// What an app whose launch is over has read later, and its profile does not hold.
    ReadLate { app: UserApp, missed: MissedReads },
    /// Programs of this kind have been attached or detached, or cannot be.
    Programs {
        kind: LaunchPrograms,
        changed: std::io::Result<Option<ProgramLinks>>,
    },
    /// A shield with these settings was started, or none if they say so; otherwise why it cannot be.
    Shield {
        started: Result<Option<Shield>, String>,
        wanted: WritesConfig,
    },
    /// The prefetch thread of this launch has ended.
    Prefetched(u64),
    /// The likely apps, and what may be read of them.
    Likely(LikelyApps),
    /// The thread of this number that read an app before its launch has ended.
    ReadBefore(u64),
    /// The profiles that are in the store now.
    Profiles {
        /// By app.
        found: CachedProfiles,
        /// Records of apps that had none before.
        new: Vec<Record>,
        /// Profiles that were in force before the store was read.
        known: KnownProfiles,
    },
    /// The worker has something to tell of an app's profile.
    Profile { app: UserApp, news: ProfileNews },
    /// A program that had read much for a user may become an app of his.
    Discovered(UserApp),
    /// The profiles that were learned elsewhere.
    Seeds(FoundSeeds),
    /// The apps with .desktop entries.
    DesktopApps(FoundEntries),
    /// Drives were measured, or not.
    DrivesProbed(ProbesEnded),
    /// Where the executables of the apps are.
    Located(LocatedExecutables),
    /// Something is wrong.
    Warning(String),
    /// A call of the control surface.
    Control(ControlCall),
    /// An app that a call asks for and that is not managed was looked for.
    AskedFor(Box<AskedFor>),
}

/// What was found of an app that a call asks for, and the call.
pub struct AskedFor {
    /// The record that the app would have.
    pub new: Answer<Record>,
    pub asked: AskedPhase,
    pub reply: Reply<String>,
}
