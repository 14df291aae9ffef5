//! Drives that may be asleep. To find that out must not wake them: nothing is opened, sysfs alone is read.

use std::fs;

use super::sysfs::{Sysfs, device_number, read};
use crate::model::DriveClass;

/// The disks with heads of the system, each by its number with the read requests that it has answered so far. Nothing
/// tells whether such a disk stands still, since it may decide that by itself: one that has answered requests lately
/// does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpinningDisks(Vec<(u64, u64)>);

impl Sysfs {
    /// The disks with heads as they are now. Those behind a host or over a file have none.
    pub fn spinning_disks(&self) -> SpinningDisks {
        let disks = fs::read_dir(self.root.join("block")).into_iter().flatten();
        let numbers = disks.flatten().filter_map(|disk| {
            let name = disk.file_name();
            let name = name.to_str()?;
            // There may be many of these.
            let is_disk = !["loop", "ram", "zram"]
                .iter()
                .any(|it| name.starts_with(it));
            let text = is_disk.then(|| read(&disk.path().join("dev")))??;
            device_number(&text)
        });
        let has_heads = |dev: &u64| self.claim(*dev).likely_class() == DriveClass::Rotational;
        let disks = numbers.filter(has_heads);
        SpinningDisks(
            disks
                .map(|dev| (dev, self.reads(dev).unwrap_or(0)))
                .collect(),
        )
    }

    /// Whether the kernel has put a drive, a whole disk, to sleep.
    pub fn is_suspended(&self, drive: u64) -> bool {
        let status = self
            .disk(drive)
            .and_then(|disk| read(&disk.join("device/power/runtime_status")));
        status.is_some_and(|status| status == "suspended" || status == "suspending")
    }
}

impl SpinningDisks {
    /// The disks that may stand still: since `before` they have answered nothing.
    pub fn idle_since(&self, before: &SpinningDisks) -> Vec<u64> {
        let is_idle = |(dev, reads): &&(u64, u64)| {
            let earlier = before.0.iter().find(|(other, _)| other == dev);
            earlier.is_none_or(|(_, earlier)| reads <= earlier)
        };
        self.0.iter().filter(is_idle).map(|(dev, _)| *dev).collect()
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::super::sysfs::tests::fake;
    use super::*;

    #[test]
    fn a_disk_with_heads_that_has_answered_nothing_since_may_stand_still() {
        let (root, sysfs) = fake(
            &[
                ("8:0", "sda"),
                ("8:16", "sdb"),
                ("8:32", "sdc"),
                ("7:0", "virtual/block/loop0"),
            ],
            &[
                ("devices/sda/queue/rotational", "1"),
                ("devices/sda/stat", "100 0 0 0 0 0 0 0 0 0 0"),
                ("devices/sdb/queue/rotational", "1"),
                ("devices/sdb/stat", "7 0 0 0 0 0 0 0 0 0 0"),
                ("devices/sdb/device/power/runtime_status", "suspended\n"),
                ("devices/sdc/queue/rotational", "0"),
                ("devices/virtual/block/loop0/queue/rotational", "1"),
            ],
        );
        for name in ["sda", "sdb", "sdc"] {
            let link = root.path().join("block").join(name);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(root.path().join("devices").join(name), link).unwrap();
        }
        let (sda, sdb) = (makedev(8, 0), makedev(8, 16));
        let before = sysfs.spinning_disks();
        let mut idle = before.idle_since(&before);
        idle.sort_unstable();
        assert_eq!(idle, [sda, sdb]);
        fs::write(
            root.path().join("devices/sda/stat"),
            "101 0 0 0 0 0 0 0 0 0 0",
        )
        .unwrap();
        let now = sysfs.spinning_disks();
        assert_eq!(now.idle_since(&before), [sdb]);
        let unknown = now.idle_since(&SpinningDisks::default()).len();
        assert_eq!(unknown, 2, "of which nothing was known before");
        assert!(sysfs.is_suspended(sdb) && !sysfs.is_suspended(sda));
    }
}
