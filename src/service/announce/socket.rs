//! Announcements by datagram.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, sockopt};
use rustix::process::Pid;

use super::owned_path::{FileKind, OwnedPath};
use super::text::{MAX_TEXT, parse};
use super::{AnnounceError, AnnouncedLaunch, Refusal, SOCKET, filter, sender};
use crate::service::rate::Rate;

/// How many announcements a user may make at once, and how long it takes until he may make one more: 5 a second.
const RATE: (u32, Duration) = (20, Duration::from_millis(200));

/// The socket for announcements, `launch.sock`: a Unix datagram socket that everybody may write to.
///
/// - Root (user id 0) may announce any process. Other users may announce processes whose real
///   user id is their own, and which are the sender or a descendant of it.
/// - The kernel says which process and user sent (SCM_CREDENTIALS, unix(7)).
/// - A process id in the text is meant in the sender's pid namespace. A sender in another one than
///   ours can announce itself only, without an id; it is refused with one.
/// - The [filter](Socket::run_filter) throws away what a user sends too fast, before it takes a place in the queue. [`Rate`] bounds
///   what each user can announce of the rest.
///
/// Root's processes should announce before they give up root if the name is to be root's.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    started: Instant,
    rate: Rate,
    /// `None` when systemd made it, and removes it.
    _path: Option<OwnedPath>,
}

impl Socket {
    /// Makes `launch.sock` in `dir` ([`super::DIRECTORY`] for the service), and `dir` if it is missing.
    /// The socket is removed when this is dropped; one that a crash left is replaced.
    pub fn bind(dir: &Path) -> Result<Self, AnnounceError> {
        let kind = FileKind {
            name: "socket",
            is: |kind| kind.is_socket(),
            is_used,
            // Every user may send: the kernel says who does, and that decides what may be announced.
            mode: 0o666,
        };
        let (path, fd) = OwnedPath::make(dir, SOCKET, &kind, |path| {
            let socket = UnixDatagram::unbound()?;
            sockopt::set_socket_passcred(&socket, true)?;
            bind(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(socket.into())
        })?;
        Ok(Socket::with(fd, Some(path)))
    }

    /// Takes over the socket that systemd has made (`ListenDatagram=`) and passed to this process
    /// (sd_listen_fds(3)); `None` if no socket unit started it, and at a second call. What was sent before
    /// has credentials only with `PassCredentials=yes` in the socket unit; without, it is refused. The
    /// environment stays as it is: `LISTEN_PID` names this process, so that children do not take the
    /// descriptor for theirs.
    ///
    /// # Errors
    /// When the environment contradicts itself or the descriptors, or it is no Unix datagram socket.
    pub fn passed() -> Result<Option<Self>, AnnounceError> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if TAKEN.swap(true, Ordering::Relaxed) {
            return Ok(None);
        }
        let mut fds = sd_notify::listen_fds().map_err(|error| {
            AnnounceError::Failed(format!(
                "cannot take over descriptors: {error}: start the service through its socket unit"
            ))
        })?;
        // SAFETY: the descriptor is open: `sd_notify` has set its flags. systemd left it to this process,
        // and no other call takes it.
        let fd = fds.next().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        fd.map(Socket::inherited).transpose()
    }

    /// Takes a socket that another process has made.
    pub fn inherited(fd: OwnedFd) -> Result<Self, AnnounceError> {
        let domain = sockopt::socket_domain(&fd);
        match domain.and_then(|domain| Ok((domain, sockopt::socket_type(&fd)?))) {
            Ok((AddressFamily::UNIX, SocketType::DGRAM)) => {}
            Ok(_) | Err(Errno::NOTSOCK) => {
                return Err(AnnounceError::Failed(
                    "the descriptor passed for announcements is not a Unix datagram socket: set \
                     ListenDatagram= to a path in the socket unit"
                        .to_owned(),
                ));
            }
            Err(errno) => return Err(errno.into()),
        }
        sockopt::set_socket_passcred(&fd, true)?;
        Ok(Socket::with(fd, None))
    }

    fn with(fd: OwnedFd, path: Option<OwnedPath>) -> Self {
        Socket {
            fd,
            started: Instant::now(),
            rate: Rate::new(RATE.0, RATE.1),
            _path: path,
        }
    }

    /// Has senders run a BPF program that says how much of a datagram is kept, if anything, as long as this lives. What is
    /// in the queue stays.
    ///
    /// # Errors
    /// When the kernel refuses the program.
    pub fn run_filter(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        filter::attach(self.fd.as_fd(), program)
    }

    /// The next announcement; `None` when there is none for now. Never waits. The socket stays usable after an
    /// error.
    pub fn receive(&mut self) -> Result<Option<AnnouncedLaunch>, AnnounceError> {
        // A longer text is cut, and the kernel says so.
        let mut text = [0; MAX_TEXT];
        let Some((len, sender)) = receive_datagram(self.fd.as_fd(), &mut text)? else {
            return Ok(None);
        };
        let (pid, uid) = sender?;
        if !self.rate.take(uid, self.started.elapsed()) {
            return Err(Refusal::TooOften.into());
        }
        let announcement = parse(&text[..len]).ok_or(Refusal::Malformed)?;
        let (pid, uid) = sender::by_sender((pid, uid), announcement.pid)?;
        let name = announcement.name.to_owned();
        Ok(Some(AnnouncedLaunch { pid, uid, name }))
    }
}

/// A socket that systemd keeps is left as it was.
impl Drop for Socket {
    fn drop(&mut self) {
        filter::detach(self.fd.as_fd());
    }
}

/// Readable when an announcement is there.
impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The process and user that sent a datagram, in our namespaces.
type Sender = Result<(Pid, u32), Refusal>;

/// Receives one datagram: the length of its text, and its sender; `None` when none is there.
fn receive_datagram(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<Option<(usize, Sender)>> {
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
    let cut = MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC;
    if message.flags.intersects(cut) {
        return Ok(Some((message.bytes, Err(Refusal::Malformed))));
    }
    let sender = message.cmsgs()?.find_map(|control| match control {
        // The process id is 0 for a sender outside of our pid namespace.
        ControlMessageOwned::ScmCredentials(from) => Some((Pid::from_raw(from.pid())?, from.uid())),
        _ => None,
    });
    Ok(Some((message.bytes, sender.ok_or(Refusal::Unidentified))))
}

/// Whether a process has a socket open there.
fn is_used(path: &Path) -> io::Result<bool> {
    match UnixDatagram::unbound()?.connect(path) {
        Ok(()) => Ok(true),
        Err(error) => match Errno::from_io_error(&error) {
            // A socket of another type.
            Some(Errno::PROTOTYPE) => Ok(true),
            Some(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
            _ => Err(error),
        },
    }
}
