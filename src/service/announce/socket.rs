//! Announcements by datagram.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with, sockopt,
};
use rustix::process::Pid;

use super::message::{self, Message};
use super::process;
use super::rate::Rate;
use super::refused::{Refusal, Refused};
use super::text::{MAX_TEXT, parse};
use super::{AnnounceError, SOCKET};
use crate::service::announce::announcement::AnnouncedLaunch;
use crate::service::announce::authorize::{self, Sender};
use crate::service::announce::owned_path::OwnedPath;

/// Everybody may send: who does is known, and decides what may be said.
const MODE: u32 = 0o666;
/// How many announcements one call refuses at most, so that a flood cannot hold the caller.
const REFUSED_AT_ONCE: usize = 64;

/// The socket for announcements, `launch.sock`: a Unix datagram socket that everybody may write to.
///
/// - Root (user id 0) may announce any process. Everybody else may announce processes whose real
///   user id is their own, and which are the sender or a descendant of it.
/// - The sender's process and user are the kernel's word (SCM_CREDENTIALS, unix(7)). From Linux 6.5
///   on, a pidfd comes with it (SO_PASSPIDFD), so that nobody can take an ended sender's place;
///   before, another process of the same user could.
/// - A process id in the text is meant in the sender's pid namespace. A sender in another one than
///   ours can announce itself only, without an id; it is refused with one.
/// - [`Rate`] bounds what each user can announce. More is thrown away unread.
///
/// Root's processes should announce before they give up root if the name is to be root's.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    state: Mutex<SocketReceiver>,
    /// `None` when systemd made it, and removes it.
    _place: Option<OwnedPath>,
}

#[derive(Debug)]
struct SocketReceiver {
    started: Instant,
    rate: Rate,
    refused: Refused,
}

impl Socket {
    /// Makes `launch.sock` in `dir`, [`super::DIRECTORY`] for the service, which is made if need
    /// be. The socket is removed when this is dropped; one that a crash left is replaced.
    ///
    /// # Errors
    /// When somebody receives there already, something else has the name, or the system refuses.
    pub fn bind(dir: &Path) -> Result<Self, AnnounceError> {
        let (place, fd) = OwnedPath::make(
            (dir, SOCKET),
            MODE,
            ("socket", |kind| kind.is_socket()),
            |path| Ok(is_used(path)?),
            |path| {
                let fd = new()?;
                ask_for_credentials(&fd)?;
                bind(&fd, &SocketAddrUnix::new(path)?)?;
                Ok(fd)
            },
        )?;
        Ok(Socket::with(fd, Some(place)))
    }

    /// Takes a socket that systemd has made (`ListenDatagram=`), from [`super::passed`]. What was
    /// sent before this call has credentials only with `PassCredentials=yes` in the socket unit;
    /// without, it is refused.
    ///
    /// # Errors
    /// When it is no Unix datagram socket, or the system refuses.
    pub fn inherited(fd: OwnedFd) -> Result<Self, AnnounceError> {
        let kind = sockopt::socket_domain(&fd).and_then(|domain| {
            let kind = sockopt::socket_type(&fd)?;
            Ok((domain, kind))
        });
        match kind {
            Ok((AddressFamily::UNIX, SocketType::DGRAM)) => {}
            Ok(_) | Err(Errno::NOTSOCK) => return Err(AnnounceError::WrongDescriptor),
            Err(error) => return Err(AnnounceError::Receive(error.into())),
        }
        ask_for_credentials(&fd).map_err(AnnounceError::Receive)?;
        Ok(Socket::with(fd, None))
    }

    fn with(fd: OwnedFd, place: Option<OwnedPath>) -> Self {
        Socket {
            fd,
            state: Mutex::new(SocketReceiver {
                started: Instant::now(),
                rate: Rate::default(),
                refused: Refused::default(),
            }),
            _place: place,
        }
    }

    /// The next announcement that holds; `None` when there is none for now. Never waits. When the
    /// socket is still readable after `None` (a flood), it pays to do something else first.
    ///
    /// # Errors
    /// When the system refuses something. One announcement may be lost; the socket stays usable.
    pub fn receive(&self) -> Result<Option<AnnouncedLaunch>, AnnounceError> {
        // Longer texts are cut, which shows.
        let mut text = [0; MAX_TEXT];
        for _ in 0..REFUSED_AT_ONCE {
            let message = message::receive(self.fd.as_fd(), &mut text);
            let Some(message) = message.map_err(AnnounceError::Receive)? else {
                return Ok(None);
            };
            match self.judge(&text, message).map_err(AnnounceError::Process)? {
                Ok(announced) => return Ok(Some(announced)),
                Err(refusal) => self.state().refused.count(refusal),
            }
        }
        Ok(None)
    }

    /// What was refused since the start.
    pub fn refused(&self) -> Refused {
        self.state().refused
    }

    /// Cheap checks first.
    fn judge(&self, text: &[u8], message: Message) -> io::Result<Result<AnnouncedLaunch, Refusal>> {
        let Some((pid, uid)) = message.credentials.as_ref().and_then(|credentials| {
            // 0 when the sender has no id in our namespace.
            Some((Pid::from_raw(credentials.pid)?, credentials.uid))
        }) else {
            return Ok(Err(Refusal::Unidentified));
        };
        if !self.state().take(uid) {
            return Ok(Err(Refusal::TooOften));
        }
        if message.excess {
            return Ok(Err(Refusal::Malformed));
        }
        let Ok(announcement) = parse(&text[..message.len]) else {
            return Ok(Err(Refusal::Malformed));
        };
        let pidfd = match message.pidfd.transpose() {
            Ok(pidfd) => pidfd,
            Err(error) if process::is_gone(&error) => return Ok(Err(Refusal::Gone)),
            Err(error) => return Err(error),
        };
        let sender = Sender { pid, uid, pidfd };
        let subject = authorize::announced(sender, announcement.pid)?;
        Ok(subject.map(|subject| AnnouncedLaunch {
            pid: subject.pid,
            pidfd: subject.pidfd,
            start_time: subject.start_time,
            uid,
            name: announcement.name.to_owned(),
        }))
    }

    /// No code that can panic runs while it is locked.
    fn state(&self) -> MutexGuard<'_, SocketReceiver> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SocketReceiver {
    fn take(&mut self, uid: u32) -> bool {
        self.rate.take(uid, self.started.elapsed())
    }
}

/// Readable when an announcement is there.
impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn new() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
}

fn ask_for_credentials(fd: &OwnedFd) -> io::Result<()> {
    sockopt::set_socket_passcred(fd, true)?;
    // A kernel without gives none; that is dealt with at each datagram.
    message::set_passpidfd(fd.as_fd()).map(drop)
}

/// Whether a process has a socket open there.
fn is_used(path: &Path) -> rustix::io::Result<bool> {
    match connect(new()?, &SocketAddrUnix::new(path)?) {
        // EPROTOTYPE: a socket, and of another type.
        Ok(()) | Err(Errno::PROTOTYPE | Errno::AGAIN) => Ok(true),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}
