//! Opening the roots of particular mounts, of our mount namespace or of one that the launch used.
//!
//! A directory's descriptor belongs to its mount, in whichever namespace it was opened: names below it are
//! looked up through the mounts of its own namespace. So only the first step needs a thread in that
//! namespace.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, makedev, openat, statx};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::mounts::{MountTable, OpenMount};
use super::support::Support;

/// Most bytes of a mount table that are read: a kernel allows 100,000 mounts in a namespace, of which a
/// sandbox has some dozen.
const MOST_TABLE_BYTES: u64 = 16 << 20;

/// Most mounts of a namespace that are opened. The paths of a launch start from a few.
const MOST_OPEN: usize = 64;

/// Flags to examine a node or to look names up in a directory: runs no driver and follows no link.
pub const O_LOOKUP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What statx(2) says about a node.
pub struct OpenNode {
    /// Device (`st_dev`).
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Number of the mount that it was reached through.
    pub mount: u64,
    /// Its type.
    pub kind: FileType,
}

/// Examines an open node by what the kernel has in memory, without asking a server or a user-space process.
pub fn stat_node(fd: &OwnedFd) -> Option<OpenNode> {
    // linux/stat.h; not among rustix's flags.
    const AT_STATX_DONT_SYNC: AtFlags = AtFlags::from_bits_retain(0x4000);
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MNT_ID;
    let stat = statx(fd, "", AtFlags::EMPTY_PATH | AT_STATX_DONT_SYNC, wanted).ok()?;
    Some(OpenNode {
        dev: makedev(stat.stx_dev_major, stat.stx_dev_minor),
        ino: stat.stx_ino,
        mount: stat.stx_mnt_id,
        kind: FileType::from_raw_mode(u32::from(stat.stx_mode)),
    })
}

/// Opens the roots of the mounts with these numbers. Left out are mounts that are not in the table, that
/// another mount covers, or that can be reached only through file systems that must not be asked.
pub fn open(table: &MountTable, wanted: &BTreeSet<u32>) -> Vec<OpenMount> {
    let opened = wanted.iter().filter_map(|&id| {
        let mount = table.by_id(id)?;
        let fd = descend(table, &mount.mount_point)?;
        let found = stat_node(&fd)?;
        if found.mount != u64::from(id) || found.kind != FileType::Directory {
            return None;
        }
        // Handles are opened through descriptors that are open for reading.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(&fd, ".", flags, Mode::empty()).ok()?;
        Some(OpenMount {
            mount: mount.clone(),
            fd,
        })
    });
    opened.take(MOST_OPEN).collect()
}

/// The mount table of another mount namespace, and the mounts with these numbers, opened.
///
/// # Errors
/// Those of setns(2), such as `EPERM` without CAP_SYS_ADMIN, and of reading the table.
pub fn open_in(
    namespace: BorrowedFd<'_>,
    wanted: &BTreeSet<u32>,
) -> io::Result<(MountTable, Vec<OpenMount>)> {
    // The thread that enters ends there: it could not return from a namespace that another user made.
    let visit = || {
        // Opened before entering: inside, /proc is whatever the sandbox has put there.
        let here = rustix::fs::open("/proc/thread-self", O_LOOKUP_DIRECTORY, Mode::empty())?;
        // SAFETY: this thread stops sharing its root and working directory, which no other code in it
        // relies on; memory and descriptors stay shared.
        unsafe { unshare_unsafe(UnshareFlags::FS) }?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&here, "mountinfo", flags, Mode::empty())?;
        let mut text = Vec::new();
        std::fs::File::from(file)
            .take(MOST_TABLE_BYTES)
            .read_to_end(&mut text)?;
        let table = MountTable::parse(&text);
        let mounts = open(&table, wanted);
        Ok((table, mounts))
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, visit)?;
        let visited = thread.join();
        visited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// As [`O_LOOKUP`], but follows links: /proc/thread-self is one.
const O_LOOKUP_DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a mount point component by component, so that each directory is checked before the next look-up.
fn descend(table: &MountTable, mount_point: &Path) -> Option<OwnedFd> {
    let mut at = rustix::fs::open("/", O_LOOKUP, Mode::empty()).ok()?;
    for component in mount_point.components() {
        if let Component::Normal(name) = component {
            at = openat(&at, name, O_LOOKUP, Mode::empty()).ok()?;
        }
        let fs_type = table.fs_type(stat_node(&at)?.dev)?;
        if !Support::can_be_walked(fs_type) {
            return None;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::mounts::Mount;

    #[test]
    fn only_mounts_with_the_numbers_asked_for_are_opened_and_no_pseudo_file_systems() {
        let table = MountTable::read().unwrap();
        let root = stat_node(&rustix::fs::open("/", O_LOOKUP, Mode::empty()).unwrap()).unwrap();
        let root = table.by_id(root.mount.try_into().unwrap());
        let is_proc = |mount: &&Mount| mount.fs_type == "proc";
        let proc = table.mounts().iter().find(is_proc).unwrap();
        // In a chroot, the root may be no mount.
        let ids = root.iter().map(|mount| mount.id);
        let opened = open(&table, &ids.chain([proc.id, u32::MAX]).collect());
        let found = opened.iter().map(|open| open.mount.id);
        let walked = root.filter(|root| Support::can_be_walked(&root.fs_type));
        assert!(found.eq(walked.map(|mount| mount.id)));
    }
}
