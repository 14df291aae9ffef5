//! Announcements by writing to a file.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};

use super::owned_path::{FileKind, OwnedPath};
use super::text::{MAX_TEXT, parse};
use super::{AnnounceError, AnnouncedLaunch, FILE, Refusal, RefusedCounts, sender};

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
/// A line that is written in several pieces may end up within another writer's. A line without its end
/// spoils the next writer's first line.
#[derive(Debug)]
pub struct FetchAppFile {
    fifo: fs::File,
    lines: RefCell<Lines>,
    refused: RefCell<RefusedCounts>,
    _path: OwnedPath,
}

impl FetchAppFile {
    /// Makes `fetch_app` in `dir` ([`super::DIRECTORY`] for the service), and `dir` if it is missing.
    /// The file is removed when this is dropped; one that a crash left is replaced.
    ///
    /// # Errors
    /// When another process receives there, something else has the name, or the system refuses.
    pub fn make(dir: &Path) -> Result<Self, AnnounceError> {
        let kind = FileKind {
            name: "FIFO",
            is: |kind| kind.is_fifo(),
            is_used,
        };
        let (path, fifo) = OwnedPath::make(dir, FILE, MODE, &kind, |path| {
            mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?;
            // We are a writer, too: a pipe whose last writer has gone is readable for ever.
            open(path, true, true)
        })?;
        Ok(FetchAppFile {
            fifo,
            lines: RefCell::default(),
            refused: RefCell::default(),
            _path: path,
        })
    }

    /// The next announcement that holds; `None` when there is none for now. Never waits. Call it
    /// until it returns `None`: lines that were read already do not make the file readable again.
    ///
    /// # Errors
    /// When the system refuses something. One announcement may be lost; the file stays usable.
    pub fn receive(&self) -> Result<Option<AnnouncedLaunch>, AnnounceError> {
        let mut lines = self.lines.borrow_mut();
        let mut pieces = 0;
        loop {
            while let Some(line) = lines.pop() {
                match check(line.as_deref()).map_err(AnnounceError::Process)? {
                    Ok(announced) => return Ok(Some(announced)),
                    Err(refusal) => self.refused.borrow_mut().count(refusal),
                }
            }
            if pieces == PIECES_AT_ONCE {
                return Ok(None);
            }
            pieces += 1;
            let mut piece = [0; PIECE];
            match (&self.fifo).read(&mut piece) {
                Ok(len) => lines.feed(&piece[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(AnnounceError::Receive(error)),
            }
        }
    }

    /// What was refused since the start.
    pub fn refused(&self) -> RefusedCounts {
        *self.refused.borrow()
    }
}

/// Readable when something has been written.
impl AsFd for FetchAppFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fifo.as_fd()
    }
}

/// The launch that a line announces; a line that was too long is `None`.
fn check(line: Option<&[u8]>) -> io::Result<Result<AnnouncedLaunch, Refusal>> {
    let Some(Ok(announcement)) = line.map(parse) else {
        return Ok(Err(Refusal::Malformed));
    };
    let Some(pid) = announcement.pid else {
        return Ok(Err(Refusal::Unidentified));
    };
    Ok(sender::by_root(pid)?.map(|process| process.becomes(announcement.name, 0)))
}

fn open(path: &Path, read: bool, write: bool) -> io::Result<fs::File> {
    fs::File::options()
        .read(read)
        .write(write)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)
}

/// Whether a process has the FIFO open for reading.
fn is_used(path: &Path) -> io::Result<bool> {
    match open(path, false, true) {
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
    use proptest::prelude::*;

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
    }

    #[test]
    fn a_long_line_does_not_take_the_next_with_it() {
        let long = [b'x'; MAX_TEXT + 1];
        let lines = split(&[&long, &long, b"\n1 mail\n"]);
        assert_eq!(lines, [None, Some(b"1 mail".to_vec())]);
        let longest = [b'x'; MAX_TEXT];
        assert_eq!(split(&[&longest, b"\n"]), [Some(longest.to_vec())]);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_they_were_cut(
            bytes in proptest::collection::vec(prop_oneof![3 => Just(b'x'), 1 => Just(b'\n')], 0..2000),
            at in any::<prop::sample::Index>(),
        ) {
            let (first, second) = bytes.split_at(at.index(bytes.len() + 1));
            prop_assert_eq!(split(&[first, second]), split(&[&bytes]));
        }
    }
}
