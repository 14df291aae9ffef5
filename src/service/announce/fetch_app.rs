//! Announcements by writing to a file.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};

use super::owned_path::{FileKind, OwnedPath};
use super::text::{MAX_TEXT, parse};
use super::{AnnounceError, AnnouncedLaunch, FILE, Refusal, sender};

/// A write of up to PIPE_BUF bytes, 4096 on Linux, arrives in one piece (pipe(7)).
const PIECE: usize = 4096;
/// How many pieces one call reads at most, so that a flood cannot hold the caller.
const PIECES_AT_ONCE: usize = 16;

/// The file for announcements, `fetch_app`: a FIFO that root alone may write to. Each line is an
/// announcement, and must have a process id other than 0, in this process's pid namespace, since a
/// pipe does not know its writers.
///
/// A line that is written in several pieces may end up within another writer's. A line without its end
/// spoils the next writer's first line.
#[derive(Debug)]
pub struct FetchAppFile {
    fifo: fs::File,
    lines: Lines,
    _path: OwnedPath,
}

impl FetchAppFile {
    /// Makes `fetch_app` in `dir` ([`super::DIRECTORY`] for the service), and `dir` if it is missing.
    /// The file is removed when this is dropped; one that a crash left is replaced.
    pub fn make(dir: &Path) -> Result<Self, AnnounceError> {
        let kind = FileKind {
            name: "FIFO",
            is: |kind| kind.is_fifo(),
            is_used,
            // A pipe does not tell who writes, so every process that can open it is believed.
            mode: 0o200,
        };
        let (path, fifo) = OwnedPath::make(dir, FILE, &kind, |path| {
            mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?;
            // We are a writer, too: a pipe whose last writer has gone is readable for ever.
            open(path, true)
        })?;
        Ok(FetchAppFile {
            fifo,
            lines: Lines::default(),
            _path: path,
        })
    }

    /// The next announcement; `None` when there is none for now. Never waits. Call it until it returns
    /// `None`: lines that were read already do not make the file readable again. The file stays usable after an
    /// error.
    pub fn receive(&mut self) -> Result<Option<AnnouncedLaunch>, AnnounceError> {
        for _ in 0..PIECES_AT_ONCE {
            if let Some(line) = self.lines.pop() {
                let line = line.ok_or(Refusal::Malformed)?;
                let announcement = parse(&line).ok_or(Refusal::Malformed)?;
                let (pid, uid) = sender::by_root(announcement.pid.ok_or(Refusal::Unidentified)?)?;
                let name = announcement.name.to_owned();
                return Ok(Some(AnnouncedLaunch { pid, uid, name }));
            }
            let mut piece = [0; PIECE];
            match self.fifo.read(&mut piece) {
                Ok(len) => self.lines.feed(&piece[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

/// Readable when something has been written.
impl AsFd for FetchAppFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fifo.as_fd()
    }
}

/// Opens the FIFO for writing, without waiting for a reader.
fn open(path: &Path, read: bool) -> io::Result<fs::File> {
    fs::File::options()
        .read(read)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)
}

/// Whether a process has the FIFO open for reading.
fn is_used(path: &Path) -> io::Result<bool> {
    match open(path, false) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Puts lines together from pieces, however the writes were cut. What waits for the rest of its line takes
/// at most [`MAX_TEXT`] bytes; a line that is longer is skipped up to its end.
#[derive(Debug, Default)]
pub struct Lines {
    complete: VecDeque<Option<Vec<u8>>>,
    partial: Vec<u8>,
    too_long: bool,
}

impl Lines {
    /// Takes the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        for &byte in piece {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.partial);
                let too_long = std::mem::take(&mut self.too_long);
                self.complete.push_back((!too_long).then_some(line));
            } else if self.partial.len() < MAX_TEXT && !self.too_long {
                self.partial.push(byte);
            } else {
                self.too_long = true;
                self.partial.clear();
            }
        }
    }

    /// The next complete line, without its end; the inner `None` stands for one that was too long.
    pub fn pop(&mut self) -> Option<Option<Vec<u8>>> {
        self.complete.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::default();
        pieces.iter().for_each(|piece| lines.feed(piece));
        assert!(lines.partial.len() <= MAX_TEXT);
        std::iter::from_fn(|| lines.pop()).collect()
    }

    #[test]
    fn lines_are_put_together_from_pieces() {
        assert_eq!(split(&[b"1 ma"]), []);
        assert_eq!(split(&[b"1 ma", b"il\n2"]), [Some(b"1 mail".to_vec())]);
        assert_eq!(split(&[b"\n\n"]), [Some(vec![]), Some(vec![])]);
        // A long line does not take the next with it.
        let long = [b'x'; MAX_TEXT + 1];
        let lines = split(&[&long, &long, b"\n1 mail\n"]);
        assert_eq!(lines, [None, Some(b"1 mail".to_vec())]);
        let longest = [b'x'; MAX_TEXT];
        assert_eq!(split(&[&longest, b"\n"]), [Some(longest.to_vec())]);
    }
}
