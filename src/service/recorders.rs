//! The launches that are being recorded, and the programs that are held until a recorder sees them, or until what they are
//! held for has been read ahead.
//!
//! While any app is to be learned, one recorder of the kernel side has its tables ready: to make them takes
//! tens of milliseconds, which a held program would wait for.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cached_profile::CachedProfile;
use super::mailbox::Outbox;
use super::message::Message;
use super::own_process::{start_behind, work_behind};
use crate::kernel::{HeldExec, RecorderPool};
use crate::learn::{LiveJob, LiveLearner, LiveResult};

/// Launches that are recorded at once, and those of one user, who may have several apps start when he logs in: each
/// costs every process of the system, and up to 25 MB.
const MOST: usize = 6;
const MOST_OF_A_USER: usize = 4;

/// Programs that are held for seconds at a time, and those of one user: the gate has places for others, too.
const MOST_HELD_ON: usize = 8;
const MOST_HELD_ON_OF_A_USER: usize = 4;

/// Lets a program go when it is dropped.
struct LetGo(Arc<HeldExec>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// The recorders, and the threads that learn with them.
pub struct Recorders {
    /// `None` if the kernel cannot record.
    pool: Option<Arc<RecorderPool>>,
    /// By launch, with whose it is.
    learners: HashMap<u64, (u32, LiveLearner)>,
    /// Programs that are held, by launch, with the time since when. The recorder lets them go when it is ready, and the gate
    /// when that takes too long.
    holds: HashMap<u64, (Arc<HeldExec>, Instant)>,
    /// Those of them that are held for what is read ahead, with whose they are.
    held_on: HashMap<u64, u32>,
    /// Apps that are to be learned.
    apps: usize,
    /// Whether a thread makes or frees tables.
    is_changing: bool,
    outbox: Outbox,
}

impl Recorders {
    /// Nothing is recorded yet. The threads will report to this mailbox.
    pub fn new(pool: Option<Arc<RecorderPool>>, outbox: Outbox) -> Self {
        Recorders {
            pool,
            learners: HashMap::new(),
            holds: HashMap::new(),
            held_on: HashMap::new(),
            apps: 0,
            is_changing: false,
            outbox,
        }
    }

    /// Whether launches can be recorded at all.
    pub fn can_record(&self) -> bool {
        self.pool.is_some()
    }

    /// Has a recorder made ready if one of `apps` apps is to be learned that is not recorded already, and
    /// otherwise gives the memory for it back. A thread reports when that is done.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn keep(&mut self, apps: usize) -> io::Result<()> {
        self.apps = apps;
        let Some(pool) = &self.pool else {
            return Ok(());
        };
        let recorded = self.learners.len();
        let wanted = recorded < apps.min(MOST);
        if self.is_changing || wanted == pool.is_ready() {
            return Ok(());
        }
        let pool = Arc::clone(pool);
        let work = move || {
            let kept = pool.keep_ready(wanted).map_err(|error| error.to_string());
            Message::RecorderKept(kept)
        };
        work_behind("pf-tables", &self.outbox, work)?;
        self.is_changing = true;
        Ok(())
    }

    /// The same for as many apps as before: another launch is being recorded.
    ///
    /// # Errors
    /// As [`Recorders::keep`].
    pub fn keep_as_many(&mut self) -> io::Result<()> {
        self.keep(self.apps)
    }

    /// Whether a thread makes or frees tables.
    pub fn is_changing(&self) -> bool {
        self.is_changing
    }

    /// What [`Recorders::keep`] has begun is done. After a failure, the next call of it tries again.
    pub fn kept(&mut self) {
        self.is_changing = false;
    }

    /// The exec gate holds the program of this launch.
    pub fn hold(&mut self, launch: u64, held: HeldExec) {
        self.holds.insert(launch, (Arc::new(held), Instant::now()));
    }

    /// Holds the program of this user's launch on, so long at most since it was held first. False if as many are as may be.
    pub fn hold_for(&mut self, launch: u64, uid: u32, limit: Duration) -> bool {
        let of_user = self.held_on.values().filter(|user| **user == uid);
        if self.held_on.len() >= MOST_HELD_ON || of_user.count() >= MOST_HELD_ON_OF_A_USER {
            return false;
        }
        if let Some((held, _)) = self.holds.get(&launch) {
            held.hold_for(limit);
            self.held_on.insert(launch, uid);
        }
        true
    }

    /// Whether the exec gate has let the program of this launch go before anybody else did.
    pub fn was_held_too_long(&self, launch: u64) -> bool {
        self.holds
            .get(&launch)
            .is_some_and(|(held, _)| held.was_late())
    }

    /// Whether the program of this launch is held.
    fn is_held(&self, launch: u64) -> bool {
        self.holds
            .get(&launch)
            .is_some_and(|(held, _)| held.is_held())
    }

    /// Lets the program of this launch go, if it is held. Returns for how long it was; `None` if it was not, or if that was
    /// asked before.
    pub fn let_go(&mut self, launch: u64) -> Option<Duration> {
        self.held_on.remove(&launch);
        let (held, since) = self.holds.remove(&launch)?;
        held.let_go();
        Some(since.elapsed())
    }

    /// Has a launch recorded; false if as many are as can be, or it would be recorded too late. The thread
    /// lets the program of the launch go once it sees what the program does.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn record(&mut self, mut job: LiveJob) -> io::Result<bool> {
        let launch = job.launch;
        // While tables are made, a program that is not held would run on, and be recorded in part.
        let is_in_time = self.is_held(launch) || self.is_ready();
        let uid = job.app.uid;
        let of_user = self.learners.values().filter(|(other, _)| *other == uid);
        let has_room = self.learners.len() < MOST && of_user.count() < MOST_OF_A_USER;
        let may_be = is_in_time && has_room;
        let pool = self.pool.as_ref().filter(|_| may_be);
        let Some(recorder) = pool.and_then(RecorderPool::take) else {
            return Ok(false);
        };
        let held = self.holds.get(&launch);
        job.held = held.map(|(held, _)| Box::new(LetGo(Arc::clone(held))) as Box<dyn Send>);
        let outbox = self.outbox.clone();
        let tell = move |result: LiveResult| {
            let learned = result.profile.as_ref().ok();
            let cached = learned.map(|learned| Box::new(CachedProfile::load(&learned.profile)));
            let result = Box::new(result);
            outbox.send(Message::Recorded { result, cached });
        };
        let learner = start_behind(|| LiveLearner::start(recorder, job, tell))?;
        self.learners.insert(launch, (uid, learner));
        Ok(true)
    }

    /// Whether a launch would be recorded without delay.
    pub fn is_ready(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.is_ready())
    }

    /// The recording of a launch has ended, or its thread is given up.
    pub fn ended(&mut self, launch: u64) {
        self.learners.remove(&launch);
    }
}
