//! The drive at the bottom of a stack of devices, with everything that lies on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::stack::DriveBelow;
use super::sysfs::{Sysfs, device_number, read};

/// Most devices that lie on a drive: partitions, volumes and their like.
const MAX_DEVICES: usize = 64;
/// Disks that are memory.
const IN_MEMORY: [&str; 2] = ["ram", "zram"];

/// A drive at the bottom of a stack of devices: a whole disk, or a loop device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenDrive {
    directory: PathBuf,
    /// Its number, encoded as `st_dev`.
    pub dev: u64,
}

impl Sysfs {
    /// The drive at the bottom of `dev`, which is encoded as `st_dev`. A device on several drives (RAID, btrfs) has
    /// none.
    pub fn written_drive(&self, dev: u64) -> Option<WrittenDrive> {
        let drives = self.queues_below(dev);
        let &[DriveBelow { dev, .. }] = &drives[..] else {
            return None;
        };
        let directory = self.disk(dev)?;
        Some(WrittenDrive { directory, dev })
    }

    /// All drives that are writing something. Disks that are memory do not count.
    pub fn writing_drives(&self) -> Vec<WrittenDrive> {
        let disks = fs::read_dir(self.root.join("block")).into_iter().flatten();
        let disks = disks.flatten().take(MAX_DEVICES).filter(|disk| {
            let name = disk.file_name().to_string_lossy().into_owned();
            !IN_MEMORY.iter().any(|&kind| name.starts_with(kind))
        });
        let drives = disks.filter_map(|disk| {
            let dev = device_number(&read(&disk.path().join("dev"))?)?;
            let drive = self.written_drive(dev).filter(|drive| drive.dev == dev)?;
            (self.write_counters(drive.dev)?.in_flight > 0).then_some(drive)
        });
        drives.collect()
    }

    /// The bdi directories of a drive and of everything that lies on it: each has dirty limits of its own.
    pub fn bdis(&self, drive: &WrittenDrive) -> Vec<PathBuf> {
        let bdis = drive.devices().into_iter().filter_map(|directory| {
            let numbers = read(&directory.join("dev"))?;
            let bdi = self.root.join("class/bdi").join(numbers);
            bdi.join("max_ratio").exists().then_some(bdi)
        });
        bdis.collect()
    }
}

impl WrittenDrive {
    /// Whether what is dirty of everything on it can be limited by device (Linux 6.2 and later).
    pub fn has_strict_limit(&self, sysfs: &Sysfs) -> bool {
        let bdis = sysfs.bdis(self);
        let has = |bdi: &PathBuf| {
            bdi.join("strict_limit").exists() && bdi.join("max_ratio_fine").exists()
        };
        !bdis.is_empty() && bdis.iter().all(has)
    }

    /// The names of itself and of everything on it, as `sda`, `sda1` and `dm-0`: jbd2's threads are named after
    /// these.
    pub fn names(&self) -> BTreeSet<String> {
        let names = self
            .devices()
            .into_iter()
            .filter_map(|directory| Some(directory.file_name()?.to_string_lossy().into_owned()));
        names.collect()
    }

    /// The directories of itself, its partitions, and what lies on these.
    fn devices(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::from([self.directory.clone()]);
        let mut next = vec![self.directory.clone()];
        while let Some(directory) = next.pop() {
            for above in partitions(&directory).chain(holders(&directory)) {
                if found.len() < MAX_DEVICES && found.insert(above.clone()) {
                    next.push(above);
                }
            }
        }
        found
    }
}

fn partitions(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.map(|entry| entry.path());
    directories.filter(|path| path.join("partition").exists())
}

fn holders(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory.join("holders"))
        .into_iter()
        .flatten()
        .flatten();
    entries.filter_map(|entry| fs::canonicalize(entry.path()).ok())
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
        link("devices/sda/sda1/holders/dm-0", "dm-0");
        link("devices/md0/slaves/sdb", "sdb");
        link("devices/md0/slaves/sdc", "sdc");
        for bdi in ["8:0", "253:0"] {
            for knob in ["max_ratio", "strict_limit", "max_ratio_fine"] {
                write(&format!("class/bdi/{bdi}/{knob}"), "0");
            }
        }
        write("devices/sda/sda1/partition", "1");
        let sysfs = Sysfs::at(&base);
        (root, sysfs)
    }

    #[test]
    fn a_stack_of_devices_is_one_drive() {
        let (root, sysfs) = stack();
        let disk = sysfs.written_drive(makedev(8, 0)).unwrap();
        for dev in [makedev(8, 1), makedev(253, 0)] {
            assert_eq!(sysfs.written_drive(dev).unwrap(), disk);
        }
        assert_eq!(disk.dev, makedev(8, 0));
        assert_eq!(
            disk.names().into_iter().collect::<Vec<_>>(),
            ["dm-0", "sda", "sda1"]
        );
        assert_eq!(sysfs.bdis(&disk).len(), 2);
        assert!(disk.has_strict_limit(&sysfs));
        fs::remove_file(root.path().join("class/bdi/253:0/strict_limit")).unwrap();
        assert!(!disk.has_strict_limit(&sysfs));
        assert_eq!(sysfs.written_drive(makedev(9, 0)), None, "on two drives");
        assert_eq!(sysfs.written_drive(makedev(7, 7)), None);
    }

    #[test]
    fn drives_that_write_are_found() {
        let (root, sysfs) = stack();
        let writing = || {
            let mut writing: Vec<u64> = sysfs
                .writing_drives()
                .iter()
                .map(|drive| drive.dev)
                .collect();
            writing.sort_unstable();
            writing
        };
        assert_eq!(writing(), [makedev(8, 0), makedev(8, 16), makedev(8, 32)]);
        fs::write(root.path().join("devices/sdb/inflight"), "1 0").unwrap();
        assert_eq!(writing(), [makedev(8, 0), makedev(8, 32)]);
    }
}
