//! Reading small files that any user may have written. Never waits, never opens anything but a regular
//! file, and never reads more than the limit.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Nothing is there.
    #[error("there is no such file")]
    Missing,
    /// A directory, a FIFO, a device.
    #[error("it is not a regular file")]
    NotRegular,
    /// It has more bytes than a file of its kind may have.
    #[error("it is larger than {0} bytes")]
    TooLarge(usize),
    /// The system refused.
    #[error(transparent)]
    Io(io::Error),
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> ReadError {
        match errno {
            Errno::NOENT | Errno::NOTDIR => ReadError::Missing,
            errno => ReadError::Io(errno.into()),
        }
    }
}

/// Reads a regular file of at most `limit` bytes. Symbolic links are followed: exported .desktop files
/// are links.
pub(super) fn read(path: &Path, limit: usize) -> Result<Vec<u8>, ReadError> {
    // Opening a FIFO or a device has effects. O_PATH has none, and fstat tells what it is.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&found)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(ReadError::NotRegular);
    }
    if usize::try_from(stat.st_size).unwrap_or(usize::MAX) > limit {
        return Err(ReadError::TooLarge(limit));
    }
    // The file that fstat looked at: its path may lead elsewhere by now.
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(same, flags, Mode::empty())?;
    contents(file.into(), limit)
}

fn contents(file: File, limit: usize) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    // The file may have grown since: one byte more than the limit shows it.
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(ReadError::Io)?;
    match bytes.len() <= limit {
        true => Ok(bytes),
        false => Err(ReadError::TooLarge(limit)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_small_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "12345").unwrap();
        symlink("file", path("link")).unwrap();
        symlink("loop", path("loop")).unwrap();
        fs::create_dir(path("dir")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();

        assert_eq!(read(&path("file"), 5).unwrap(), b"12345");
        assert_eq!(read(&path("link"), 5).unwrap(), b"12345");
        let too_large = read(&path("file"), 4);
        assert!(matches!(too_large, Err(ReadError::TooLarge(4))));
        assert!(matches!(read(&path("none"), 5), Err(ReadError::Missing)));
        assert!(matches!(read(&path("loop"), 5), Err(ReadError::Io(_))));
        for name in ["dir", "fifo", "socket"] {
            let found = read(&path(name), 5);
            assert!(matches!(found, Err(ReadError::NotRegular)), "{name}");
        }
        let null = read(Path::new("/dev/null"), 5);
        assert!(matches!(null, Err(ReadError::NotRegular)));
    }

    #[test]
    fn a_file_that_grows_while_it_is_read_is_too_large() {
        // Its size is said to be 0.
        let endless = File::open("/proc/self/maps").unwrap();
        let read = contents(endless, 10);
        assert!(matches!(read, Err(ReadError::TooLarge(10))));
    }
}
