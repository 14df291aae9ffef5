//! Notices that packages were installed, updated or removed, so that the profiles are checked soon after.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use crate::fs::kept::may_be_kept;
use crate::fs::node::OpenNode;
use crate::fs::safe_open::own_path;

/// How long to wait after the last change before the profiles are checked: an upgrade changes the records once
/// for each package.
pub const REST: Duration = Duration::from_secs(10);

/// The records of package managers: a directory, and the beginning of the names of the files in it that each
/// change of a package writes or replaces.
const RECORDS: [(&str, &[u8]); 6] = [
    ("/var/lib/dpkg", b"status"),
    ("/var/lib/rpm", b"rpmdb.sqlite"),
    ("/usr/lib/sysimage/rpm", b"rpmdb.sqlite"),
    ("/var/lib/pacman/local", b""),
    ("/lib/apk/db", b"installed"),
    ("/var/lib/flatpak", b".changed"),
];

/// Watches the records of the installed package managers.
pub struct Packages {
    inotify: OwnedFd,
    /// Watch descriptors, and the beginning of the names.
    watched: Vec<(i32, &'static [u8])>,
}

impl Packages {
    /// Begins to watch.
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
            let directory = directory.as_ref();
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let found = match open(directory, flags, Mode::empty()) {
                // The package manager is not installed.
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                found => found?,
            };
            // A link may lead anywhere.
            if !may_be_kept(&OpenNode::of(&found)?) {
                tracing::info!(
                    ?directory,
                    "is a user's or encrypted, and not watched: its packages are looked at daily"
                );
                continue;
            }
            let watch = inotify::add_watch(&inotify, own_path(&found), changes)?;
            watched.push((watch, *name));
        }
        Ok(Packages { inotify, watched })
    }

    /// Readable when something has changed.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Whether packages have changed since the last call.
    pub fn have_changed(&self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut changed = false;
        loop {
            let event = match reader.next() {
                Err(Errno::AGAIN) => return Ok(changed),
                Err(Errno::INTR) => continue,
                event => event?,
            };
            let name = event.file_name().map_or(&b""[..], CStr::to_bytes);
            // A lost event may have been a change.
            changed |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                || self
                    .watched
                    .iter()
                    .any(|&(watch, start)| watch == event.wd() && name.starts_with(start));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_replaced_record_is_a_change_and_a_lock_is_not() {
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
        // Databases are written in place.
        fs::write(path("status-wal"), "more").unwrap();
        assert!(packages.have_changed().unwrap());
    }
}
