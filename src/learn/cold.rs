//! The learning phase: one launch, from an empty cache to a profile (paper §4.2).

use std::io;
use std::path::PathBuf;
use std::process::Command as Keeper;
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags};
use thiserror::Error;

use super::cgroup;
use super::follow::{Follow, wait};
use super::settings::LearningSettings;
use crate::drive::{KnobError, Sysfs, drop_clean_caches};
use crate::fs::mounts::MountTable;
use crate::kernel::{RecorderPool, TraceError, TraceExcess, TraceMode, Tracer};
use crate::learn::build_profile::WatchedLaunch;
use crate::learn::sequence::{Requirements, ResolveReport};
use crate::model::{
    App, Ended, GivenParams, LaunchLimits, Learned, LogEntry, PrefetchEntry, Profile, Span,
};
use crate::process::{AppStatus, Exit, LaunchOver, Spawn, SpawnError, Started, Supervisor};

/// How to learn, and what.
pub struct LearnOptions {
    /// The app that the command starts, as `apps` tells it.
    pub app: App,
    /// From an empty cache or from a launch as it comes.
    pub how: Learned,
    /// When the launch is complete, and when to give up.
    pub limits: LaunchLimits,
    /// The command that restores the knobs should this process be killed.
    pub keeper: Option<Keeper>,
    /// The launch sequence that the app has already, in the form of a profile: it settles what this launch leaves
    /// open.
    pub earlier: Option<Profile>,
    /// Thresholds of the schedule, in place of those that the drive's costs lead to.
    pub given: GivenParams,
    /// Where it is kept what drives were measured to cost. `None`: they have the numbers of their class.
    pub state_dir: Option<PathBuf>,
    /// Tells the user which drives are slowed.
    pub tell: fn(&str),
}

/// The learning run could not be made.
#[derive(Debug, Error)]
pub enum LearnError {
    /// Of the tracer.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Of the settings of a learning run.
    #[error(transparent)]
    Knob(#[from] KnobError),
    /// The app could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Why a launch was watched and nothing came of it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotLearned {
    /// There was no recorder: that says nothing about the app.
    #[error("{0}; nothing was learned")]
    NoRecorder(String),
    /// So much else was read during the launch that it could not be recorded: that, too, says nothing about the app.
    #[error("{0}; nothing was learned")]
    Disturbed(String),
    /// The launch could not be recorded as a whole, or read nothing that could be prefetched.
    #[error("{0}; nothing was learned")]
    Failed(String),
}

impl NotLearned {
    pub(super) fn failed(error: impl std::fmt::Display) -> Self {
        NotLearned::Failed(error.to_string())
    }
}

impl From<TraceExcess> for NotLearned {
    fn from(excess: TraceExcess) -> Self {
        match excess {
            TraceExcess::Others => NotLearned::Disturbed(excess.to_string()),
            TraceExcess::Pages => NotLearned::failed(excess),
        }
    }
}

/// Numbers of a learning run, for its report.
#[derive(Clone, Debug, Default)]
pub struct LearnSummary {
    /// From execve to the end of the launch.
    pub duration: Duration,
    /// When the launch had used enough of the profile's completion pages, CLOCK_MONOTONIC in nanoseconds; `None` if the
    /// profile has none, or the use of cached pages was not recorded.
    pub completed_ns: Option<u64>,
    /// What was inserted and left out.
    pub resolved: ResolveReport,
    /// What the launch required, as the paper's Table 1 counts it.
    pub required: Requirements,
    /// Time that resolving took: missing metadata and disk positions.
    pub resolving: Duration,
    /// Time that merging and shifting took.
    pub scheduling: Duration,
    /// Whether faults on cached pages tell the very page that was touched, not a window of 16.
    pub exact_faults: bool,
    /// Look-ups of paths that could not be recorded.
    pub lost_paths: u64,
}

/// What a watched launch taught.
#[derive(Clone, Debug)]
pub struct LearnedProfile {
    /// The profile, scheduled for the drive.
    pub profile: Profile,
    /// The launch sequence that it was scheduled from; its places point into the profile's tables.
    pub log: Vec<LogEntry>,
    /// Pages of the log that the drive did not read in the launch, as [`super::Sequence::unread`].
    pub unread: Vec<Span>,
    /// Numbers for the report.
    pub summary: LearnSummary,
}

/// The launch sequence in the form of a profile: its entries are the log's, in access order; the log's
/// places point into the profile's tables. Dynamic scheduling merges from it anew (paper §3.3), and the next launch
/// that is learned is combined with it.
pub fn launch_sequence(profile: &Profile, log: &[LogEntry]) -> Profile {
    let entries = log
        .iter()
        .map(|&LogEntry { span, time_us, .. }| PrefetchEntry { span, time_us });
    Profile {
        entries: entries.collect(),
        operations: Vec::new(),
        ..profile.clone()
    }
}

/// What came of a learning run.
pub struct LearnedLaunch {
    /// What was learned, or why nothing was.
    pub profile: Result<LearnedProfile, NotLearned>,
    /// The app's first process.
    pub started: Started,
    /// The app's exit, if it has ended already; otherwise it is running on, untraced.
    pub exit: Option<Exit>,
}

/// Watches one launch of the app and makes its profile, in the process's main thread. When this returns, no
/// program is attached and every knob is restored.
///
/// # Errors
/// What prevented the app's start. What goes wrong later is in [`LearnedLaunch::profile`], since the caller goes on
/// supervising the app.
pub fn learn(
    mut spawn: Spawn,
    mut options: LearnOptions,
    supervisor: &mut Supervisor,
) -> Result<LearnedLaunch, LearnError> {
    let mounts = MountTable::read()?;
    // First, since it starts the keeper process, which must not become part of the launch tree.
    let how = options.how;
    let mut settings =
        LearningSettings::acquire(&mounts, spawn.command.root(), how, options.keeper.take())?;
    let exact_faults = settings.exact_faults;
    let mode = match how {
        Learned::Live => TraceMode::Touches,
        Learned::Exact | Learned::AsRead | Learned::Imported => TraceMode::Reads,
    };
    let mut tracer = RecorderPool::load(mode)?.launcher(cgroup::own(&mounts))?;
    let is_cold = how != Learned::Live;
    if is_cold {
        settings.write_back(&mounts, how == Learned::Exact)?;
    }
    if let Some(warning) = settings.warning(options.limits.timeout) {
        (options.tell)(&warning);
    }
    settings.apply()?;
    if is_cold {
        drop_clean_caches()?;
    }

    let started_at = SystemTime::now();
    let mark = tracer.start_mark();
    spawn.before_exec = Some(Box::new(move || mark.set()));
    let started = supervisor.start(spawn)?;
    let mut exit = None;
    // An app that stops stops us, too: not before the knobs are restored.
    supervisor.go_on();
    let watched = watch(&mut tracer, supervisor, &options, &mut exit);
    let trace = tracer.finish();
    let restored = settings.restore();
    supervisor.stop_with_app()?;
    let profile = watched.map_err(NotLearned::failed).and_then(|over| {
        let trace = trace.map_err(NotLearned::failed)?;
        restored.map_err(NotLearned::failed)?;
        check_alive(&over, supervisor, &mut exit)?;
        let launch = WatchedLaunch {
            app: options.app,
            over,
            started: started_at,
            how,
            exact_faults,
            earlier: options.earlier,
            sysfs: Sysfs::default(),
            given: options.given,
            state_dir: options.state_dir,
        };
        // The user waits for the command, and can end it.
        launch.build_profile(&trace, &mounts, &|| false)
    });
    Ok(LearnedLaunch {
        profile,
        started,
        exit,
    })
}

/// Checks that no signal cut the launch short; `exit` is set if the app has exited.
fn check_alive(
    over: &LaunchOver,
    supervisor: &mut Supervisor,
    exit: &mut Option<Exit>,
) -> Result<(), NotLearned> {
    // The tree's last task is gone; so then is the app, or all but gone.
    if over.ended == Ended::Exit && exit.is_none() {
        *exit = Some(supervisor.wait().map_err(NotLearned::failed)?);
    }
    let signal = match exit.map(|exit| exit.status) {
        Some(AppStatus::Signal(signal)) => Some(signal),
        _ => supervisor.asked_to_end(),
    };
    signal.map_or(Ok(()), |signal| {
        let what = "the app was ended by signal";
        Err(NotLearned::failed(format!(
            "{what} {signal} in the middle of its launch"
        )))
    })
}

/// Collects events until the launch is over, and says how it ended; `exit` is set if the app has exited
/// meanwhile.
fn watch(
    tracer: &mut Tracer,
    supervisor: &mut Supervisor,
    options: &LearnOptions,
    exit: &mut Option<Exit>,
) -> Result<LaunchOver, LearnError> {
    let mut follow = Follow::new(tracer, options.how, options.limits);
    loop {
        let (events, signals) = (tracer.wake_fd(), supervisor.signal_fd());
        wait(&mut [
            PollFd::new(&events, PollFlags::IN),
            PollFd::new(&signals, PollFlags::IN),
        ])?;
        if let Some(ended) = supervisor.on_signals()? {
            *exit = Some(ended);
        }
        if supervisor.has_stopped() {
            let what = "the app was stopped in the middle of its launch";
            return Err(io::Error::other(what).into());
        }
        if let Some(over) = follow.look(tracer, false)? {
            return Ok(over);
        }
    }
}
