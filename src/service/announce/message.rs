//! recvmsg(2) with who sent a datagram.
//!
//! rustix receives SCM_CREDENTIALS, but drops SCM_PIDFD unread, and the descriptor in it leaks; nix
//! does not know it either.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Of asm-generic/socket.h (Linux 6.5).
#[cfg(not(any(target_arch = "sparc64", target_arch = "sparc")))]
const SO_PASSPIDFD: libc::c_int = 76;
#[cfg(any(target_arch = "sparc64", target_arch = "sparc"))]
const SO_PASSPIDFD: libc::c_int = 0x55;
/// Of linux/socket.h (Linux 6.5).
const SCM_PIDFD: libc::c_int = 4;

/// Bytes of control messages: the credentials and the descriptor, each with a header (16 and 12, and
/// 16 and 4, rounded up to 8). A sender's own descriptors do not fit beside them.
const CONTROL: usize = 56;

/// A datagram.
#[derive(Debug)]
pub(super) struct Message {
    /// Bytes received.
    pub len: usize,
    /// It did not fit, or had descriptors with it, which are closed.
    pub excess: bool,
    /// Of the sender, translated into our namespaces; `None` if the kernel added none.
    pub credentials: Option<libc::ucred>,
    /// The sender itself, or why there is none. `None` before Linux 6.5.
    pub pidfd: Option<io::Result<OwnedFd>>,
}

/// Asks the kernel for a pidfd of the sender with each datagram. `false` if it cannot.
///
/// # Errors
/// As the system call.
pub(super) fn set_passpidfd(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let on: libc::c_int = 1;
    // SAFETY: the value is an int, as the option's, and lives through the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSPIDFD,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(false),
        error => Err(error),
    }
}

/// Receives one datagram into `buffer`; `None` when none is there. The socket need not be
/// non-blocking.
///
/// # Errors
/// As the system call.
pub(super) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<Message>> {
    let mut control = [0_u64; CONTROL / 8];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zeros are a valid msghdr; some targets have private padding in it.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header points to `part` (and so `buffer`) and `control`, with their lengths, and
    // all live through the call and the reading of the control messages.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let Ok(len) = usize::try_from(len) else {
        return match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        };
    };
    let mut message = Message {
        len,
        excess: header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
        credentials: None,
        pidfd: None,
    };
    // SAFETY: the kernel has filled in the header and the control messages that it points to.
    unsafe { read_control(&header, &mut message) };
    Ok(Some(message))
}

/// Takes the control messages, and with them the ownership of every descriptor in them.
///
/// # Safety
/// `header` must be as recvmsg(2) left it, and this be the only call for it.
unsafe fn read_control(header: &libc::msghdr, message: &mut Message) {
    // SAFETY: the CMSG macros stay within msg_controllen, and each message's type says what its data
    // are, as long as its length covers them. Data need not be aligned.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(control) = next.as_ref() {
            let data = libc::CMSG_DATA(control);
            let len = control.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            match (control.cmsg_level, control.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if len >= size_of::<libc::ucred>() => {
                    message.credentials = Some(data.cast::<libc::ucred>().read_unaligned());
                }
                (libc::SOL_SOCKET, SCM_PIDFD) if len >= size_of::<RawFd>() => {
                    message.pidfd = Some(own(data.cast::<RawFd>().read_unaligned()));
                }
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    message.excess = true;
                    for index in 0..len / size_of::<RawFd>() {
                        drop(own(data.cast::<RawFd>().add(index).read_unaligned()));
                    }
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(header, control);
        }
    }
}

/// A descriptor, or the negative error number in its place.
///
/// # Safety
/// A descriptor must be open, and nobody else's.
unsafe fn own(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: as the caller says.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
