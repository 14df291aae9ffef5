//! The mounted file systems: which is on which device, and opening their roots.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstat, makedev};

pub use super::mountinfo::{Mount, parse_mountinfo};
use super::support::Support;
pub use super::uuid::fs_uuid;

/// The mount table of a mount namespace, this process's own or another, as it was when it was read.
#[derive(Clone, Debug)]
pub struct MountTable {
    mounts: Vec<Mount>,
}

/// A mount with its root directory open.
#[derive(Debug)]
pub struct OpenMount {
    /// Its line of the mount table.
    pub mount: Mount,
    /// Its root directory, opened for reading.
    pub fd: OwnedFd,
}

/// Why no directory of a file system could be opened, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MountError(String);

impl MountTable {
    /// Reads `/proc/self/mountinfo`.
    ///
    /// # Errors
    /// Those of reading the file, such as when /proc is not mounted.
    pub fn read() -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read("/proc/self/mountinfo")?))
    }

    /// The table that a `mountinfo` file's text describes. Malformed lines are skipped.
    pub fn parse(mountinfo: &[u8]) -> Self {
        MountTable {
            mounts: parse_mountinfo(mountinfo),
        }
    }

    /// All mounts, in the kernel's order.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// Type of the file system on a device (`st_dev`), such as `ext4`; `None` if it is not mounted
    /// here.
    pub fn fs_type(&self, dev: u64) -> Option<&str> {
        self.of_device(dev)
            .next()
            .map(|mount| mount.fs_type.as_str())
    }

    /// The mount with this number.
    pub fn by_id(&self, id: u32) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.id == id)
    }

    /// The mounts of a device.
    pub fn of_device(&self, dev: u64) -> impl Iterator<Item = &Mount> {
        self.mounts.iter().filter(move |mount| mount.dev == dev)
    }

    /// Opens the root directory of a mount of the device (`st_dev`): that of the whole file system if it is
    /// mounted as a whole, or else of the mount with the shortest root. Mounts that others cover are skipped,
    /// and what covers them is not touched.
    ///
    /// # Errors
    /// [`MountError`] if no mount of the device can be opened.
    pub fn open_root(&self, dev: u64) -> Result<OpenMount, MountError> {
        let device = || {
            let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
            format!("device {major}:{minor}")
        };
        let mut failure = None;
        for mount in self.candidates(dev) {
            let covered = || {
                let what = "is covered by another mount; mount it once more elsewhere";
                MountError(format!("every mount of {} {what}", device()))
            };
            if self.is_covered(mount) {
                failure.get_or_insert_with(covered);
                continue;
            }
            match open_directory(&mount.mount_point) {
                Ok((fd, found)) if found == dev => {
                    let mount = mount.clone();
                    return Ok(OpenMount { mount, fd });
                }
                // Something was mounted there after the table was read.
                Ok(_) => failure = Some(covered()),
                Err(error) => {
                    let (path, device) = (mount.mount_point.display(), device());
                    failure = Some(MountError(format!(
                        "cannot open {path}, where {device} is mounted: {error}; run as root"
                    )));
                }
            }
        }
        Err(failure.unwrap_or_else(|| {
            let what =
                "is not mounted in this mount namespace; mount it where paralfetch can see it";
            MountError(format!("{} {what}", device()))
        }))
    }

    /// Device (`st_dev`) of the mounted ext2, ext3 or ext4 file system with this UUID. File systems
    /// that cannot be opened are skipped, as are all before Linux 6.0, which does not tell their UUIDs.
    pub fn find_uuid(&self, uuid: &[u8; 16]) -> Option<u64> {
        let mut asked = HashSet::new();
        let mut ext4 = self
            .mounts
            .iter()
            .filter(|mount| Support::of(&mount.fs_type) == Support::Ext4);
        let has_uuid = |dev| {
            let root = self.open_root(dev);
            root.is_ok_and(|open| fs_uuid(open.fd.as_fd()).is_ok_and(|found| found == *uuid))
        };
        // Of a file system and its snapshot, the one that was mounted first.
        ext4.find(|mount| asked.insert(mount.dev) && has_uuid(mount.dev))
            .map(|mount| mount.dev)
    }

    /// The device's mounts, best first. The shortest root is `/`, that of the whole file system.
    fn candidates(&self, dev: u64) -> Vec<&Mount> {
        let mut mounts: Vec<&Mount> = self.of_device(dev).collect();
        mounts.sort_by_key(|mount| mount.root.len());
        mounts
    }

    /// Whether looking the mount point up ends in another mount. Follows the mount's chain of parents to the
    /// root, and looks in each for a sibling that covers part of the path.
    fn is_covered(&self, mount: &Mount) -> bool {
        let is_covering = |parent: u32, on_the_way: u32, target: &Path| {
            self.mounts.iter().any(|other| {
                other.parent == parent
                    && other.id != parent
                    && other.id != on_the_way
                    && target.starts_with(&other.mount_point)
            })
        };
        if is_covering(mount.id, mount.id, &mount.mount_point) {
            return true;
        }
        let mut current = mount;
        // The bound ends a circle of parents, which a damaged table could have.
        for _ in 0..self.mounts.len() {
            if current.parent == current.id {
                return false;
            }
            if is_covering(current.parent, current.id, &current.mount_point) {
                return true;
            }
            let Some(parent) = self.by_id(current.parent) else {
                return false;
            };
            current = parent;
        }
        true
    }
}

fn open_directory(path: &Path) -> io::Result<(OwnedFd, u64)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    let dev = fstat(&fd)?.st_dev;
    // Composed as for mountinfo. On 64-bit systems it is the same number.
    Ok((fd, makedev(rustix::fs::major(dev), rustix::fs::minor(dev))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lines: &[&str]) -> MountTable {
        let table = MountTable::parse(lines.join("\n").as_bytes());
        assert_eq!(table.mounts().len(), lines.len());
        table
    }

    #[test]
    fn the_whole_file_system_comes_before_bind_mounts() {
        let table = table(&[
            "2 1 8:1 /home/user /a rw - ext4 /dev/sda1 rw",
            "3 1 8:1 /home /b rw - ext4 /dev/sda1 rw",
            "4 1 8:1 / /c rw - ext4 /dev/sda1 rw",
            "5 1 8:2 / /d rw - xfs /dev/sda2 rw",
        ]);
        let candidates = table.candidates(makedev(8, 1));
        let ids: Vec<u32> = candidates.iter().map(|mount| mount.id).collect();
        assert_eq!(ids, [4, 3, 2]);
        assert_eq!(table.fs_type(makedev(8, 2)), Some("xfs"));
        assert_eq!(table.fs_type(makedev(8, 3)), None);
    }

    #[test]
    fn covered_mounts_are_told_by_the_table() {
        let system = table(&[
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
            // Another mount on the same directory, and on the mount point of the parent.
            "2 1 8:2 / /mnt rw - ext4 /dev/sda2 rw",
            "3 2 8:3 / /mnt/deep rw - ext4 /dev/sda3 rw",
            "4 2 0:50 / /mnt rw - fuse.sshfs host: rw",
            // A later mount on a directory above.
            "5 1 8:4 / /srv/data rw - ext4 /dev/sda4 rw",
            "6 1 8:5 / /srv rw - ext4 /dev/sda5 rw",
            "7 1 8:6 / /srv-other rw - ext4 /dev/sda6 rw",
        ]);
        let circle = table(&[
            "1 2 8:1 / /a rw - ext4 /dev/sda1 rw",
            "2 1 8:2 / /b rw - ext4 /dev/sda2 rw",
        ]);
        // A process in a chroot sees only the mounts below its root, with numbers of parents that it does not
        // see. Where the new root is a mount point, only its own parent is missing.
        let mounted = table(&[
            "30 25 8:1 / / rw - ext4 /dev/sda1 rw",
            "31 30 0:5 / /dev rw - devtmpfs udev rw",
            "32 30 8:2 / /mnt rw - ext4 /dev/sda2 rw",
            "33 32 8:3 / /mnt rw - ext4 /dev/sda3 rw",
        ]);
        // Where it is an ordinary directory, the parent of all is missing, and so is its file system.
        let directory = table(&[
            "40 25 0:5 / /dev rw - devtmpfs udev rw",
            "41 40 0:6 / /dev/pts rw - devpts devpts rw",
            "42 25 8:2 / /srv/data rw - ext4 /dev/sda2 rw",
            "43 25 8:3 / /srv rw - ext4 /dev/sda3 rw",
            "44 26 8:4 / /opt rw - ext4 /dev/sda4 rw",
        ]);
        for (table, expected) in [
            (&system, &[2, 3, 5][..]),
            (&circle, &[1, 2]),
            (&mounted, &[32]),
            (&directory, &[42]),
        ] {
            let covered = table
                .mounts()
                .iter()
                .filter(|mount| table.is_covered(mount));
            assert_eq!(covered.map(|mount| mount.id).collect::<Vec<_>>(), expected);
        }
        let (root, covered) = (makedev(8, 1), makedev(8, 2));
        assert_eq!(mounted.fs_type(root), Some("ext4"));
        for (table, dev, reason) in [
            (&directory, root, "device 8:1 is not mounted"),
            (&directory, covered, "device 8:2 is covered"),
            (&mounted, covered, "device 8:2 is covered"),
        ] {
            let error = table.open_root(dev).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn the_root_directory_of_proc_opens() {
        let table = MountTable::read().unwrap();
        let proc = rustix::fs::stat("/proc").unwrap().st_dev;
        let open = table.open_root(proc).unwrap();
        assert_eq!(open.mount.fs_type, "proc");
        assert_eq!(fstat(&open.fd).unwrap().st_dev, proc);
        assert_eq!(table.find_uuid(&[0xa5; 16]), None);
    }
}
