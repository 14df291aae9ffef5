//! The system settings of a learning run.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::device::{KnobError, Knobs, Sysfs, checkpoint_journal, drop_caches};
use crate::resolve::mounts::{Mount, MountTable};
use crate::resolve::support::Support;

/// Where the record of changed knobs is: emptied by a reboot, as the knobs are.
pub const RUN_DIR: &str = "/run/paralfetch";

/// Devices whose file systems can be learned from: those mounted at or below `root`, and the one that
/// holds `root` itself.
pub fn devices_below(mounts: &[Mount], root: Option<&Path>) -> Vec<u64> {
    let root = root.unwrap_or(Path::new("/"));
    let holder = mounts
        .iter()
        .filter(|mount| root.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.as_os_str().len())
        .map(|mount| mount.dev);
    let mut devices: Vec<u64> = mounts
        .iter()
        .filter(|mount| mount.mount_point.starts_with(root) || Some(mount.dev) == holder)
        .filter(|mount| Support::of(&mount.fs_type) == Support::Ext4)
        .map(|mount| mount.dev)
        .collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// The knobs of a learning run (design §4.1 and paper §4.2); dropping it restores them.
pub struct LearningSettings {
    knobs: Knobs,
    /// Devices that the launch may be read from.
    devices: Vec<u64>,
}

impl LearningSettings {
    /// Sets ext4's inode readahead to its minimum, so that what is learned of inode tables is what
    /// was needed, and, for exact learning, the devices' readahead to 0.
    ///
    /// # Errors
    /// When another run holds the knobs, or one cannot be changed.
    pub fn apply(
        mounts: &MountTable,
        root: Option<&Path>,
        exact: bool,
        keeper: Option<Command>,
    ) -> Result<Self, KnobError> {
        let mut knobs = Knobs::acquire(Path::new(RUN_DIR), keeper)?;
        let sysfs = Sysfs::default();
        let canonical: Option<PathBuf> = root.and_then(|root| root.canonicalize().ok());
        let devices = devices_below(mounts.mounts(), canonical.as_deref().or(root));
        for &dev in &devices {
            if let Some(knob) = sysfs.inode_readahead_knob(dev) {
                knobs.set(&knob, "1")?;
            }
            if let Some(knob) = sysfs.read_ahead_knob(dev).filter(|_| exact) {
                knobs.set(&knob, "0")?;
            }
        }
        Ok(LearningSettings { knobs, devices })
    }

    /// Empties the caches, those metadata included that ext4's journals still hold.
    ///
    /// # Errors
    /// When the kernel refuses to drop caches.
    pub fn empty_caches(&self, mounts: &MountTable) -> io::Result<()> {
        for &dev in &self.devices {
            // Where the journal cannot be emptied (there is none, or before Linux 5.14), recently
            // written metadata stay cached, and only those that data depend on are found.
            if let Ok(open) = mounts.open_root(dev) {
                let _ = checkpoint_journal(open.fd.as_fd());
            }
        }
        drop_caches()
    }

    /// Restores the knobs.
    ///
    /// # Errors
    /// The first that could not be restored.
    pub fn restore(self) -> Result<(), KnobError> {
        self.knobs.restore()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::mounts::parse_mountinfo;

    const MOUNTS: &[u8] = b"\
        20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        21 20 0:20 / /proc rw - proc proc rw\n\
        22 20 8:2 / /home rw - ext4 /dev/sda2 rw\n\
        23 20 7:0 / /mnt/image rw - ext4 /dev/loop0 rw\n\
        24 23 0:30 / /mnt/image/tmp rw - tmpfs tmpfs rw\n\
        25 23 8:2 /x /mnt/image/data rw - ext4 /dev/sda2 rw\n\
        26 20 8:3 / /srv rw - xfs /dev/sda3 rw\n";

    fn below(root: Option<&str>) -> Vec<(u32, u32)> {
        devices_below(&parse_mountinfo(MOUNTS).0, root.map(Path::new))
            .into_iter()
            .map(|dev| (rustix::fs::major(dev), rustix::fs::minor(dev)))
            .collect()
    }

    #[test]
    fn the_system_concerns_all_devices() {
        assert_eq!(below(None), [(7, 0), (8, 1), (8, 2)]);
    }

    #[test]
    fn an_image_concerns_what_is_mounted_in_it() {
        assert_eq!(below(Some("/mnt/image")), [(7, 0), (8, 2)]);
        assert_eq!(below(Some("/srv/chroot")), []);
        assert_eq!(below(Some("/opt/chroot")), [(8, 1)]);
    }
}
