//! Live learning of launches that others start, by a thread that has everything loaded.
//!
//! Loading the programs takes a fifth of a second and attaching them a few milliseconds. So a thread
//! loads them and waits; when an app that is to be learned is held at its execve, the thread attaches
//! them, lets the app go and watches it until its launch is over. Then it ends: loading anew is for
//! whoever knows that there is another launch to learn, and would slow down the next one for nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::Builder;
use std::time::SystemTime;

use rustix::event::{PollFd, PollFlags};
use rustix::process::Pid;

use super::follow::{Follow, wait};
use crate::drive::Sysfs;
use crate::fs::mounts::MountTable;
use crate::kernel::{LoadedTracer, Storage, TraceMode, Tracer};
use crate::learn::build_profile::WatchedLaunch;
use crate::learn::cold::{LearnedProfile, NotLearned};
use crate::model::LaunchLimits;
use crate::model::{App, Learned, Profile};
use crate::process::LaunchOver;

/// A launch to learn.
pub struct LiveJob {
    /// Number of the launch, given back with what came of it.
    pub launch: u64,
    /// Its first process.
    pub pid: Pid,
    /// Whose launch it is.
    pub app: App,
    /// The profile that the app has already.
    pub earlier: Option<Profile>,
    /// When the launch is over.
    pub limits: LaunchLimits,
    /// What kinds of drives there are.
    pub sysfs: Sysfs,
    /// Whether the launch is being prefetched at the moment.
    pub prefetching: Arc<AtomicBool>,
    /// Dropped once the launch is being watched: what holds the process in its execve.
    pub held: Option<Box<dyn Send>>,
}

/// What came of a launch that was learned.
pub struct LiveResult {
    /// [`LiveJob::launch`].
    pub launch: u64,
    /// Whose launch it was.
    pub app: App,
    /// What was learned, or why nothing was.
    pub profile: Result<LearnedProfile, NotLearned>,
}

/// What the learning thread tells.
pub enum LiveNews {
    /// A launch can be learned now.
    Ready,
    /// A launch was learned, or nothing came of it. The thread has ended.
    Done(Box<LiveResult>),
    /// No launch can be learned, and the thread has ended.
    Failed(String),
}

/// How far a learning thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It loads what it needs.
    Loading,
    /// It waits for a launch.
    Ready,
    /// It has one.
    Learning,
}

const LOADING: u8 = 0;
const READY: u8 = 1;
const BUSY: u8 = 2;

/// The learning thread, for one launch.
pub struct LiveLearner {
    jobs: SyncSender<LiveJob>,
    state: Arc<AtomicU8>,
    stop: Arc<AtomicBool>,
}

impl LiveLearner {
    /// Starts the thread. What it has to tell is handed to `tell`, in the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(tell: impl Fn(LiveNews) + Send + 'static) -> io::Result<LiveLearner> {
        let (jobs, inbox) = sync_channel(1);
        let state = Arc::new(AtomicU8::new(LOADING));
        let stop = Arc::new(AtomicBool::new(false));
        let (shown, stopping) = (Arc::clone(&state), Arc::clone(&stop));
        Builder::new()
            .name("pf-learn".to_owned())
            .spawn(move || work(&inbox, &shown, &stopping, &tell))?;
        Ok(LiveLearner { jobs, state, stop })
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        match self.state.load(Ordering::Acquire) {
            LOADING => Stage::Loading,
            READY => Stage::Ready,
            _ => Stage::Learning,
        }
    }

    /// Gives the thread a launch to learn. It comes back if the thread is loading, busy or gone.
    ///
    /// # Errors
    /// The job itself.
    pub fn learn(&self, job: LiveJob) -> Result<(), Box<LiveJob>> {
        let free = self
            .state
            .compare_exchange(READY, BUSY, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if !free {
            return Err(Box::new(job));
        }
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => Box::new(job),
        })
    }
}

impl Drop for LiveLearner {
    /// A launch that is being learned is given up.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn work(jobs: &Receiver<LiveJob>, state: &AtomicU8, stop: &AtomicBool, tell: &impl Fn(LiveNews)) {
    let mut storage = Storage::new();
    let loaded = match LoadedTracer::load(&mut storage, TraceMode::Touches) {
        Ok(loaded) => loaded,
        Err(error) => return tell(LiveNews::Failed(error.to_string())),
    };
    state.store(READY, Ordering::Release);
    tell(LiveNews::Ready);
    let Ok(job) = jobs.recv() else {
        return;
    };
    let (launch, app) = (job.launch, job.app.clone());
    let profile = learn(loaded, job, stop);
    tell(LiveNews::Done(Box::new(LiveResult {
        launch,
        app,
        profile,
    })));
}

fn learn(
    loaded: LoadedTracer<'_>,
    mut job: LiveJob,
    stop: &AtomicBool,
) -> Result<LearnedProfile, NotLearned> {
    let started = SystemTime::now();
    let adopted = loaded.adopt(job.pid);
    // The app goes on, whatever came of it.
    drop(job.held.take());
    let mut tracer = adopted.map_err(NotLearned::failed)?;
    let over = watch(&mut tracer, &job, stop)?;
    let trace = tracer.finish().map_err(NotLearned::failed)?;
    if trace.lost > 0 {
        return Err(NotLearned::Lost(trace.lost));
    }
    let mounts = MountTable::read().map_err(NotLearned::failed)?;
    let launch = WatchedLaunch {
        app: job.app,
        over,
        started,
        how: Learned::Live,
        exact_faults: false,
        earlier: job.earlier,
        sysfs: job.sysfs,
    };
    launch.build_profile(&trace, &mounts)
}

/// Collects events until the launch is over, and says how it ended.
fn watch(
    tracer: &mut Tracer<'_>,
    job: &LiveJob,
    stop: &AtomicBool,
) -> Result<LaunchOver, NotLearned> {
    let mut follow = Follow::new(tracer, Learned::Live, job.limits);
    loop {
        let events = tracer.wake_fd();
        wait(&mut [PollFd::new(&events, PollFlags::IN)]).map_err(NotLearned::failed)?;
        if stop.load(Ordering::Acquire) {
            return Err(NotLearned::Failed("the service is stopping".to_owned()));
        }
        let is_prefetching = job.prefetching.load(Ordering::Acquire);
        let over = follow
            .look(tracer, is_prefetching)
            .map_err(NotLearned::failed)?;
        if let Some(over) = over {
            return Ok(over);
        }
    }
}
