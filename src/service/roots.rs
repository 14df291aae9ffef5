//! Root directories of processes, by which chroots and containers are told from the system.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::kernel::LaunchEvent;

/// Device and inode number.
pub type Inode = (u64, u64);

/// Device and inode number of the file at `path`, behind symbolic links.
pub fn inode(path: &Path) -> Option<Inode> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Whether the process is in our user namespace. In one of his own, any user may have mounts that lead the system's
/// paths to his files. False if the process has ended.
fn has_our_users(pid: u32) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/user")).ok();
    let its = namespace(&pid.to_string());
    its.is_some() && its == namespace("self")
}

/// The system's own root directory and mount namespace.
pub struct Roots {
    own: Inode,
    mount_ns: u32,
}

impl Roots {
    /// Takes the root directory of this process for the system's.
    pub fn of_system() -> io::Result<Self> {
        let root = fs::metadata("/")?;
        let mount_ns = fs::metadata("/proc/self/ns/mnt")?.ino() as u32;
        Ok(Roots::new((root.dev(), root.ino()), mount_ns))
    }

    pub(super) fn new(own: Inode, mount_ns: u32) -> Self {
        Roots { own, mount_ns }
    }

    /// Whether the event's process has the system's root directory, and no mounts that a user has made.
    pub fn is_of_system(&self, event: &LaunchEvent) -> bool {
        event.root == self.own && (event.mount_ns == self.mount_ns || has_our_users(event.pid))
    }

    /// The root directory of the event's process as the system sees it: `Some(None)` for the system's own,
    /// `None` for a container's, whose paths mean something else, where a user has mounts of his own, so that the
    /// system's paths may lead to other files, and in a chroot when the process has ended.
    pub fn of_event(&self, event: &LaunchEvent) -> Option<Option<PathBuf>> {
        if event.root == self.own {
            return self.is_of_system(event).then_some(None);
        }
        if event.mount_ns != self.mount_ns {
            return None;
        }
        let root = fs::read_link(format!("/proc/{}/root", event.pid)).ok()?;
        (inode(&root) == Some(event.root)).then_some(Some(root))
    }

    /// The root directory of a process that is held in execve, `None` for the system's own.
    ///
    /// # Errors
    /// When the process has ended, or has a user namespace of its own, in which a user may mount what he likes.
    pub fn of_process(pid: i32) -> io::Result<Option<PathBuf>> {
        if !has_our_users(pid as u32) {
            return Err(io::Error::other("it has a user namespace of its own"));
        }
        let root = fs::read_link(format!("/proc/{pid}/root"))?;
        Ok(Some(root).filter(|root| root != Path::new("/")))
    }
}
