//! The drives below a device, each with its model: the one that was measured, or a guess.

use super::stack::of_file_system;
use super::{DriveBelow, DriveClaim, KeptModels, Sysfs, identities};
use crate::fs::mounts::MountTable;
use crate::model::{DriveClass, DriveModel};

/// What is known of a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownDrive {
    /// The kernel's name of it.
    pub name: String,
    /// What it claims to be.
    pub claim: DriveClaim,
    /// Its model.
    pub model: DriveModel,
    /// When that was measured, in seconds since the epoch; `None`: it is a guess.
    pub measured: Option<u64>,
}

impl KnownDrive {
    /// The drive in words, and what it claims wrongly.
    pub fn describe(&self) -> String {
        let remark = remark(self.claim, &self.model).map(|remark| format!("; {remark}"));
        format!("{}{}", self.model.describe(), remark.unwrap_or_default())
    }
}

/// The drives that these file systems (`st_dev`) or block devices are on, each once.
pub fn known_drives(
    devices: impl IntoIterator<Item = u64>,
    sysfs: &Sysfs,
    mounts: &MountTable,
    kept: &KeptModels,
) -> Vec<KnownDrive> {
    drives_of(devices, sysfs, mounts)
        .into_iter()
        .map(|(drive, _)| {
            let claim = sysfs.claim(drive.dev);
            let kept = kept.find(&identities(sysfs, drive.dev, mounts));
            KnownDrive {
                name: drive.name,
                claim,
                model: kept.map_or_else(
                    || DriveModel::guess(claim.likely_class()),
                    |kept| kept.model.clone(),
                ),
                measured: kept.map(|kept| kept.measured),
            }
        })
        .collect()
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
        let mount = mounts.of_device(dev).next();
        for drive in sysfs.drives_below(of_file_system(dev, mount)) {
            if drives.iter().all(|(known, _)| known.dev != drive.dev) {
                drives.push((drive, dev));
            }
        }
    }
    drives
}

/// What a drive's claim is worth, where its model says something else.
pub fn remark(claim: DriveClaim, model: &DriveModel) -> Option<&'static str> {
    let claims_heads = claim.class == DriveClass::Rotational;
    match (claims_heads, model.has_heads(), claim.is_virtual) {
        (true, false, true) => Some("it claims to rotate, as virtual drives do"),
        (true, false, false) => Some("it claims to rotate"),
        (false, true, _) => Some("it claims not to rotate"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::*;
    use crate::drive::sysfs::tests::fake;
    use crate::drive::{DriveIdentity, KeptModel};
    use crate::model::Origin;

    #[test]
    fn a_measured_model_comes_before_a_guess_and_claims_are_judged() {
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
        let mut kept = KeptModels::default();
        let one = |major, kept: &KeptModels| {
            let mut found = known_drives([makedev(major, 0)], &sysfs, &mounts, kept);
            assert_eq!(found.len(), 1);
            found.remove(0)
        };
        let disk = one(8, &kept);
        assert_eq!((&*disk.name, disk.measured), ("sda", None));
        assert!(disk.model.has_heads());
        assert!(disk.describe().ends_with("worth reading"));
        let virtual_drive = one(254, &kept);
        assert!(!virtual_drive.model.has_heads());
        assert!(virtual_drive.describe().ends_with("as virtual drives do"));
        let in_partition = known_drives([makedev(254, 1), makedev(254, 0)], &sysfs, &mounts, &kept);
        assert_eq!(in_partition, [virtual_drive]);
        kept.keep(KeptModel {
            identities: vec![DriveIdentity::new("S1").unwrap()],
            measured: 7,
            model: DriveModel {
                origin: Origin::Measured,
                ..DriveModel::guess(DriveClass::NoCommandQueuing)
            },
        });
        let measured = one(8, &kept);
        assert_eq!(measured.measured, Some(7));
        assert!(measured.describe().ends_with("it claims to rotate"));
        assert!(known_drives([makedev(9, 9)], &sysfs, &mounts, &kept).is_empty());
    }
}
