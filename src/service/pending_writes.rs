//! The state that waits to be written: the registry, and launches for the history.
//!
//! A desktop that starts ten apps when its user logs in must not cost ten times two synchronised files. So the state is
//! written at once if the last time is two seconds ago, and after these two seconds otherwise, all together. A crash
//! loses that much.

use std::time::{Duration, Instant};

use super::history::LaunchRecord;
use super::registry::Registry;

/// Time between two writes.
const INTERVAL: Duration = Duration::from_secs(2);

/// Time after which writing is tried again if it has failed: the disk is full, say.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Most launches that wait: more end within two seconds only if the worker is busy with a drive that does not answer.
const MOST_LAUNCHES: usize = 1024;

/// What waits to be written.
#[derive(Default)]
pub struct PendingWrites {
    registry: Option<Registry>,
    launches: Vec<LaunchRecord>,
    /// Launches that found no room.
    lost: usize,
    /// When something was written last, and how long to wait from then on.
    written: Option<(Instant, Duration)>,
}

/// What is to be written now.
pub struct DueWrites {
    /// Goes first: a program that finds a launch in the history finds what it changed, too.
    pub registry: Option<Registry>,
    /// In the order in which they ended.
    pub launches: Vec<LaunchRecord>,
    /// How many others found no room.
    pub lost: usize,
}

impl PendingWrites {
    /// Has the registry written as it is now.
    pub fn save(&mut self, registry: Registry) {
        self.registry = Some(registry);
    }

    /// Has a launch written into the history.
    pub fn add(&mut self, launch: LaunchRecord) {
        if self.launches.len() < MOST_LAUNCHES {
            self.launches.push(launch);
        } else {
            self.lost += 1;
        }
    }

    /// Takes back what could not be written at `now`, to be written later with what has come meanwhile.
    pub fn take_back(
        &mut self,
        registry: Option<Registry>,
        mut launches: Vec<LaunchRecord>,
        now: Instant,
    ) {
        self.written = Some((now, RETRY_AFTER));
        // One that is newer has all that it has.
        self.registry = self.registry.take().or(registry);
        launches.append(&mut self.launches);
        self.lost += launches.len().saturating_sub(MOST_LAUNCHES);
        launches.truncate(MOST_LAUNCHES);
        self.launches = launches;
    }

    /// Time until something is to be written; `None` if nothing waits.
    pub fn until_due(&self, now: Instant) -> Option<Duration> {
        if self.registry.is_none() && self.launches.is_empty() {
            return None;
        }
        let left = self
            .written
            .map(|(at, interval)| interval.saturating_sub(now.saturating_duration_since(at)));
        Some(left.unwrap_or_default())
    }

    /// Takes all that waits, to be written now; `None` if nothing waits.
    pub fn take(&mut self, now: Instant) -> Option<DueWrites> {
        self.until_due(now)?;
        self.written = Some((now, INTERVAL));
        Some(DueWrites {
            registry: self.registry.take(),
            launches: std::mem::take(&mut self.launches),
            lost: std::mem::take(&mut self.lost),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_launches_in_a_row_are_written_every_two_seconds() {
        let mut pending = PendingWrites::default();
        let start = Instant::now();
        assert_eq!(pending.until_due(start), None);
        let (mut writes, mut written) = (0, 0);
        for launch in 0..1000 {
            let now = start + launch * Duration::from_millis(5);
            pending.add(LaunchRecord::default());
            if pending.until_due(now) == Some(Duration::ZERO) {
                writes += 1;
                written += pending.take(now).unwrap().launches.len();
            }
        }
        assert_eq!((writes, written), (3, 801));
        let last = start + Duration::from_secs(5);
        assert_eq!(pending.until_due(last), Some(Duration::from_secs(1)));
        assert_eq!(pending.take(last).unwrap().launches.len(), 199);
        assert!(pending.take(last).is_none());
    }

    #[test]
    fn what_could_not_be_written_is_tried_again_after_a_minute() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(dir.path()).unwrap();
        let mut pending = PendingWrites::default();
        let start = Instant::now();
        pending.add(LaunchRecord::default());
        pending.save(registry);
        let due = pending.take(start).unwrap();
        let newer = LaunchRecord {
            uid: 7,
            ..LaunchRecord::default()
        };
        pending.add(newer);
        pending.take_back(due.registry, due.launches, start);
        assert_eq!(pending.until_due(start), Some(RETRY_AFTER));
        let due = pending.take(start + RETRY_AFTER).unwrap();
        assert!(due.registry.is_some());
        let uids: Vec<u32> = due.launches.iter().map(|launch| launch.uid).collect();
        assert_eq!(uids, [0, 7], "in the order in which they ended");
    }

    #[test]
    fn launches_that_nobody_takes_are_bounded_and_counted() {
        let mut pending = PendingWrites::default();
        for _ in 0..MOST_LAUNCHES + 3 {
            pending.add(LaunchRecord::default());
        }
        let due = pending.take(Instant::now()).unwrap();
        assert_eq!((due.launches.len(), due.lost), (MOST_LAUNCHES, 3));
        pending.add(LaunchRecord::default());
        assert_eq!(pending.take(Instant::now()).unwrap().lost, 0);
    }
}
