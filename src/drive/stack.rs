//! From a block device down to the drives that it is on, by sysfs: partitions, device-mapper volumes (LVM, LUKS),
//! RAID, bcache, and loop devices over files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use super::sysfs::{Sysfs, device_number, number, read};
use crate::fs::local_path::LocalFile;
use crate::fs::mounts::MountTable;

/// Most devices below each other, such as a file on a loop device on a volume on a disk.
pub(super) const MAX_STACK: u32 = 8;

/// Most drives of one device: a large RAID.
const MOST_DRIVES: usize = 32;

/// sysfs counts in these, whatever the drive's own blocks are.
const SECTOR: u64 = 512;

/// A drive that a device is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveBelow {
    /// The whole drive's number, encoded as `st_rdev`.
    pub dev: u64,
    /// The kernel's name of it, such as `sda`.
    pub name: String,
    /// Where on the drive the device begins, in bytes, if it lies there in one piece: positions of two partitions of a
    /// drive are comparable by it. `None` if a layer maps positions in a way that sysfs does not tell.
    pub start: Option<u64>,
    /// The file of the lowest loop device on the way, which lies on the drive's file system.
    pub backing_file: Option<PathBuf>,
}

/// What lies directly below a whole disk.
pub(super) struct Lower {
    /// Device number, encoded as `st_dev`.
    pub dev: u64,
    start: Option<u64>,
    backing_file: Option<PathBuf>,
}

impl Sysfs {
    /// The drives that a device, encoded as `st_dev`, is on: itself if it is one. Empty if it is no block device, or
    /// unknown to sysfs.
    pub fn drives_below(&self, dev: u64) -> Vec<DriveBelow> {
        Walk::new(self, Bottom::Drive).from(dev)
    }

    /// Where requests to the device, encoded as `st_dev`, wait: as [`Sysfs::drives_below`], but a loop device is one
    /// of its own, with a queue and counters that are not those of the drive of its file.
    pub(super) fn queues_below(&self, dev: u64) -> Vec<DriveBelow> {
        Walk::new(self, Bottom::Queue).from(dev)
    }
}

/// Where a way down ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bottom {
    /// At a drive that holds the data.
    Drive,
    /// At a loop device, too.
    Queue,
}

/// A way down from one device.
struct Walk<'a> {
    sysfs: &'a Sysfs,
    bottom: Bottom,
    seen: BTreeSet<u64>,
    found: Vec<DriveBelow>,
}

impl<'a> Walk<'a> {
    fn new(sysfs: &'a Sysfs, bottom: Bottom) -> Self {
        Walk {
            sysfs,
            bottom,
            seen: BTreeSet::new(),
            found: Vec::new(),
        }
    }

    fn from(mut self, dev: u64) -> Vec<DriveBelow> {
        let itself = Lower {
            dev,
            start: Some(0),
            backing_file: None,
        };
        self.descend(itself, 0);
        self.found
    }

    fn descend(&mut self, at: Lower, depth: u32) {
        let is_full = self.found.len() == MOST_DRIVES;
        if depth == MAX_STACK || is_full || !self.seen.insert(at.dev) {
            return;
        }
        let (Some(device), Some(disk)) = (self.sysfs.device(at.dev), self.sysfs.disk(at.dev))
        else {
            return;
        };
        // 0 of a whole disk, which has no such attribute.
        let partition = number(&device.join("start")).unwrap_or(0) * SECTOR;
        let start = at.start.map(|start| start + partition);
        let before = self.found.len();
        let is_crossed =
            |lower: &Lower| lower.backing_file.is_none() || self.bottom == Bottom::Drive;
        let mut below = lower(&disk);
        below.retain(is_crossed);
        if self.bottom == Bottom::Drive && is_multipath(&disk) {
            below.clear();
        }
        for mut lower in below {
            lower.start = start.zip(lower.start).map(|(above, below)| above + below);
            lower.backing_file = lower.backing_file.or_else(|| at.backing_file.clone());
            self.descend(lower, depth + 1);
        }
        let own = read(&disk.join("dev")).and_then(|text| device_number(&text));
        if let (true, Some(dev), Some(name)) = (self.found.len() == before, own, disk.file_name()) {
            // Two partitions of a drive in one stack are one drive, whose positions are not those of one device.
            if let Some(same) = self.found.iter_mut().find(|drive| drive.dev == dev) {
                same.start = None;
                return;
            }
            self.found.push(DriveBelow {
                dev,
                name: name.to_string_lossy().into_owned(),
                start,
                backing_file: at.backing_file,
            });
        }
    }
}

/// What lies directly below a whole disk; nothing below a drive, or a loop device over a file without a block device.
pub(super) fn lower(disk: &Path) -> Vec<Lower> {
    let slaves = fs::read_dir(disk.join("slaves"));
    let mut found: Vec<Lower> = slaves
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|slave| {
            let dev = device_number(&read(&slave.path().join("dev"))?)?;
            let start = mirrored_start(disk, &slave.file_name().to_string_lossy());
            Some(Lower {
                dev,
                start,
                backing_file: None,
            })
        })
        .collect();
    found.sort_by_key(|lower| (major(lower.dev), minor(lower.dev)));
    let backing = read(&disk.join("loop/backing_file")).map(PathBuf::from);
    // A file may lie in pieces.
    found.extend(backing.and_then(|file| {
        Some(Lower {
            dev: device_of(&file)?,
            start: None,
            backing_file: Some(file),
        })
    }));
    found
}

/// The device of a loop device's file. `None` where a user decides what its path leads to: a file system of his own, which
/// never answers, would keep every prefetch waiting that asks about the device. Such a device is a drive of its own.
fn device_of(backing: &Path) -> Option<u64> {
    let mounts = MountTable::read().ok()?;
    Some(LocalFile::find_trusted(backing, &mounts).ok()?.node.dev)
}

/// Whether a disk stands for several paths to one drive (device-mapper's multipath): no path is a drive of its own, and one
/// that is passive must not be read.
fn is_multipath(disk: &Path) -> bool {
    read(&disk.join("dm/uuid")).is_some_and(|uuid| uuid.starts_with("mpath-"))
}

/// Where on a member the data of a RAID 1 begin, in bytes. Other levels spread them.
fn mirrored_start(disk: &Path, member: &str) -> Option<u64> {
    let is_mirror = read(&disk.join("md/level"))? == "raid1";
    let offset = number(&disk.join(format!("md/dev-{member}/offset")))?;
    is_mirror.then_some(offset * SECTOR)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use rustix::fs::makedev;

    use super::*;
    use crate::drive::sysfs::tests::fake;

    fn symlink(root: &Path, target: &str, link: &str) {
        let link = root.join("devices").join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(root.join("devices").join(target), link).unwrap();
    }

    fn below(sysfs: &Sysfs, major: u32, minor: u32) -> Vec<(String, Option<u64>)> {
        let drives = sysfs.drives_below(makedev(major, minor)).into_iter();
        drives.map(|drive| (drive.name, drive.start)).collect()
    }

    #[test]
    fn partitions_lie_on_their_disk_and_are_comparable() {
        let (_root, sysfs) = fake(
            &[("8:0", "sda"), ("8:1", "sda/sda1"), ("8:2", "sda/sda2")],
            &[
                ("devices/sda/sda1/partition", "1"),
                ("devices/sda/sda1/start", "2048\n"),
                ("devices/sda/sda2/partition", "2"),
                ("devices/sda/sda2/start", "1050624\n"),
            ],
        );
        assert_eq!(below(&sysfs, 8, 0), [("sda".to_owned(), Some(0))]);
        assert_eq!(below(&sysfs, 8, 1), [("sda".to_owned(), Some(1 << 20))]);
        assert_eq!(below(&sysfs, 8, 2), [("sda".to_owned(), Some(513 << 20))]);
        assert_eq!(sysfs.drives_below(makedev(8, 2))[0].dev, makedev(8, 0));
        assert_eq!(below(&sysfs, 9, 9), []);
        assert_eq!(below(&sysfs, 0, 30), []);
    }

    #[test]
    fn volumes_raid_and_caches_are_followed_to_every_drive() {
        let (root, sysfs) = fake(
            &[
                ("8:0", "sda"),
                ("8:1", "sda/sda1"),
                ("8:2", "sda/sda2"),
                ("8:16", "sdb"),
                ("8:17", "sdb/sdb1"),
                ("9:0", "md0"),
                ("9:1", "md1"),
                ("253:0", "dm-0"),
                ("253:1", "dm-1"),
                ("252:0", "bcache0"),
            ],
            &[
                ("devices/sda/sda1/partition", "1"),
                ("devices/sda/sda1/start", "2048"),
                ("devices/sda/sda2/partition", "2"),
                ("devices/sda/sda2/start", "4096"),
                ("devices/sdb/sdb1/partition", "1"),
                ("devices/sdb/sdb1/start", "2048"),
                ("devices/md0/md/level", "raid1\n"),
                ("devices/md0/md/dev-sda1/offset", "2048"),
                ("devices/md0/md/dev-sdb1/offset", "4096"),
                ("devices/md1/md/level", "raid0"),
                ("devices/md1/md/dev-sda2/offset", "2048"),
            ],
        );
        for (target, link) in [
            ("sda/sda1", "md0/slaves/sda1"),
            ("sdb/sdb1", "md0/slaves/sdb1"),
            ("sda/sda2", "md1/slaves/sda2"),
            // A LUKS volume on an LVM volume on the mirror.
            ("md0", "dm-0/slaves/md0"),
            ("dm-0", "dm-1/slaves/dm-0"),
            ("sda/sda2", "bcache0/slaves/sda2"),
            ("sdb/sdb1", "bcache0/slaves/sdb1"),
        ] {
            symlink(root.path(), target, link);
        }
        let both = |a, b| [("sda".to_owned(), a), ("sdb".to_owned(), b)];
        let (a, b) = (Some(2 << 20), Some(3 << 20));
        assert_eq!(below(&sysfs, 9, 0), both(a, b));
        assert_eq!(below(&sysfs, 253, 1), both(None, None));
        assert_eq!(below(&sysfs, 252, 0), both(None, None));
        assert_eq!(below(&sysfs, 9, 1), [("sda".to_owned(), None)]);
        // A stack on itself, which no kernel has, ends.
        symlink(root.path(), "dm-1", "dm-0/slaves/dm-1");
        assert_eq!(below(&sysfs, 253, 1), both(None, None));
    }

    #[test]
    fn the_paths_of_a_multipath_device_are_one_drive() {
        let (root, sysfs) = fake(
            &[
                ("8:0", "sda"),
                ("8:16", "sdb"),
                ("253:0", "dm-0"),
                ("253:1", "dm-1"),
            ],
            &[
                ("devices/dm-0/dm/uuid", "mpath-36001405\n"),
                ("devices/dm-1/dm/uuid", "LVM-x\n"),
            ],
        );
        for (target, link) in [
            ("sda", "dm-0/slaves/sda"),
            ("sdb", "dm-0/slaves/sdb"),
            ("dm-0", "dm-1/slaves/dm-0"),
        ] {
            symlink(root.path(), target, link);
        }
        assert_eq!(below(&sysfs, 253, 1), [("dm-0".to_owned(), None)]);
    }

    #[test]
    fn two_partitions_of_one_drive_are_one_drive() {
        let (root, sysfs) = fake(
            &[
                ("8:0", "sda"),
                ("8:1", "sda/sda1"),
                ("8:2", "sda/sda2"),
                ("9:0", "md0"),
            ],
            &[
                ("devices/sda/sda1/partition", "1"),
                ("devices/sda/sda2/partition", "2"),
                ("devices/md0/md/level", "raid1"),
                ("devices/md0/md/dev-sda1/offset", "2048"),
                ("devices/md0/md/dev-sda2/offset", "2048"),
            ],
        );
        symlink(root.path(), "sda/sda1", "md0/slaves/sda1");
        symlink(root.path(), "sda/sda2", "md0/slaves/sda2");
        assert_eq!(below(&sysfs, 9, 0), [("sda".to_owned(), None)]);
    }

    #[test]
    fn a_loop_device_is_on_the_drive_of_its_file_or_itself_the_last() {
        let image = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let dev = fs::metadata(image.path()).unwrap().dev();
        let on = format!("{}:{}", major(dev), minor(dev));
        let file = image.path().to_str().unwrap();
        let (_root, sysfs) = fake(
            &[("7:0", "loop0"), ("7:1", "loop1"), (&on, "vda")],
            &[
                ("devices/loop0/loop/backing_file", file),
                ("devices/loop1/loop/backing_file", "/proc/version"),
            ],
        );
        let drives = sysfs.drives_below(makedev(7, 0));
        assert_eq!(below(&sysfs, 7, 0), [("vda".to_owned(), None)]);
        assert_eq!(drives[0].backing_file.as_deref(), Some(image.path()));
        // Its own queue and counters end there.
        let queues = sysfs.queues_below(makedev(7, 0));
        assert_eq!((queues.len(), queues[0].dev), (1, makedev(7, 0)));
        // The file's file system has no device.
        assert_eq!(below(&sysfs, 7, 1), [("loop1".to_owned(), Some(0))]);
    }

    #[test]
    fn a_loop_device_over_a_file_of_which_a_user_decides_is_a_drive_of_its_own() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let image = dir.path().join("image");
        fs::write(&image, "").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let dev = fs::metadata(&image).unwrap().dev();
        let on = format!("{}:{}", major(dev), minor(dev));
        let (_root, sysfs) = fake(
            &[("7:0", "loop0"), (&on, "vda")],
            &[("devices/loop0/loop/backing_file", image.to_str().unwrap())],
        );
        assert_eq!(below(&sysfs, 7, 0), [("loop0".to_owned(), Some(0))]);
    }
}
