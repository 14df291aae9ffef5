//! Announcements by datagram.

use std::cell::RefCell;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Instant;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with, sockopt,
};
use rustix::process::Pid;

use super::owned_path::{FileKind, OwnedPath};
use super::rate::Rate;
use super::text::{MAX_TEXT, parse};
use super::{AnnounceError, AnnouncedLaunch, Refusal, RefusedCounts, SOCKET, sender};

/// Every user may send: the kernel says who does, and that decides what may be announced.
const MODE: u32 = 0o666;
/// How many announcements one call refuses at most, so that a flood cannot hold the caller.
const REFUSED_AT_ONCE: usize = 64;

/// The socket for announcements, `launch.sock`: a Unix datagram socket that everybody may write to.
///
/// - Root (user id 0) may announce any process. Other users may announce processes whose real
///   user id is their own, and which are the sender or a descendant of it.
/// - The kernel says which process and user sent (SCM_CREDENTIALS, unix(7)).
/// - A process id in the text is meant in the sender's pid namespace. A sender in another one than
///   ours can announce itself only, without an id; it is refused with one.
/// - [`Rate`] bounds what each user can announce. The rest is thrown away unread.
///
/// Root's processes should announce before they give up root if the name is to be root's.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    started: Instant,
    rate: RefCell<Rate>,
    refused: RefCell<RefusedCounts>,
    /// `None` when systemd made it, and removes it.
    _path: Option<OwnedPath>,
}

impl Socket {
    /// Makes `launch.sock` in `dir` ([`super::DIRECTORY`] for the service), and `dir` if it is missing.
    /// The socket is removed when this is dropped; one that a crash left is replaced.
    ///
    /// # Errors
    /// When another process receives there, something else has the name, or the system refuses.
    pub fn bind(dir: &Path) -> Result<Self, AnnounceError> {
        let kind = FileKind {
            name: "socket",
            is: |kind| kind.is_socket(),
            is_used,
        };
        let (path, fd) = OwnedPath::make(dir, SOCKET, MODE, &kind, |path| {
            let fd = new()?;
            sockopt::set_socket_passcred(&fd, true)?;
            bind(&fd, &SocketAddrUnix::new(path)?)?;
            Ok(fd)
        })?;
        Ok(Socket::with(fd, Some(path)))
    }

    /// Takes a socket that systemd has made (`ListenDatagram=`), from [`super::passed`]. What was
    /// sent before this call has credentials only with `PassCredentials=yes` in the socket unit;
    /// without, it is refused.
    ///
    /// # Errors
    /// When it is no Unix datagram socket, or the system refuses.
    pub fn inherited(fd: OwnedFd) -> Result<Self, AnnounceError> {
        let kind =
            sockopt::socket_domain(&fd).and_then(|domain| Ok((domain, sockopt::socket_type(&fd)?)));
        match kind {
            Ok((AddressFamily::UNIX, SocketType::DGRAM)) => {}
            Ok(_) | Err(Errno::NOTSOCK) => return Err(AnnounceError::WrongDescriptor),
            Err(error) => return Err(AnnounceError::Receive(error.into())),
        }
        sockopt::set_socket_passcred(&fd, true)
            .map_err(|error| AnnounceError::Receive(error.into()))?;
        Ok(Socket::with(fd, None))
    }

    fn with(fd: OwnedFd, path: Option<OwnedPath>) -> Self {
        Socket {
            fd,
            started: Instant::now(),
            rate: RefCell::default(),
            refused: RefCell::default(),
            _path: path,
        }
    }

    /// The next announcement that holds; `None` when there is none for now. Never waits. When the
    /// socket is still readable after `None` (a flood), the caller should do something else first.
    ///
    /// # Errors
    /// When the system refuses something. One announcement may be lost; the socket stays usable.
    pub fn receive(&self) -> Result<Option<AnnouncedLaunch>, AnnounceError> {
        // A longer text is cut, and the kernel says so.
        let mut text = [0; MAX_TEXT];
        for _ in 0..REFUSED_AT_ONCE {
            let received = receive_datagram(self.fd.as_fd(), &mut text);
            let Some(datagram) = received.map_err(AnnounceError::Receive)? else {
                return Ok(None);
            };
            let checked = self.check(&text[..datagram.len], &datagram);
            match checked.map_err(AnnounceError::Process)? {
                Ok(announced) => return Ok(Some(announced)),
                Err(refusal) => self.refused.borrow_mut().count(refusal),
            }
        }
        Ok(None)
    }

    /// What was refused since the start.
    pub fn refused(&self) -> RefusedCounts {
        *self.refused.borrow()
    }

    /// The launch that a datagram announces. Cheap checks come first.
    fn check(
        &self,
        text: &[u8],
        datagram: &Datagram,
    ) -> io::Result<Result<AnnouncedLaunch, Refusal>> {
        if datagram.excess {
            return Ok(Err(Refusal::Malformed));
        }
        let Some((pid, uid)) = datagram.sender else {
            return Ok(Err(Refusal::Unidentified));
        };
        if !self.rate.borrow_mut().take(uid, self.started.elapsed()) {
            return Ok(Err(Refusal::TooOften));
        }
        let Ok(announcement) = parse(text) else {
            return Ok(Err(Refusal::Malformed));
        };
        let process = sender::by_sender((pid, uid), announcement.pid)?;
        Ok(process.map(|process| process.becomes(announcement.name, uid)))
    }
}

/// Readable when an announcement is there.
impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What was received beside the text.
struct Datagram {
    /// Bytes of the text.
    len: usize,
    /// Process and user that sent it, in our namespaces; `None` if the kernel names none there.
    sender: Option<(Pid, u32)>,
    /// It did not fit, or descriptors came with it.
    excess: bool,
}

/// Receives one datagram; `None` when none is there.
fn receive_datagram(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<Datagram>> {
    // Room for the credentials and nothing else: the kernel then keeps descriptors of the sender, and says
    // that something was left out (MSG_CTRUNC).
    let mut control = nix::cmsg_space!(UnixCredentials);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags) {
        Ok(message) => message,
        Err(nix::Error::EAGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let excess = message
        .flags
        .intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC);
    let sender = match excess {
        // The control messages are not to be had when one of them was cut.
        true => None,
        false => message.cmsgs()?.find_map(|control| match control {
            // The process id is 0 for a sender outside of our pid namespace.
            ControlMessageOwned::ScmCredentials(from) => {
                Some((Pid::from_raw(from.pid())?, from.uid()))
            }
            _ => None,
        }),
    };
    Ok(Some(Datagram {
        len: message.bytes,
        sender,
        excess,
    }))
}

fn new() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
}

/// Whether a process has a socket open there.
fn is_used(path: &Path) -> io::Result<bool> {
    match connect(new()?, &SocketAddrUnix::new(path)?) {
        // EPROTOTYPE: a socket of another type.
        Ok(()) | Err(Errno::PROTOTYPE | Errno::AGAIN) => Ok(true),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
