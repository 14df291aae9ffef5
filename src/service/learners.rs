//! The learning threads: how many are kept ready.
//!
//! A thread learns one launch, and it takes a fifth of a second of processor time until it is ready to. Two
//! wait, so that two apps that are started at once, as those of a login are, are both learned. Once
//! both are at it, another one is made ready for a third; with one of them at it, that can wait until the
//! launch is over, which it would only slow down.

use std::io;

use crate::learn::{LiveJob, LiveLearner, Stage};

/// Threads that wait for launches, at most. Each keeps 13 MiB of the kernel's memory.
const SPARE: usize = 2;

/// Threads in all: while they learn, each costs every process of the system.
const MOST: usize = 6;

/// The learning threads.
#[derive(Default)]
pub struct Learners {
    threads: Vec<Thread>,
    /// Apps that are to be learned.
    apps: usize,
    /// Number of the thread that is started next.
    next: u64,
    /// Set once another one could not be had.
    most: Option<usize>,
}

struct Thread {
    number: u64,
    learner: LiveLearner,
}

impl Learners {
    /// Makes as many threads ready as are wanted for the launches of `apps` apps, those among them that
    /// are being learned, and lets others go. `start` is given the number of a thread.
    ///
    /// # Errors
    /// What `start` says.
    pub fn keep(
        &mut self,
        apps: usize,
        start: impl FnOnce(u64) -> io::Result<LiveLearner>,
    ) -> io::Result<()> {
        self.apps = apps;
        let stages: Vec<Stage> = self.stages().collect();
        match change(&stages, apps, self.most.unwrap_or(MOST)) {
            StageChange::None => {}
            StageChange::Start => {
                let number = self.next;
                self.next += 1;
                self.threads.push(Thread {
                    number,
                    learner: start(number)?,
                });
            }
            StageChange::LetGo => self
                .threads
                .retain(|thread| thread.learner.stage() == Stage::Learning),
        }
        Ok(())
    }

    /// Gives a launch to a thread that is ready. It comes back if there is none.
    ///
    /// # Errors
    /// The job itself.
    pub fn learn(&self, job: LiveJob) -> Result<(), Box<LiveJob>> {
        let mut job = Box::new(job);
        for thread in &self.threads {
            match thread.learner.learn(*job) {
                Ok(()) => return Ok(()),
                Err(back) => job = back,
            }
        }
        Err(job)
    }

    /// How many apps are to be learned, as [`Learners::keep`] was told.
    pub fn apps(&self) -> usize {
        self.apps
    }

    /// Whether a launch would be learned now.
    pub fn can_learn(&self) -> bool {
        self.stages().any(|stage| stage == Stage::Ready)
    }

    /// Whether there is any.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// A thread has ended.
    pub fn ended(&mut self, number: u64) {
        self.threads.retain(|thread| thread.number != number);
    }

    /// A thread could not be made ready. True if that is no more than one too many.
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

/// What is to be done about the threads if so many apps are to be learned. One is loaded at a time: they
/// would only take the processor from each other.
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
    fn as_many_are_made_ready_as_may_be_needed() {
        let of = |stages: &[Stage], apps| change(stages, apps, MOST);
        assert_eq!(of(&[], 0), StageChange::None);
        assert_eq!(of(&[], 1), StageChange::Start);
        assert_eq!(of(&[Loading], 50), StageChange::None);
        assert_eq!(of(&[Ready], 1), StageChange::None);
        assert_eq!(of(&[Ready], 50), StageChange::Start);
        assert_eq!(of(&[Ready, Ready], 50), StageChange::None);
    }

    #[test]
    fn a_single_launch_is_left_alone_and_of_several_each_is_learned() {
        let of = |stages: &[Stage], apps| change(stages, apps, MOST);
        assert_eq!(of(&[Learning, Ready], 50), StageChange::None);
        assert_eq!(of(&[Learning, Learning], 50), StageChange::Start);
        assert_eq!(of(&[Learning, Learning, Loading], 50), StageChange::None);
        assert_eq!(of(&[Learning, Learning], 2), StageChange::None);
        assert_eq!(of(&[Learning; MOST], 50), StageChange::None);
    }

    #[test]
    fn what_nobody_needs_goes() {
        let of = |stages: &[Stage], apps| change(stages, apps, MOST);
        assert_eq!(of(&[Ready, Ready], 0), StageChange::LetGo);
        assert_eq!(of(&[Learning, Ready], 1), StageChange::LetGo);
        assert_eq!(of(&[Learning], 1), StageChange::None);
        // Two were ready, and the one app that is left needs one: it does no harm.
        assert_eq!(of(&[Ready, Ready], 1), StageChange::None);
    }

    #[test]
    fn what_could_not_be_had_is_not_asked_for_again() {
        assert_eq!(change(&[Ready], 50, 1), StageChange::None);
        assert_eq!(change(&[], 50, 1), StageChange::Start);
        assert_eq!(change(&[], 50, 0), StageChange::None);
    }
}
