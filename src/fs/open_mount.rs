//! Ways into particular mounts: of our mount namespace, and of one that the launch had.
//!
//! A descriptor of a directory belongs to its mount, wherever it was opened: names below it are looked
//! up through the mounts of its own namespace. So only the first step needs a thread in that namespace.

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

/// Most mounts of a namespace that are opened: launches start from a few.
const MOST_DOORS: usize = 64;

/// For looking at a node and into a directory: runs no driver and follows no link.
pub const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What statx(2) tells of a node.
pub struct OpenNode {
    /// Device (`st_dev`).
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Number of the mount that it was reached through.
    pub mount: u64,
    /// What it is.
    pub kind: FileType,
}

/// Asks about an open node without asking anybody outside of the kernel.
pub fn look_at(fd: &OwnedFd) -> Option<OpenNode> {
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

/// Opens the roots of the mounts with these numbers. What is not in the table, is covered by another
/// mount, or can be reached only through file systems that must not be asked, is not among them.
pub fn open(table: &MountTable, wanted: &BTreeSet<u32>) -> Vec<OpenMount> {
    let doors = wanted.iter().filter_map(|&id| {
        let mount = table.by_id(id)?;
        let fd = descend(table, &mount.mount_point)?;
        let found = look_at(&fd)?;
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
    doors.take(MOST_DOORS).collect()
}

/// The mount table of another mount namespace, and those of its mounts opened that have these numbers.
///
/// # Errors
/// Those of setns(2), such as `EPERM` without CAP_SYS_ADMIN, and of reading the table.
pub fn open_in(
    namespace: BorrowedFd<'_>,
    wanted: &BTreeSet<u32>,
) -> io::Result<(MountTable, Vec<OpenMount>)> {
    // A thread cannot come back into a namespace of another user's making: it ends there.
    let visit = || {
        // Opened here: there, /proc is whatever the sandbox has made of it.
        let here = rustix::fs::open("/proc/thread-self", LOOK_INTO, Mode::empty())?;
        // SAFETY: what this thread no longer shares are its root and working directory, which no other
        // code in it relies on; memory and descriptors remain common.
        unsafe { unshare_unsafe(UnshareFlags::FS) }?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&here, "mountinfo", flags, Mode::empty())?;
        let mut text = Vec::new();
        std::fs::File::from(file)
            .take(MOST_TABLE_BYTES)
            .read_to_end(&mut text)?;
        let table = MountTable::parse(&text);
        let doors = open(&table, wanted);
        Ok((table, doors))
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .spawn_scoped(scope, visit)?
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// As [`LOOK`], but /proc/thread-self is a link.
const LOOK_INTO: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a mount point a step at a time, so that each step can be judged before the next one.
fn descend(table: &MountTable, mount_point: &Path) -> Option<OwnedFd> {
    let mut at = rustix::fs::open("/", LOOK, Mode::empty()).ok()?;
    for component in mount_point.components() {
        if let Component::Normal(name) = component {
            at = openat(&at, name, LOOK, Mode::empty()).ok()?;
        }
        let fs_type = table.fs_type(look_at(&at)?.dev)?;
        if !Support::can_be_walked(fs_type) {
            return None;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root_mount(table: &MountTable) -> Option<u32> {
        let root = look_at(&rustix::fs::open("/", LOOK, Mode::empty()).unwrap())?;
        table
            .by_id(root.mount.try_into().ok()?)
            .map(|mount| mount.id)
    }

    #[test]
    fn mounts_are_opened_by_number() {
        let table = MountTable::read().unwrap();
        // In a chroot, the root is no mount.
        let Some(id) = root_mount(&table) else {
            return;
        };
        let walked = Support::can_be_walked(&table.by_id(id).unwrap().fs_type);
        let doors = open(&table, &BTreeSet::from([id, u32::MAX]));
        let found: Vec<u32> = doors.iter().map(|door| door.mount.id).collect();
        assert_eq!(found, if walked { vec![id] } else { vec![] });
    }

    #[test]
    fn file_systems_that_are_served_are_not_entered() {
        let table = MountTable::read().unwrap();
        let proc = table.mounts().iter().find(|mount| mount.fs_type == "proc");
        let id = proc.unwrap().id;
        assert!(open(&table, &BTreeSet::from([id])).is_empty());
    }
}
