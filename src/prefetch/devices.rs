//! The profile's devices on the running system.

use std::os::fd::{AsFd, OwnedFd};

use crate::drive::{Sysfs, WrittenDrive};
use crate::fs::blockdev;
use crate::fs::mounts::{MountTable, fs_uuid};
use crate::fs::safe_open;
use crate::model::Device;

/// A device of the profile, opened.
pub struct OpenDevice {
    /// Its current number (`st_dev`).
    pub dev: u64,
    /// A directory on the file system, by which files are opened by handle.
    pub mount: OwnedFd,
    /// The block device's node, for metadata; `None` where it cannot be opened.
    pub node: Option<OwnedFd>,
    /// Most bytes that one readahead(2) call reads; 0 if readahead is off.
    pub readahead_limit: u64,
}

/// Largest request beside a writer, in bytes. The drive takes it in between two writes; of a larger one, no page can
/// be used before all of it is there.
const BESIDE_WRITER: u64 = 128 << 10;

/// The readahead limit in bytes where sysfs has none: the kernel's default, `VM_READAHEAD_PAGES`.
const DEFAULT_READAHEAD: u64 = 128 << 10;

impl OpenDevice {
    /// Opens the file system with the profile's UUID, looking first at the device number in the profile.
    /// `None` if it is not mounted.
    pub fn find(device: &Device, mounts: &MountTable, sysfs: &Sysfs) -> Option<Self> {
        let (dev, mount) = open_same(device, mounts)?;
        let limit = sysfs.readahead_limit(dev).unwrap_or(DEFAULT_READAHEAD);
        let writes = |drive: WrittenDrive| sysfs.write_counters(drive.dev);
        let writes = sysfs.written_drive(dev).and_then(writes);
        let is_written = writes.is_some_and(|writes| writes.in_flight > 0);
        Some(OpenDevice {
            dev,
            mount,
            node: open_node(dev, mounts),
            readahead_limit: match is_written {
                true => limit.min(BESIDE_WRITER),
                false => limit,
            },
        })
    }
}

fn open_same(device: &Device, mounts: &MountTable) -> Option<(u64, OwnedFd)> {
    let same = |fd: &OwnedFd| fs_uuid(fd.as_fd()).is_ok_and(|uuid| uuid == device.fs_uuid);
    match mounts.open_root(device.dev) {
        Ok(open) if same(&open.fd) => return Some((device.dev, open.fd)),
        _ => {}
    }
    let dev = mounts.find_uuid(&device.fs_uuid)?;
    Some((dev, mounts.open_root(dev).ok()?.fd))
}

fn open_node(dev: u64, mounts: &MountTable) -> Option<OwnedFd> {
    safe_open::block_device(&blockdev::node(dev, mounts)?, dev).ok()?
}
