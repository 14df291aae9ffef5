//! The mount namespaces that a launch uses besides ours (sandboxes, containers), held for later.
//!
//! A namespace and its mounts end with its last process. A descriptor, which can only be opened while the
//! namespace has a process, keeps it. So its mounts can be read when the launch is over, and nothing changes
//! them any more.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, fstat};

use crate::model::PathUse;

/// Most namespaces that are held: a launch uses a few, and each keeps file systems mounted.
pub const MOST_HELD: usize = 32;

/// Mount namespaces by their number, which is theirs as long as they are held.
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    held: HashMap<u32, Arc<OwnedFd>>,
}

impl Namespaces {
    /// Holds the namespace that the path was looked up in, if it is another than ours, is not held yet,
    /// and still has this process.
    pub(super) fn hold_that_of(&mut self, path: &PathUse) {
        let (number, pid) = (path.mount_ns, path.pid);
        if pid == 0 || self.held.len() >= MOST_HELD || self.held.contains_key(&number) {
            return;
        }
        if let Some(fd) = open(number, pid) {
            self.held.insert(number, Arc::new(fd));
        }
    }

    /// A descriptor of the namespace; `None` if it is not held.
    pub fn get(&self, number: u32) -> Option<BorrowedFd<'_>> {
        self.held.get(&number).map(|fd| fd.as_fd())
    }
}

/// Number of this process's own namespace of a kind (`mnt`, `pid`); 0, which no namespace has, if it cannot
/// be read from /proc.
pub fn own_namespace(kind: &str) -> u32 {
    std::fs::metadata(format!("/proc/self/ns/{kind}"))
        .map_or(0, |found| found.ino().try_into().unwrap_or(0))
}

/// The process's mount namespace, if that is the one with this number: the process may have left it, or
/// ended, and its id may be another process's by now.
fn open(number: u32, pid: u32) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(format!("/proc/{pid}/ns/mnt"), flags, Mode::empty()).ok()?;
    (fstat(&fd).ok()?.st_ino == u64::from(number)).then_some(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{InodeId, Use};

    fn path(mount_ns: u32, pid: u32) -> PathUse {
        let root = InodeId {
            dev: 1,
            ino: 2,
            generation: 0,
        };
        PathUse {
            time_ns: 0,
            from: root,
            from_mount: 1,
            root,
            root_mount: 1,
            mount_ns,
            pid,
            path: b"/".to_vec(),
            how: Use::LookUp { follow: true },
        }
    }

    #[test]
    fn a_namespace_is_held_through_a_process_that_is_in_it() {
        let (own, pid) = (own_namespace("mnt"), std::process::id());
        let mut namespaces = Namespaces::default();
        for (number, pid) in [(own, 0), (own, u32::MAX), (own - 1, pid)] {
            namespaces.hold_that_of(&path(number, pid));
            assert!(namespaces.get(number).is_none(), "{number} {pid}");
        }
        namespaces.hold_that_of(&path(own, pid));
        let held = fstat(namespaces.get(own).unwrap()).unwrap();
        assert_eq!(held.st_ino, u64::from(own));
    }
}
