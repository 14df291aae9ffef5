//! Files that everybody may read and the administrator alone may change, below a root directory: what a profile that
//! travels may name, where it was learned and where it goes.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, Stat, fstat, openat};

use super::mounts::MountTable;
use super::node::{O_LOOKUP, OpenNode};
use super::root_owned::objection;
use super::safe_open::{READ, SEARCH, may};
use super::support::Support;

/// No user has this id, so that only what everybody may do is allowed to it.
const ANYBODY: u32 = u32::MAX;

/// The tree below a root directory.
pub struct PublicTree<'a> {
    root: OwnedFd,
    mounts: &'a MountTable,
}

/// A file or directory of the tree.
pub struct PublicNode {
    /// Opened with `O_PATH`.
    pub fd: OwnedFd,
    /// Which it is.
    pub node: OpenNode,
    /// Size, times and permissions of the node.
    stat: Stat,
}

/// Why a path leads to nothing that counts, as the end of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotPublic {
    /// There is nothing.
    Missing,
    /// The path leads through a symbolic link.
    Link,
    /// The path leads to no regular file or directory.
    Special,
    /// Not everybody may read it, or others than the administrator may change it or what its path leads to.
    Private,
    /// The path leads to a file system that is not read from a drive.
    Elsewhere,
}

impl fmt::Display for NotPublic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            NotPublic::Missing => "not there",
            NotPublic::Link => "behind a symbolic link",
            NotPublic::Special => "no regular file",
            NotPublic::Private => "not everybody's to read, or others' to change",
            NotPublic::Elsewhere => "on another kind of file system",
        })
    }
}

impl<'a> PublicTree<'a> {
    /// The tree below this directory.
    ///
    /// # Errors
    /// As open(2).
    pub fn open(root: &Path, mounts: &'a MountTable) -> rustix::io::Result<Self> {
        let root = openat(CWD, root, O_LOOKUP, Mode::empty())?;
        Ok(PublicTree { root, mounts })
    }

    /// Root directory of the tree, opened with `O_PATH`.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// The regular file or directory at an absolute path inside. No link is followed, no device or FIFO opened, and no name
    /// is looked up where a server or a user-space process answers.
    ///
    /// # Errors
    /// [`NotPublic`].
    pub fn find(&self, path: &str) -> Result<PublicNode, NotPublic> {
        let mut at = self.open_at(&self.root, ".")?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            if matches!(name, "." | "..") {
                return Err(NotPublic::Missing);
            }
            if at.node.kind != FileType::Directory {
                return Err(NotPublic::Missing);
            }
            check(&at, SEARCH)?;
            at = self.open_at(&at.fd, name)?;
        }
        match at.node.kind {
            FileType::RegularFile => check(&at, READ)?,
            FileType::Directory => check(&at, READ | SEARCH)?,
            FileType::Symlink => return Err(NotPublic::Link),
            _ => return Err(NotPublic::Special),
        }
        Ok(at)
    }

    fn open_at(&self, dir: &OwnedFd, name: &str) -> Result<PublicNode, NotPublic> {
        let fd = openat(dir, name, O_LOOKUP, Mode::empty()).map_err(|_| NotPublic::Missing)?;
        let node = OpenNode::of(&fd).map_err(|_| NotPublic::Missing)?;
        // fstat(2) asks a server, which may not answer.
        if !self.can_be_walked(&node) {
            return Err(NotPublic::Elsewhere);
        }
        if node.kind == FileType::Symlink {
            return Err(NotPublic::Link);
        }
        let stat = fstat(&fd).map_err(|_| NotPublic::Missing)?;
        Ok(PublicNode { fd, node, stat })
    }

    fn can_be_walked(&self, node: &OpenNode) -> bool {
        let mount = u32::try_from(node.mount).ok();
        let mount = mount.and_then(|id| self.mounts.by_id(id));
        // Of a mount that is not in the table, nobody knows who answers.
        mount.is_some_and(|mount| Support::can_be_walked(&mount.fs_type))
    }
}

fn check(at: &PublicNode, permission: u32) -> Result<(), NotPublic> {
    let is_public = objection(&at.stat).is_none() && may(&at.fd, &at.stat, ANYBODY, permission);
    is_public.then_some(()).ok_or(NotPublic::Private)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::mknodat;

    use super::*;

    #[test]
    fn only_what_everybody_may_read_and_nobody_else_may_change_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let set =
            |name: &str, mode| fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        for name in ["open", "closed", "shared"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("file"), "content").unwrap();
            set(&format!("{name}/file"), 0o644);
        }
        fs::write(at("open/private"), "").unwrap();
        symlink("file", at("open/link")).unwrap();
        symlink("open", at("way")).unwrap();
        let fifo = at("open/fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
        for (name, mode) in [
            (".", 0o755),
            ("open", 0o755),
            ("closed", 0o700),
            ("shared", 0o1777),
            ("open/private", 0o640),
        ] {
            set(name, mode);
        }
        let mounts = mounted(dir.path(), "ext4");
        let tree = PublicTree::open(dir.path(), &mounts).unwrap();
        for (path, expected) in [
            ("/open/file", None),
            ("/open", None),
            ("/", None),
            ("/open/none", Some(NotPublic::Missing)),
            ("/open/file/below", Some(NotPublic::Missing)),
            ("/open/../open/file", Some(NotPublic::Missing)),
            ("/open/link", Some(NotPublic::Link)),
            ("/way/file", Some(NotPublic::Link)),
            ("/open/fifo", Some(NotPublic::Special)),
            ("/open/private", Some(NotPublic::Private)),
            ("/closed/file", Some(NotPublic::Private)),
            ("/shared/file", Some(NotPublic::Private)),
        ] {
            assert_eq!(tree.find(path).err(), expected, "{path}");
        }
        assert_eq!(tree.find("/open/file").unwrap().stat.st_size, 7);
    }

    /// The table of a system on which the mount of a directory is of this type.
    fn mounted(dir: &Path, fs_type: &str) -> MountTable {
        let dir = openat(CWD, dir, O_LOOKUP, Mode::empty()).unwrap();
        let mount = OpenNode::of(&dir).unwrap().mount;
        MountTable::parse(format!("{mount} 1 0:1 / / rw - {fs_type} x rw\n").as_bytes())
    }

    #[test]
    fn nothing_is_asked_of_a_server_or_of_a_mount_that_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        for mounts in [mounted(dir.path(), "fuse.sshfs"), MountTable::parse(b"")] {
            let tree = PublicTree::open(dir.path(), &mounts).unwrap();
            for path in ["/", "/absent"] {
                assert_eq!(tree.find(path).err(), Some(NotPublic::Elsewhere), "{path}");
            }
        }
    }
}
