//! Holding programs at their execve, by fanotify's permission events.
//!
//! Live learning has to be attached before the app runs, or the profile misses the first milliseconds of
//! the launch. So the executables of apps that are to be learned, and no other files, are marked, and a
//! process that executes one waits until it is let go. If this process dies, the kernel lets all of them
//! go; for as long as it lives, it must answer.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::fstat;

/// The gate cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// fanotify_init(2) failed.
    #[error(
        "fanotify cannot be had ({0}); it needs CAP_SYS_ADMIN and CONFIG_FANOTIFY_ACCESS_PERMISSIONS=y"
    )]
    NoFanotify(io::Error),
    /// fanotify_mark(2) failed.
    #[error("cannot watch the execution of a file: {0}")]
    NoMark(io::Error),
    /// read(2) failed.
    #[error("cannot read what is being executed: {0}")]
    Read(io::Error),
}

/// Files whose execution waits for us.
pub struct ExecGate {
    fd: Arc<OwnedFd>,
}

/// A process that waits in its execve. It goes on when this is dropped.
pub struct HeldExec {
    gate: Arc<OwnedFd>,
    /// The file that is about to be executed.
    pub file: OwnedFd,
    /// The process, in our pid namespace.
    pub pid: i32,
    /// Device (`st_dev`) and inode number of the file; zeros if fstat(2) fails.
    pub inode: (u64, u64),
}

impl ExecGate {
    /// A gate without any files.
    ///
    /// # Errors
    /// [`GateError::NoFanotify`].
    pub fn new() -> Result<Self, GateError> {
        let flags = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        let file_flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE | libc::O_NONBLOCK;
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::fanotify_init(flags, file_flags as u32) };
        if fd < 0 {
            return Err(GateError::NoFanotify(io::Error::last_os_error()));
        }
        // SAFETY: a descriptor that the kernel has just given to us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(ExecGate { fd: Arc::new(fd) })
    }

    /// From now on, execution of this file waits for us.
    ///
    /// # Errors
    /// [`GateError::NoMark`].
    pub fn add(&self, file: BorrowedFd<'_>) -> Result<(), GateError> {
        self.mark(libc::FAN_MARK_ADD, file)
    }

    /// From now on, execution of this file does not wait for us.
    ///
    /// # Errors
    /// [`GateError::NoMark`]; also if the file was not added.
    pub fn remove(&self, file: BorrowedFd<'_>) -> Result<(), GateError> {
        self.mark(libc::FAN_MARK_REMOVE, file)
    }

    fn mark(&self, action: u32, file: BorrowedFd<'_>) -> Result<(), GateError> {
        // The descriptor may have been opened with O_PATH, and fanotify_mark(2) does not take such a
        // descriptor as its directory: the name in /proc leads to the same file.
        let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
        // SAFETY: the path ends in a zero and outlives the call.
        let done = unsafe {
            libc::fanotify_mark(
                self.fd.as_raw_fd(),
                action,
                libc::FAN_OPEN_EXEC_PERM,
                libc::AT_FDCWD,
                path.as_ptr().cast(),
            )
        };
        if done < 0 {
            return Err(GateError::NoMark(io::Error::last_os_error()));
        }
        Ok(())
    }

    /// Readable when a process waits.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The processes that wait now, or as many of them as one read returns.
    ///
    /// # Errors
    /// [`GateError::Read`].
    pub fn waiting(&self) -> Result<Vec<HeldExec>, GateError> {
        const SIZE: usize = size_of::<libc::fanotify_event_metadata>();
        let mut buffer = [MaybeUninit::<libc::fanotify_event_metadata>::uninit(); 32];
        // SAFETY: the length is the buffer's, and it is aligned for the events that the kernel writes.
        let read = unsafe {
            libc::read(
                self.fd.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                size_of_val(&buffer),
            )
        };
        if read < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Vec::new()),
                _ => Err(GateError::Read(error)),
            };
        }
        let mut held = Vec::new();
        for event in buffer.iter().take(read as usize / SIZE) {
            // SAFETY: the kernel has written so many whole events; without further flags in
            // fanotify_init they are all of this size.
            let event = unsafe { event.assume_init_ref() };
            if event.fd < 0 {
                continue;
            }
            // SAFETY: each event comes with a descriptor of its own, which is ours.
            let file = unsafe { OwnedFd::from_raw_fd(event.fd) };
            let inode = fstat(&file).map_or((0, 0), |stat| (stat.st_dev, stat.st_ino));
            held.push(HeldExec {
                gate: Arc::clone(&self.fd),
                file,
                pid: event.pid,
                inode,
            });
        }
        Ok(held)
    }
}

impl Drop for HeldExec {
    fn drop(&mut self) {
        let answer = libc::fanotify_response {
            fd: self.file.as_raw_fd(),
            response: libc::FAN_ALLOW,
        };
        // SAFETY: a plain struct, and its size. The write only fails if the process does not wait any
        // more.
        unsafe {
            libc::write(
                self.gate.as_raw_fd(),
                std::ptr::from_ref(&answer).cast(),
                size_of::<libc::fanotify_response>(),
            )
        };
    }
}
