//! Drives that are being written. Devices are encoded as `st_dev`.

use std::fs;

use super::stack::DriveBelow;
use super::sysfs::{Sysfs, device_number, read};

/// Most disks that are looked at.
const MOST_DISKS: usize = 64;
/// Disks that are memory.
const IN_MEMORY: [&str; 2] = ["ram", "zram"];

impl Sysfs {
    /// The drive at the bottom of `dev`: a whole disk, or a loop device. A device on several drives (RAID, btrfs) has none.
    pub fn written_drive(&self, dev: u64) -> Option<u64> {
        match self.queues_below(dev)[..] {
            [DriveBelow { dev, .. }] => Some(dev),
            _ => None,
        }
    }

    /// All drives that are writing something. Disks that are memory do not count.
    pub fn writing_drives(&self) -> Vec<u64> {
        let disks = fs::read_dir(self.root.join("block")).into_iter().flatten();
        let disks = disks.flatten().take(MOST_DISKS).filter(|disk| {
            let name = disk.file_name().to_string_lossy().into_owned();
            !IN_MEMORY.iter().any(|&kind| name.starts_with(kind))
        });
        let drives = disks.filter_map(|disk| {
            let dev = device_number(&read(&disk.path().join("dev"))?)?;
            let is_drive = self.written_drive(dev) == Some(dev);
            (is_drive && self.write_counters(dev)?.in_flight > 0).then_some(dev)
        });
        drives.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::makedev;
    use tempfile::{TempDir, tempdir};

    use super::*;

    /// sda with sda1, on which dm-0 lies; sdb and sdc with md0 on both; zram0.
    fn stack() -> (TempDir, Sysfs) {
        let root = tempdir().unwrap();
        let base = fs::canonicalize(root.path()).unwrap();
        let write = |path: &str, content: &str| {
            let path = base.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        fs::create_dir_all(base.join("dev/block")).unwrap();
        fs::create_dir_all(base.join("block")).unwrap();
        for (numbers, name) in [
            ("8:0", "sda"),
            ("8:1", "sda/sda1"),
            ("8:16", "sdb"),
            ("8:32", "sdc"),
            ("253:0", "dm-0"),
            ("9:0", "md0"),
            ("252:0", "zram0"),
        ] {
            write(&format!("devices/{name}/dev"), numbers);
            write(
                &format!("devices/{name}/stat"),
                "1 0 8 0 2 0 2048 0 3 0 0\n",
            );
            write(&format!("devices/{name}/inflight"), "       0        3\n");
            let device = base.join("devices").join(name);
            symlink(&device, base.join("dev/block").join(numbers)).unwrap();
            if !name.contains('/') {
                symlink(&device, base.join("block").join(name)).unwrap();
            }
        }
        let link = |from: &str, to: &str| {
            fs::create_dir_all(base.join(from).parent().unwrap()).unwrap();
            symlink(base.join("devices").join(to), base.join(from)).unwrap();
        };
        link("devices/dm-0/slaves/sda1", "sda/sda1");
        link("devices/md0/slaves/sdb", "sdb");
        link("devices/md0/slaves/sdc", "sdc");
        write("devices/sda/sda1/partition", "1");
        let sysfs = Sysfs::at(&base);
        (root, sysfs)
    }

    #[test]
    fn a_stack_of_devices_is_one_drive() {
        let (_root, sysfs) = stack();
        let disk = makedev(8, 0);
        for dev in [disk, makedev(8, 1), makedev(253, 0)] {
            assert_eq!(sysfs.written_drive(dev), Some(disk));
        }
        assert_eq!(sysfs.written_drive(makedev(9, 0)), None, "on two drives");
        assert_eq!(sysfs.written_drive(makedev(7, 7)), None);
    }

    #[test]
    fn drives_that_write_are_found() {
        let (root, sysfs) = stack();
        let writing = || {
            let mut writing = sysfs.writing_drives();
            writing.sort_unstable();
            writing
        };
        assert_eq!(writing(), [makedev(8, 0), makedev(8, 16), makedev(8, 32)]);
        fs::write(root.path().join("devices/sdb/inflight"), "1 0").unwrap();
        assert_eq!(writing(), [makedev(8, 0), makedev(8, 32)]);
    }
}
