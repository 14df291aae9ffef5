//! A round of measuring drives, on a thread of its own.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::clock::now_s;
use crate::drive::{
    DriveBelow, MeasuredDrive, MeasuredDrives, ProbeError, ProbedDrive, Sysfs, drives_of,
    identities, probe_drive,
};
use crate::fs::mounts::MountTable;
use crate::fs::present::probable_device;
use crate::model::UserApp;
use crate::profile::decode;
use crate::schedule::formula;

/// Seconds after which a drive is measured again: flash slows down as it fills and ages.
const OLD_S: u64 = 90 * 24 * 60 * 60;

/// What came of measuring.
pub struct ProbesEnded {
    /// Others use a drive, or a launch has begun: the rest is measured another time.
    pub is_disturbed: bool,
    /// The apps whose profiles lie on drives that were measured.
    pub apps: Vec<UserApp>,
    /// Numbers of drives that cannot be measured.
    pub failed: Vec<u64>,
    /// Why, a line each.
    pub warnings: Vec<String>,
}

/// Profiles (as [`super::cached_profile::CachedProfile::packed`]) with whose they are.
pub type PackedProfiles = Vec<(UserApp, Arc<[u8]>)>;

/// Whether a drive is to be measured that was at `measured_s`, in seconds since the epoch, as `now_s`.
fn is_old(measured_s: u64, now_s: u64) -> bool {
    // Where the clock was ahead, the drive may seem to be measured tomorrow.
    now_s.abs_diff(measured_s) >= OLD_S
}

/// What the thread works on.
pub struct ProbeRound {
    /// The app whose drives are measured: it was launched or learned last.
    pub latest: Option<UserApp>,
    /// All profiles.
    pub profiles: PackedProfiles,
    /// Drives that cannot be measured, by number.
    pub failed: Vec<u64>,
    /// Tells the thread to stop.
    pub stop: Arc<AtomicBool>,
    /// Where what is measured is kept.
    pub state_dir: PathBuf,
    pub sysfs: Sysfs,
}

impl ProbeRound {
    /// Measures the drives that are to be measured.
    pub fn measure(self) -> ProbesEnded {
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
            // A file that cannot be read is replaced.
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
