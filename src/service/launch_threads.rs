//! The threads that learn and prefetch launches, and those of them that hang.
//!
//! Such a thread reads from drives, and one that does not answer may keep it for ever. Nothing can end it then. So a
//! thread that takes too long is given up: its launch goes on without it, its place is free for another launch, and
//! its app is left alone until it has ended. Other apps on its app's drive are not, since the drive that does not answer
//! may be another one, with a file that the app reads.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::model::UserApp;

/// How long a prefetch may take, and a launch that is learned beyond the time in which it is watched. The largest
/// schedules take a minute on a card; a drive that retries a bad sector stands still for as long.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Threads that hang at a time: with more, the service does not work.
pub const MOST_HANGING: usize = 16;

/// What a thread does for a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaunchTask {
    Learn,
    Prefetch,
}

/// For which app a thread works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedApp {
    pub key: UserApp,
    /// The number of the drive with its executable; 0 if that is not known.
    pub dev: u64,
}

/// A thread that is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HangingThread {
    pub task: LaunchTask,
    pub launch: u64,
    pub app: ServedApp,
}

struct RunningThread {
    app: ServedApp,
    until: Instant,
    hangs: bool,
}

/// The threads that run, by what they do and for which launch.
#[derive(Default)]
pub struct LaunchThreads(HashMap<(LaunchTask, u64), RunningThread>);

impl LaunchThreads {
    /// A thread was started, which is given up at `until`.
    pub fn started(&mut self, task: LaunchTask, launch: u64, app: ServedApp, until: Instant) {
        let thread = RunningThread {
            app,
            until,
            hangs: false,
        };
        self.0.insert((task, launch), thread);
    }

    /// A thread has ended, given up or not.
    pub fn ended(&mut self, task: LaunchTask, launch: u64) {
        self.0.remove(&(task, launch));
    }

    /// The threads whose time is over. Each is returned once.
    pub fn give_up(&mut self, now: Instant) -> Vec<HangingThread> {
        let mut given_up = Vec::new();
        for (&(task, launch), thread) in &mut self.0 {
            if !thread.hangs && thread.until <= now {
                thread.hangs = true;
                let app = thread.app.clone();
                given_up.push(HangingThread { task, launch, app });
            }
        }
        given_up
    }

    /// Time until a thread may have to be given up.
    pub fn until_next(&self, now: Instant) -> Option<Duration> {
        let working = self.0.values().filter(|thread| !thread.hangs);
        let next = working.map(|thread| thread.until).min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Whether a thread hangs that has worked for this user's app.
    pub fn hangs_for(&self, key: &UserApp) -> bool {
        self.hanging().any(|thread| thread.app.key == *key)
    }

    /// Whether more threads hang than the service can do without.
    pub fn too_many_hang(&self) -> bool {
        self.hanging().count() > MOST_HANGING
    }

    fn hanging(&self) -> impl Iterator<Item = &RunningThread> {
        self.0.values().filter(|thread| thread.hangs)
    }
}

#[cfg(test)]
mod tests {
    use super::LaunchTask::{Learn, Prefetch};
    use super::*;

    fn app(id: &str, dev: u64) -> ServedApp {
        let key = UserApp::new(1000, id);
        ServedApp { key, dev }
    }

    #[test]
    fn a_thread_is_given_up_once_and_its_app_left_alone_until_it_ends() {
        let begun = Instant::now();
        let mut threads = LaunchThreads::default();
        assert_eq!(threads.until_next(begun), None);
        threads.started(Prefetch, 1, app("/a", 7), begun + LIMIT);
        threads.started(Learn, 1, app("/a", 7), begun + 2 * LIMIT);
        assert_eq!(threads.until_next(begun), Some(LIMIT));
        assert_eq!(threads.give_up(begun + LIMIT / 2), []);
        let key = app("/a", 7).key;
        assert!(!threads.hangs_for(&key));
        let hanging = HangingThread {
            task: Prefetch,
            launch: 1,
            app: app("/a", 7),
        };
        assert_eq!(threads.give_up(begun + LIMIT), [hanging]);
        assert_eq!(threads.give_up(begun + LIMIT), []);
        assert_eq!(threads.until_next(begun + LIMIT), Some(LIMIT));
        let others = UserApp::new(1001, "/a");
        for (key, expected) in [(&key, true), (&others, false), (&app("/b", 7).key, false)] {
            assert_eq!(threads.hangs_for(key), expected, "{key}");
        }
        threads.ended(Prefetch, 1);
        assert!(!threads.hangs_for(&key), "the other one works");
    }

    #[test]
    fn threads_that_hang_are_too_many_until_some_of_them_end() {
        let begun = Instant::now();
        let mut threads = LaunchThreads::default();
        for launch in 0..=MOST_HANGING as u64 {
            assert!(!threads.too_many_hang());
            threads.started(Learn, launch, app("/a", 0), begun);
            threads.give_up(begun);
        }
        assert!(threads.too_many_hang());
        threads.ended(Learn, 0);
        assert!(!threads.too_many_hang());
    }
}
