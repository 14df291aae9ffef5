//! Calls of execve whose path is no app's, and that have not succeeded yet.
//!
//! Most of them try a directory of PATH where the program is not. Each takes one of the slots in which the
//! kernel side counts launches, so their number and their time are bounded: any user may call execve in
//! vain as often as he likes.

use std::collections::HashMap;

use super::table::CALL_LIMIT;

/// Most calls at a time.
pub(super) const MOST: usize = 8;

/// The calls, by the number of the launch that they may become, with their process and the time of the first
/// (CLOCK_MONOTONIC in nanoseconds). Not by process: each of its threads may call.
#[derive(Debug, Default)]
pub struct PendingExecs(HashMap<u64, (u32, u64)>);

impl PendingExecs {
    /// A process has called, for the first time in this launch or again. Its time begins with the first
    /// call, so that a process that goes on calling is given up, too. Returns a launch that had to make room.
    pub fn called(&mut self, launch: u64, pid: u32, now_ns: u64) -> Option<u64> {
        self.0.entry(launch).or_insert((pid, now_ns));
        if self.0.len() <= MOST {
            return None;
        }
        let oldest = self.0.iter().min_by_key(|(_, (_, since))| *since);
        let oldest = oldest.map(|(&launch, _)| launch)?;
        self.0.remove(&oldest);
        Some(oldest)
    }

    /// The launch has succeeded, or ended.
    pub fn remove(&mut self, launch: u64) {
        self.0.remove(&launch);
    }

    /// Whether the launch is one of them.
    pub fn contains(&self, launch: u64) -> bool {
        self.0.contains_key(&launch)
    }

    /// Takes those whose time is over at `now_ns`.
    pub fn take_failed(&mut self, now_ns: u64) -> Vec<u64> {
        let mut failed = Vec::new();
        self.0.retain(|&launch, (_, since)| {
            let keep = now_ns.saturating_sub(*since) <= CALL_LIMIT.as_nanos() as u64;
            failed.extend((!keep).then_some(launch));
            keep
        });
        failed
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN: u64 = 1_000_000_000_000;

    #[test]
    fn a_process_that_goes_on_calling_is_given_up() {
        let mut calls = PendingExecs::default();
        for second in 0..5 {
            let now = BEGUN + second * 1_000_000_000;
            assert_eq!(calls.called(1, 100, now), None);
            assert!(calls.take_failed(now).is_empty());
        }
        let late = BEGUN + CALL_LIMIT.as_nanos() as u64 + 1_000_000;
        assert_eq!(calls.called(1, 100, late), None);
        assert_eq!(calls.called(2, 200, late), None);
        assert_eq!(calls.take_failed(late), [1]);
        assert!(!calls.contains(1) && calls.contains(2));
    }

    #[test]
    fn the_oldest_call_makes_room() {
        let mut calls = PendingExecs::default();
        let at = |launch: u64| BEGUN + launch * 1_000_000;
        // All of one process: they are threads.
        for launch in 1..=MOST as u64 {
            assert_eq!(calls.called(launch, 100, at(launch)), None);
        }
        for launch in 1..=100 {
            let new = launch + MOST as u64;
            assert_eq!(calls.called(new, 100, at(new)), Some(launch));
        }
    }
}
