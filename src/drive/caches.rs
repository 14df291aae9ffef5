//! Emptying the disk caches.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Writes dirty pages back and drops the page, buffer and slab caches (paper §2.2). Pages that a program has
/// mapped and open inodes and directory entries stay.
///
/// # Errors
/// When the kernel refuses, as it does without root.
pub fn drop_caches() -> io::Result<()> {
    // The kernel does not drop dirty pages: write them back first.
    rustix::fs::sync();
    drop_clean_caches()
}

/// As [`drop_caches`], but dirty pages stay. Waits for no drive.
///
/// # Errors
/// As [`drop_caches`].
pub fn drop_clean_caches() -> io::Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot drop the disk caches (/proc/sys/vm/drop_caches): {error}"),
        )
    })
}

/// `EXT4_IOC_CHECKPOINT` of linux/ext4.h, `_IOW('f', 43, __u32)`.
const EXT4_IOC_CHECKPOINT: libc::Ioctl = 0x4004_662b;

/// Writes the metadata in an ext4 file system's journal to their places. Until then the journal holds their
/// buffers, and dropping the caches does not free them. `file` is any file or directory of the file system.
///
/// # Errors
/// As the system call: ENOTTY before Linux 5.14 and on other file systems, EOPNOTSUPP without a
/// journal, EPERM without CAP_SYS_ADMIN.
pub fn checkpoint_journal(file: BorrowedFd<'_>) -> io::Result<()> {
    // Dirty metadata must be in the journal first.
    rustix::fs::syncfs(file)?;
    let flags: u32 = 0;
    // SAFETY: the ioctl reads one u32 through the pointer.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), EXT4_IOC_CHECKPOINT, &raw const flags) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
