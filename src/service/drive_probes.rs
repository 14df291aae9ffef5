//! Measuring the drives that profiles lie on, a little after a launch, while nobody uses them.

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
    /// Those that cannot be measured.
    failed: Vec<u64>,
    /// Why.
    pub warnings: Vec<String>,
}

/// Has drives measured.
pub struct DriveProbes {
    pub times: ProbeTimes,
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
            failed: Vec::new(),
            stop: Arc::default(),
            state_dir,
            sysfs,
            outbox,
        }
    }

    /// Starts a thread that measures the drives of these profiles (as [`super::cached_profile::CachedProfile::packed`]) which are to be
    /// measured.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(&mut self, profiles: Vec<Arc<[u8]>>) -> io::Result<()> {
        self.stop = Arc::default();
        let round = ProbeRound {
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

    /// A launch begins: whatever is being measured is given up after the reads that are under way, a tenth of a second.
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
    profiles: Vec<Arc<[u8]>>,
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
            failed: Vec::new(),
            warnings: Vec::new(),
        };
        let mounts = match MountTable::read() {
            Ok(mounts) => mounts,
            Err(error) => {
                let why = format!("drives are not measured: no mount table: {error}");
                ended.warnings.push(why);
                return ended;
            }
        };
        for (drive, path) in self.drives(&mounts) {
            if !self.is_due(&drive, &mounts, &mut ended.warnings) {
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
                Ok(probed) => {
                    let model = probed.model.describe();
                    tracing::info!(drive = drive.name, model, "the drive was measured");
                    match self.keep(KeptModel {
                        identities: probed.identities,
                        measured: now_s(),
                        model: probed.model,
                    }) {
                        Ok(true) => ended.measured.push(drive.name),
                        Ok(false) => ended.failed.push(drive.dev),
                        Err(why) => {
                            ended.warnings.push(why);
                            ended.failed.push(drive.dev);
                        }
                    }
                }
                Err(why @ (ProbeError::Busy { .. } | ProbeError::Stopped)) => {
                    tracing::debug!(drive = drive.name, "not measured now: {why}");
                    ended.end = ProbeEnd::Disturbed;
                }
                Err(why) => {
                    tracing::info!(drive = drive.name, "cannot be measured: {why}");
                    ended.failed.push(drive.dev);
                }
            }
        }
        ended
    }

    /// The drives that profiles lie on, each with a directory on it.
    fn drives(&self, mounts: &MountTable) -> Vec<(DriveBelow, PathBuf)> {
        let mut devices = Vec::new();
        for packed in &self.profiles {
            // This program has packed it.
            let profile = decode(packed).into_iter();
            let found = profile.flat_map(|profile| profile.devices);
            devices.extend(
                found.filter_map(|device| mounts.present_number(device.dev, &device.fs_uuid)),
            );
        }
        let drives = drives_of(devices, &self.sysfs, mounts).into_iter();
        let found = drives.filter_map(|(drive, device)| {
            let mount = mounts.of_device(device).next()?;
            Some((drive, mount.mount_point.clone()))
        });
        found.collect()
    }

    fn is_due(&self, drive: &DriveBelow, mounts: &MountTable, warnings: &mut Vec<String>) -> bool {
        if self.failed.contains(&drive.dev) {
            return false;
        }
        let kept = KeptModels::load(&self.state_dir).unwrap_or_else(|error| {
            // It is replaced.
            warnings.push(error.to_string());
            KeptModels::default()
        });
        let kept = kept.find(&identities(&self.sysfs, drive.dev, mounts));
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
