//! Hearing of packages that were installed, updated or removed, to look through the profiles soon after.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// How long to wait after the last change: an upgrade makes one for each package, and there is no use in
/// reading directories while it goes on.
pub const REST: Duration = Duration::from_secs(10);

/// Where package managers note what is installed: a directory, and how the names of the files begin that
/// they write or replace with each change.
const RECORDS: [(&str, &[u8]); 6] = [
    ("/var/lib/dpkg", b"status"),
    ("/var/lib/rpm", b"rpmdb.sqlite"),
    ("/usr/lib/sysimage/rpm", b"rpmdb.sqlite"),
    ("/var/lib/pacman/local", b""),
    ("/lib/apk/db", b"installed"),
    ("/var/lib/flatpak", b".changed"),
];

/// Watches the records of the package managers that there are.
pub struct Packages {
    inotify: OwnedFd,
    /// By watch descriptor: how the names begin.
    watched: Vec<(i32, &'static [u8])>,
}

impl Packages {
    /// Begins.
    ///
    /// # Errors
    /// When the system has no inotify to give.
    pub fn watch() -> io::Result<Self> {
        Self::watch_at(&RECORDS)
    }

    fn watch_at(records: &[(impl AsRef<Path>, &'static [u8])]) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let changes = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR;
        let mut watched = Vec::new();
        for (directory, name) in records {
            match inotify::add_watch(&inotify, directory.as_ref(), changes) {
                Ok(descriptor) => watched.push((descriptor, *name)),
                // Another system's package manager.
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Packages { inotify, watched })
    }

    /// Readable when something has changed.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Whether packages have changed since the last call.
    ///
    /// # Errors
    /// When the kernel's events cannot be read.
    pub fn have_changed(&self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut changed = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map_or(&b""[..], CStr::to_bytes);
                    let is_record = |(descriptor, start): &(i32, &[u8])| {
                        *descriptor == event.wd() && name.starts_with(start)
                    };
                    // Events that were lost may have been any.
                    changed |= event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW)
                        || self.watched.iter().any(is_record);
                }
                Err(Errno::AGAIN) => return Ok(changed),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_replaced_record_is_a_change_and_a_lock_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let missing = path("missing");
        let records: [(&Path, &'static [u8]); 2] = [(&missing, b""), (dir.path(), b"status")];
        let packages = Packages::watch_at(&records).unwrap();
        assert!(!packages.have_changed().unwrap());
        fs::write(path("lock"), "").unwrap();
        assert!(!packages.have_changed().unwrap());
        fs::write(path("new"), "installed").unwrap();
        fs::rename(path("new"), path("status")).unwrap();
        assert!(packages.have_changed().unwrap());
        assert!(!packages.have_changed().unwrap());
        // In place, as databases do.
        fs::write(path("status-wal"), "more").unwrap();
        assert!(packages.have_changed().unwrap());
    }
}
