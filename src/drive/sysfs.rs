//! What sysfs says about a block device.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, makedev, minor};

use super::stack::{MAX_STACK, lower};
use crate::model::DriveClass;

/// What a drive claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveClaim {
    /// Class of the drive by its attributes.
    pub class: DriveClass,
    /// Whether a host or a file is behind it: the kernel says of such drives that they rotate, whatever they are.
    pub is_virtual: bool,
}

impl DriveClaim {
    /// The class that the drive is taken for. That a virtual drive rotates is not believed.
    pub fn likely_class(self) -> DriveClass {
        match self.class {
            DriveClass::Rotational if self.is_virtual => DriveClass::CommandQueuing,
            class => class,
        }
    }
}

/// A view of sysfs. Tests use another root than /sys.
#[derive(Clone, Debug)]
pub struct Sysfs {
    pub(super) root: PathBuf,
    known: Vec<(u64, DriveClass)>,
}

impl Default for Sysfs {
    fn default() -> Self {
        Sysfs::at(Path::new("/sys"))
    }
}

impl Sysfs {
    /// sysfs mounted at `root`.
    pub fn at(root: &Path) -> Self {
        Sysfs {
            root: root.to_owned(),
            known: Vec::new(),
        }
    }

    /// With the given class of a device, encoded as `st_dev`: no attribute of an emulated drive tells its
    /// class.
    pub fn knowing(mut self, dev: u64, class: DriveClass) -> Self {
        self.known.push((dev, class));
        self
    }

    /// The directory of `dev`, encoded as `st_dev`.
    pub(super) fn device(&self, dev: u64) -> Option<PathBuf> {
        let link = format!("dev/block/{}:{}", major(dev), minor(dev));
        fs::canonicalize(self.root.join(link)).ok()
    }

    /// The directory of the whole disk that `dev` is, or is a partition of.
    pub(super) fn disk(&self, dev: u64) -> Option<PathBuf> {
        let mut dir = self.device(dev)?;
        if dir.join("partition").exists() {
            dir.pop();
        }
        Some(dir)
    }

    /// The kernel's name of the drive that `dev` is on, such as `sda` or `dm-0`.
    pub fn drive_name(&self, dev: u64) -> Option<String> {
        let disk = self.disk(dev)?;
        Some(disk.file_name()?.to_string_lossy().into_owned())
    }

    /// `/sys/class/bdi/MAJOR:MINOR/read_ahead_kb` of the device, if this kernel has it: the readahead of every file opened on
    /// it from now on, in KiB. Partitions share that of their disk; a btrfs on the device has one of its own.
    pub fn read_ahead_knob(&self, dev: u64) -> Option<PathBuf> {
        self.btrfs_read_ahead_knob(dev)
            .or_else(|| self.bdi_read_ahead_knob(dev))
    }

    fn bdi_read_ahead_knob(&self, dev: u64) -> Option<PathBuf> {
        let knob = |numbers: &str| {
            let path = format!("class/bdi/{numbers}/read_ahead_kb");
            Some(self.root.join(path)).filter(|knob| knob.exists())
        };
        knob(&format!("{}:{}", major(dev), minor(dev)))
            .or_else(|| knob(&read(&self.disk(dev)?.join("dev"))?))
    }

    fn btrfs_read_ahead_knob(&self, dev: u64) -> Option<PathBuf> {
        let name = self.device(dev)?.file_name()?.to_owned();
        let mounted = fs::read_dir(self.root.join("fs/btrfs")).ok()?.flatten();
        let mut holding = mounted.filter(|fs| fs.path().join("devices").join(&name).exists());
        let knob = holding.next()?.path().join("bdi/read_ahead_kb");
        knob.exists().then_some(knob)
    }

    /// The value of [`Sysfs::read_ahead_knob`], if sysfs tells.
    pub fn read_ahead_kib(&self, dev: u64) -> Option<u64> {
        number(&self.read_ahead_knob(dev)?)
    }

    /// The largest request that the kernel makes of the drive that `dev` is on, in KiB, if sysfs tells.
    pub fn max_sectors_kib(&self, dev: u64) -> Option<u64> {
        number(&self.disk(dev)?.join("queue/max_sectors_kb"))
    }

    /// ext4's own readahead of inode-table blocks, in blocks; 1 turns it off.
    pub fn inode_readahead_knob(&self, dev: u64) -> Option<PathBuf> {
        let device = self.device(dev)?;
        let ext4 = self.root.join("fs/ext4").join(device.file_name()?);
        Some(ext4.join("inode_readahead_blks")).filter(|knob| knob.exists())
    }

    /// How many bytes of cached pages around a fault the kernel maps (mm/memory.c), in debugfs. With one page,
    /// each fault shows exactly which page was touched. `None` if it may not be changed: debugfs is not mounted,
    /// or kernel lockdown refuses it.
    pub fn fault_around_knob(&self) -> Option<PathBuf> {
        let knob = self.root.join("kernel/debug/fault_around_bytes");
        let may_write = fs::OpenOptions::new().write(true).open(&knob).is_ok();
        may_write.then_some(knob)
    }

    /// The most that one readahead(2) call reads on this device, in bytes: the larger of its readahead and
    /// its largest request (`force_page_cache_ra`: `ra_pages` and `io_pages`), which counts for no btrfs. `None` if sysfs
    /// does not tell; 0 if readahead is switched off.
    pub fn readahead_limit(&self, dev: u64) -> Option<u64> {
        let (knob, request) = match self.btrfs_read_ahead_knob(dev) {
            Some(knob) => (knob, 0),
            None => {
                let request = self.max_sectors_kib(dev);
                (self.bdi_read_ahead_knob(dev)?, request.unwrap_or(0))
            }
        };
        let readahead = number(&knob)?;
        Some(readahead.max(request) * 1024)
    }

    /// Read requests that the drive that `dev` is on has answered; `None` if sysfs does not tell.
    pub fn reads(&self, dev: u64) -> Option<u64> {
        let stat = read(&self.disk(dev)?.join("stat"))?;
        stat.split_ascii_whitespace().next()?.parse().ok()
    }

    /// The kind of drive under the device. A drive without attributes of its queue is taken for one with
    /// command queuing, as NVMe and virtual drives are.
    pub fn class(&self, dev: u64) -> DriveClass {
        let known = self.known.iter().find(|(known, _)| *known == dev);
        known
            .map(|&(_, class)| class)
            .or_else(|| self.class_below(dev, 0))
            .unwrap_or(DriveClass::CommandQueuing)
    }

    /// What the drive itself claims to be. A whole disk, encoded as `st_rdev`.
    pub fn claim(&self, drive: u64) -> DriveClaim {
        let disk = self.disk(drive);
        let class = disk.as_deref().and_then(own_class);
        DriveClaim {
            class: class.unwrap_or(DriveClass::CommandQueuing),
            is_virtual: disk.is_some_and(|disk| self.is_virtual(&disk)),
        }
    }

    /// Whether a host or a file is behind a disk, by its directory.
    fn is_virtual(&self, disk: &Path) -> bool {
        let prefixes = ["vd", "xvd", "nbd", "loop"];
        let name = disk.file_name().and_then(|name| name.to_str());
        let has_prefix =
            name.is_some_and(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        has_prefix || disk.starts_with(self.root.join("devices/virtual"))
    }

    fn class_below(&self, dev: u64, depth: u32) -> Option<DriveClass> {
        if depth == MAX_STACK {
            return None;
        }
        let disk = self.disk(dev)?;
        let below = lower(&disk);
        let below = below
            .iter()
            .filter_map(|lower| self.class_below(lower.dev, depth + 1));
        let own = own_class(&disk).map(|class| DriveClaim {
            class,
            is_virtual: self.is_virtual(&disk),
        });
        // A stack of devices is as slow as its slowest part.
        below
            .chain(own.map(DriveClaim::likely_class))
            .max_by_key(|class| match class {
                DriveClass::CommandQueuing => 0,
                DriveClass::NoCommandQueuing => 1,
                DriveClass::Rotational => 2,
            })
    }
}

/// The class of the disk itself; `None` if its attributes do not tell.
fn own_class(disk: &Path) -> Option<DriveClass> {
    let is_set = |attribute| read(&disk.join(attribute)).is_some_and(|value| value == "1");
    let queuing = if is_set("queue/rotational") {
        return Some(DriveClass::Rotational);
    } else if let Some(depth) = read(&disk.join("device/queue_depth")) {
        depth.parse().unwrap_or(1) > 1
    } else if disk.file_name()?.to_str()?.starts_with("mmcblk") {
        is_set("device/cmdq_en")
    } else {
        return None;
    };
    Some(match queuing {
        true => DriveClass::CommandQueuing,
        false => DriveClass::NoCommandQueuing,
    })
}

pub(super) fn read(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// A file that holds one number.
pub(super) fn number(path: &Path) -> Option<u64> {
    read(path)?.parse().ok()
}

/// "8:1" as a device number.
pub(super) fn device_number(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::{TempDir, tempdir};

    use super::*;

    /// A sysfs with these devices (numbers and directory below `devices`) and files.
    pub(in crate::drive) fn fake(
        devices: &[(&str, &str)],
        files: &[(&str, &str)],
    ) -> (TempDir, Sysfs) {
        let root = tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        fs::create_dir_all(root.path().join("dev/block")).unwrap();
        for (numbers, name) in devices {
            write(&format!("devices/{name}/dev"), numbers);
            let link = root.path().join("dev/block").join(numbers);
            symlink(root.path().join("devices").join(name), link).unwrap();
        }
        for (path, content) in files {
            write(path, content);
        }
        let sysfs = Sysfs::at(root.path());
        (root, sysfs)
    }

    #[test]
    fn partitions_have_their_disks_readahead() {
        let (_root, sysfs) = fake(
            &[("8:0", "sda"), ("8:1", "sda/sda1")],
            &[
                ("devices/sda/sda1/partition", "1"),
                ("devices/sda/queue/max_sectors_kb", "1280\n"),
                ("devices/sda/stat", "  100 0 800 10 20 1 4096 30 0 40 50\n"),
                ("class/bdi/8:0/read_ahead_kb", "128\n"),
                ("fs/ext4/sda1/inode_readahead_blks", "32\n"),
            ],
        );
        let part = makedev(8, 1);
        let read_ahead = sysfs.read_ahead_knob(part).unwrap();
        assert!(read_ahead.ends_with("8:0/read_ahead_kb"));
        let inodes = sysfs.inode_readahead_knob(part).unwrap();
        assert!(inodes.ends_with("sda1/inode_readahead_blks"));
        assert_eq!(sysfs.readahead_limit(part), Some(1280 << 10));
        assert_eq!(sysfs.reads(part), Some(100));
        assert_eq!(sysfs.read_ahead_knob(makedev(9, 9)), None);
    }

    #[test]
    fn a_btrfs_has_a_readahead_of_its_own() {
        let (_root, sysfs) = fake(
            &[("8:0", "sda"), ("8:1", "sda/sda1"), ("8:2", "sda/sda2")],
            &[
                ("devices/sda/sda1/partition", "1"),
                ("devices/sda/sda2/partition", "2"),
                ("devices/sda/queue/max_sectors_kb", "1280\n"),
                ("class/bdi/8:0/read_ahead_kb", "128\n"),
                ("fs/btrfs/features/free_space_tree", "0\n"),
                ("fs/btrfs/fcef857c/devices/sda2", ""),
                ("fs/btrfs/fcef857c/bdi/read_ahead_kb", "512\n"),
            ],
        );
        assert_eq!(sysfs.readahead_limit(makedev(8, 1)), Some(1280 << 10));
        let own = sysfs.read_ahead_knob(makedev(8, 2)).unwrap();
        assert!(own.ends_with("fcef857c/bdi/read_ahead_kb"));
        assert_eq!(sysfs.readahead_limit(makedev(8, 2)), Some(512 << 10));
    }

    #[test]
    fn classes_of_drives_are_told_apart() {
        use DriveClass::{CommandQueuing, NoCommandQueuing, Rotational};
        let (root, sysfs) = fake(
            &[
                ("8:0", "sda"),
                ("8:16", "sdb"),
                ("8:32", "sdc"),
                ("179:0", "mmcblk0"),
                ("179:8", "mmcblk1"),
                ("259:0", "nvme0n1"),
                ("253:0", "dm-0"),
                ("254:0", "vda"),
                ("7:0", "virtual/block/loop0"),
            ],
            &[
                ("devices/vda/queue/rotational", "1"),
                ("devices/virtual/block/loop0/queue/rotational", "1"),
                ("devices/sda/device/queue_depth", "32"),
                ("devices/sdb/device/queue_depth", "1"),
                ("devices/sdc/queue/rotational", "1"),
                ("devices/mmcblk1/device/cmdq_en", "1"),
            ],
        );
        let devices = root.path().join("devices");
        fs::create_dir_all(devices.join("dm-0/slaves")).unwrap();
        symlink(devices.join("sdb"), devices.join("dm-0/slaves/sdb")).unwrap();
        for (major, minor, class) in [
            (8, 0, CommandQueuing),
            (8, 16, NoCommandQueuing),
            (8, 32, Rotational),
            (179, 0, NoCommandQueuing),
            (179, 8, CommandQueuing),
            (259, 0, CommandQueuing),
            (253, 0, NoCommandQueuing),
            (254, 0, CommandQueuing),
            (7, 0, CommandQueuing),
            (1, 1, CommandQueuing),
        ] {
            assert_eq!(sysfs.class(makedev(major, minor)), class, "{major}:{minor}");
        }
        for dev in [makedev(254, 0), makedev(7, 0)] {
            let claim = sysfs.claim(dev);
            assert_eq!((claim.class, claim.is_virtual), (Rotational, true));
        }
        assert!(!sysfs.claim(makedev(8, 32)).is_virtual);
        assert_eq!(sysfs.claim(makedev(8, 32)).class, Rotational);
        let emulated = sysfs.knowing(makedev(8, 0), NoCommandQueuing);
        assert_eq!(emulated.class(makedev(8, 0)), NoCommandQueuing);
        assert_eq!(emulated.class(makedev(8, 32)), Rotational);
    }
}
