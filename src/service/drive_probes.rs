//! Measuring the drives that profiles lie on, a little after a launch, while nobody uses them.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::mailbox::Outbox;
use super::message::Message;
use super::own_process::{release_heap, work_behind};
use super::probe_round::{PackedProfiles, ProbeRound, ProbesEnded};
use crate::drive::Sysfs;
use crate::model::UserApp;

/// How long a drive that others use is left alone.
const TRY_AGAIN: Duration = Duration::from_secs(10 * 60);

/// Has drives measured.
pub struct DriveProbes {
    /// The app that was launched or learned last: its drive is awake.
    latest: Option<UserApp>,
    /// When that will be some time ago; `None`: nothing is to be measured, or something is being measured.
    due: Option<Instant>,
    /// How long after a launch: the user has what he wanted by then, and the drive is still awake.
    rest: Duration,
    /// Nothing is measured before.
    not_before: Instant,
    /// The apps whose drives were looked at since the service has begun.
    looked_at: HashSet<UserApp>,
    /// Drives that cannot be measured, by number: until the service starts again, they are left alone.
    failed: Vec<u64>,
    /// Tells the thread to stop.
    stop: Arc<AtomicBool>,
    is_under_way: bool,
    state_dir: PathBuf,
    sysfs: Sysfs,
    outbox: Outbox,
}

impl DriveProbes {
    /// What is measured is kept in this directory. `rest`: how long after a launch that is begun.
    pub fn new(state_dir: PathBuf, sysfs: Sysfs, rest: Duration, outbox: Outbox) -> Self {
        DriveProbes {
            latest: None,
            due: None,
            rest,
            not_before: Instant::now(),
            looked_at: HashSet::new(),
            failed: Vec::new(),
            stop: Arc::default(),
            is_under_way: false,
            state_dir,
            sysfs,
            outbox,
        }
    }

    /// Takes another setting for how long after a launch drives are measured.
    pub fn set_rest(&mut self, rest: Duration) {
        self.rest = rest;
    }

    /// A launch of an app that has a profile is over. Its drives are looked at if they were not yet.
    pub fn launch_ended(&mut self, key: &UserApp, now: Instant) {
        if !self.looked_at.contains(key) {
            self.latest = Some(key.clone());
            self.due = Some((now + self.rest).max(self.not_before));
        }
    }

    /// An app has a new profile, perhaps on other drives.
    pub fn learned(&mut self, key: &UserApp, now: Instant) {
        self.looked_at.remove(key);
        self.launch_ended(key, now);
    }

    /// Starts a thread that measures the drives on which the profile of the app lies that was launched or learned last, if they
    /// are to be measured: those of others may sleep. `profiles` are all there are.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(&mut self, profiles: PackedProfiles) -> io::Result<()> {
        self.stop = Arc::default();
        self.due = None;
        let latest = self.latest.take();
        // Others were forgotten.
        self.looked_at
            .retain(|key| profiles.iter().any(|(known, _)| known == key));
        self.looked_at.extend(latest.clone());
        let round = ProbeRound {
            latest,
            profiles,
            failed: self.failed.clone(),
            stop: Arc::clone(&self.stop),
            state_dir: self.state_dir.clone(),
            sysfs: self.sysfs.clone(),
        };
        work_behind("pf-probe", &self.outbox, || {
            let ended = round.measure();
            release_heap();
            Message::DrivesProbed(ended)
        })?;
        self.is_under_way = true;
        Ok(())
    }

    /// A launch begins: whatever is being measured is given up after the reads that are under way.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The thread has ended.
    pub fn ended(&mut self, ended: &ProbesEnded, now: Instant) {
        self.is_under_way = false;
        self.failed.extend(&ended.failed);
        if ended.is_disturbed {
            // The next launch of any app has its drives looked at again.
            self.looked_at.clear();
            self.not_before = now + TRY_AGAIN;
            self.due = self.due.map(|due| due.max(self.not_before));
        }
    }

    /// Time until drives are to be looked at; `None` if nothing is planned.
    pub fn until_due(&self, now: Instant) -> Option<Duration> {
        let due = self.due.filter(|_| !self.is_under_way)?;
        Some(due.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::mailbox::mailbox;

    fn app(name: &str) -> UserApp {
        UserApp {
            uid: 1000,
            id: name.to_owned(),
        }
    }

    fn ended(is_disturbed: bool) -> ProbesEnded {
        ProbesEnded {
            is_disturbed,
            apps: Vec::new(),
            failed: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn drives_are_looked_at_once_a_little_after_a_launch_and_later_if_others_use_them() {
        let (outbox, _inbox) = mailbox().unwrap();
        let rest = Duration::from_secs(10);
        let mut probes = DriveProbes::new(PathBuf::new(), Sysfs::default(), rest, outbox);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(probes.until_due(start), None);
        probes.launch_ended(&app("a"), at(5));
        assert_eq!(probes.until_due(at(8)), Some(Duration::from_secs(7)));
        // No profile is there: nothing is read.
        probes.start(Vec::new()).unwrap();
        assert_eq!(probes.until_due(at(60)), None);
        probes.ended(&ended(false), at(61));
        probes.launch_ended(&app("a"), at(70));
        assert_eq!(probes.until_due(at(70)), None, "it was looked at");
        probes.learned(&app("a"), at(80));
        assert_eq!(probes.until_due(at(80)), Some(rest));
        probes.start(Vec::new()).unwrap();
        probes.launch_ended(&app("b"), at(91));
        assert_eq!(probes.until_due(at(91)), None, "it is under way");
        probes.ended(&ended(true), at(100));
        assert_eq!(probes.until_due(at(100)), Some(TRY_AGAIN));
        probes.launch_ended(&app("a"), at(800));
        assert_eq!(probes.until_due(at(800)), Some(rest), "once more");
    }
}
