//! Files by inode number: opening them without a path, and finding their path.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use super::mounts::OpenMount;

/// File times come from the kernel's coarse clock, which may lag by a timer tick: 10 ms at the lowest usual tick
/// rate.
pub const COARSE_CLOCK_NS: i64 = 10_000_000;

/// The kernel's `enum fid_type`: a 32-bit inode number and a 32-bit generation.
const FILEID_INO32_GEN: c_int = 1;

/// `FS_IOC_GETVERSION`, `_IOR('v', 1, long)`.
const FS_IOC_GETVERSION: libc::Ioctl =
    0x8000_7601 | ((std::mem::size_of::<libc::c_long>() as libc::Ioctl) << 16);

/// `struct file_handle` with room for a [`FILEID_INO32_GEN`].
#[repr(C)]
struct InodeHandle {
    bytes: u32,
    kind: c_int,
    ino: u32,
    generation: u32,
}

/// Opens a file of an ext2, ext3 or ext4 file system by inode number and generation, as
/// open_by_handle_at(2). `mount` is any open file or directory of the file system.
///
/// The kernel takes generation 0 as "any". Here it means 0: the file's own generation is compared, and only
/// regular files and directories are opened, since the number could belong to a device or a FIFO by now.
///
/// # Errors
/// `ESTALE` if the file is gone or its inode number has been given to another; `EOVERFLOW` if the
/// number has more than 32 bits; `EPERM` without CAP_DAC_READ_SEARCH; and what open(2) returns.
pub fn open_by_ino(
    mount: BorrowedFd<'_>,
    ino: u64,
    generation: u32,
    flags: OFlags,
) -> io::Result<OwnedFd> {
    let is_any = generation == 0 && !flags.contains(OFlags::PATH);
    if is_any {
        let path = open_handle(mount, ino, generation, OFlags::PATH | OFlags::CLOEXEC)?;
        let kind = FileType::from_raw_mode(fstat(&path)?.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::Directory) {
            return Err(Errno::STALE.into());
        }
    }
    let fd = open_handle(mount, ino, generation, flags)?;
    if is_any && inode_generation(&fd)? != 0 {
        return Err(Errno::STALE.into());
    }
    Ok(fd)
}

/// A regular file that was opened by its inode number.
#[derive(Debug)]
pub struct CachedFile {
    /// Open for reading.
    pub fd: OwnedFd,
    /// Size, in bytes.
    pub size: u64,
    /// Time of last modification, in nanoseconds since the epoch.
    pub mtime_ns: i64,
    /// Time of last change, likewise.
    pub ctime_ns: i64,
}

/// Opens a regular file by inode number and generation, to examine its pages without changing its access time.
/// The number may belong to a device or a FIFO by now, whose opening does not block.
///
/// # Errors
/// As [`open_by_ino`]; `ELOOP` if it is a symbolic link; `ESTALE` if it is no regular file, or is deleted and
/// only kept open.
pub fn open_cached_file(
    mount: BorrowedFd<'_>,
    ino: u64,
    generation: u32,
) -> io::Result<CachedFile> {
    // NOATIME: mapping a file to ask for its cached pages would count as an access.
    let flags = OFlags::RDONLY
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::NOFOLLOW
        | OFlags::NOATIME
        | OFlags::CLOEXEC;
    let fd = open_by_ino(mount, ino, generation, flags)?;
    let stat = fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink == 0 {
        return Err(Errno::STALE.into());
    }
    // Years after 2262 do not fit; a hostile file may have them.
    let ns = |seconds: i64, ns| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
    Ok(CachedFile {
        size: stat.st_size.unsigned_abs(),
        mtime_ns: ns(stat.st_mtime, stat.st_mtime_nsec as i64),
        ctime_ns: ns(stat.st_ctime, stat.st_ctime_nsec as i64),
        fd,
    })
}

fn open_handle(
    mount: BorrowedFd<'_>,
    ino: u64,
    generation: u32,
    flags: OFlags,
) -> io::Result<OwnedFd> {
    let mut handle = InodeHandle {
        bytes: 8,
        kind: FILEID_INO32_GEN,
        ino: u32::try_from(ino).map_err(|_| Errno::OVERFLOW)?,
        generation,
    };
    // SAFETY: `handle` has the layout of the kernel's struct and the 8 bytes that its length says; the call
    // only reads it.
    let fd = unsafe {
        libc::open_by_handle_at(
            mount.as_raw_fd(),
            (&raw mut handle).cast(),
            flags.bits() as c_int,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Generation of an open file's inode. With the inode number it identifies this very file.
///
/// # Errors
/// Those of ioctl(2): `ENOTTY` where the file system has no generations.
pub fn inode_generation(file: &OwnedFd) -> io::Result<u32> {
    // The kernel writes an int, whatever the request's number says.
    let mut generation: c_int = 0;
    // SAFETY: FS_IOC_GETVERSION writes one int.
    if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETVERSION, &raw mut generation) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(generation as u32)
}

/// Checks that [`path_in_fs`] can work. A sandbox may refuse openat2(2), as systemd's RestrictSUIDSGID= does,
/// and then no file has a path.
///
/// # Errors
/// Those of openat2(2).
pub fn check_paths() -> io::Result<()> {
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    beneath(root.as_fd(), Path::new("."))?;
    Ok(())
}

/// Opens what a path leads to, unless it goes through a symbolic link or another file system.
fn beneath(directory: BorrowedFd<'_>, relative: &Path) -> rustix::io::Result<OwnedFd> {
    openat2(
        directory,
        relative,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS,
    )
}

/// Path of an open file from its file system's own root, such as `/lib/x.so` for `/usr/lib/x.so` on a
/// separate `/usr`; arbitrary bytes. `None` if the kernel knows no name (files opened by handle have one
/// while their directory entry is cached), if the file was deleted or moved out of the mount, or if another
/// mount covers it.
pub fn path_in_fs(file: BorrowedFd<'_>, mount: &OpenMount) -> Option<Vec<u8>> {
    let shown = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let relative = shown.strip_prefix(&mount.mount.mount_point).ok()?;
    if relative.as_os_str().is_empty() || mount.mount.root.ends_with(b"//deleted") {
        return None;
    }
    // The text from /proc may end in " (deleted)", or lie outside of a bind mount's directory. It counts only
    // if it leads to the file, and not through another file system.
    let found = beneath(mount.fd.as_fd(), relative).ok()?;
    let (found, file) = (fstat(&found).ok()?, fstat(file).ok()?);
    if (found.st_dev, found.st_ino) != (file.st_dev, file.st_ino) {
        return None;
    }
    let mut path = mount.mount.root.clone();
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(relative.as_os_str().as_bytes());
    Some(path)
}
