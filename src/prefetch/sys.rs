//! The system calls of prefetching that rustix lacks.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// readahead(2): starts reading a range into the page cache (of a file) or the buffer cache (of a
/// block device). `offset` and `len` in bytes. Reads at most [`crate::drive::Sysfs::readahead_limit`]
/// bytes and silently drops the rest.
///
/// Returns when the requests are queued. Waits for the drive when its queue is full, and for metadata that
/// is needed to locate the data and is not cached.
///
/// # Errors
/// As the system call; EINVAL for files that cannot be read ahead.
pub fn readahead(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: no memory is passed; the descriptor is open for the length of the borrow.
    let result = unsafe { libc::readahead(fd.as_raw_fd(), offset, len) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// I/O priorities (linux/ioprio.h): the class in the highest 3 bits of 16, then the level, 0 being the highest.
const BEST_EFFORT_0: libc::c_int = 2 << 13;
const IDLE: libc::c_int = 3 << 13;
const WHO_PROCESS: libc::c_int = 1;

/// Gives the calling thread's requests the highest level of the ordinary class, for as long as it lives. Only bfq and
/// mq-deadline heed it. Never the real-time class: what a user's launches have read shall not go before everybody's
/// requests.
///
/// # Errors
/// As ioprio_set(2); the priority stays what it was.
pub fn raise_io_priority() -> io::Result<()> {
    set_io_priority(BEST_EFFORT_0)
}

/// Has the calling thread's requests wait behind everybody else's, for as long as it lives, and the thread itself behind
/// other threads. Schedulers of drives that know no priorities do not heed the first.
///
/// # Errors
/// As ioprio_set(2) and setpriority(2); one of the two may have changed.
pub fn take_idle_priority() -> io::Result<()> {
    rustix::process::setpriority_process(None, 19)?;
    set_io_priority(IDLE)
}

/// Sets the I/O priority of the calling thread.
fn set_io_priority(priority: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes numbers only; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, priority) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits until a page that is being read is there. `offset` is of a byte in it.
///
/// # Errors
/// As pread(2).
pub fn wait_for(fd: BorrowedFd<'_>, offset: u64) -> io::Result<()> {
    rustix::io::pread(fd, &mut [0_u8; 1], offset)?;
    Ok(())
}

/// What the calling thread has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUse {
    /// How often it gave the processor up by itself, to wait.
    pub switches: i64,
    /// Blocks of 512 bytes that it had drives read.
    pub read_blocks: i64,
}

impl ThreadUse {
    /// Bytes that it has had drives read since `before`.
    pub fn read_bytes_since(&self, before: &ThreadUse) -> u64 {
        (self.read_blocks - before.read_blocks).unsigned_abs() * 512
    }
}

/// What the calling thread has used so far, by getrusage(2).
pub fn thread_use() -> ThreadUse {
    // SAFETY: all fields are numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives through the call. It cannot fail for the calling thread.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    ThreadUse {
        switches: usage.ru_nvcsw,
        read_blocks: usage.ru_inblock,
    }
}

/// Whether the kernel has cachestat(2).
pub fn has_cachestat() -> bool {
    // SAFETY: no memory is passed; no file has this descriptor, so the call fails either way.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, -1, 0usize, 0usize, 0u32) };
    result >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

/// Number of cachestat(2): the same on every architecture since the table of system calls was unified.
const SYS_CACHESTAT: libc::c_long = 451;

/// cachestat(2): whether all pages of a range in bytes are cached.
///
/// # Errors
/// `Unsupported` before Linux 6.5; otherwise as the system call.
pub fn is_cached(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<bool> {
    let range = [offset, len];
    // Cached, dirty, under writeback, evicted, recently evicted.
    let mut pages = [0_u64; 5];
    // SAFETY: two and five integers of 64 bits are the layout of linux/mman.h's cachestat_range and cachestat,
    // and live through the call; flags are 0.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            fd.as_raw_fd(),
            &raw const range,
            &raw mut pages,
            0u32,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // Of the kernel's size, which may be larger than that of a profile.
    Ok(pages[0] >= len.div_ceil(rustix::param::page_size() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io_priority() -> libc::c_long {
        // SAFETY: the call takes numbers only; 0 is the calling thread.
        unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) }
    }

    #[test]
    fn what_is_read_before_a_launch_waits_behind_all_others() {
        let thread = std::thread::spawn(|| {
            take_idle_priority().unwrap();
            assert_eq!(io_priority(), libc::c_long::from(IDLE));
            let nice = rustix::process::getpriority_process(None).unwrap();
            assert_eq!(nice, 19);
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_prefetch_has_the_best_level_of_the_ordinary_class() {
        // A thread of its own: other tests' threads keep theirs.
        let thread = std::thread::spawn(|| {
            raise_io_priority().unwrap();
            assert_eq!(io_priority(), libc::c_long::from(BEST_EFFORT_0));
        });
        thread.join().unwrap();
    }
}
