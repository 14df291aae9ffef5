//! Reading small files that others may have put there: never waits, never opens anything but a regular
//! file, never reads more than was asked for.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::fs::root_owned::{self, NotRootOwned, objection};

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is none.
    #[error("there is no such file")]
    Missing,
    /// A symbolic link where none may be, a directory, a FIFO, a device.
    #[error("it is not a regular file")]
    NotRegular,
    /// Someone other than root and the user that this program runs as may have made or changed it.
    #[error("it is not to be trusted: {0}")]
    Untrusted(&'static str),
    /// More than a file of its kind may have.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// Most bytes that would be read.
        limit: usize,
    },
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
    // Opening a FIFO or a device has effects; O_PATH has none, and shows what it is.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&found)?;
    regular(&stat)?;
    within(&stat, limit)?;
    // The very file that was looked at, not what its path leads to by now.
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(same, flags, Mode::empty())?;
    contents(file.into(), limit)
}

/// Reads a regular file of at most `limit` bytes in a directory that can be [trusted](objection).
pub(super) fn read_trusted(
    dir: impl AsFd,
    name: &Path,
    limit: usize,
) -> Result<Vec<u8>, ReadError> {
    match root_owned::read_at(dir, name, limit) {
        Ok(Some(bytes)) if bytes.len() > limit => Err(ReadError::TooLarge { limit }),
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(ReadError::Missing),
        Err(NotRootOwned::Untrusted(why)) => Err(ReadError::Untrusted(why)),
        Err(NotRootOwned::Io(error)) => Err(ReadError::Io(error)),
    }
}

/// Whether a file or directory can be [trusted](objection).
pub(super) fn check_trusted(stat: &Stat) -> Result<(), ReadError> {
    objection(stat).map_or(Ok(()), |why| Err(ReadError::Untrusted(why)))
}

fn regular(stat: &Stat) -> Result<(), ReadError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(ReadError::NotRegular),
    }
}

fn within(stat: &Stat, limit: usize) -> Result<(), ReadError> {
    match usize::try_from(stat.st_size) {
        Ok(size) if size <= limit => Ok(()),
        _ => Err(ReadError::TooLarge { limit }),
    }
}

fn contents(file: File, limit: usize) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    // It may have grown since; one byte more than allowed tells.
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(ReadError::Io)?;
    match bytes.len() <= limit {
        true => Ok(bytes),
        false => Err(ReadError::TooLarge { limit }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

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
        assert!(matches!(too_large, Err(ReadError::TooLarge { limit: 4 })));
        assert!(matches!(read(&path("none"), 5), Err(ReadError::Missing)));
        assert!(matches!(read(&path("loop"), 5), Err(ReadError::Io(_))));
        for name in ["dir", "fifo", "socket"] {
            let found = read(&path(name), 5);
            assert!(matches!(found, Err(ReadError::NotRegular)), "{name}");
        }
        let null = read(Path::new("/dev/null"), 5);
        assert!(matches!(null, Err(ReadError::NotRegular)));

        let open = File::open(dir.path()).unwrap();
        let trusted = |name: &str| read_trusted(&open, Path::new(name), 5);
        assert_eq!(trusted("file").unwrap(), b"12345");
        for name in ["link", "loop", "dir", "fifo", "socket"] {
            let found = trusted(name);
            assert!(matches!(found, Err(ReadError::Untrusted(_))), "{name}");
        }
        let mode = fs::Permissions::from_mode(0o664);
        fs::set_permissions(path("file"), mode).unwrap();
        assert!(matches!(trusted("file"), Err(ReadError::Untrusted(_))));
    }

    #[test]
    fn a_file_that_grows_while_it_is_read_is_too_large() {
        // Its size is said to be 0.
        let endless = File::open("/proc/self/maps").unwrap();
        let read = contents(endless, 10);
        assert!(matches!(read, Err(ReadError::TooLarge { limit: 10 })));
    }
}
