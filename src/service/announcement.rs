//! The ways to announce launches: a socket and a file.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use super::announce::{AnnounceError, AnnouncedLaunch, FetchAppFile, Socket, passed};

/// Announcements that are received in a row; then others have their turn.
pub const MOST_AT_ONCE: usize = 16;

/// Receives announcements.
pub struct Announcements {
    socket: Option<Socket>,
    file: Option<FetchAppFile>,
}

impl Announcements {
    /// Takes over the socket that systemd has passed, or binds one in `dir`, and makes the file there. Says
    /// what cannot be had.
    pub fn open(dir: &Path) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        let passed = passed().unwrap_or_else(|error| {
            warnings.push(error.to_string());
            Vec::new()
        });
        let inherited = passed.into_iter().next().map(|passed| passed.fd);
        let socket = match inherited {
            Some(fd) => Socket::inherited(fd),
            None => Socket::bind(dir),
        };
        let mut usable = |error: AnnounceError| {
            warnings.push(format!("launches cannot be announced: {error}"));
        };
        let socket = socket.map_err(&mut usable).ok();
        let file = FetchAppFile::make(dir).map_err(&mut usable).ok();
        (Announcements { socket, file }, warnings)
    }

    /// Readable when there is an announcement.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let socket = self.socket.as_ref().map(|socket| socket.as_fd());
        socket
            .into_iter()
            .chain(self.file.as_ref().map(|file| file.as_fd()))
    }

    /// The next announcement, if there is one.
    ///
    /// # Errors
    /// When it cannot be received.
    pub fn receive(&self) -> Result<Option<AnnouncedLaunch>, AnnounceError> {
        let from_socket = self.socket.as_ref().map(|socket| socket.receive());
        match from_socket {
            Some(Ok(None)) | None => {}
            Some(received) => return received,
        }
        self.file.as_ref().map_or(Ok(None), FetchAppFile::receive)
    }
}
