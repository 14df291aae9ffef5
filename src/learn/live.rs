//! Live learning of launches that others start, each by a thread of its own.
//!
//! The kernel has begun to record the launch when the app was executed; a thread takes its recorder over, and watches the
//! launch until it is over.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags};

use super::cgroup;
use super::follow::{Follow, wait};
use crate::drive::{KnobError, Sysfs};
use crate::fs::mounts::MountTable;
use crate::kernel::{ClaimedRecorder, RecorderLease, Tracer};
use crate::learn::build_profile::WatchedLaunch;
use crate::learn::cold::{LearnedProfile, NotLearned};
use crate::learn::fault_around::{FaultAroundKnob, NarrowedFaults};
use crate::model::{App, GivenParams, LaunchLimits, Learned, Profile};
use crate::process::LaunchOver;

/// Most threads of a launch whose cgroups are looked at: each is a file of /proc.
const MOST_THREADS: usize = 64;

/// How long the files and paths of a launch may be looked up when it is over. A large app takes a second on a
/// slow drive.
const RESOLVE_LIMIT: Duration = Duration::from_secs(30);

/// Reads the launch sequence of an app, in the form of a profile; `None` if there is none.
pub type LoadSequence = Box<dyn FnOnce() -> Option<Profile> + Send>;

/// A launch to learn.
pub struct LiveJob {
    /// Number of the launch.
    pub launch: u64,
    /// Whose launch it is, as far as that is known when its recording begins: see [`LiveLearner::executed`].
    pub app: App,
    /// Reads the launch sequence that the app has already.
    pub earlier: Option<LoadSequence>,
    /// When the launch is over.
    pub limits: LaunchLimits,
    /// What kinds of drives there are.
    pub sysfs: Sysfs,
    /// Where it is kept what drives were measured to cost.
    pub state_dir: Option<PathBuf>,
    /// Narrowed while the launch is learned, where the kernel allows that.
    pub fault_around: Option<Arc<FaultAroundKnob>>,
    /// Lives while the launch is being prefetched.
    pub prefetching: Weak<()>,
}

/// How a launch is recorded.
pub enum LaunchRecorder {
    /// Since its beginning.
    Claimed(ClaimedRecorder),
    /// From now on.
    Late(RecorderLease),
}

/// How long faults map single pages for a process that hangs or is stopped.
const KEEPER_LIMIT: Duration = Duration::from_secs(10);

/// How often one that works says so to the keeper.
const RENEW_AFTER: Duration = Duration::from_secs(2);

/// What came of a launch that was learned.
pub struct LiveResult {
    /// [`LiveJob::launch`].
    pub launch: u64,
    /// What was learned, or why nothing was.
    pub profile: Result<LearnedProfile, NotLearned>,
    /// What went wrong beside: with the settings of the system.
    pub warnings: Vec<String>,
}

/// A learning thread, for one launch. If this is dropped, the launch is given up.
pub struct LiveLearner {
    stop: Arc<AtomicBool>,
    app: Arc<Mutex<App>>,
}

impl LiveLearner {
    /// Starts the thread. What comes of the launch is handed to `tell`, in the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(
        recorder: LaunchRecorder,
        job: LiveJob,
        tell: impl FnOnce(LiveResult) + Send + 'static,
    ) -> io::Result<LiveLearner> {
        let stop = Arc::new(AtomicBool::new(false));
        let app = Arc::new(Mutex::new(job.app.clone()));
        let (stopping, executed) = (Arc::clone(&stop), Arc::clone(&app));
        let work = move || {
            let launch = job.launch;
            let mut warnings = Vec::new();
            let profile = learn(recorder, job, &executed, &stopping, &mut warnings);
            tell(LiveResult {
                launch,
                profile,
                warnings,
            });
        };
        Builder::new().name("pf-learn".to_owned()).spawn(work)?;
        Ok(LiveLearner { stop, app })
    }

    /// The launch has executed this app: where its file is was not known at the call.
    pub fn executed(&self, app: App) {
        *self.app.lock().unwrap_or_else(PoisonError::into_inner) = app;
    }
}

impl Drop for LiveLearner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn learn(
    recorder: LaunchRecorder,
    mut job: LiveJob,
    executed: &Mutex<App>,
    stop: &AtomicBool,
    warnings: &mut Vec<String>,
) -> Result<LearnedProfile, NotLearned> {
    let started = SystemTime::now();
    let mut warn = |error: KnobError| warnings.push(error.to_string());
    // First, so that it is in force for what is recorded from here on.
    let narrowed = job.fault_around.take().and_then(|knob| {
        let narrowed = knob.narrow().map_err(&mut warn);
        narrowed.ok().flatten()
    });
    let tracer = match recorder {
        LaunchRecorder::Claimed(claimed) => claimed.record(job.launch),
        LaunchRecorder::Late(lease) => lease.record(job.launch),
    };
    let mut tracer = tracer.map_err(|error| NotLearned::NoRecorder(error.to_string()))?;
    tracing::debug!(launch = job.launch, "recording");
    if let Some(Err(error)) = narrowed
        .as_ref()
        .map(|narrowed| narrowed.start_keeper(KEEPER_LIMIT))
    {
        warn(error);
    }
    let mut renewed = Instant::now();
    let renew = || {
        if renewed.elapsed() >= RENEW_AFTER {
            renewed = Instant::now();
            // Should it fail, faults map what they did before from here on, which is noticed in the end.
            let _ = narrowed.as_ref().map(NarrowedFaults::renew);
        }
    };
    let over = watch(&mut tracer, &job, stop, renew)?;
    let trace = tracer.finish().map_err(NotLearned::failed)?;
    let exact_faults = narrowed.is_some_and(|narrowed| {
        let was_in_force = narrowed.is_in_force();
        narrowed.end().unwrap_or_else(&mut warn);
        was_in_force
    });
    let mounts = MountTable::read().map_err(NotLearned::failed)?;
    let app = executed
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let launch = WatchedLaunch {
        app,
        over,
        started,
        how: Learned::Live,
        exact_faults,
        earlier: job.earlier.and_then(|load| load()),
        sysfs: job.sysfs,
        given: GivenParams::default(),
        state_dir: job.state_dir,
    };
    let until = Instant::now() + RESOLVE_LIMIT;
    launch.build_profile(&trace, &mounts, &|| Instant::now() >= until)
}

/// Collects events until the launch is over, and says how it ended.
fn watch(
    tracer: &mut Tracer,
    job: &LiveJob,
    stop: &AtomicBool,
    mut renew: impl FnMut(),
) -> Result<LaunchOver, NotLearned> {
    let mut follow = Follow::new(tracer, Learned::Live, job.limits);
    let mounts = MountTable::read().map_err(NotLearned::failed)?;
    let start_ns = tracer.with_trace(|trace| trace.start_ns);
    let mut own_cgroup = None;
    loop {
        if own_cgroup.is_none() {
            let threads: Vec<i32> = tracer.threads().take(MOST_THREADS).collect();
            own_cgroup = cgroup::of_launch(&mounts, &threads, start_ns);
            if let Some(own) = own_cgroup {
                tracer.set_cgroup(own);
                tracing::debug!(
                    launch = job.launch,
                    "all of its cgroup belongs to the launch"
                );
            }
        }
        let events = tracer.wake_fd();
        wait(&mut [PollFd::new(&events, PollFlags::IN)]).map_err(NotLearned::failed)?;
        renew();
        if stop.load(Ordering::Acquire) {
            return Err(NotLearned::Failed("the service is stopping".to_owned()));
        }
        if let Some(excess) = tracer.excess() {
            return Err(excess.into());
        }
        let is_prefetching = job.prefetching.strong_count() > 0;
        let over = follow
            .look(tracer, is_prefetching)
            .map_err(NotLearned::failed)?;
        if let Some(over) = over {
            return Ok(over);
        }
        if !tracer.is_followed() {
            return Err(NotLearned::Failed("the launch was given up".to_owned()));
        }
    }
}
