//! Launches without execve: a process that is already running says that it is now app NAME (paper
//! §4.1, "Android").
//!
//! Android's zygote preloads what many apps need and forks; the child becomes the app without any
//! execve, so that the kernel has nothing to show. There, the child writes its main class to a file
//! `fetch_app`. Here, fork servers (of Java, Python, browsers) have two ways:
//!
//! - [`Socket`], `/run/paralfetch/launch.sock`: one datagram, one announcement. The kernel tells who
//!   sent it, so everybody may, for themselves and their descendants.
//! - [`File`], `/run/paralfetch/fetch_app`: a line, an announcement. For root alone.
//!
//! [`parse`] describes the text of both. What arrives is hostile until proved otherwise: it is
//! bounded in length and rate, and only passed on when the process is alive and the sender's to
//! announce. What is refused is counted in [`Refused`]; nobody gets an answer.

mod activation;
mod announcement;
mod authorize;
mod file;
mod lines;
mod message;
mod owned_path;
mod process;
mod rate;
mod refused;
mod socket;
mod text;

use std::io;
use std::path::PathBuf;

use thiserror::Error;

pub use activation::{Passed, passed};
pub use announcement::AnnouncedLaunch;
pub use file::FetchAppFile;
pub use lines::{LineTooLong, Lines};
pub use rate::Rate;
pub use refused::Refused;
pub use socket::Socket;
pub use text::{Announcement, MAX_NAME, MAX_TEXT, Malformed, parse};

/// Where [`Socket`] and [`File`] are.
pub const DIRECTORY: &str = "/run/paralfetch";
/// The socket's name in [`DIRECTORY`].
pub const SOCKET: &str = "launch.sock";
/// The file's name in [`DIRECTORY`], as on Android.
pub const FILE: &str = "fetch_app";

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
    /// There is something else in the place.
    #[error("{} is not a {expected}: remove it and start again", path.display())]
    Foreign {
        /// The place.
        path: PathBuf,
        /// What is only replaced.
        expected: &'static str,
    },
    /// Somebody else receives there.
    #[error("another service receives announcements at {}: stop it first", path.display())]
    InUse {
        /// The place.
        path: PathBuf,
    },
    /// The socket or the file cannot be made.
    #[error("cannot make {}: {error}", path.display())]
    Make {
        /// The place.
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
