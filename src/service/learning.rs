//! Learning launches: from the program that is held to the lesson.

use std::sync::Arc;

use rustix::process::Pid;

use super::active::{Hold, LetGo};
use super::core::Service;
use super::deciding::prepare;
use super::message::Message;
use crate::kernel::HeldExec;
use crate::kernel::LaunchCounts;
use crate::learn::{LiveJob, LiveNews, LiveResult};
use crate::model::LaunchLimits;
use crate::policy::{LaunchFigures, Observation, Plan, Warmth};
use crate::profile::decode;

impl Service<'_> {
    /// Programs that wait to be learned.
    pub(super) fn on_held(&mut self) {
        let waiting = match self.holding.waiting() {
            Ok(waiting) => waiting,
            Err(error) => return self.warn(error.to_string()),
        };
        if waiting.is_empty() {
            return;
        }
        // Each of them has called execve before, and what was seen of that says whose launch it is.
        match self.watch.take() {
            Ok(seen) => seen.into_iter().for_each(|seen| self.on_seen(seen)),
            Err(error) => self.warn(error.to_string()),
        }
        waiting.into_iter().for_each(|held| self.on_held_one(held));
    }

    /// Lets the program go at once, unless its launch is about to be learned.
    fn on_held_one(&mut self, held: HeldExec) {
        let Some(id) = self.holding.app(held.inode) else {
            return;
        };
        let launch = self.active.iter_mut().find(|(_, active)| {
            active.pid == held.pid as u32 && active.id == *id && active.plan == Plan::Learn
        });
        if let Some((&launch, active)) = launch {
            // Its call of execve did not tell.
            (active.app.dev, active.app.ino) = held.inode;
            return self.learn(launch, Some(held));
        }
        let (id, pid) = (id.clone(), held.pid);
        let Some(found) = self.catalogue.of_process(&id, pid) else {
            return;
        };
        if let Some(launch) = self.state.calls.take_of(pid as u32) {
            // The file tells what the path did not.
            self.begin(launch, pid as u32, found, false);
            return self.learn(launch, Some(held));
        }
        if self.watch.is_early() {
            return;
        }
        // Its call of execve was not seen, and its success comes too late.
        let Some(process) = Pid::from_raw(pid) else {
            return;
        };
        // What a launch executes is part of it. A process that cannot be asked for that is gone.
        if !matches!(self.watch.is_part_of_launch(process), Ok(false)) {
            return;
        }
        if let Ok(Some(launch)) = self.watch.adopt(process) {
            self.begin(launch, pid as u32, found, true);
            self.learn(launch, Some(held));
            self.confirmed(launch);
        }
    }

    /// Hands a launch to the learning thread.
    pub(super) fn learn(&mut self, launch: u64, held: Option<HeldExec>) {
        let Some(active) = self.active.get_mut(&launch) else {
            return;
        };
        if active.plan != Plan::Learn {
            return;
        }
        let Some(pid) = Pid::from_raw(active.pid as i32) else {
            return;
        };
        if self.learners.is_empty() {
            active.note = Some("not learned: tracing cannot be had".to_owned());
            return;
        }
        let hold = held.map(Hold::new);
        active.held = hold.clone();
        let earlier = self
            .ready
            .get(&active.id)
            .and_then(|ready| decode(&ready.packed).ok());
        let job = LiveJob {
            launch,
            pid,
            app: active.app.clone(),
            earlier,
            limits: LaunchLimits::from(&self.config.launch),
            sysfs: self.places.sysfs.clone(),
            prefetching: Arc::clone(&active.prefetching),
            held: hold.map(|hold| Box::new(LetGo(hold)) as Box<dyn Send>),
        };
        match self.learners.learn(job) {
            Ok(()) => active.learning = true,
            // There will be other launches of this app.
            Err(_) => {
                active.note = Some(
                    "not learned: tracing is not ready, or busy with other launches".to_owned(),
                )
            }
        }
        // There may be another app, and then it is to be learned, too.
        self.keep_learners(self.learners.apps());
    }

    /// A learning thread has something to tell.
    pub(super) fn on_learning(&mut self, thread: u64, news: LiveNews) {
        match news {
            LiveNews::Ready => {
                // The kernel's type information was unpacked for it.
                self.worker.run(|_| ());
                self.watch_for_learning();
            }
            LiveNews::Done(result) => self.on_learned(thread, *result),
            LiveNews::Failed(why) => {
                self.state.can_learn = self.learners.failed(thread);
                self.warn(match self.state.can_learn {
                    true => format!("fewer launches can be learned at once: {why}"),
                    false => format!("nothing can be learned: {why}"),
                });
            }
        }
    }

    fn on_learned(&mut self, thread: u64, result: LiveResult) {
        // It learns one launch; another is started if there is another app to learn.
        self.learners.ended(thread);
        let launch = result.launch;
        self.take_lesson(result);
        self.finish(launch, None);
        self.watch_for_learning();
    }

    fn take_lesson(&mut self, result: LiveResult) {
        let Some(active) = self.active.get_mut(&result.launch) else {
            return;
        };
        active.learning = false;
        let id = active.id.clone();
        let counts = self.watch.counts(result.launch).unwrap_or_default();
        match result.lesson {
            Ok(lesson) => {
                let store = self.store.clone();
                let outbox = self.outbox.clone();
                let sequence = lesson.sequence();
                match prepare(&lesson.profile) {
                    Ok(ready) => {
                        let alone = active.prefetch.is_none();
                        let cold = alone && is_cold(&counts, ready.bytes);
                        let (history, class) = (ready.history.clone(), ready.class);
                        let observation = Observation::Learned {
                            class,
                            history: &history,
                            waiting_us: cold.then_some(counts.waiting_ns / 1000),
                        };
                        active.note = Some(format!("learned {} entries", ready.entries));
                        // It counts as learned for the end of this launch, too.
                        active.plan = Plan::Learn;
                        active.learning = true;
                        self.ready.insert(id.clone(), ready);
                        self.decide(&id, &observation);
                        self.worker.run(move |_| {
                            let kept = store
                                .save_sequence(&sequence)
                                .and_then(|()| store.save(&lesson.profile).map(drop));
                            if let Err(error) = kept {
                                let why = error.to_string();
                                outbox.send(Message::NotKept { id, why });
                            }
                        });
                    }
                    Err(why) => active.note = Some(why),
                }
            }
            Err(why) => {
                active.note = Some(why.to_string());
                self.decide(&id, &Observation::NotLearned);
            }
        }
    }

    /// What was learned could not be stored: a full disk, say. It is learned at each launch until it can.
    pub(super) fn on_not_kept(&mut self, id: &str, why: String) {
        self.warn(why);
        self.decide(id, &Observation::NoProfile);
        self.save();
    }
}

/// Whether a launch that was learned was as cold as one from which prefetching is withheld.
fn is_cold(counts: &LaunchCounts, bytes: u64) -> bool {
    let seen = LaunchFigures {
        duration_us: 0,
        waiting_us: 0,
        read_bytes: counts.bytes,
        schedule_bytes: bytes,
        own_readaheads: 0,
        prefetched: None,
    };
    seen.warmth() == Warmth::Cold
}
