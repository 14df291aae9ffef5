//! The socket's filter: a BPF program that senders run (SO_ATTACH_BPF, socket(7)). `unsafe` for setsockopt(2), of which no
//! library has these options.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Has every sender to the socket run this program, in place of one before.
///
/// # Errors
/// When the kernel refuses the program.
pub(super) fn attach(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SO_ATTACH_BPF, program.as_raw_fd())
}

/// Takes the program away, if there is one.
pub(super) fn detach(socket: BorrowedFd<'_>) {
    // It fails only if there is none.
    let _ = set(socket, libc::SO_DETACH_FILTER, 0);
}

fn set(socket: BorrowedFd<'_>, option: libc::c_int, value: RawFd) -> io::Result<()> {
    // SAFETY: the kernel reads the value, whose size is given, and keeps no pointer to it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of::<RawFd>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
