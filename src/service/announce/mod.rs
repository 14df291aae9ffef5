//! Launches without execve: a process that is already running says that it is now app NAME (paper
//! §4.1, "Android").
//!
//! Android's zygote preloads what many apps need and forks; the child becomes the app without any
//! execve, so the kernel has nothing to show. There, the child writes its main class to a file
//! `fetch_app`. Here, fork servers (of Java, Python, browsers) have two ways:
//!
//! - [`Socket`], `/run/paralfetch/launch.sock`: one datagram is one announcement. The kernel says who
//!   sent it, so every user may announce his own processes.
//! - [`FetchAppFile`], `/run/paralfetch/fetch_app`: one line is one announcement. For root alone.
//!
//! [`parse`] describes the text of both. What arrives is hostile: its length and rate are bounded, and it
//! is passed on only when the process is alive and the sender's to announce. The sender gets no answer.

mod error;
mod fetch_app;
mod filter;
mod owned_path;
mod refusals;
mod sender;
mod socket;
mod text;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use self::refusals::RefusalLimit;
use crate::model::UserApp;

pub use error::{AnnounceError, Refusal};
pub use fetch_app::{FetchAppFile, Lines};
pub use sender::user_and_nesting;
pub use socket::Socket;
pub use text::{Announcement, MAX_NAME, MAX_TEXT, parse};

/// The directory of [`Socket`] and [`FetchAppFile`].
pub const DIRECTORY: &str = "/run/paralfetch";
/// The socket's name in [`DIRECTORY`].
pub const SOCKET: &str = "launch.sock";
/// The file's name in [`DIRECTORY`], as on Android.
pub const FILE: &str = "fetch_app";

/// Announcements that are received in a row; then others have their turn.
pub const MOST_AT_ONCE: usize = 16;
/// How many lines of the file are refused in a row at most. Root alone can write them: a full pipe of empty ones. Lines that
/// were read already do not make the file readable again.
const MOST_LINES: usize = 1 << 16;

/// A process that has become an app.
#[derive(Debug)]
pub struct AnnouncedLaunch {
    /// The process, in this process's pid namespace.
    pub pid: Pid,
    /// Real user id of the process: the launch is this user's, whoever announces it.
    pub uid: u32,
    /// The name, in the alphabet of [`parse`].
    pub name: String,
}

impl AnnouncedLaunch {
    /// Under what the app is managed: `announced:NAME`.
    pub fn user_app(&self) -> UserApp {
        UserApp::new(self.uid, format!("announced:{}", self.name))
    }
}

/// Receives announcements by the socket and the file.
pub struct Announcements {
    socket: Option<Socket>,
    file: Option<FetchAppFile>,
    /// What was refused of the socket's.
    limit: RefusalLimit,
}

impl Announcements {
    /// Takes over the socket that systemd has passed, or binds one in `dir`, and makes the file there. Senders to the
    /// socket run `filter`, a BPF program. Says what cannot be had.
    pub fn open(dir: &Path, filter: BorrowedFd<'_>) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        let mut usable = |error: AnnounceError| {
            warnings.push(format!("launches cannot be announced: {error}"));
        };
        let passed = Socket::passed().map_err(&mut usable).ok().flatten();
        let socket = passed.or_else(|| Socket::bind(dir).map_err(&mut usable).ok());
        let file = FetchAppFile::make(dir).map_err(&mut usable).ok();
        let filtered = socket.as_ref().map_or(Ok(()), |it| it.run_filter(filter));
        warnings.extend(filtered.err().map(|error| {
            format!(
                "one user's announcements can keep others' away: no filter of the socket: {error}"
            )
        }));
        let announcements = Announcements {
            socket,
            file,
            limit: RefusalLimit::default(),
        };
        (announcements, warnings)
    }

    /// Readable when there is an announcement. The socket is left out while it rests.
    pub fn fds(&self, now: Instant) -> impl Iterator<Item = BorrowedFd<'_>> {
        let socket = self.socket.as_ref().map(AsFd::as_fd);
        let socket = socket.filter(|_| self.rest(now).is_none());
        let file = self.file.as_ref().map(AsFd::as_fd);
        socket.into_iter().chain(file)
    }

    /// How long the socket still rests since too many announcements were refused; `None` if it does not.
    pub fn rest(&self, now: Instant) -> Option<Duration> {
        self.limit.rest(now)
    }

    /// The next announcement that holds, if there is one. Logs those that are refused, a few of many. An error may cost
    /// one.
    pub fn receive(&mut self, now: Instant) -> Result<Option<AnnouncedLaunch>, AnnounceError> {
        let Announcements {
            socket,
            file,
            limit,
        } = self;
        while let Some(socket) = socket.as_mut().filter(|_| limit.rest(now).is_none()) {
            match socket.receive() {
                Err(AnnounceError::Refused(refusal)) => {
                    if limit.refused(refusal.was_looked_at(), now) {
                        log(refusal);
                    }
                }
                Ok(None) => break,
                received => return received,
            }
        }
        for _ in 0..MOST_LINES {
            match file.as_mut().map_or(Ok(None), FetchAppFile::receive) {
                Err(AnnounceError::Refused(refusal)) => log(refusal),
                received => return received,
            }
        }
        Ok(None)
    }
}

fn log(refusal: Refusal) {
    tracing::debug!(?refusal, "an announcement was refused");
}
