//! From a device number to the device's node and name.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, major, minor, stat};

use super::mounts::{Mount, MountTable};
use super::safe_open;
use super::support::Support;

/// The kernel's number of loop devices.
const LOOP_MAJOR: u32 = 7;

/// Most loop devices that [`names`] names. A desktop with snaps has dozens, whose names tell nobody anything.
const MOST_LOOPS: usize = 3;

/// Path of the block device's node: the kernel's name below `/dev`, or else the source of a mount, or else
/// udev's link in `/dev/block`. Each is checked to be this very device. `None` if there is no node.
pub fn node(dev: u64, mounts: &MountTable) -> Option<PathBuf> {
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let named = kernel_path(dev).map(|name| Path::new("/dev").join(path(&name)));
    let mounted = mounts.of_device(dev).map(|mount| path(&mount.source));
    let linked = PathBuf::from(format!("/dev/block/{}:{}", major(dev), minor(dev)));
    let mut paths = named.into_iter().chain(mounted).chain([linked]);
    paths.find(|path| path.is_absolute() && is_device(path, dev))
}

/// Opens the block device for reading. `None` if it has no node, or cannot be opened.
pub(crate) fn open(dev: u64, mounts: &MountTable) -> Option<OwnedFd> {
    safe_open::block_device(&node(dev, mounts)?, dev).ok()?
}

/// The kernel's name of the device, such as `nvme0n1p2` or `dm-0`; its numbers (`259:2`) if it is not in
/// sysfs.
pub fn name(dev: u64) -> String {
    match kernel_path(dev) {
        Some(path) => String::from_utf8_lossy(&path).into_owned(),
        None => format!("{}:{}", major(dev), minor(dev)),
    }
}

/// The names of devices as a list, such as "nvme0n1p2, sda1, 40 loop devices".
pub fn names(devices: &[u64]) -> String {
    let is_loop = |dev: &u64| major(*dev) == LOOP_MAJOR;
    let (loops, mut named): (Vec<u64>, Vec<u64>) = devices.iter().copied().partition(is_loop);
    let counted = match loops.len() {
        0..=MOST_LOOPS => {
            named.extend(loops);
            None
        }
        many => Some(format!("{many} loop devices")),
    };
    let named = named.into_iter().map(name).chain(counted);
    named.collect::<Vec<String>>().join(", ")
}

/// The node's path below `/dev`, from sysfs. It may contain directories (`mapper/control`).
fn kernel_path(dev: u64) -> Option<Vec<u8>> {
    let (major, minor) = (major(dev), minor(dev));
    let uevent = std::fs::read(format!("/sys/dev/block/{major}:{minor}/uevent")).ok()?;
    let mut lines = uevent.split(|&byte| byte == b'\n');
    lines.find_map(|line| Some(line.strip_prefix(b"DEVNAME=")?.to_vec()))
}

fn is_device(path: &Path, dev: u64) -> bool {
    stat(path).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice && stat.st_rdev == dev
    })
}

/// The block device that a mounted file system is on, from the number that its files have (`st_dev`) and its mount. Some
/// file systems, such as btrfs, give their files a number of no device: then it is the one that the mount's source names.
pub fn of_file_system(dev: u64, mount: Option<&Mount>) -> u64 {
    let named = || {
        std::fs::metadata(source(mount?)?)
            .ok()
            .map(|found| found.rdev())
    };
    match major(dev) {
        0 => named().filter(|&dev| dev != 0).unwrap_or(dev),
        _ => dev,
    }
}

/// The block device below a file system of the mount table; below a btrfs on several, the one that was named at its mount.
pub fn below(dev: u64, mounts: &MountTable) -> u64 {
    of_file_system(dev, mounts.of_device(dev).next())
}

/// The path of the device's node. `None` if the file system is on none: then a user may have chosen the source's text.
fn source(mount: &Mount) -> Option<&Path> {
    if !Support::is_read_from_drive(&mount.fs_type) {
        return None;
    }
    let source = Path::new(std::str::from_utf8(&mount.source).ok()?);
    source.is_absolute().then_some(source)
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::*;

    #[test]
    fn a_missing_device_is_named_by_its_numbers_and_has_no_node() {
        let dev = makedev(4095, 7);
        assert_eq!(name(dev), "4095:7");
        // Mount sources that are a character device and a regular file.
        let mounts = MountTable::parse(
            b"1 0 4095:7 / / rw - ext4 /dev/null rw\n2 1 4095:7 / /a rw - ext4 /proc/version rw",
        );
        assert_eq!(node(dev, &mounts), None);
    }

    #[test]
    fn of_many_loop_devices_their_number_is_listed() {
        let loops: Vec<u64> = (0..4).map(|minor| makedev(LOOP_MAJOR, minor)).collect();
        let of = |loops: &[u64]| names(&[loops, &[makedev(4095, 1), makedev(4095, 2)]].concat());
        assert_eq!(of(&loops), "4095:1, 4095:2, 4 loop devices");
        let each = loops[..3].iter().map(|&dev| format!(", {}", name(dev)));
        let each: String = each.collect();
        assert_eq!(of(&loops[..3]), format!("4095:1, 4095:2{each}"));
        assert_eq!(names(&[]), "");
    }

    #[test]
    fn file_systems_with_numbers_of_their_own_are_found_by_their_source() {
        assert_eq!(of_file_system(makedev(8, 1), None), makedev(8, 1));
        assert_eq!(of_file_system(makedev(0, 40), None), makedev(0, 40));
        let named = |fs_type: &str, source: &str| {
            let line = format!("30 1 0:40 / /mnt rw - {fs_type} {source} rw\n");
            let mounts = MountTable::parse(line.as_bytes());
            of_file_system(makedev(0, 40), mounts.mounts().first())
        };
        assert_eq!(named("btrfs", "/dev/null"), makedev(1, 3));
        for (fs_type, source) in [
            ("btrfs", "/proc/version"),
            ("btrfs", "null"),
            ("fuse.any", "/dev/null"),
            ("fuse", "/dev/null"),
            ("nfs4", "/dev/null"),
            ("proc", "/dev/null"),
            ("tmpfs", "/dev/null"),
            ("overlay", "/dev/null"),
        ] {
            assert_eq!(named(fs_type, source), makedev(0, 40), "{fs_type} {source}");
        }
    }
}
