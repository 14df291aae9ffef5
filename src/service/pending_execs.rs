//! Calls of execve that have not succeeded yet, and that nothing but their success will tell the app of.
//!
//! Most of them try a place of PATH where the program is not. Each takes one of the places in which the
//! kernel side counts launches, so that their number and their time are bounded: anybody may call in vain
//! as often as he likes.

use std::collections::HashMap;
use std::time::Instant;

use super::active::CALL_LIMIT;

/// Calls that are waited for at a time: together with the launches that are dealt with, no more than the
/// kernel side can count.
const MOST: usize = 16;

/// The calls, by the number of the launch that they may become: not by process, each of its threads may
/// call.
#[derive(Debug, Default)]
pub struct PendingExecs(HashMap<u64, (u32, Instant)>);

impl PendingExecs {
    /// A process has called, for the first time in this launch or again: its time begins with the first
    /// call, so that who goes on calling does not go on for ever. Returns a launch that is given up for it.
    pub fn called(&mut self, launch: u64, pid: u32, now: Instant) -> Option<u64> {
        self.0.entry(launch).or_insert((pid, now));
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

    /// Takes a call of this process.
    pub fn take_of(&mut self, pid: u32) -> Option<u64> {
        let mut of_process = self.0.iter().filter(|(_, (caller, _))| *caller == pid);
        let launch = of_process.next().map(|(&launch, _)| launch)?;
        self.0.remove(&launch);
        Some(launch)
    }

    /// Takes those that have had their time.
    pub fn take_failed(&mut self, now: Instant) -> Vec<u64> {
        let mut failed = Vec::new();
        self.0.retain(|&launch, (_, since)| {
            let keep = now.saturating_duration_since(*since) <= CALL_LIMIT;
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_calls_for_ever_is_given_up_all_the_same() {
        let (mut calls, begun) = (PendingExecs::default(), Instant::now());
        for second in 0..5 {
            let now = begun + Duration::from_secs(second);
            assert_eq!(calls.called(1, 100, now), None);
            assert!(calls.take_failed(now).is_empty());
        }
        let late = begun + CALL_LIMIT + Duration::from_millis(1);
        assert_eq!(calls.called(1, 100, late), None);
        assert_eq!(calls.take_failed(late), [1]);
        assert!(calls.is_empty());
    }

    #[test]
    fn of_too_many_the_oldest_is_given_up() {
        let (mut calls, begun) = (PendingExecs::default(), Instant::now());
        let at = |launch: u64| begun + Duration::from_millis(launch);
        // All of one process: they are threads.
        for launch in 1..=MOST as u64 {
            assert_eq!(calls.called(launch, 100, at(launch)), None);
        }
        for launch in 1..=100 {
            let new = launch + MOST as u64;
            assert_eq!(calls.called(new, 100, at(new)), Some(launch));
        }
    }

    #[test]
    fn what_succeeds_is_waited_for_no_longer() {
        let (mut calls, now) = (PendingExecs::default(), Instant::now());
        for (launch, pid) in [(1, 100), (2, 200), (3, 300)] {
            assert_eq!(calls.called(launch, pid, now), None);
        }
        calls.remove(1);
        assert_eq!(calls.take_of(100), None);
        assert_eq!(calls.take_of(200), Some(2));
        assert_eq!(calls.take_of(200), None);
        assert_eq!(calls.take_failed(now + CALL_LIMIT * 2), [3]);
    }
}
