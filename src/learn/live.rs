//! Live learning of launches that others start, each by a thread of its own.
//!
//! When an app that is to be learned is held at its execve, a thread attaches the programs that record, lets
//! the app go and watches it until its launch is over.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::Builder;
use std::time::SystemTime;

use rustix::event::{PollFd, PollFlags};

use super::follow::{Follow, wait};
use crate::drive::Sysfs;
use crate::fs::mounts::MountTable;
use crate::kernel::{RecorderLease, Tracer};
use crate::learn::build_profile::WatchedLaunch;
use crate::learn::cold::{LearnedProfile, NotLearned};
use crate::model::{App, LaunchLimits, Learned, Profile};
use crate::process::LaunchOver;

/// A launch to learn.
pub struct LiveJob {
    /// Number of the launch.
    pub launch: u64,
    /// Whose launch it is.
    pub app: App,
    /// The profile that the app has already.
    pub earlier: Option<Profile>,
    /// When the launch is over.
    pub limits: LaunchLimits,
    /// What kinds of drives there are.
    pub sysfs: Sysfs,
    /// Lives while the launch is being prefetched.
    pub prefetching: Weak<()>,
    /// Dropped once the launch is being watched: what holds the process in its execve.
    pub held: Option<Box<dyn Send>>,
}

/// What came of a launch that was learned.
pub struct LiveResult {
    /// [`LiveJob::launch`].
    pub launch: u64,
    /// What was learned, or why nothing was.
    pub profile: Result<LearnedProfile, NotLearned>,
}

/// A learning thread, for one launch. If this is dropped, the launch is given up.
pub struct LiveLearner {
    stop: Arc<AtomicBool>,
}

impl LiveLearner {
    /// Starts the thread. What comes of the launch is handed to `tell`, in the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(
        recorder: RecorderLease,
        job: LiveJob,
        tell: impl FnOnce(LiveResult) + Send + 'static,
    ) -> io::Result<LiveLearner> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let work = move || {
            let launch = job.launch;
            let profile = learn(recorder, job, &stopping);
            tell(LiveResult { launch, profile });
        };
        Builder::new().name("pf-learn".to_owned()).spawn(work)?;
        Ok(LiveLearner { stop })
    }
}

impl Drop for LiveLearner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn learn(
    recorder: RecorderLease,
    mut job: LiveJob,
    stop: &AtomicBool,
) -> Result<LearnedProfile, NotLearned> {
    let started = SystemTime::now();
    let recording = recorder.record(job.launch);
    // The app goes on, whatever came of it.
    drop(job.held.take());
    let mut tracer = recording.map_err(|error| NotLearned::NoRecorder(error.to_string()))?;
    let over = watch(&mut tracer, &job, stop)?;
    let trace = tracer.finish().map_err(NotLearned::failed)?;
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
fn watch(tracer: &mut Tracer, job: &LiveJob, stop: &AtomicBool) -> Result<LaunchOver, NotLearned> {
    let mut follow = Follow::new(tracer, Learned::Live, job.limits);
    loop {
        let events = tracer.wake_fd();
        wait(&mut [PollFd::new(&events, PollFlags::IN)]).map_err(NotLearned::failed)?;
        if stop.load(Ordering::Acquire) {
            return Err(NotLearned::Failed("the service is stopping".to_owned()));
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
