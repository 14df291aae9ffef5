//! The launches that are being recorded.
//!
//! While any app is to be learned, one recorder of the kernel side waits for its launch, with its tables, which take tens
//! of milliseconds to make. The kernel switches it on when such an app is executed, and nobody waits for that.

use std::collections::{HashMap, HashSet};
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use super::cached_profile::CachedProfile;
use super::mailbox::Outbox;
use super::message::Message;
use super::own_process::{start_behind, work_behind};
use super::recording_share::RecordingShare;
use crate::kernel::{ClaimedRecorder, RecorderPool};
use crate::learn::{LaunchRecorder, LiveJob, LiveLearner, LiveResult};
use crate::model::App;

/// Launches that are recorded at once, and those of one user, who may have several apps start when he logs in: each
/// costs every process of the system, and up to 25 MB.
const MOST: usize = 6;
const MOST_OF_A_USER: usize = 4;

/// A launch that is being recorded.
struct RecordedLaunch {
    uid: u32,
    /// Path of the app.
    path: Vec<u8>,
    /// Whether its beginning was not recorded.
    late: bool,
    learner: LiveLearner,
}

/// The recorders, and the threads that learn with them.
pub struct Recorders {
    /// `None` if the kernel cannot record.
    pool: Option<Arc<RecorderPool>>,
    /// By launch.
    learners: HashMap<u64, RecordedLaunch>,
    /// Recorders that the kernel has switched on for launches of which nothing has been decided.
    claimed: HashMap<u64, ClaimedRecorder>,
    share: RecordingShare,
    /// Apps that are to be learned.
    apps: usize,
    /// Threads that make or free tables.
    changing: usize,
    /// Whether it is known that a recorder waits.
    was_ready: bool,
    outbox: Outbox,
}

impl Recorders {
    /// Nothing is recorded yet. The threads will report to this mailbox.
    pub fn new(pool: Option<Arc<RecorderPool>>, outbox: Outbox) -> Self {
        Recorders {
            pool,
            learners: HashMap::new(),
            claimed: HashMap::new(),
            share: RecordingShare::default(),
            apps: 0,
            changing: 0,
            was_ready: false,
            outbox,
        }
    }

    /// Whether launches can be recorded at all.
    pub fn can_record(&self) -> bool {
        self.pool.is_some()
    }

    /// Whether another launch of this user may be recorded: a tenth of the time is for each.
    pub fn has_share(&self, uid: u32) -> bool {
        self.share.has_left(uid, Instant::now())
    }

    /// Has a recorder wait for a launch if one of `apps` apps is to be learned that is not recorded already, and
    /// otherwise gives the memory for it back. A thread reports when that is done.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn keep(&mut self, apps: usize) -> io::Result<()> {
        self.apps = apps;
        let Some(pool) = &self.pool else {
            return Ok(());
        };
        // Two launches of an app leave as many others to be learned as one, and one that is recorded late leaves its own.
        let whole = self.learners.values().filter(|it| !it.late);
        let recorded: HashSet<_> = whole.map(|it| (it.uid, &it.path)).collect();
        let wanted = self.learners.len() < MOST && recorded.len() < apps;
        if self.is_changing() || pool.is_kept(wanted) {
            return Ok(());
        }
        let pool = Arc::clone(pool);
        let work = move || {
            let kept = pool.keep_ready(wanted).map_err(|error| error.to_string());
            Message::RecorderKept(kept)
        };
        work_behind("pf-tables", &self.outbox, work)?;
        self.changing += 1;
        Ok(())
    }

    /// Keeps a recorder ready as [`Recorders::keep`], for as many apps as before: another launch is being recorded.
    ///
    /// # Errors
    /// As [`Recorders::keep`].
    pub fn keep_as_many(&mut self) -> io::Result<()> {
        self.keep(self.apps)
    }

    /// Whether a thread makes or frees tables.
    pub fn is_changing(&self) -> bool {
        self.changing > 0
    }

    /// What [`Recorders::keep`] has begun is done. After a failure, the next call of it tries again.
    pub fn kept(&mut self) {
        self.changing = self.changing.saturating_sub(1);
    }

    /// Whether the kernel records this launch since execve was called, and nothing has been decided about that.
    pub fn is_claimed(&mut self, launch: u64) -> bool {
        self.look_for_claim(launch);
        self.claimed.contains_key(&launch)
    }

    fn look_for_claim(&mut self, launch: u64) {
        let claimed = self.pool.as_ref().and_then(|pool| pool.claimed(launch));
        if let Some(claimed) = claimed {
            self.claimed.insert(launch, claimed);
            self.taken(launch);
        }
    }

    /// Gives up what the kernel records of a launch that is not to be learned.
    ///
    /// # Errors
    /// When the system has no thread to give; then it is given up at once.
    pub fn give_up(&mut self, launch: u64) -> io::Result<()> {
        // Of a launch whose beginning was not reported, nobody has asked before.
        self.look_for_claim(launch);
        let Some(claimed) = self.claimed.remove(&launch) else {
            return Ok(());
        };
        let work = move || {
            drop(claimed);
            Message::RecorderKept(Ok(()))
        };
        work_behind("pf-tables", &self.outbox, work)?;
        self.changing += 1;
        Ok(())
    }

    /// Whether a recorder waits for a launch that did not when this was asked before.
    pub fn is_newly_ready(&mut self) -> bool {
        let is_ready = self.is_ready();
        let was_ready = mem::replace(&mut self.was_ready, is_ready);
        is_ready && !was_ready
    }

    /// A launch has the recorder that was ready.
    fn taken(&mut self, launch: u64) {
        tracing::debug!(launch, "the recorder is taken");
        self.was_ready = false;
    }

    /// Has a launch recorded by a thread: further, if the kernel records it already, or from now on. `late`: its beginning is
    /// past. False if as many are recorded as can be.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn record(&mut self, job: LiveJob, late: bool) -> io::Result<bool> {
        let launch = job.launch;
        let (uid, path) = (job.app.uid, job.app.path.clone());
        let of_user = self.learners.values().filter(|other| other.uid == uid);
        let has_room = self.learners.len() < MOST && of_user.count() < MOST_OF_A_USER;
        let recording = match self.claimed.remove(&launch) {
            Some(claimed) if has_room => Some(LaunchRecorder::Claimed(claimed)),
            Some(claimed) => {
                // Not here: it takes tens of milliseconds.
                self.claimed.insert(launch, claimed);
                self.give_up(launch)?;
                None
            }
            None if has_room => {
                let pool = self.pool.as_ref();
                // The one that is ready is for a launch that it can record from its beginning.
                let lease = pool.and_then(|pool| match late {
                    true => pool.take(),
                    false => pool.take_ready(),
                });
                if !late && lease.is_some() {
                    self.taken(launch);
                }
                lease.map(LaunchRecorder::Late)
            }
            None => None,
        };
        let Some(recording) = recording else {
            return Ok(false);
        };
        let outbox = self.outbox.clone();
        let tell = move |result: LiveResult| {
            let learned = result.profile.as_ref().ok();
            let cached = learned.map(|learned| Box::new(CachedProfile::load(&learned.profile)));
            let result = Box::new(result);
            outbox.send(Message::Recorded { result, cached });
        };
        let learner = start_behind(|| LiveLearner::start(recording, job, tell))?;
        let recorded = RecordedLaunch {
            uid,
            path,
            late,
            learner,
        };
        self.learners.insert(launch, recorded);
        self.share.started(uid, Instant::now());
        Ok(true)
    }

    /// What a launch executes has been found: it was not known when its recording began.
    pub fn executed(&self, launch: u64, app: &App) {
        if let Some(recorded) = self.learners.get(&launch) {
            recorded.learner.executed(app.clone());
        }
    }

    /// Whether the next launch of an app that is to be learned would be recorded from its beginning.
    pub fn is_ready(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.is_ready())
    }

    /// The recording of a launch has ended, or its thread is given up.
    pub fn ended(&mut self, launch: u64) {
        if let Some(recorded) = self.learners.remove(&launch) {
            self.share.ended(recorded.uid, Instant::now());
        }
    }
}
