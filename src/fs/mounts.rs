//! The mounted file systems: which is on which device, and opening their roots.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, fstatvfs, openat};
use rustix::io::Errno;

use super::kind::FsKind;
pub use super::mountinfo::Mount;
use super::mountinfo::parse_mountinfo;
use super::node::{O_LOOKUP, OpenNode};
use super::support::Support;
pub use super::uuid::fs_uuid;
use super::uuid::{SUBVOLUME_ROOT, fs_id};
use super::virtual_file;

/// The mount table of a mount namespace, this process's own or another, as it was when it was read.
#[derive(Clone, Debug)]
pub struct MountTable {
    mounts: Vec<Mount>,
    /// The devices of its file systems that are served, each with its kind and its id ([`fs_id`]). Asked for once.
    ids: OnceLock<Vec<(u64, FsKind, u64)>>,
}

/// A mount with its root directory open.
#[derive(Debug)]
pub struct OpenMount {
    /// The mount's line of the mount table.
    pub mount: Mount,
    /// The mount's root directory, opened for reading.
    pub fd: OwnedFd,
}

/// Most mounts of a namespace that are opened at once. The paths of a launch start from a few.
const MOST_OPEN: usize = 64;

impl MountTable {
    /// Reads `/proc/self/mountinfo`.
    ///
    /// # Errors
    /// The errors of reading the file, such as when /proc is not mounted.
    pub fn read() -> io::Result<Self> {
        let table = Self::parse(&virtual_file::read("/proc/self/mountinfo")?);
        Ok(table.with_subvolumes())
    }

    /// With btrfs's subvolumes as the file systems that they are to those who use them: under the numbers that their files
    /// have (`st_dev`), where mountinfo has one number for all, and with directories as seen from the subvolume's root. For
    /// a table of the calling thread's mount namespace. A mount that cannot be reached keeps what mountinfo says, which is
    /// the number of no file.
    pub(super) fn with_subvolumes(mut self) -> Self {
        let is_ours = |node: &OpenNode| !self.is_served_by_others(node);
        let reach = |mount: &Mount| {
            let is_btrfs = mount.kind() == Some(FsKind::Btrfs);
            is_btrfs.then(|| Some(self.reach_mount(mount, is_ours).ok()?.1))?
        };
        let found: Vec<Option<OpenNode>> = self.mounts.iter().map(reach).collect();
        // Where the roots of subvolumes are in the whole.
        let of_root = |(mount, node): (&Mount, &Option<OpenNode>)| {
            let node = node.as_ref().filter(|node| node.ino == SUBVOLUME_ROOT)?;
            Some((node.dev, mount.root.clone()))
        };
        let roots: HashMap<u64, Vec<u8>> =
            self.mounts.iter().zip(&found).filter_map(of_root).collect();
        for (mount, node) in self.mounts.iter_mut().zip(found) {
            let Some(node) = node else { continue };
            mount.dev = node.dev;
            let inside = roots.get(&node.dev).and_then(|root| {
                let root = root.strip_suffix(b"/").unwrap_or(root);
                mount.root.strip_prefix(root)
            });
            match inside {
                Some([]) => mount.root = b"/".to_vec(),
                Some(inside @ [b'/', ..]) => mount.root = inside.to_vec(),
                _ => {}
            }
        }
        self
    }

    /// The table that a `mountinfo` file's text describes. Malformed lines are skipped.
    pub fn parse(mountinfo: &[u8]) -> Self {
        MountTable {
            mounts: parse_mountinfo(mountinfo),
            ids: OnceLock::new(),
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

    /// Kind of the file system on a device (`st_dev`); `None` if it is not served, or not mounted here.
    pub fn kind(&self, dev: u64) -> Option<FsKind> {
        self.of_device(dev).next()?.kind()
    }

    /// The mount with this number.
    pub fn by_id(&self, id: u32) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.id == id)
    }

    /// The mount that a path without symbolic links lies on.
    pub fn holding(&self, path: &Path) -> Option<&Mount> {
        let holders = self.mounts.iter();
        holders
            .filter(|mount| path.starts_with(&mount.mount_point))
            // Of equals, the last one covers the others.
            .max_by_key(|mount| mount.mount_point.as_os_str().len())
    }

    /// The devices (`st_dev`) of the file systems that are served among the mounts that `counts` accepts.
    pub fn served_devices(&self, counts: impl Fn(&Mount) -> bool) -> Vec<u64> {
        let devices: BTreeSet<u64> = self
            .mounts
            .iter()
            .filter(|mount| mount.kind().is_some() && counts(mount))
            .map(|mount| mount.dev)
            .collect();
        devices.into_iter().collect()
    }

    /// The mounts of a device.
    pub fn of_device(&self, dev: u64) -> impl Iterator<Item = &Mount> {
        self.mounts.iter().filter(move |mount| mount.dev == dev)
    }

    /// Opens the root directory of a mount of the device (`st_dev`): that of the whole file system if it is
    /// mounted as a whole, or else of the mount with the shortest root.
    ///
    /// # Errors
    /// Why the first of the mounts that come into question could not be opened, and what to do.
    pub fn open_root(&self, dev: u64) -> io::Result<OpenMount> {
        let mut failure = None;
        for mount in self.candidates(dev) {
            match self.open(mount, |_| true) {
                Ok(open) => return Ok(open),
                Err(error) => drop(failure.get_or_insert((mount, error))),
            }
        }
        let device = format!(
            "device {}:{}",
            rustix::fs::major(dev),
            rustix::fs::minor(dev)
        );
        Err(io::Error::other(match failure {
            Some((mount, error)) => {
                let path = mount.mount_point.display();
                let what_to_do = match error.kind() {
                    io::ErrorKind::PermissionDenied => "; run as root",
                    _ => "",
                };
                format!("cannot open {path}, where {device} is mounted: {error}{what_to_do}")
            }
            None => format!("{device} is not mounted; mount it where paralfetch can see it"),
        }))
    }

    /// Opens the roots of the mounts with these numbers. Left out are mounts that are not in the table, that
    /// another mount covers, or that can be reached only through file systems that must not be asked.
    pub fn open_wanted(&self, wanted: &BTreeSet<u32>) -> Vec<OpenMount> {
        let is_walked = |node: &OpenNode| {
            let fs_type = self.fs_type(node.dev);
            fs_type.is_some_and(Support::can_be_walked)
        };
        let mounts = wanted.iter().filter_map(|&id| self.by_id(id));
        let opened = mounts.filter_map(|mount| self.open(mount, is_walked).ok());
        opened.take(MOST_OPEN).collect()
    }

    /// Opens the root of a mount for reading, component by component: each directory on the way must satisfy
    /// `may_ask` and belong to a mount that this one is mounted on, before a name is looked up in it.
    /// Otherwise another mount covers this one, and that is not touched.
    fn open(&self, mount: &Mount, may_ask: impl Fn(&OpenNode) -> bool) -> io::Result<OpenMount> {
        let fd = open_reached(&self.reach(mount, may_ask)?)?;
        let mount = mount.clone();
        Ok(OpenMount { mount, fd })
    }

    /// Opens the root as [`MountTable::open`], with O_PATH, which reads nothing.
    fn reach(&self, mount: &Mount, may_ask: impl Fn(&OpenNode) -> bool) -> io::Result<OwnedFd> {
        let (at, node) = self.reach_mount(mount, may_ask)?;
        if node.dev != mount.dev {
            return Err(covered());
        }
        Ok(at)
    }

    /// The mount's root directory, whatever its device.
    fn reach_mount(
        &self,
        mount: &Mount,
        may_ask: impl Fn(&OpenNode) -> bool,
    ) -> io::Result<(OwnedFd, OpenNode)> {
        let chain = self.chain(mount);
        let mut at = rustix::fs::open("/", O_LOOKUP, Mode::empty())?;
        let mut node = OpenNode::of(&at)?;
        for component in mount.mount_point.components() {
            if let Component::Normal(name) = component {
                at = openat(&at, name, O_LOOKUP, Mode::empty())?;
                node = OpenNode::of(&at)?;
            }
            if !chain.contains(&node.mount) {
                break;
            }
            if !may_ask(&node) {
                return Err(Errno::OPNOTSUPP.into());
            }
        }
        if node.mount != u64::from(mount.id) {
            return Err(covered());
        }
        Ok((at, node))
    }

    /// The numbers of a mount and of those that it is mounted on. In a chroot, the last is not in the table.
    fn chain(&self, mount: &Mount) -> HashSet<u64> {
        let mut chain = HashSet::from([u64::from(mount.id)]);
        let mut parent = mount.parent;
        // A damaged table could have a circle of parents.
        while chain.insert(parent.into()) {
            let Some(above) = self.by_id(parent) else {
                break;
            };
            parent = above.parent;
        }
        chain
    }

    /// Devices (`st_dev`) of the mounted file systems with this UUID that are served: several if a drive and a copy of it
    /// are mounted. Goes by halves of UUIDs, for which no file system reads its drive or waits. File systems that cannot
    /// be reached are left out.
    pub fn with_uuid(&self, uuid: &[u8; 16]) -> Vec<u64> {
        // File systems without a UUID are not told apart by that.
        let is_known = *uuid != [0; 16];
        let ids = self.ids().iter().filter(|_| is_known);
        let fitting = ids.filter(|(_, kind, id)| *id == fs_id(*kind, uuid));
        fitting.map(|&(dev, ..)| dev).collect()
    }

    fn ids(&self) -> &[(u64, FsKind, u64)] {
        self.ids.get_or_init(|| {
            let devices = self.served_devices(|_| true).into_iter();
            devices
                .filter_map(|dev| {
                    let kind = self.kind(dev)?;
                    Some((dev, kind, self.id_of(dev, kind)?))
                })
                .collect()
        })
    }

    fn id_of(&self, dev: u64, kind: FsKind) -> Option<u64> {
        let is_ours = |node: &OpenNode| !self.is_served_by_others(node);
        let mut reached = self
            .candidates(dev)
            .into_iter()
            .filter_map(|mount| self.reach(mount, is_ours).ok());
        let root = reached.next()?;
        match kind {
            FsKind::Ext4 | FsKind::Btrfs => Some(fstatvfs(root).ok()?.f_fsid),
            // statfs(2) tells the number of its device, or may do so.
            FsKind::Xfs | FsKind::Erofs | FsKind::Squashfs => Some(fs_id(
                kind,
                &fs_uuid(open_reached(&root).ok()?.as_fd()).ok()?,
            )),
        }
    }

    /// Whether a server or a user-space process answers for a directory, perhaps never.
    fn is_served_by_others(&self, directory: &OpenNode) -> bool {
        let mount = u32::try_from(directory.mount).ok();
        let mount = mount.and_then(|id| self.by_id(id));
        let kind = mount.map(|mount| Support::of(&mount.fs_type));
        matches!(kind, Some(Support::Fuse | Support::Network))
    }

    /// Where the device (`st_dev`) is mounted, as [`MountTable::open_root`] chooses.
    pub fn place_of(&self, dev: u64) -> Option<&Path> {
        let best = self.candidates(dev).into_iter().next()?;
        Some(&best.mount_point)
    }

    /// The device's mounts, best first. The shortest root is `/`, that of the whole file system.
    fn candidates(&self, dev: u64) -> Vec<&Mount> {
        let mut mounts: Vec<&Mount> = self.of_device(dev).collect();
        mounts.sort_by_key(|mount| mount.root.len());
        mounts
    }
}

fn covered() -> io::Error {
    io::Error::other("it is covered by another mount; mount it once more elsewhere")
}

/// Opens a directory that was reached for reading: handles are opened, and questions asked, through such descriptors.
fn open_reached(at: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(at, ".", flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::*;

    const TABLE: &[u8] = b"\
        1 2 8:1 /home/user /a rw - ext4 /dev/sda1 rw\n\
        2 1 8:1 /home /b rw - ext4 /dev/sda1 rw\n\
        30 25 8:1 / / rw - ext4 /dev/sda1 rw\n\
        31 30 8:2 / /mnt rw - xfs /dev/sda2 rw\n";

    #[test]
    fn the_whole_file_system_comes_before_bind_mounts() {
        let table = MountTable::parse(TABLE);
        let candidates = table.candidates(makedev(8, 1));
        let ids: Vec<u32> = candidates.iter().map(|mount| mount.id).collect();
        assert_eq!(ids, [30, 2, 1]);
        assert_eq!(table.fs_type(makedev(8, 2)), Some("xfs"));
        assert_eq!(table.fs_type(makedev(8, 3)), None);
    }

    #[test]
    fn a_mount_stands_on_its_parents_even_if_the_table_lacks_one_or_has_a_circle() {
        let table = MountTable::parse(TABLE);
        let chain = |id| table.chain(table.by_id(id).unwrap());
        assert_eq!(chain(1), HashSet::from([1, 2]));
        assert_eq!(chain(31), HashSet::from([31, 30, 25]));
    }

    #[test]
    fn only_mounts_with_the_numbers_asked_for_are_opened_and_no_pseudo_file_systems() {
        let table = MountTable::read().unwrap();
        let root = rustix::fs::open("/", O_LOOKUP, Mode::empty()).unwrap();
        let root = table.by_id(OpenNode::of(&root).unwrap().mount as u32);
        let is_proc = |mount: &&Mount| mount.fs_type == "proc";
        let proc = table.mounts().iter().find(is_proc).unwrap();
        // In a chroot, the root may be no mount.
        let ids = root.iter().map(|mount| mount.id);
        let opened = table.open_wanted(&ids.chain([proc.id, u32::MAX]).collect());
        let found = opened.iter().map(|open| open.mount.id);
        let walked = root.filter(|root| Support::can_be_walked(&root.fs_type));
        assert!(found.eq(walked.map(|mount| mount.id)));
    }

    #[test]
    fn the_root_directory_of_proc_opens() {
        let table = MountTable::read().unwrap();
        let proc = rustix::fs::stat("/proc").unwrap().st_dev;
        let open = table.open_root(proc).unwrap();
        assert_eq!(open.mount.fs_type, "proc");
        assert_eq!(rustix::fs::fstat(&open.fd).unwrap().st_dev, proc);
        assert!(table.with_uuid(&[0xa5; 16]).is_empty());
        assert!(table.with_uuid(&[0; 16]).is_empty());
        let error = table.open_root(makedev(4095, 7)).unwrap_err().to_string();
        assert!(error.starts_with("device 4095:7 is not mounted"), "{error}");
    }
}
