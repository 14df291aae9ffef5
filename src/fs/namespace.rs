//! Looking into another mount namespace.
//!
//! A directory's descriptor belongs to its mount, in whichever namespace it was opened: names below it are
//! looked up through the mounts of its own namespace. So only the first step needs a thread in that
//! namespace.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::mounts::{MountTable, OpenMount};

/// Most bytes of a mount table that are read: a kernel allows 100,000 mounts in a namespace, of which a
/// sandbox has some dozen.
const MOST_TABLE_BYTES: u64 = 16 << 20;

/// The mount table of another mount namespace, and the mounts with these numbers, opened.
///
/// # Errors
/// The errors of setns(2), such as `EPERM` without CAP_SYS_ADMIN, and of reading the table.
pub fn open_in(
    namespace: BorrowedFd<'_>,
    wanted: &BTreeSet<u32>,
) -> io::Result<(MountTable, Vec<OpenMount>)> {
    // The thread that enters ends there: it could not return from a namespace that another user made.
    let visit = || {
        // Opened before entering: inside, /proc is whatever the sandbox has put there.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let here = rustix::fs::open("/proc/thread-self", flags, Mode::empty())?;
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
        let table = MountTable::parse(&text).with_subvolumes();
        let mounts = table.open_wanted(wanted);
        Ok((table, mounts))
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, visit)?;
        let visited = thread.join();
        visited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
