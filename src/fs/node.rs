//! Examining open files and directories by what the kernel has in memory, without asking a server or a
//! user-space process.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, makedev,
    openat2, statx,
};
use rustix::io::Errno;

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
    /// Type of the node.
    pub kind: FileType,
    /// Whose it is.
    pub uid: u32,
    /// Whether the file system keeps it encrypted (fscrypt).
    pub is_encrypted: bool,
}

impl OpenNode {
    /// Examines an open node.
    ///
    /// # Errors
    /// The errors of statx(2).
    pub fn of(fd: &OwnedFd) -> io::Result<OpenNode> {
        // linux/stat.h; not among rustix's flags.
        const AT_STATX_DONT_SYNC: AtFlags = AtFlags::from_bits_retain(0x4000);
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::UID | StatxFlags::MNT_ID;
        let stat = statx(fd, "", AtFlags::EMPTY_PATH | AT_STATX_DONT_SYNC, wanted)?;
        Ok(OpenNode {
            dev: makedev(stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            mount: stat.stx_mnt_id,
            kind: FileType::from_raw_mode(u32::from(stat.stx_mode)),
            uid: stat.stx_uid,
            is_encrypted: stat.stx_attributes.contains(StatxAttributes::ENCRYPTED),
        })
    }
}

/// Attempts to look a path up in what the kernel has cached: renames and mounts disturb that.
const ATTEMPTS: u32 = 4;

/// Opens what a path leads to, behind symbolic links, with O_PATH, if the kernel knows the whole path without asking a drive,
/// a server or another process. It does right after a process has used the path, and of a mount point.
pub fn open_cached(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let open = || openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED);
    let mut opened = open();
    for _ in 1..ATTEMPTS {
        if matches!(opened, Err(Errno::AGAIN)) {
            opened = open();
        }
    }
    opened.ok()
}
