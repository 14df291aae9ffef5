//! Opening what other users may have put in place.
//!
//! A path is walked once, without following symbolic links. What it leads to is opened with O_PATH, which runs
//! no driver and waits for nobody, and examined by its descriptor. Only a regular file or the expected device is
//! then opened for reading, through that descriptor: its name may lead elsewhere by now.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, getxattr, open, openat2};
use rustix::io::Errno;

use super::node::O_LOOKUP;

/// Through no symbolic link, no other file system, and not above.
const WITHIN: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_XDEV)
    .union(ResolveFlags::NO_SYMLINKS);

/// Opens what a path below `directory` leads to, with O_PATH, unless it goes through a symbolic link or another
/// file system.
///
/// # Errors
/// The errors of openat2(2): `ELOOP` at a link, `EXDEV` at a mount point or above `directory`.
pub(crate) fn beneath(
    directory: impl AsFd,
    relative: impl rustix::path::Arg,
) -> rustix::io::Result<OwnedFd> {
    openat2(directory, relative, O_LOOKUP, Mode::empty(), WITHIN)
}

/// Opens the directory that a path below `directory` leads to, to read its names, unless it goes through a symbolic link or
/// another file system. Nothing else is opened. `flags` are further ones of open(2).
///
/// # Errors
/// As [`beneath`], and `ENOTDIR`.
pub(crate) fn directory_beneath(
    directory: impl AsFd,
    relative: impl rustix::path::Arg,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let always = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(directory, relative, always | flags, Mode::empty(), WITHIN)
}

/// Opens the very file that `found`, an O_PATH descriptor, refers to, for reading. `None` if it is no regular file,
/// which is not opened. `flags` are further ones of open(2).
///
/// # Errors
/// The errors of open(2).
pub(crate) fn regular(
    found: &OwnedFd,
    flags: OFlags,
) -> rustix::io::Result<Option<(OwnedFd, Stat)>> {
    let stat = fstat(found)?;
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_regular
        .then(|| Ok((reopen(found, flags)?, stat)))
        .transpose()
}

/// Opens a block device for reading by the path of its node. `None` if that is not the device with this number
/// (`st_rdev`), which is not opened.
///
/// # Errors
/// The errors of open(2).
pub(crate) fn block_device(node: &Path, dev: u64) -> rustix::io::Result<Option<OwnedFd>> {
    let found = open(node, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&found)?;
    let is_device =
        FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice && stat.st_rdev == dev;
    is_device
        .then(|| reopen(&found, OFlags::empty()))
        .transpose()
}

fn reopen(found: &OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    // NONBLOCK: a lease on the file, or a device without a medium, would otherwise make open(2) wait.
    let always = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(own_path(found), always | flags, Mode::empty())
}

/// The path by which this process reaches what it has open.
pub(crate) fn own_path(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// Opens, with O_PATH, what `path` leads to from the root directory of its file system, if a user could have
/// opened it for reading by that path. What belongs to root counts as well, where only root can have put
/// it: in directories that nobody else can write. `None` if neither is so.
///
/// # Errors
/// As [`beneath`].
pub(crate) fn as_user(
    root: BorrowedFd<'_>,
    path: &Path,
    uid: u32,
) -> rustix::io::Result<Option<OwnedFd>> {
    let mut at = beneath(root, ".")?;
    let (mut is_reachable, mut is_roots) = (true, true);
    for component in path.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        let directory = fstat(&at)?;
        is_reachable &= may(&at, &directory, uid, SEARCH);
        is_roots &= directory.st_uid == 0 && directory.st_mode & 0o022 == 0;
        at = beneath(&at, name)?;
    }
    let stat = fstat(&at)?;
    is_reachable &= may(&at, &stat, uid, READ);
    is_roots &= stat.st_uid == 0;
    Ok((is_reachable || is_roots).then_some(at))
}

/// Permission to read a file, or to list a directory.
pub(crate) const READ: u32 = 4;

/// Permission to look names up in a directory.
pub(crate) const SEARCH: u32 = 1;

/// Whether the user surely has this permission. Which groups a user is in is not asked for: who is not the owner
/// needs the permission of the group and of the others. An access control list, which could take it away, counts
/// as a refusal.
pub(crate) fn may(found: &OwnedFd, stat: &Stat, uid: u32, permission: u32) -> bool {
    if uid == 0 {
        return true;
    }
    let is_owner = stat.st_uid == uid;
    let wanted = match is_owner {
        true => permission << 6,
        false => permission << 3 | permission,
    };
    stat.st_mode & wanted == wanted && (is_owner || !has_acl(found))
}

fn has_acl(found: &OwnedFd) -> bool {
    let mut nothing = [0_u8; 0];
    // Follows the link of /proc, and no other: an O_PATH descriptor itself has no attributes.
    let size = getxattr(own_path(found), "system.posix_acl_access", &mut nothing[..]);
    !matches!(size, Err(Errno::NODATA | Errno::NOTSUP))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, mknodat};
    use tempfile::TempDir;

    use super::*;

    fn own_uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    /// a/b/file, link -> a/b, a/b/link -> file, fifo
    fn tree() -> TempDir {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/b/file"), "content").unwrap();
        symlink("a/b", path("link")).unwrap();
        symlink("file", path("a/b/link")).unwrap();
        mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        for (name, mode) in [
            ("", 0o755),
            ("a", 0o755),
            ("a/b", 0o755),
            ("a/b/file", 0o644),
        ] {
            fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        }
        root
    }

    #[test]
    fn a_path_is_walked_without_links_and_leads_to_a_regular_file_or_nowhere() {
        let tree = tree();
        let root = open(tree.path(), O_LOOKUP, Mode::empty()).unwrap();
        let read = |path: &str| {
            let found = as_user(root.as_fd(), Path::new(path), own_uid())?;
            Ok(regular(&found.unwrap(), OFlags::empty())?.is_some())
        };
        assert_eq!(read("/a/b/file"), Ok(true));
        assert_eq!(read("/a/b"), Ok(false));
        assert_eq!(read("/a/b/link"), Ok(false));
        // Opening it for reading would wait for a writer.
        assert_eq!(read("/fifo"), Ok(false));
        for (path, errno) in [
            ("/link/file", Errno::NOTDIR),
            ("/a/b/link/x", Errno::NOTDIR),
            ("/a/absent", Errno::NOENT),
        ] {
            assert_eq!(read(path), Err(errno), "{path}");
        }
        assert_eq!(beneath(&root, "link/file").unwrap_err(), Errno::LOOP);
        assert_eq!(beneath(&root, "../x").unwrap_err(), Errno::XDEV);
    }

    #[test]
    fn a_file_is_for_those_who_could_open_it_or_is_roots_where_only_root_writes() {
        let tree = tree();
        let root = open(tree.path(), O_LOOKUP, Mode::empty()).unwrap();
        let other_user = own_uid() + 1;
        let is_found = |uid, changes: &[(&str, u32)]| {
            for &(name, mode) in changes {
                fs::set_permissions(tree.path().join(name), Permissions::from_mode(mode)).unwrap();
            }
            let found = as_user(root.as_fd(), Path::new("/a/b/file"), uid).unwrap();
            found.is_some()
        };
        assert!(is_found(other_user, &[]));
        let is_root = own_uid() == 0;
        // What only root can have put there needs no permission.
        for (name, private, public) in [
            ("a", 0o700, 0o755),
            ("a", 0o710, 0o755),
            ("a/b/file", 0o600, 0o644),
            ("a/b/file", 0o604, 0o644),
        ] {
            assert_eq!(is_found(other_user, &[(name, private)]), is_root, "{name}");
            assert!(is_found(own_uid(), &[]), "{name}");
            // Somebody else can rename what is in this directory.
            assert!(!is_found(other_user, &[("", 0o777)]), "{name}");
            assert!(
                is_found(other_user, &[("", 0o755), (name, public)]),
                "{name}"
            );
        }
    }

    #[test]
    fn a_block_device_is_opened_by_its_number_only() {
        assert!(
            block_device(Path::new("/dev/null"), 0x103)
                .unwrap()
                .is_none()
        );
        assert!(block_device(Path::new("/dev/absent"), 0x103).is_err());
    }
}
