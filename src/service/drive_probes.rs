//! Measuring the drives that profiles lie on, a little after a launch, while nobody uses them.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::clock::now_s;
use super::mailbox::Outbox;
use super::message::Message;
use super::own_process::{release_heap, work_behind};
use crate::drive::{
    DriveBelow, MeasuredDrive, MeasuredDrives, ProbeError, ProbedDrive, Sysfs, drives_of,
    identities, probe_drive,
};
use crate::fs::mounts::MountTable;
use crate::fs::present::probable_device;
use crate::model::UserApp;
use crate::profile::decode;
use crate::schedule::formula;

/// How long a drive that others use is left alone.
const TRY_AGAIN: Duration = Duration::from_secs(10 * 60);

/// Seconds after which a drive is measured again: flash slows down as it fills and ages.
const OLD_S: u64 = 90 * 24 * 60 * 60;

/// What came of measuring.
pub struct ProbesEnded {
    /// Others use a drive, or a launch has begun: the rest is measured another time.
    is_disturbed: bool,
    /// The apps whose profiles lie on drives that were measured.
    pub apps: Vec<UserApp>,
    /// Those that cannot be measured.
    failed: Vec<u64>,
    /// Why.
    pub warnings: Vec<String>,
}

/// Profiles (as [`super::cached_profile::CachedProfile::packed`]) with whose they are.
pub type PackedProfiles = Vec<(UserApp, Arc<[u8]>)>;

/// Has drives measured.
pub struct DriveProbes {
    /// The app that was launched or learned last: its drive is awake.
    latest: Option<UserApp>,
    /// When that will be some time ago; `None`: nothing is to be measured, or something is being measured.
    due: Option<Instant>,
    /// How long after a launch: the user has what he wanted by then, and the drive is still awake.
    pub rest: Duration,
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

/// Whether a drive is to be measured that was at `measured_s`, in seconds since the epoch, as `now_s`.
fn is_old(measured_s: u64, now_s: u64) -> bool {
    // Where the clock was ahead, the drive may seem to be measured tomorrow.
    now_s.abs_diff(measured_s) >= OLD_S
}

/// What the thread works on.
struct ProbeRound {
    latest: Option<UserApp>,
    profiles: PackedProfiles,
    failed: Vec<u64>,
    stop: Arc<AtomicBool>,
    state_dir: PathBuf,
    sysfs: Sysfs,
}

impl ProbeRound {
    fn measure(self) -> ProbesEnded {
        let mut ended = ProbesEnded {
            is_disturbed: false,
            apps: Vec::new(),
            failed: Vec::new(),
            warnings: Vec::new(),
        };
        let mounts = match MountTable::read() {
            Ok(mounts) => mounts,
            Err(error) => {
                let why = format!("drives are not measured: no mount table: {error}");
                ended.warnings.push(why);
                ended.is_disturbed = true;
                return ended;
            }
        };
        let mut measured = Vec::new();
        for (drive, path) in self.awake_drives(&mounts) {
            if !self.is_due(&drive, &mounts, &mut ended) {
                continue;
            }
            let go_on = |_share| match self.stop.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            if go_on(0.0).is_break() {
                ended.is_disturbed = true;
                break;
            }
            match probe_drive(&drive, &path, &self.sysfs, &mounts, false, go_on) {
                Ok(probed) if probed.is_disturbed() => {
                    tracing::debug!(drive = drive.name, "others used it while it was measured");
                    ended.is_disturbed = true;
                }
                Ok(probed) => match self.keep(probed) {
                    Ok(true) => measured.push(drive.dev),
                    Ok(false) => ended.failed.push(drive.dev),
                    Err(why) => {
                        ended.warnings.push(why);
                        ended.is_disturbed = true;
                    }
                },
                // Others may have all of the system's asynchronous I/O for a while.
                Err(
                    why @ (ProbeError::Busy { .. } | ProbeError::Stopped | ProbeError::Queue(_)),
                ) => {
                    tracing::debug!(drive = drive.name, "not measured now: {why}");
                    ended.is_disturbed = true;
                }
                Err(why) => {
                    tracing::info!(drive = drive.name, "cannot be measured: {why}");
                    ended.failed.push(drive.dev);
                }
            }
        }
        if !measured.is_empty() {
            let is_on = |packed: &[u8]| {
                let drives = self.drives(packed, &mounts);
                drives
                    .iter()
                    .any(|(drive, _)| measured.contains(&drive.dev))
            };
            let on_them = self.profiles.iter().filter(|(_, packed)| is_on(packed));
            ended.apps = on_them.map(|(key, _)| key.clone()).collect();
        }
        ended
    }

    /// The drives that a profile lies on, each with a device that is on it.
    fn drives(&self, packed: &[u8], mounts: &MountTable) -> Vec<(DriveBelow, u64)> {
        // This program has packed it.
        let profile = decode(packed).into_iter();
        let found = profile.flat_map(|profile| profile.devices);
        let present = found.filter_map(|device| probable_device(&device, mounts));
        drives_of(present, &self.sysfs, mounts)
    }

    /// The drives that the latest launch was read from, each with a directory on it.
    fn awake_drives(&self, mounts: &MountTable) -> Vec<(DriveBelow, PathBuf)> {
        let is_latest = |(key, _): &&(UserApp, Arc<[u8]>)| Some(key) == self.latest.as_ref();
        let latest = self.profiles.iter().find(is_latest).into_iter();
        let drives = latest.flat_map(|(_, packed)| self.drives(packed, mounts));
        let found = drives.filter_map(|(drive, device)| {
            let mount = mounts.of_device(device).next()?;
            Some((drive, mount.mount_point.clone()))
        });
        found.collect()
    }

    fn is_due(&self, drive: &DriveBelow, mounts: &MountTable, ended: &mut ProbesEnded) -> bool {
        if self.failed.contains(&drive.dev) {
            return false;
        }
        let identities = identities(&self.sysfs, drive.dev, mounts);
        if identities.is_empty() {
            tracing::info!(
                drive = drive.name,
                "has nothing by which it could be found again"
            );
            ended.failed.push(drive.dev);
            return false;
        }
        let drives = MeasuredDrives::load(&self.state_dir).unwrap_or_else(|error| {
            // It is replaced.
            ended.warnings.push(error.to_string());
            MeasuredDrives::default()
        });
        let kept = drives.find(&identities);
        kept.is_none_or(|kept| is_old(kept.measured, now_s()))
    }

    /// Keeps what was measured; false for a drive that has no identity.
    fn keep(&self, probed: ProbedDrive) -> Result<bool, String> {
        let costs = formula::describe(&probed.costs);
        tracing::info!(drive = probed.name, costs, "the drive was measured");
        let mut drives = MeasuredDrives::load(&self.state_dir).unwrap_or_default();
        let is_kept = drives.keep(MeasuredDrive {
            identities: probed.identities,
            measured: now_s(),
            costs: probed.costs,
        });
        if is_kept {
            let saved = drives.save(&self.state_dir);
            saved.map_err(|error| error.to_string())?;
        }
        Ok(is_kept)
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

    #[test]
    fn drives_are_measured_again_after_three_months() {
        let now_s = 1_000_000_000;
        for (measured_s, expected) in [
            (now_s - OLD_S + 1, false),
            (now_s - OLD_S, true),
            (now_s + 1, false),
            (now_s + OLD_S, true),
        ] {
            assert_eq!(is_old(measured_s, now_s), expected);
        }
    }
}
