//! The recorder threads, and the programs that are held until one of them is ready.
//!
//! A thread records one launch. It takes a fifth of a second of processor time to load its BPF programs. Two
//! wait, so that two apps that are started at once, as those of a login are, are both recorded. While both
//! record, another one is made ready for a third app. While one of them records, that can wait until the
//! launch is over, which it would slow down.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use super::mailbox::Outbox;
use super::message::Message;
use super::priority::start_behind;
use crate::kernel::HeldExec;
use crate::learn::{LiveJob, LiveLearner, Stage};

/// Threads that wait for launches, at most. Each keeps 13 MiB of the kernel's memory.
const SPARE: usize = 2;

/// Threads in all: while they record, each costs every process of the system.
const MOST: usize = 6;

/// A held program. Two may let it go: the recorder when it is ready, and the event loop when that takes too
/// long.
#[derive(Clone)]
struct Hold(Arc<Mutex<Option<HeldExec>>>);

impl Hold {
    fn new(held: HeldExec) -> Self {
        Hold(Arc::new(Mutex::new(Some(held))))
    }

    // Nothing can panic while it is locked.

    fn is_held(&self) -> bool {
        self.0.lock().is_ok_and(|held| held.is_some())
    }

    fn let_go(&self) {
        if let Ok(mut held) = self.0.lock() {
            *held = None;
        }
    }
}

/// Lets a program go when it is dropped.
struct LetGo(Hold);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// The recorder threads.
pub struct Recorders {
    threads: Vec<Thread>,
    /// Programs that are held, by launch.
    holds: HashMap<u64, Hold>,
    /// Apps that are to be learned.
    apps: usize,
    /// Number of the thread that is started next.
    next: u64,
    /// Set once another thread could not be loaded.
    most: Option<usize>,
    outbox: Outbox<Message>,
}

struct Thread {
    number: u64,
    learner: LiveLearner,
}

impl Recorders {
    /// No threads yet. They will report to this mailbox.
    pub fn new(outbox: Outbox<Message>) -> Self {
        Recorders {
            threads: Vec::new(),
            holds: HashMap::new(),
            apps: 0,
            next: 0,
            most: None,
            outbox,
        }
    }

    /// Makes as many threads ready as the launches of `apps` apps need, counting those that are being
    /// recorded, and ends spare ones.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn keep(&mut self, apps: usize) -> io::Result<()> {
        self.apps = apps;
        if self.most == Some(0) {
            return Ok(());
        }
        let stages: Vec<Stage> = self.stages().collect();
        match change(&stages, apps, self.most.unwrap_or(MOST)) {
            StageChange::None => {}
            StageChange::Start => {
                let number = self.next;
                self.next += 1;
                let outbox = self.outbox.clone();
                let tell = move |news| {
                    outbox.send(Message::Recorder(number, news));
                };
                let learner = start_behind(|| LiveLearner::start(tell))?;
                self.threads.push(Thread { number, learner });
            }
            StageChange::LetGo => self
                .threads
                .retain(|thread| thread.learner.stage() == Stage::Learning),
        }
        Ok(())
    }

    /// As [`Recorders::keep`], for as many apps as before: a thread has begun to record.
    ///
    /// # Errors
    /// As [`Recorders::keep`].
    pub fn keep_as_many(&mut self) -> io::Result<()> {
        self.keep(self.apps)
    }

    /// The exec gate holds the program of this launch.
    pub fn hold(&mut self, launch: u64, held: HeldExec) {
        self.holds.insert(launch, Hold::new(held));
    }

    /// Whether the program of this launch is held.
    pub fn is_held(&self, launch: u64) -> bool {
        self.holds.get(&launch).is_some_and(Hold::is_held)
    }

    /// Lets the program of this launch go, if it is held.
    pub fn let_go(&mut self, launch: u64) {
        if let Some(hold) = self.holds.remove(&launch) {
            hold.let_go();
        }
    }

    /// Gives a launch to a thread that is ready; false if there is none. The thread lets the program of the
    /// launch go once it sees what the program does.
    pub fn record(&self, mut job: LiveJob) -> bool {
        let hold = self.holds.get(&job.launch);
        job.held = hold.map(|hold| Box::new(LetGo(hold.clone())) as Box<dyn Send>);
        let mut job = Box::new(job);
        for thread in &self.threads {
            match thread.learner.learn(*job) {
                Ok(()) => return true,
                Err(back) => job = back,
            }
        }
        false
    }

    /// Whether a launch would be recorded now.
    pub fn is_ready(&self) -> bool {
        self.stages().any(|stage| stage == Stage::Ready)
    }

    /// Whether there is no thread.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// A thread has ended.
    pub fn ended(&mut self, number: u64) {
        self.threads.retain(|thread| thread.number != number);
    }

    /// A thread could not be made ready. True if others can.
    pub fn failed(&mut self, number: u64) -> bool {
        self.ended(number);
        self.most = Some(self.threads.len());
        !self.is_empty()
    }

    fn stages(&self) -> impl Iterator<Item = Stage> {
        self.threads.iter().map(|thread| thread.learner.stage())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StageChange {
    None,
    Start,
    LetGo,
}

/// What is to be done about the threads if so many apps are to be learned. One is loaded at a time: two would
/// only take the processor from each other.
fn change(stages: &[Stage], apps: usize, most: usize) -> StageChange {
    let count = |stage| stages.iter().filter(|&&of| of == stage).count();
    let (loading, ready, learning) = (
        count(Stage::Loading),
        count(Stage::Ready),
        count(Stage::Learning),
    );
    let waiting = apps.saturating_sub(learning);
    let spare = if learning > 0 { 1 } else { SPARE };
    if waiting == 0 && loading + ready > 0 {
        StageChange::LetGo
    } else if loading == 0 && ready < waiting.min(spare) && stages.len() < most {
        StageChange::Start
    } else {
        StageChange::None
    }
}

#[cfg(test)]
mod tests {
    use super::Stage::{Learning, Loading, Ready};
    use super::*;

    #[test]
    fn as_many_threads_are_made_ready_as_may_be_needed() {
        let of = |stages: &[Stage], apps| change(stages, apps, MOST);
        assert_eq!(of(&[], 0), StageChange::None);
        assert_eq!(of(&[], 1), StageChange::Start);
        assert_eq!(of(&[Loading], 50), StageChange::None);
        assert_eq!(of(&[Ready], 1), StageChange::None);
        assert_eq!(of(&[Ready], 50), StageChange::Start);
        assert_eq!(of(&[Ready, Ready], 50), StageChange::None);
    }

    #[test]
    fn no_thread_is_loaded_beside_a_single_recording() {
        let of = |stages: &[Stage], apps| change(stages, apps, MOST);
        assert_eq!(of(&[Learning, Ready], 50), StageChange::None);
        assert_eq!(of(&[Learning, Learning], 50), StageChange::Start);
        assert_eq!(of(&[Learning, Learning, Loading], 50), StageChange::None);
        assert_eq!(of(&[Learning, Learning], 2), StageChange::None);
        assert_eq!(of(&[Learning; MOST], 50), StageChange::None);
    }

    #[test]
    fn spare_threads_end_when_no_app_is_to_be_learned() {
        let of = |stages: &[Stage], apps| change(stages, apps, MOST);
        assert_eq!(of(&[Ready, Ready], 0), StageChange::LetGo);
        assert_eq!(of(&[Learning, Ready], 1), StageChange::LetGo);
        assert_eq!(of(&[Learning], 1), StageChange::None);
        // Two were ready, and the app that is left needs one. The other does no harm.
        assert_eq!(of(&[Ready, Ready], 1), StageChange::None);
    }

    #[test]
    fn a_thread_that_could_not_be_loaded_is_not_started_again() {
        assert_eq!(change(&[Ready], 50, 1), StageChange::None);
        assert_eq!(change(&[], 50, 1), StageChange::Start);
        assert_eq!(change(&[], 50, 0), StageChange::None);
    }
}
