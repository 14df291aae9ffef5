//! What sysfs says about a block device.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::model::DriveClass;

/// How many devices may be stacked (a file on a loop device on a volume on a disk) before the search
/// for the drive at the bottom ends.
const MAX_STACK: u32 = 8;

/// A view of sysfs. Tests use another root than /sys.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
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

    /// The directory of the whole disk that `dev` (encoded as `st_dev`) is, or is a partition of.
    fn disk(&self, dev: u64) -> Option<PathBuf> {
        let link = self
            .root
            .join(format!("dev/block/{}:{}", major(dev), minor(dev)));
        let dir = fs::canonicalize(link).ok()?;
        if dir.join("partition").exists() {
            return dir.parent().map(Path::to_owned);
        }
        Some(dir)
    }

    /// `/sys/class/bdi/…/read_ahead_kb` of the device: the readahead of every file opened on it from now on,
    /// in KiB. Partitions share that of their disk.
    pub fn read_ahead_knob(&self, dev: u64) -> Option<PathBuf> {
        let own = self.root.join(format!(
            "class/bdi/{}:{}/read_ahead_kb",
            major(dev),
            minor(dev)
        ));
        if own.exists() {
            return Some(own);
        }
        let numbers = read(&self.disk(dev)?.join("dev"))?;
        let disk = self.root.join(format!("class/bdi/{numbers}/read_ahead_kb"));
        disk.exists().then_some(disk)
    }

    /// ext4's own readahead of inode-table blocks, in blocks; 1 turns it off.
    pub fn inode_readahead_knob(&self, dev: u64) -> Option<PathBuf> {
        let link = self
            .root
            .join(format!("dev/block/{}:{}", major(dev), minor(dev)));
        let name = fs::canonicalize(link).ok()?.file_name()?.to_owned();
        let knob = self
            .root
            .join("fs/ext4")
            .join(name)
            .join("inode_readahead_blks");
        knob.exists().then_some(knob)
    }

    /// The most that one readahead(2) call reads on this device, in bytes: the larger of its readahead and
    /// its largest request (`force_page_cache_ra`: `ra_pages` and `io_pages`). `None` if sysfs does not tell;
    /// 0 if readahead is switched off.
    pub fn readahead_limit(&self, dev: u64) -> Option<u64> {
        let readahead: u64 = read(&self.read_ahead_knob(dev)?)?.parse().ok()?;
        let request: u64 = self
            .disk(dev)
            .and_then(|disk| read(&disk.join("queue/max_sectors_kb"))?.parse().ok())
            .unwrap_or(0);
        Some(readahead.max(request) * 1024)
    }

    /// The kind of drive under the device. A drive without attributes of its queue is taken for one with
    /// command queuing, as NVMe and virtual drives are.
    pub fn class(&self, dev: u64) -> DriveClass {
        let known = self.known.iter().find(|(known, _)| *known == dev);
        known
            .map(|(_, class)| *class)
            .or_else(|| self.class_below(dev, 0))
            .unwrap_or(DriveClass::CommandQueuing)
    }

    fn class_below(&self, dev: u64, depth: u32) -> Option<DriveClass> {
        if depth == MAX_STACK {
            return None;
        }
        let disk = self.disk(dev)?;
        // A stack of devices is as slow as its slowest part.
        let mut below: Vec<DriveClass> = Vec::new();
        for slave in fs::read_dir(disk.join("slaves"))
            .into_iter()
            .flatten()
            .flatten()
        {
            if let Some(dev) = device_number(&read(&slave.path().join("dev"))?) {
                below.extend(self.class_below(dev, depth + 1));
            }
        }
        let backing = read(&disk.join("loop/backing_file"));
        if let Some(meta) = backing.and_then(|file| fs::metadata(file).ok()) {
            below.extend(self.class_below(meta.dev(), depth + 1));
        }
        if flag(&disk.join("queue/rotational")) {
            below.push(DriveClass::Rotational);
        } else if let Some(depth) = read(&disk.join("device/queue_depth")) {
            below.push(queuing(depth.parse().unwrap_or(1) > 1));
        } else if disk.file_name()?.to_str()?.starts_with("mmcblk") {
            below.push(queuing(flag(&disk.join("device/cmdq_en"))));
        }
        let slowest = |class: &DriveClass| match class {
            DriveClass::CommandQueuing => 0,
            DriveClass::NoCommandQueuing => 1,
            DriveClass::Rotational => 2,
        };
        below.into_iter().max_by_key(slowest)
    }
}

fn queuing(yes: bool) -> DriveClass {
    if yes {
        DriveClass::CommandQueuing
    } else {
        DriveClass::NoCommandQueuing
    }
}

fn read(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn flag(path: &Path) -> bool {
    read(path).is_some_and(|value| value == "1")
}

/// "8:1" as a device number.
fn device_number(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(rustix::fs::makedev(
        major.parse().ok()?,
        minor.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::makedev;
    use tempfile::TempDir;

    use super::*;

    struct FakeSysfs(TempDir);

    impl FakeSysfs {
        fn new() -> Self {
            FakeSysfs(tempfile::tempdir().expect("a temporary directory"))
        }

        fn sysfs(&self) -> Sysfs {
            Sysfs::at(self.0.path())
        }

        fn file(&self, path: &str, content: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, content).expect("a file");
        }

        fn device(&self, numbers: &str, dir: &str) {
            let dir = self.0.path().join(dir);
            fs::create_dir_all(&dir).expect("directories");
            fs::write(dir.join("dev"), numbers).expect("a file");
            let links = self.0.path().join("dev/block");
            fs::create_dir_all(&links).expect("directories");
            symlink(dir, links.join(numbers)).expect("a link");
        }
    }

    #[test]
    fn partitions_have_their_disks_readahead() {
        let fake = FakeSysfs::new();
        fake.device("8:0", "devices/sda");
        fake.device("8:1", "devices/sda/sda1");
        fake.file("devices/sda/sda1/partition", "1");
        fake.file("devices/sda/queue/max_sectors_kb", "1280\n");
        fake.file("class/bdi/8:0/read_ahead_kb", "128\n");
        fake.file("fs/ext4/sda1/inode_readahead_blks", "32\n");
        let sysfs = fake.sysfs();
        let part = makedev(8, 1);
        assert!(
            sysfs
                .read_ahead_knob(part)
                .unwrap()
                .ends_with("8:0/read_ahead_kb")
        );
        assert!(
            sysfs
                .inode_readahead_knob(part)
                .unwrap()
                .ends_with("sda1/inode_readahead_blks")
        );
        assert_eq!(sysfs.readahead_limit(part), Some(1280 << 10));
        assert_eq!(sysfs.read_ahead_knob(makedev(9, 9)), None);
    }

    #[test]
    fn drives_are_told_apart() {
        let fake = FakeSysfs::new();
        fake.device("8:0", "devices/sda");
        fake.file("devices/sda/device/queue_depth", "32");
        fake.device("8:16", "devices/sdb");
        fake.file("devices/sdb/device/queue_depth", "1");
        fake.device("8:32", "devices/sdc");
        fake.file("devices/sdc/queue/rotational", "1");
        fake.device("179:0", "devices/mmcblk0");
        fake.device("179:8", "devices/mmcblk1");
        fake.file("devices/mmcblk1/device/cmdq_en", "1");
        fake.device("259:0", "devices/nvme0n1");
        fake.device("253:0", "devices/dm-0");
        fs::create_dir_all(fake.0.path().join("devices/dm-0/slaves")).unwrap();
        symlink(
            fake.0.path().join("devices/sdb"),
            fake.0.path().join("devices/dm-0/slaves/sdb"),
        )
        .unwrap();
        let class = |major, minor| fake.sysfs().class(makedev(major, minor));
        assert_eq!(class(8, 0), DriveClass::CommandQueuing);
        assert_eq!(class(8, 16), DriveClass::NoCommandQueuing);
        assert_eq!(class(8, 32), DriveClass::Rotational);
        assert_eq!(class(179, 0), DriveClass::NoCommandQueuing);
        assert_eq!(class(179, 8), DriveClass::CommandQueuing);
        assert_eq!(class(259, 0), DriveClass::CommandQueuing);
        assert_eq!(class(253, 0), DriveClass::NoCommandQueuing);
        assert_eq!(class(1, 1), DriveClass::CommandQueuing);
        let with_class = fake
            .sysfs()
            .knowing(makedev(8, 0), DriveClass::NoCommandQueuing);
        assert_eq!(
            with_class.class(makedev(8, 0)),
            DriveClass::NoCommandQueuing
        );
        assert_eq!(with_class.class(makedev(8, 32)), DriveClass::Rotational);
    }
}
