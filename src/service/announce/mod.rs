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

mod activation;
mod fetch_app;
mod owned_path;
mod rate;
mod sender;
mod socket;
mod text;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::process::Pid;
use thiserror::Error;

pub use activation::{Passed, passed};
pub use fetch_app::{FetchAppFile, Lines};
pub use rate::Rate;
pub use socket::Socket;
pub use text::{Announcement, MAX_NAME, MAX_TEXT, Malformed, parse};

/// The directory of [`Socket`] and [`FetchAppFile`].
pub const DIRECTORY: &str = "/run/paralfetch";
/// The socket's name in [`DIRECTORY`].
pub const SOCKET: &str = "launch.sock";
/// The file's name in [`DIRECTORY`], as on Android.
pub const FILE: &str = "fetch_app";

/// A process that has become an app.
#[derive(Debug)]
pub struct AnnouncedLaunch {
    /// The process, in this process's pid namespace.
    pub pid: Pid,
    /// The process itself: readable once it has ended.
    pub pidfd: OwnedFd,
    /// When it was forked: clock ticks after boot, field 22 of /proc/PID/stat. With `pid` it names
    /// this very process, also in the kernel's events.
    pub start_time: u64,
    /// Real user id of the sender. 0 for [`FetchAppFile`].
    pub uid: u32,
    /// The name, in the alphabet of [`parse`].
    pub name: String,
}

impl AnnouncedLaunch {
    /// The name under which the app is managed: `announced:NAME` if root announced it,
    /// `announced:UID:NAME` otherwise, so that users touch neither each other's profiles nor root's.
    /// Names hold no colon, so two users' names are never equal.
    pub fn identity(&self) -> String {
        match self.uid {
            0 => format!("announced:{}", self.name),
            uid => format!("announced:{uid}:{}", self.name),
        }
    }
}

/// Why an announcement is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not as [`parse`] describes, or with descriptors attached.
    Malformed,
    /// Beyond the user's [`Rate`].
    TooOften,
    /// Without a sender that exists in this pid namespace; also sent before the socket asked for
    /// credentials.
    Unidentified,
    /// With a process id from another pid namespace, where it means another process. From there, a process
    /// can announce itself (process id 0 or none).
    Namespace,
    /// For a process of another user.
    NotTheirs,
    /// For a process that is neither the sender nor a descendant of it.
    NotDescendant,
    /// For a process that does not exist, has ended, or is a thread; or the sender has ended.
    Gone,
}

/// How many announcements were refused since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedCounts([u64; 7]);

impl RefusedCounts {
    /// Those that were refused for this reason.
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.0[refusal as usize]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn count(&mut self, refusal: Refusal) {
        tracing::debug!(?refusal, "an announcement was refused");
        self.0[refusal as usize] += 1;
    }
}

/// Announcements cannot be received.
#[derive(Debug, Error)]
pub enum AnnounceError {
    /// The directory cannot be made or used.
    #[error("cannot use the directory {}: {error}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Something of another kind has the name.
    #[error("{} is not a {expected}: remove it and start again", path.display())]
    Foreign {
        /// The path.
        path: PathBuf,
        /// The kind that may be replaced.
        expected: &'static str,
    },
    /// Another process receives there.
    #[error("another service receives announcements at {}: stop it first", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The socket or the file cannot be made.
    #[error("cannot make {}: {error}", path.display())]
    Make {
        /// The path.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The descriptor that was passed is something else.
    #[error(
        "the descriptor passed for announcements is not a Unix datagram socket: set ListenDatagram= \
         to a path in the socket unit"
    )]
    WrongDescriptor,
    /// The environment of socket activation contradicts itself.
    #[error("cannot take over descriptors: {0}: start the service through its socket unit")]
    Activation(String),
    /// The system call failed.
    #[error("cannot receive announcements: {0}")]
    Receive(io::Error),
    /// A process could not be looked at, for a reason on our side (descriptors, memory, no /proc).
    /// Its announcement is lost.
    #[error("cannot look at an announced process: {0}")]
    Process(io::Error),
}
