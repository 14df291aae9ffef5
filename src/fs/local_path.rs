//! Opening files at paths that users choose, without asking a server or a user-space process.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, fstat, open, openat, readlinkat};

use super::mounts::MountTable;
use super::node::{O_LOOKUP, OpenNode};
use super::support::Support;

/// Symbolic links that are followed on the way, as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// Most directories that lead to a file. Each is open until the file is found, and with links in them a path may lead
/// through as many as its user likes.
const MOST_DIRECTORIES: usize = 256;

/// A file that was found by its path.
pub struct LocalFile {
    /// Path of the file, without symbolic links.
    pub path: PathBuf,
    /// The names under which it is known: the last component of the path that was asked for, and of each symbolic link that
    /// followed, down to its own. Each once.
    pub names: Vec<OsString>,
    /// What it is.
    pub node: OpenNode,
    /// Opened with `O_PATH`.
    pub fd: OwnedFd,
    /// Who owns the directories and symbolic links that led to it, each once.
    owners: Vec<u32>,
}

impl LocalFile {
    /// Finds the file at an absolute path, component by component. Looks no name up in a file system that a server or a
    /// user-space process serves, which may never answer, and mounts nothing.
    ///
    /// # Errors
    /// When there is no such file, the way to it is too long, or it leads through such a file system.
    pub fn find(path: &Path, mounts: &MountTable) -> io::Result<LocalFile> {
        Self::find_through(path, mounts, |_| true)
    }

    /// Finds a file through directories in which the administrator alone decides what a name leads to: in those with a sticky
    /// bit, such as /tmp, others may add names and not change his. Where a user decides, nothing is looked up.
    ///
    /// # Errors
    /// The errors of [`LocalFile::find_through`].
    pub fn find_trusted(path: &Path, mounts: &MountTable) -> io::Result<LocalFile> {
        Self::find_through(path, mounts, is_administrators)
    }

    /// Finds a file through directories that `may_pass` alone.
    ///
    /// # Errors
    /// The errors of [`LocalFile::find`], and `PermissionDenied` with its name for a directory that may not be passed.
    pub fn find_through(
        path: &Path,
        mounts: &MountTable,
        may_pass: impl Fn(&OwnedFd) -> bool,
    ) -> io::Result<LocalFile> {
        let root = open("/", O_LOOKUP, Mode::empty())?;
        let mut left: VecDeque<OsString> = components(path).collect();
        // The directories that lead to the last component.
        let mut way = vec![(OpenNode::of(&root)?, root)];
        let mut found = PathBuf::from("/");
        let mut names: Vec<OsString> = Vec::new();
        let mut owners = Vec::new();
        let mut links = 0;
        while let Some(name) = left.pop_front() {
            let Some((directory, fd)) = way.last() else {
                return Err(io::Error::from_raw_os_error(libc::ENOENT));
            };
            match name.to_str() {
                Some("/") => {
                    way.truncate(1);
                    found = PathBuf::from("/");
                    continue;
                }
                Some("..") if directory.kind == FileType::Directory => {
                    way.truncate((way.len() - 1).max(1));
                    found.pop();
                    continue;
                }
                _ => {}
            }
            check(directory, mounts)?;
            add(&mut owners, directory.uid);
            if !may_pass(fd) {
                let why = format!("{} may not be passed", found.display());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            let fd = openat(fd, &name, O_LOOKUP, Mode::empty())?;
            let node = OpenNode::of(&fd)?;
            if left.is_empty() && !names.contains(&name) {
                names.push(name.clone());
            }
            if node.kind == FileType::Symlink {
                add(&mut owners, node.uid);
                links += 1;
                if links > MOST_LINKS {
                    return Err(io::Error::from_raw_os_error(libc::ELOOP));
                }
                let target = readlinkat(&fd, "", Vec::new())?.into_bytes();
                let target = PathBuf::from(OsString::from_vec(target));
                for name in components(&target).collect::<Vec<_>>().into_iter().rev() {
                    left.push_front(name);
                }
                continue;
            }
            if way.len() > MOST_DIRECTORIES {
                return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
            }
            found.push(&name);
            way.push((node, fd));
        }
        let (node, fd) = way.pop().ok_or(io::ErrorKind::NotFound)?;
        check(&node, mounts)?;
        Ok(LocalFile {
            path: found,
            names,
            node,
            fd,
            owners,
        })
    }

    /// Whether nobody but the file's owner and the administrator, or whom this program runs as, has put the directories and
    /// links there that led to it.
    pub fn is_its_owners(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        let deciding = self.owners.iter();
        deciding
            .copied()
            .all(|uid| uid == 0 || uid == own || uid == self.node.uid)
    }
}

fn add(owners: &mut Vec<u32>, uid: u32) {
    if !owners.contains(&uid) {
        owners.push(uid);
    }
}

/// Whether nobody but the administrator, or whom this program runs as, changes what a name in the directory leads to.
fn is_administrators(directory: &OwnedFd) -> bool {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    fstat(directory).is_ok_and(|found| {
        let own = rustix::process::geteuid().as_raw();
        let is_closed = found.st_mode & WRITABLE_BY_OTHERS == 0 || found.st_mode & STICKY != 0;
        is_closed && (found.st_uid == 0 || found.st_uid == own)
    })
}

/// The names of a path in order, `/` for the root directory.
fn components(path: &Path) -> impl Iterator<Item = OsString> {
    let name = |component: Component<'_>| match component {
        Component::CurDir => None,
        other => Some(other.as_os_str().to_owned()),
    };
    path.components().filter_map(name)
}

/// Refuses file systems that this kernel does not serve alone.
fn check(node: &OpenNode, mounts: &MountTable) -> io::Result<()> {
    let mount = u32::try_from(node.mount).ok();
    let mount = mount.and_then(|id| mounts.by_id(id));
    let fs_type = mount.map_or("unknown", |mount| &mount.fs_type);
    match Support::of(fs_type) {
        _ if mount.is_none() || fs_type == "autofs" => {}
        Support::Fuse | Support::Network => {}
        _ => return Ok(()),
    }
    let why =
        format!("it is on a file system ({fs_type}) that another process or a server answers for");
    Err(io::Error::other(why))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_path_leads_where_the_kernel_finds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/b/file"), "").unwrap();
        symlink("b/../b/./file", path("a/relative")).unwrap();
        symlink(path("a"), path("absolute")).unwrap();
        symlink("loop", path("loop")).unwrap();
        let mounts = MountTable::read().unwrap();
        for name in [
            "a/b/file",
            "a/relative",
            "absolute/relative",
            "absolute/b/../b/file",
        ] {
            let found = LocalFile::find(&path(name), &mounts).unwrap();
            let expected = fs::metadata(path(name)).unwrap();
            assert_eq!(
                (found.node.dev, found.node.ino),
                (expected.dev(), expected.ino())
            );
            assert_eq!(found.path, fs::canonicalize(path(name)).unwrap());
        }
        symlink("a/relative", path("link")).unwrap();
        let found = LocalFile::find(&path("link"), &mounts).unwrap();
        assert_eq!(found.names, ["link", "relative", "file"]);
        for name in ["a/none", "loop", "a/b/file/.."] {
            assert!(LocalFile::find(&path(name), &mounts).is_err(), "{name}");
        }
        let above = LocalFile::find(Path::new("/../.."), &mounts).unwrap();
        assert_eq!(above.path, Path::new("/"));
    }

    #[test]
    fn nothing_is_looked_up_where_others_decide_what_a_name_leads_to() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("file"), "").unwrap();
        symlink(own.join("file"), dir.path().join("link")).unwrap();
        let mounts = MountTable::read().unwrap();
        for (mode, is_found) in [
            (0o755, true),
            (0o777, false),
            (0o1777, true),
            (0o775, false),
        ] {
            fs::set_permissions(&own, fs::Permissions::from_mode(mode)).unwrap();
            for path in [own.join("file"), dir.path().join("link")] {
                let found = LocalFile::find_trusted(&path, &mounts);
                assert_eq!(found.is_ok(), is_found, "{mode:o} {}", path.display());
                let denied = found.err().map(|error| error.kind());
                assert!(is_found || denied == Some(io::ErrorKind::PermissionDenied));
            }
        }
    }

    #[test]
    fn those_decide_what_a_path_leads_to_who_own_its_directories_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "").unwrap();
        symlink("file", path("link")).unwrap();
        let mounts = MountTable::read().unwrap();
        for (name, other, is_its) in [("file", 0, true), ("link", 0, true), ("link", 1, false)] {
            let mut found = LocalFile::find(&path(name), &mounts).unwrap();
            let own = fs::metadata(path("file")).unwrap().uid();
            assert!(found.owners.contains(&own) && found.owners.contains(&0));
            // As if the link were another user's.
            add(&mut found.owners, other * (own + 1));
            assert_eq!(found.is_its_owners(), is_its, "{name}");
        }
    }

    #[test]
    fn a_way_through_too_many_directories_ends() {
        let dir = tempfile::tempdir().unwrap();
        let deep = |depth| dir.path().join(vec!["d"; depth].join("/"));
        fs::create_dir_all(deep(MOST_DIRECTORIES)).unwrap();
        let mounts = MountTable::read().unwrap();
        assert!(LocalFile::find(&deep(MOST_DIRECTORIES - 16), &mounts).is_ok());
        let error = LocalFile::find(&deep(MOST_DIRECTORIES), &mounts)
            .err()
            .unwrap();
        assert_eq!(error.raw_os_error(), Some(libc::ENAMETOOLONG));
    }

    #[test]
    fn file_systems_that_others_serve_are_not_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "").unwrap();
        let known = MountTable::read().unwrap();
        let id = LocalFile::find(&path, &known).unwrap().node.mount;
        // As if the file system that the file is on were of this type.
        for (fs_type, is_asked) in [
            ("ext4", true),
            ("btrfs", true),
            ("overlay", true),
            ("fuse.sshfs", false),
            ("fuse", false),
            ("nfs4", false),
            ("autofs", false),
        ] {
            let mut text = String::new();
            for mount in known.mounts() {
                let fs_type = if u64::from(mount.id) == id {
                    fs_type
                } else {
                    "ext4"
                };
                text += &format!("{} 1 8:1 / /x rw - {fs_type} none rw\n", mount.id);
            }
            let mounts = MountTable::parse(text.as_bytes());
            let found = LocalFile::find(&path, &mounts);
            assert_eq!(found.is_ok(), is_asked, "{fs_type}");
        }
    }
}
