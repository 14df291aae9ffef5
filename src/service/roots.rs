//! Root directories of processes, by which chroots and containers are told from the system.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

use crate::fs::node::{OpenNode, open_cached};
use crate::kernel::LaunchEvent;

/// Most root directories that are remembered: each chroot has one.
const MOST_ROOTS: usize = 64;

/// Device and inode number.
pub type Inode = (u64, u64);

/// Device and inode number of the file at `path`, behind symbolic links, if the kernel knows the whole path by heart.
pub fn inode(path: &Path) -> Option<Inode> {
    let node = OpenNode::of(&open_cached(path)?).ok()?;
    Some((node.dev, node.ino))
}

/// Device and inode number of the file that the process at `proc` executes. Its file system is not asked.
pub fn executed(proc: &Path) -> Option<Inode> {
    let exe = open(
        proc.join("exe"),
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()?;
    let node = OpenNode::of(&exe).ok()?;
    Some((node.dev, node.ino))
}

/// An absolute path below a root directory.
pub fn below(root: Option<&Path>, path: &Path) -> PathBuf {
    match root {
        None => path.to_path_buf(),
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
    }
}

/// Whether the process is in our user namespace. In one of his own, any user may have mounts that lead the system's
/// paths to his files. False if the process has ended.
pub(super) fn has_our_users(pid: u32) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/user")).ok();
    let its = namespace(&pid.to_string());
    its.is_some() && its == namespace("self")
}

/// The system's own root directory and mount namespace, and other root directories that processes had.
pub struct Roots {
    own: Inode,
    mount_ns: u32,
    /// Paths of others: the next launch in one of them may have ended before it can be asked.
    known: RefCell<HashMap<Inode, PathBuf>>,
}

impl Roots {
    /// Takes the root directory of this process for the system's.
    pub fn of_system() -> io::Result<Self> {
        let root = fs::metadata("/")?;
        let mount_ns = fs::metadata("/proc/self/ns/mnt")?.ino() as u32;
        Ok(Roots::new((root.dev(), root.ino()), mount_ns))
    }

    pub(super) fn new(own: Inode, mount_ns: u32) -> Self {
        Roots {
            own,
            mount_ns,
            known: RefCell::default(),
        }
    }

    /// Whether the event's process has the system's root directory and the system's mounts.
    pub fn is_of_system(&self, event: &LaunchEvent) -> bool {
        event.root == self.own && event.mount_ns == self.mount_ns
    }

    /// The root directory of the event's process as the system sees it: `Some(None)` for the system's own,
    /// `None` for a container's, whose paths mean something else, and where a user has mounts of his own, so that the
    /// system's paths may lead to other files.
    pub fn of_event(&self, event: &LaunchEvent) -> Option<Option<PathBuf>> {
        if event.root == self.own {
            let no_users_mounts = self.is_of_system(event) || has_our_users(event.pid);
            return no_users_mounts.then_some(None);
        }
        if event.mount_ns != self.mount_ns {
            return None;
        }
        let is_root = |root: &PathBuf| inode(root) == Some(event.root);
        let known = self.known.borrow().get(&event.root).cloned();
        if let Some(known) = known.filter(is_root) {
            return Some(Some(known));
        }
        let root = fs::read_link(format!("/proc/{}/root", event.pid)).ok()?;
        is_root(&root).then(|| Some(self.remember(event.root, root)))
    }

    /// The root directory of the event's process, which may have ended, among these directories: the one with its number.
    pub fn among(
        &self,
        event: &LaunchEvent,
        mut directories: impl Iterator<Item = PathBuf>,
    ) -> Option<PathBuf> {
        if event.root == self.own || event.mount_ns != self.mount_ns {
            return None;
        }
        let root = directories.find(|root| inode(root) == Some(event.root))?;
        Some(self.remember(event.root, root))
    }

    fn remember(&self, inode: Inode, root: PathBuf) -> PathBuf {
        let mut known = self.known.borrow_mut();
        if known.len() >= MOST_ROOTS {
            known.clear();
        }
        known.insert(inode, root.clone());
        root
    }
}
