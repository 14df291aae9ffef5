//! Announcements by writing to a file.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{CWD, Mode, mkfifoat};

use super::lines::{LineTooLong, Lines};
use super::refused::{Refusal, Refused};
use super::text::parse;
use super::{AnnounceError, FILE};
use crate::service::announce::announcement::AnnouncedLaunch;
use crate::service::announce::authorize;
use crate::service::announce::owned_path::OwnedPath;

/// Root alone may write: a pipe does not tell who did, so whoever can open it is believed.
const MODE: u32 = 0o200;
/// A write of up to PIPE_BUF bytes, 4096 on Linux, arrives in one piece (pipe(7)).
const PIECE: usize = 4096;
/// How many pieces one call reads at most, so that a flood cannot hold the caller.
const PIECES_AT_ONCE: usize = 16;

/// The file for announcements, `fetch_app`: a FIFO that root alone may write to. Each line is an
/// announcement, and must have a process id other than 0, in this process's pid namespace, since a
/// pipe does not know its writers.
///
/// A line that is not written in one piece may end up within another writer's. One without its end
/// spoils the next writer's first line.
#[derive(Debug)]
pub struct FetchAppFile {
    fifo: fs::File,
    state: Mutex<FileReceiver>,
    _place: OwnedPath,
}

#[derive(Debug, Default)]
struct FileReceiver {
    lines: Lines,
    refused: Refused,
}

impl FetchAppFile {
    /// Makes `fetch_app` in `dir`, [`super::DIRECTORY`] for the service, which is made if need be.
    /// The file is removed when this is dropped; one that a crash left is replaced.
    ///
    /// # Errors
    /// When somebody receives there already, something else has the name, or the system refuses.
    pub fn make(dir: &Path) -> Result<Self, AnnounceError> {
        let (place, fifo) = OwnedPath::make(
            (dir, FILE),
            MODE,
            ("FIFO", |kind| kind.is_fifo()),
            is_used,
            |path| {
                // Its own writer too: a pipe whose last writer has gone is readable for ever.
                let (read, write) = (true, true);
                mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?;
                open(path, read, write)
            },
        )?;
        Ok(FetchAppFile {
            fifo,
            state: Mutex::default(),
            _place: place,
        })
    }

    /// The next announcement that holds; `None` when there is none for now. Never waits. Call it
    /// until `None`: lines that are already read do not make the file readable again.
    ///
    /// # Errors
    /// When the system refuses something. One announcement may be lost; the file stays usable.
    pub fn receive(&self) -> Result<Option<AnnouncedLaunch>, AnnounceError> {
        let mut state = self.state();
        let mut pieces = 0;
        loop {
            while let Some(line) = state.lines.pop() {
                match judge(line).map_err(AnnounceError::Process)? {
                    Ok(announced) => return Ok(Some(announced)),
                    Err(refusal) => state.refused.count(refusal),
                }
            }
            if pieces == PIECES_AT_ONCE {
                return Ok(None);
            }
            pieces += 1;
            let mut piece = [0; PIECE];
            match (&self.fifo).read(&mut piece) {
                Ok(len) => state.lines.feed(&piece[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(AnnounceError::Receive(error)),
            }
        }
    }

    /// What was refused since the start.
    pub fn refused(&self) -> Refused {
        self.state().refused
    }

    /// No code that can panic runs while it is locked.
    fn state(&self) -> MutexGuard<'_, FileReceiver> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Readable when something has been written.
impl AsFd for FetchAppFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fifo.as_fd()
    }
}

fn judge(line: Result<Vec<u8>, LineTooLong>) -> io::Result<Result<AnnouncedLaunch, Refusal>> {
    let Ok(line) = line else {
        return Ok(Err(Refusal::Malformed));
    };
    let Ok(announcement) = parse(&line) else {
        return Ok(Err(Refusal::Malformed));
    };
    let Some(pid) = announcement.pid else {
        return Ok(Err(Refusal::Unidentified));
    };
    let subject = authorize::any(pid)?;
    Ok(subject.map(|subject| AnnouncedLaunch {
        pid: subject.pid,
        pidfd: subject.pidfd,
        start_time: subject.start_time,
        uid: 0,
        name: announcement.name.to_owned(),
    }))
}

fn open(path: &Path, read: bool, write: bool) -> io::Result<fs::File> {
    fs::File::options()
        .read(read)
        .write(write)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)
}

/// Whether a process has it open for reading.
fn is_used(path: &Path) -> io::Result<bool> {
    match open(path, false, true) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(false),
        Err(error) => Err(error),
    }
}
