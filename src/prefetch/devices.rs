//! The profile's devices on the running system.

use std::os::fd::OwnedFd;

use crate::drive::Sysfs;
use crate::fs::blockdev;
use crate::fs::kind::FsKind;
use crate::fs::loop_image::image_of;
use crate::fs::mounts::{MountTable, OpenMount};
use crate::fs::present::Presence;
use crate::fs::snap::is_outdated;
use crate::model::Skipped;

/// A device of the profile, opened.
pub struct OpenDevice {
    /// The device's current number (`st_dev`).
    pub dev: u64,
    /// The block device that it is on.
    pub below: u64,
    /// A mount of the file system, through which its files are opened.
    pub mount: OpenMount,
    /// The block device's node, for metadata; `None` where it cannot be opened, or none are prefetched.
    pub node: Option<OwnedFd>,
    /// Device and inode number of the image that it is mounted from, if blocks of that are read ahead.
    pub image: Option<(u64, u64)>,
    /// Whether an update has put another file system in its place: its files count as gone,
    /// and its image, too.
    pub is_outdated: bool,
    /// Most bytes that one readahead(2) call reads; 0 if readahead is off.
    pub readahead_limit: u64,
}

/// Largest request beside a writer, in bytes. The drive takes it in between two writes; of a larger one, no page can
/// be used before all of it is there.
const BESIDE_WRITER: u64 = 128 << 10;

/// Largest request before a launch, in bytes: a launch that begins waits for one at most, 13 ms on a card of 20 MB/s.
const BEFORE_LAUNCH: u64 = 256 << 10;

/// The readahead limit in bytes where sysfs has none: the kernel's default, `VM_READAHEAD_PAGES`.
const DEFAULT_READAHEAD: u64 = 128 << 10;

/// Device and inode number of each image from which an outdated file system of the profile is mounted: its blocks are
/// needed as little as what is inside.
pub fn outdated_images(devices: &[Result<OpenDevice, Skipped>]) -> Vec<(u64, u64)> {
    let opened = devices.iter().flatten();
    let outdated = opened.filter(|device| device.is_outdated);
    outdated.filter_map(|device| device.image).collect()
}

impl OpenDevice {
    /// Opens the device before a launch, to be read in small pieces: not if one of its drives, whole disks, is in `asleep` or
    /// was put to sleep by the kernel.
    ///
    /// # Errors
    /// As [`OpenDevice::open`].
    pub fn open_awake(
        presence: &Presence,
        mounts: &MountTable,
        sysfs: &Sysfs,
        asleep: &[u64],
    ) -> Result<Self, Skipped> {
        if let Presence::On(dev) = presence {
            // To open its node would wake it.
            let drives = sysfs.drives_below(blockdev::below(*dev, mounts));
            let sleeps = |drive: u64| asleep.contains(&drive) || sysfs.is_suspended(drive);
            if drives.iter().any(|drive| sleeps(drive.dev)) {
                return Err(Skipped::Asleep);
            }
        }
        let mut device = Self::open(presence, mounts, sysfs)?;
        device.readahead_limit = device.readahead_limit.min(BEFORE_LAUNCH);
        Ok(device)
    }

    /// Opens the file system where it is.
    ///
    /// # Errors
    /// Why what is on it must be skipped.
    pub fn open(presence: &Presence, mounts: &MountTable, sysfs: &Sysfs) -> Result<Self, Skipped> {
        let dev = match presence {
            Presence::On(dev) => *dev,
            Presence::Away => return Err(Skipped::DeviceGone),
            Presence::Unclear(_) => return Err(Skipped::Unclear),
        };
        let mount = mounts.open_root(dev).map_err(|_| Skipped::DeviceGone)?;
        let below = blockdev::below(dev, mounts);
        let limit = sysfs.readahead_limit(below).unwrap_or(DEFAULT_READAHEAD);
        let drive = sysfs.written_drive(below);
        let writes = drive.and_then(|drive| sysfs.write_counters(drive));
        let is_written = writes.is_some_and(|writes| writes.in_flight > 0);
        let has_metadata = mount.mount.kind().is_some_and(FsKind::has_metadata);
        let reads_image = mount.mount.kind().is_some_and(FsKind::reads_image);
        Ok(OpenDevice {
            dev,
            below,
            is_outdated: is_outdated(dev, mounts),
            mount,
            node: has_metadata.then(|| blockdev::open(dev, mounts)).flatten(),
            image: reads_image.then(|| image_of(below, mounts)).flatten(),
            readahead_limit: match is_written {
                true => limit.min(BESIDE_WRITER),
                false => limit,
            },
        })
    }
}
