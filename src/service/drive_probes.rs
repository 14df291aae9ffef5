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
    DriveBelow, KeptModel, KeptModels, ProbeError, Sysfs, drives_of, identities, probe_drive,
};
use crate::fs::mounts::MountTable;
use crate::fs::present::probable_device;
use crate::model::UserApp;
use crate::policy::{ProbeEnd, ProbeTimes, is_to_be_measured};
use crate::profile::decode;

/// What a launch took, and what its drives' models had led to expect.
pub struct ExpectedLaunch {
    /// The kernel's names of the drives that it was read from.
    pub drives: Vec<String>,
    /// By simulation, in µs.
    pub expected_us: f64,
    /// Measured, in µs.
    pub took_us: f64,
}

/// What came of measuring.
pub struct ProbesEnded {
    end: ProbeEnd,
    /// The kernel's names of the drives that were measured.
    pub measured: Vec<String>,
    /// The apps whose profiles lie on them.
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
    times: ProbeTimes,
    /// The app that was launched or learned last: its drive is awake.
    latest: Option<UserApp>,
    /// The apps whose drives were looked at.
    looked_at: HashSet<UserApp>,
    /// Drives that cannot be measured, by number: until the service starts again, they are left alone.
    failed: Vec<u64>,
    /// Tells the thread to stop.
    stop: Arc<AtomicBool>,
    state_dir: PathBuf,
    sysfs: Sysfs,
    outbox: Outbox,
}

impl DriveProbes {
    /// Models are kept in this directory.
    pub fn new(state_dir: PathBuf, sysfs: Sysfs, outbox: Outbox) -> Self {
        DriveProbes {
            times: ProbeTimes::new(Instant::now()),
            latest: None,
            looked_at: HashSet::new(),
            failed: Vec::new(),
            stop: Arc::default(),
            state_dir,
            sysfs,
            outbox,
        }
    }

    /// A launch of an app that has a profile is over.
    pub fn launch_ended(&mut self, key: &UserApp) {
        if !self.looked_at.contains(key) {
            self.learned(key);
        } else if self.times.launch_ended(Instant::now()) {
            self.latest = Some(key.clone());
        }
    }

    /// There is a profile of which it is not known on which drives it lies.
    pub fn learned(&mut self, key: &UserApp) {
        self.times.learned(Instant::now());
        self.latest = Some(key.clone());
    }

    /// Starts a thread that measures the drives on which the profile of the app lies that was launched or learned last, if they
    /// are to be measured: those of others may sleep. `profiles` are all there are.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(&mut self, profiles: PackedProfiles) -> io::Result<()> {
        self.stop = Arc::default();
        let latest = self.latest.take();
        // Others were forgotten.
        self.looked_at
            .retain(|key| profiles.iter().any(|(known, _)| known == key));
        self.looked_at.extend(latest.clone());
        let round = ProbeRound {
            latest,
            profiles,
            doubted: self.times.doubted().map(str::to_owned).collect(),
            failed: self.failed.clone(),
            stop: Arc::clone(&self.stop),
            state_dir: self.state_dir.clone(),
            sysfs: self.sysfs.clone(),
        };
        self.times.begin();
        let started = work_behind("pf-probe", &self.outbox, || {
            let ended = round.measure();
            release_heap();
            Message::DrivesProbed(ended)
        });
        match started {
            Ok(_) => Ok(()),
            Err(error) => {
                self.times.ended(Instant::now(), ProbeEnd::Disturbed);
                Err(error)
            }
        }
    }

    /// A launch begins: whatever is being measured is given up after the reads that are under way.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The thread has ended.
    pub fn ended(&mut self, ended: &ProbesEnded) {
        self.times.ended(Instant::now(), ended.end);
        for drive in &ended.measured {
            self.times.measured(drive);
        }
        self.failed.extend(&ended.failed);
    }

    /// Takes what a cold launch took.
    pub fn compare(&mut self, launch: &ExpectedLaunch) {
        let drives = launch.drives.iter().map(String::as_str);
        self.times
            .compare(drives, launch.expected_us, launch.took_us);
    }

    /// Time until drives are to be looked at; `None` if nothing is planned.
    pub fn until_due(&self, now: Instant) -> Option<Duration> {
        self.times.until_due(now)
    }
}

/// What the thread works on.
struct ProbeRound {
    latest: Option<UserApp>,
    profiles: PackedProfiles,
    doubted: Vec<String>,
    failed: Vec<u64>,
    stop: Arc<AtomicBool>,
    state_dir: PathBuf,
    sysfs: Sysfs,
}

impl ProbeRound {
    fn measure(self) -> ProbesEnded {
        let mut ended = ProbesEnded {
            end: ProbeEnd::Done,
            measured: Vec::new(),
            apps: Vec::new(),
            failed: Vec::new(),
            warnings: Vec::new(),
        };
        let mounts = match MountTable::read() {
            Ok(mounts) => mounts,
            Err(error) => {
                let why = format!("drives are not measured: no mount table: {error}");
                ended.warnings.push(why);
                ended.end = ProbeEnd::Disturbed;
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
                ended.end = ProbeEnd::Disturbed;
                break;
            }
            match probe_drive(&drive, &path, &self.sysfs, &mounts, false, go_on) {
                Ok(probed) if probed.is_disturbed() => {
                    tracing::debug!(drive = drive.name, "others used it while it was measured");
                    ended.end = ProbeEnd::Disturbed;
                }
                Ok(probed) => {
                    let model = probed.model.describe();
                    tracing::info!(drive = drive.name, model, "the drive was measured");
                    match self.keep(KeptModel {
                        identities: probed.identities,
                        measured: now_s(),
                        model: probed.model,
                    }) {
                        Ok(true) => {
                            ended.measured.push(drive.name);
                            measured.push(drive.dev);
                        }
                        Ok(false) => ended.failed.push(drive.dev),
                        Err(why) => {
                            ended.warnings.push(why);
                            ended.end = ProbeEnd::Disturbed;
                        }
                    }
                }
                // Others may have all of the system's asynchronous I/O for a while.
                Err(
                    why @ (ProbeError::Busy { .. } | ProbeError::Stopped | ProbeError::Queue(_)),
                ) => {
                    tracing::debug!(drive = drive.name, "not measured now: {why}");
                    ended.end = ProbeEnd::Disturbed;
                }
                Err(why) => {
                    tracing::info!(drive = drive.name, "cannot be measured: {why}");
                    ended.failed.push(drive.dev);
                }
            }
        }
        if !measured.is_empty() {
            let profiles = self.profiles.iter();
            let on_them = profiles.filter(|(_, packed)| {
                let drives = self.drives(packed, &mounts);
                drives
                    .iter()
                    .any(|(drive, _)| measured.contains(&drive.dev))
            });
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
                "has nothing by which a model could be found again"
            );
            ended.failed.push(drive.dev);
            return false;
        }
        let kept = KeptModels::load(&self.state_dir).unwrap_or_else(|error| {
            // It is replaced.
            ended.warnings.push(error.to_string());
            KeptModels::default()
        });
        let kept = kept.find(&identities);
        let is_doubted = self.doubted.contains(&drive.name);
        is_to_be_measured(kept.map(|kept| kept.measured), is_doubted, now_s())
    }

    /// Keeps a model; false for a drive that has no identity.
    fn keep(&self, model: KeptModel) -> Result<bool, String> {
        let mut models = KeptModels::load(&self.state_dir).unwrap_or_default();
        let is_kept = models.keep(model);
        if is_kept {
            let saved = models.save(&self.state_dir);
            saved.map_err(|error| error.to_string())?;
        }
        Ok(is_kept)
    }
}
