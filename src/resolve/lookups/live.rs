//! The system's directories, for walking through.
//!
//! Directories are opened with O_PATH and without following links, which runs no driver and asks no
//! user-space file system; only names in directories of ext4 are looked up.

use std::collections::HashMap;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, makedev, openat, readlinkat, statx};
use rustix::io::Errno;

use super::walk::{Child, Id, Tree};
use crate::resolve::handle;
use crate::resolve::interpreter;
use crate::resolve::mounts::{MountTable, OpenMount};
use crate::resolve::support::Support;
use crate::trace::Inode;

/// Most directories that are kept open: half of what a process may open by default.
const MOST_OPEN: usize = 512;

/// Bytes of a file's head in which its interpreter is looked for.
const HEAD_BYTES: u64 = 4096;

/// An open directory.
#[derive(Clone, Debug)]
pub struct Dir(Rc<Open>);

#[derive(Debug)]
struct Open {
    fd: OwnedFd,
    id: Id,
    mount: u64,
}

/// What statx(2) tells of a node.
struct Node {
    id: Id,
    mount: u64,
    kind: FileType,
}

/// The directories of this process's mount namespace.
pub struct LiveTree<'a> {
    mounts: &'a MountTable,
    /// A way into each file system; `None` where there is none.
    entrances: HashMap<u64, Option<Rc<OpenMount>>>,
    /// Answers given, and how many directories they hold open.
    known: HashMap<(Id, u64), HashMap<Vec<u8>, Child<Dir>>>,
    open: usize,
}

impl<'a> LiveTree<'a> {
    /// Knows nothing yet.
    pub fn new(mounts: &'a MountTable) -> Self {
        LiveTree {
            mounts,
            entrances: HashMap::new(),
            known: HashMap::new(),
            open: 0,
        }
    }

    /// Opens a directory that a trace names; `None` if it is gone or its file system is left out.
    pub fn directory(&mut self, inode: Inode) -> Option<Dir> {
        if let Some(root) = self
            .own_root()
            .filter(|root| root.0.id == (inode.dev, inode.ino))
        {
            return Some(root);
        }
        let entrance = self.entrance(inode.dev)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd =
            handle::open_by_ino(entrance.fd.as_fd(), inode.ino, inode.generation, flags).ok()?;
        self.opened(fd)
    }

    /// The way to a directory from the root of its file system: that root, and the path from there.
    pub fn way_to(&mut self, dir: &Dir) -> Option<(Dir, Vec<u8>)> {
        let entrance = self.entrance(dir.0.id.0)?;
        if entrance.mount.root != b"/" {
            return None;
        }
        let path = handle::path_in_fs(dir.0.fd.as_fd(), &entrance)?;
        let root = openat(&entrance.fd, ".", PATH_FLAGS, Mode::empty()).ok()?;
        Some((self.opened(root)?, path))
    }

    /// The program interpreter (`PT_INTERP`) that an executable file asks for.
    pub fn interpreter(&mut self, dir: &Dir, name: &[u8]) -> Option<Vec<u8>> {
        let found = openat(&dir.0.fd, name, PATH_FLAGS, Mode::empty()).ok()?;
        let node = look_at(&found)?;
        if node.kind != FileType::RegularFile || node.id.0 != dir.0.id.0 {
            return None;
        }
        // Reopened by its descriptor: it is the very file that was just found to be regular.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&found));
        let fd = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let mut head = Vec::new();
        std::fs::File::from(fd)
            .take(HEAD_BYTES)
            .read_to_end(&mut head)
            .ok()?;
        interpreter::of(&head)
    }

    fn own_root(&mut self) -> Option<Dir> {
        let fd = rustix::fs::open("/", PATH_FLAGS, Mode::empty()).ok()?;
        self.opened(fd)
    }

    fn entrance(&mut self, dev: u64) -> Option<Rc<OpenMount>> {
        let (mounts, usable) = (self.mounts, self.is_usable(dev));
        self.entrances
            .entry(dev)
            .or_insert_with(|| usable.then(|| mounts.open_root(dev).ok().map(Rc::new))?)
            .clone()
    }

    fn is_usable(&self, dev: u64) -> bool {
        self.mounts
            .fs_type(dev)
            .is_some_and(|fs_type| Support::of(fs_type) == Support::Ext4)
    }

    fn opened(&self, fd: OwnedFd) -> Option<Dir> {
        let node = look_at(&fd)?;
        (node.kind == FileType::Directory && self.is_usable(node.id.0)).then(|| {
            Dir(Rc::new(Open {
                fd,
                id: node.id,
                mount: node.mount,
            }))
        })
    }

    fn ask(&self, dir: &Dir, name: &[u8]) -> Child<Dir> {
        let fd = match openat(&dir.0.fd, name, PATH_FLAGS, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Child::Absent,
            // A name that is too long for any directory among others.
            Err(_) => return Child::Elsewhere,
        };
        let Some(node) = look_at(&fd) else {
            return Child::Elsewhere;
        };
        let ino = node.id.1;
        if node.id.0 != dir.0.id.0 || node.mount != dir.0.mount {
            return self.opened(fd).map_or(Child::Elsewhere, Child::Mounted);
        }
        match node.kind {
            FileType::Directory => self.opened(fd).map_or(Child::Elsewhere, Child::Directory),
            FileType::Symlink => match readlinkat(&fd, "", Vec::new()) {
                Ok(target) => Child::Link {
                    ino,
                    target: target.into_bytes(),
                },
                Err(_) => Child::Elsewhere,
            },
            _ => Child::Other { ino },
        }
    }
}

const PATH_FLAGS: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Asks about an open node without asking anybody outside of the kernel.
fn look_at(fd: &OwnedFd) -> Option<Node> {
    // linux/stat.h; not among rustix's flags.
    const AT_STATX_DONT_SYNC: AtFlags = AtFlags::from_bits_retain(0x4000);
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MNT_ID;
    let stat = statx(fd, "", AtFlags::EMPTY_PATH | AT_STATX_DONT_SYNC, wanted).ok()?;
    Some(Node {
        id: (
            makedev(stat.stx_dev_major, stat.stx_dev_minor),
            stat.stx_ino,
        ),
        mount: stat.stx_mnt_id,
        kind: FileType::from_raw_mode(u32::from(stat.stx_mode)),
    })
}

impl Tree for LiveTree<'_> {
    type Dir = Dir;

    fn id(&self, dir: &Dir) -> Id {
        dir.0.id
    }

    fn child(&mut self, dir: &Dir, name: &[u8]) -> Child<Dir> {
        let key = (dir.0.id, dir.0.mount);
        if let Some(child) = self.known.get(&key).and_then(|names| names.get(name)) {
            return child.clone();
        }
        if self.open >= MOST_OPEN {
            self.known.clear();
            self.open = 0;
        }
        let child = self.ask(dir, name);
        self.open += usize::from(matches!(child, Child::Directory(_) | Child::Mounted(_)));
        let names = self.known.entry(key).or_default();
        names.insert(name.to_vec(), child.clone());
        child
    }

    fn parent(&mut self, dir: &Dir) -> Option<Dir> {
        let fd = openat(&dir.0.fd, "..", PATH_FLAGS, Mode::empty()).ok()?;
        self.opened(fd)
    }
}
