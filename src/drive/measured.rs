//! What drives were measured to cost, in one file of the state directory: JSON, versioned, bounded, replaced as a whole.
//! Losing it costs a probe. Drives that were not measured have the numbers of their class, as sysfs tells it.

use std::fmt::Display;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{DriveBelow, DriveClaim, DriveIdentity, Sysfs, identities};
use crate::fs::atomic_write;
use crate::fs::blockdev;
use crate::fs::mounts::MountTable;
use crate::fs::root_owned::{self, NotRootOwned};
use crate::model::{DriveClass, DriveCosts};
use crate::schedule::formula;

/// The file's name.
const FILE: &str = "drives.json";

/// The version of the format. Drives in a file of another one are measured again.
const VERSION: u32 = 2;

/// Most drives; the one measured first makes way.
const MOST_DRIVES: usize = 64;

/// Most identities of a drive.
const MOST_IDENTITIES: usize = 16;

/// Largest file.
const MOST_BYTES: usize = 1 << 20;

/// Why the file cannot be read or written: one line that names it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MeasuredDrivesError(String);

/// A drive that was measured, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredDrive {
    /// What the drive is known by; each of them suffices.
    pub identities: Vec<DriveIdentity>,
    /// When it was measured, in seconds since the epoch.
    pub measured: u64,
    /// What its reads cost.
    pub costs: DriveCosts,
}

/// All drives that were measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredDrives {
    drives: Vec<MeasuredDrive>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptFile {
    version: u32,
    drives: Vec<MeasuredDrive>,
}

impl MeasuredDrives {
    /// Reads a file's content.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence.
    pub fn parse(bytes: &[u8]) -> Result<MeasuredDrives, String> {
        if bytes.len() > MOST_BYTES {
            return Err(format!("it has more than {MOST_BYTES} bytes"));
        }
        let file: KeptFile = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if file.version != VERSION {
            return Err(format!("its version is {}, not {VERSION}", file.version));
        }
        if file.drives.len() > MOST_DRIVES {
            return Err(format!("it has more than {MOST_DRIVES} drives"));
        }
        for kept in &file.drives {
            if !(1..=MOST_IDENTITIES).contains(&kept.identities.len()) {
                return Err("a drive has no identity, or too many".to_owned());
            }
            let is_clean = |identity: &DriveIdentity| {
                DriveIdentity::new(identity.as_str()).as_ref() == Some(identity)
            };
            if !kept.identities.iter().all(is_clean) {
                return Err("an identity is not printable".to_owned());
            }
            if !kept.costs.is_sound() {
                return Err("the numbers of one are no drive's".to_owned());
            }
        }
        Ok(MeasuredDrives {
            drives: file.drives,
        })
    }

    /// The file's content. [`MeasuredDrives::parse`] gives the drives again, but for the last digit of a number.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let file = KeptFile {
            version: VERSION,
            drives: self.drives.clone(),
        };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }

    /// The drives of a state directory; none if nothing was measured yet.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or another user could have made or changed it.
    pub fn load(state_dir: &Path) -> Result<MeasuredDrives, MeasuredDrivesError> {
        let path = state_dir.join(FILE);
        let bytes = match root_owned::read(&path, MOST_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(MeasuredDrives::default()),
            Err(NotRootOwned::Untrusted(why)) => return Err(failed("use", &path, &why)),
            Err(NotRootOwned::Io(error)) => return Err(failed("read", &path, &error)),
        };
        MeasuredDrives::parse(&bytes).map_err(|why| failed("use", &path, &why))
    }

    /// Writes them in place of those that the state directory has, which must exist.
    ///
    /// # Errors
    /// If the file cannot be written; the old one is kept then.
    pub fn save(&self, state_dir: &Path) -> Result<(), MeasuredDrivesError> {
        let path = state_dir.join(FILE);
        let text = self
            .to_json()
            .map_err(|error| failed("write", &path, &error))?;
        atomic_write::new_file(state_dir)
            .and_then(|file| atomic_write::put(file, text.as_bytes(), &path))
            // The kind alone: the temporary file's name would tell a user nothing.
            .map_err(|error| failed("write", &path, &error.kind()))
    }

    /// All of them, the one measured last at the end.
    pub fn drives(&self) -> &[MeasuredDrive] {
        &self.drives
    }

    /// The drive that one of these identities names; the one measured last.
    pub fn find(&self, identities: &[DriveIdentity]) -> Option<&MeasuredDrive> {
        let is_it = |kept: &&MeasuredDrive| shares_identity(kept, identities);
        self.drives.iter().rev().find(is_it)
    }

    /// Keeps a drive in place of what was known of it. One without an identity, or with numbers that no drive can have, is
    /// not kept; says whether it was.
    pub fn keep(&mut self, mut kept: MeasuredDrive) -> bool {
        kept.identities.truncate(MOST_IDENTITIES);
        if kept.identities.is_empty() || !kept.costs.is_sound() {
            return false;
        }
        self.drives
            .retain(|old| !shares_identity(old, &kept.identities));
        self.drives.push(kept);
        let surplus = self.drives.len().saturating_sub(MOST_DRIVES);
        self.drives.drain(..surplus);
        true
    }
}

fn shares_identity(kept: &MeasuredDrive, identities: &[DriveIdentity]) -> bool {
    kept.identities.iter().any(|own| identities.contains(own))
}

/// A drive, with the numbers that were measured or those of its class.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownDrive {
    /// The kernel's name of it.
    pub name: String,
    /// What it claims to be.
    pub claim: DriveClaim,
    /// What its reads cost.
    pub costs: DriveCosts,
    /// When that was measured, in seconds since the epoch; `None`: the numbers are those of its class.
    pub measured: Option<u64>,
}

impl KnownDrive {
    /// The drive in words, and what it claims wrongly.
    pub fn describe(&self) -> String {
        let origin = match self.measured {
            Some(_) => "measured",
            None => "not measured: numbers of its class",
        };
        let remark = remark(self.claim, &self.costs).map(|remark| format!("; {remark}"));
        let costs = formula::describe(&self.costs);
        format!("{costs} ({origin}){}", remark.unwrap_or_default())
    }
}

/// The drives that these file systems (`st_dev`) or block devices are on, each once.
pub fn known_drives(
    devices: impl IntoIterator<Item = u64>,
    sysfs: &Sysfs,
    mounts: &MountTable,
    measured: &MeasuredDrives,
) -> Vec<KnownDrive> {
    drives_of(devices, sysfs, mounts)
        .into_iter()
        .map(|(drive, _)| {
            let claim = sysfs.claim(drive.dev);
            let found = measured.find(&identities(sysfs, drive.dev, mounts));
            KnownDrive {
                name: drive.name,
                claim,
                costs: found.map_or_else(
                    || DriveCosts::of_class(claim.likely_class()),
                    |found| found.costs,
                ),
                measured: found.map(|found| found.measured),
            }
        })
        .collect()
}

/// What reads from a file system (`st_dev`) or block device cost: of several drives below it, those of the one with the
/// dearest far requests, if all were measured; otherwise the numbers of the class that sysfs tells.
pub fn costs_of(
    dev: u64,
    sysfs: &Sysfs,
    mounts: &MountTable,
    measured: &MeasuredDrives,
) -> DriveCosts {
    let drives = known_drives([dev], sysfs, mounts, measured);
    let far_us = |costs: &DriveCosts| costs.request_us + costs.far_seek_us;
    let slowest = drives
        .iter()
        .max_by(|a, b| far_us(&a.costs).total_cmp(&far_us(&b.costs)))
        .filter(|_| drives.iter().all(|drive| drive.measured.is_some()));
    slowest.map_or_else(
        || DriveCosts::of_class(sysfs.class(blockdev::below(dev, mounts))),
        |slowest| slowest.costs,
    )
}

/// The drives that these file systems (`st_dev`) or block devices are on, each once, with the first of the devices that is
/// on it.
pub fn drives_of(
    devices: impl IntoIterator<Item = u64>,
    sysfs: &Sysfs,
    mounts: &MountTable,
) -> Vec<(DriveBelow, u64)> {
    let mut drives: Vec<(DriveBelow, u64)> = Vec::new();
    for dev in devices {
        for drive in sysfs.drives_below(blockdev::below(dev, mounts)) {
            if drives.iter().all(|(known, _)| known.dev != drive.dev) {
                drives.push((drive, dev));
            }
        }
    }
    drives
}

/// What a drive's claim is worth, where its numbers say something else.
fn remark(claim: DriveClaim, costs: &DriveCosts) -> Option<&'static str> {
    let claims_heads = claim.class == DriveClass::Rotational;
    let has_heads = formula::class(costs) == DriveClass::Rotational;
    match (claims_heads, has_heads, claim.is_virtual) {
        (true, false, true) => Some("it claims to rotate, as virtual drives do"),
        (true, false, false) => Some("it claims to rotate"),
        (false, true, _) => Some("it claims not to rotate"),
        _ => None,
    }
}

fn failed(what: &str, path: &Path, why: &dyn Display) -> MeasuredDrivesError {
    MeasuredDrivesError(format!(
        "cannot {what} what drives were measured to cost, in {}: {why}",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::makedev;

    use super::*;
    use crate::drive::sysfs::tests::fake;

    fn named(name: &str) -> DriveIdentity {
        DriveIdentity::new(name).unwrap()
    }

    fn kept(name: &str, measured: u64) -> MeasuredDrive {
        MeasuredDrive {
            identities: vec![named(name)],
            measured,
            costs: DriveCosts::of_class(DriveClass::Rotational),
        }
    }

    #[test]
    fn drives_are_kept_by_identity_and_the_first_makes_way() {
        let dir = tempfile::tempdir().unwrap();
        let mut drives = MeasuredDrives::load(dir.path()).unwrap();
        assert_eq!(drives, MeasuredDrives::default());
        for number in 0..=MOST_DRIVES {
            assert!(drives.keep(kept(&number.to_string(), 1)));
        }
        assert!(drives.keep(kept("7", 2)));
        drives.save(dir.path()).unwrap();
        let read = MeasuredDrives::load(dir.path()).unwrap();
        assert_eq!(read, drives);
        assert_eq!(read.drives.len(), MOST_DRIVES);
        assert_eq!(read.find(&[named("0")]), None);
        assert_eq!(read.find(&[named("x"), named("7")]), Some(&kept("7", 2)));
        assert_eq!(read.find(&[]), None);
    }

    #[test]
    fn measured_numbers_come_before_those_of_a_class_and_claims_are_judged() {
        let (_root, sysfs) = fake(
            &[("8:0", "sda"), ("254:0", "vda"), ("254:1", "vda/vda1")],
            &[
                ("devices/sda/queue/rotational", "1"),
                ("devices/sda/serial", "S1"),
                ("devices/vda/queue/rotational", "1"),
                ("devices/vda/vda1/partition", "1"),
            ],
        );
        let mounts = MountTable::parse(b"");
        let mut measured = MeasuredDrives::default();
        let one = |major, measured: &MeasuredDrives| {
            let mut found = known_drives([makedev(major, 0)], &sysfs, &mounts, measured);
            assert_eq!(found.len(), 1);
            found.remove(0)
        };
        let of = |class| DriveCosts::of_class(class);
        let disk = one(8, &measured);
        assert_eq!((&*disk.name, disk.measured), ("sda", None));
        assert_eq!(disk.costs, of(DriveClass::Rotational));
        assert!(
            disk.describe()
                .ends_with("(not measured: numbers of its class)")
        );
        let virtual_drive = one(254, &measured);
        assert_eq!(virtual_drive.costs, of(DriveClass::CommandQueuing));
        assert!(virtual_drive.describe().ends_with("as virtual drives do"));
        let devices = [makedev(254, 1), makedev(254, 0)];
        let in_partition = known_drives(devices, &sysfs, &mounts, &measured);
        assert_eq!(in_partition, [virtual_drive]);
        let card = DriveCosts {
            request_us: 700.0,
            ..of(DriveClass::NoCommandQueuing)
        };
        let costs = |measured: &MeasuredDrives| costs_of(makedev(8, 0), &sysfs, &mounts, measured);
        assert_eq!(costs(&measured), of(DriveClass::Rotational));
        measured.keep(MeasuredDrive {
            identities: vec![named("S1")],
            measured: 7,
            costs: card,
        });
        let found = one(8, &measured);
        assert_eq!((found.measured, found.costs), (Some(7), card));
        assert!(
            found
                .describe()
                .ends_with("(measured); it claims to rotate")
        );
        assert_eq!(costs(&measured), card);
        assert!(known_drives([makedev(9, 9)], &sysfs, &mounts, &measured).is_empty());
    }

    #[test]
    fn what_no_drive_is_is_not_kept() {
        let mut drives = MeasuredDrives::default();
        let mut nameless = kept("a", 1);
        nameless.identities.clear();
        assert!(!drives.keep(nameless));
        let mut unsound = kept("a", 1);
        unsound.costs.kib_us = 0.0;
        assert!(!drives.keep(unsound));
        assert_eq!(drives, MeasuredDrives::default());
    }

    #[test]
    fn damage_is_named() {
        let mut drives = MeasuredDrives::default();
        drives.keep(kept("drive", 1));
        let good = drives.to_json().unwrap();
        assert_eq!(MeasuredDrives::parse(good.as_bytes()), Ok(drives));
        for (from, to, why) in [
            ("\"version\": 2", "\"version\": 1", "its version is 1"),
            ("\"drive\"", "\"dri\\u001bve\"", "not printable"),
            ("\"drive\"", "", "no identity"),
            (
                "\"request_us\": 130.0",
                "\"request_us\": -1.0",
                "no drive's",
            ),
            ("\"measured\"", "\"measure\"", "unknown field"),
            ("{", "", " line "),
        ] {
            let bad = good.replacen(from, to, 1);
            let error = MeasuredDrives::parse(bad.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{to}: {error}");
        }
        let long = vec![b' '; MOST_BYTES + 1];
        assert!(
            MeasuredDrives::parse(&long)
                .unwrap_err()
                .contains("more than")
        );
    }

    #[test]
    fn others_files_are_not_believed_and_errors_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        fs::write(&path, "no JSON").unwrap();
        let error = MeasuredDrives::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("drives.json: "), "{error}");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let error = MeasuredDrives::load(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("others may write it"), "{error}");
        let nowhere = dir.path().join("nowhere");
        assert!(MeasuredDrives::default().save(&nowhere).is_err());
    }
}
