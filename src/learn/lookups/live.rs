//! The running system's directories, to walk paths through.
//!
//! Directories are opened with O_PATH and without following links, which runs no driver. Names are looked up
//! only in file systems that the kernel serves alone: neither over a network nor by a user-space process.

use std::collections::HashMap;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{FileType, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use super::walk::{ChildNode, Id, Tree};
use crate::fs::handle;
use crate::fs::mounts::{MountTable, OpenMount};
use crate::fs::open_mount::{O_LOOKUP, stat_node};
use crate::fs::support::Support;
use crate::learn::interpreter;
use crate::model::InodeId;

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

/// The directories of a mount namespace.
pub struct LiveTree {
    mounts: MountTable,
    /// Open mounts, by their numbers.
    open_mounts: HashMap<u32, Rc<OpenMount>>,
    /// A mount of each file system, whichever can be opened; `None` if none can. Only in our own namespace.
    any_mounts: Option<HashMap<u64, Option<Rc<OpenMount>>>>,
    /// Answers so far, and how many directories they keep open.
    known: HashMap<(Id, u64), HashMap<Vec<u8>, ChildNode<Dir>>>,
    open: usize,
}

impl LiveTree {
    /// The directories of our own mount namespace; `open` are mounts that paths start from.
    pub fn new(mounts: MountTable, open: Vec<OpenMount>) -> Self {
        LiveTree {
            any_mounts: Some(HashMap::new()),
            ..LiveTree::of_namespace(mounts, open)
        }
    }

    /// The directories of another mount namespace: only the mounts in `open` can be entered, and what is
    /// mounted below them.
    pub fn of_namespace(mounts: MountTable, open: Vec<OpenMount>) -> Self {
        let open = open.into_iter();
        let by_id = open.map(|mount| (mount.mount.id, Rc::new(mount)));
        LiveTree {
            mounts,
            open_mounts: by_id.collect(),
            any_mounts: None,
            known: HashMap::new(),
            open: 0,
        }
    }

    /// Whether a mount is open.
    pub fn is_open(&self, mount: u32) -> bool {
        self.open_mounts.contains_key(&mount)
    }

    /// Opens a directory that a trace names, in the mount that it was reached through if that is open;
    /// `None` if it is gone or its file system is left out.
    pub fn directory(&mut self, inode: InodeId, mount: u32) -> Option<Dir> {
        let id = (inode.dev, inode.ino);
        let mount = self.open_mounts.get(&mount).cloned();
        let mount = mount.filter(|open| open.mount.dev == inode.dev);
        let top = mount.as_ref().and_then(|mount| self.root_of(mount));
        let root = || self.any_mounts.as_ref().and_then(|_| self.own_root());
        for known in [top, root()].into_iter().flatten() {
            if known.0.id == id {
                return Some(known);
            }
        }
        if !self.is_ext4(inode.dev) {
            return None;
        }
        let mount = mount.or_else(|| self.any_mount(inode.dev))?;
        let flags = O_LOOKUP | OFlags::DIRECTORY;
        let fd = handle::open_by_ino(mount.fd.as_fd(), inode.ino, inode.generation, flags).ok()?;
        self.opened(fd)
    }

    /// The path to a directory from the root of its mount: that root, and the path from there.
    pub fn path_to(&mut self, dir: &Dir) -> Option<(Dir, Vec<u8>)> {
        let mount = u32::try_from(dir.0.mount).ok()?;
        let mount = self.open_mounts.get(&mount).cloned();
        let mount = mount.or_else(|| self.any_mount(dir.0.id.0))?;
        let path = handle::path_in_fs(dir.0.fd.as_fd(), &mount)?;
        let below = path.strip_prefix(mount.mount.root.as_slice())?.to_vec();
        Some((self.root_of(&mount)?, below))
    }

    /// Whether the device has a file system whose metadata can be found.
    pub fn is_ext4(&self, dev: u64) -> bool {
        self.mounts
            .fs_type(dev)
            .is_some_and(|fs_type| Support::of(fs_type) == Support::Ext4)
    }

    fn root_of(&self, mount: &OpenMount) -> Option<Dir> {
        self.opened(openat(&mount.fd, ".", O_LOOKUP, Mode::empty()).ok()?)
    }

    /// The program interpreter (`PT_INTERP`) that an executable file asks for.
    pub fn interpreter(&mut self, dir: &Dir, name: &[u8]) -> Option<Vec<u8>> {
        let found = openat(&dir.0.fd, name, O_LOOKUP, Mode::empty()).ok()?;
        let node = stat_node(&found)?;
        if node.kind != FileType::RegularFile || node.dev != dir.0.id.0 {
            return None;
        }
        // Reopened by its descriptor, so that it is the very file that was just found to be regular.
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

    fn own_root(&self) -> Option<Dir> {
        let fd = rustix::fs::open("/", O_LOOKUP, Mode::empty()).ok()?;
        self.opened(fd)
    }

    fn any_mount(&mut self, dev: u64) -> Option<Rc<OpenMount>> {
        let usable = self.is_ext4(dev);
        let mounts = &self.mounts;
        self.any_mounts
            .as_mut()?
            .entry(dev)
            .or_insert_with(|| usable.then(|| mounts.open_root(dev).ok().map(Rc::new))?)
            .clone()
    }

    fn opened(&self, fd: OwnedFd) -> Option<Dir> {
        let node = stat_node(&fd)?;
        let fs_type = self.mounts.fs_type(node.dev)?;
        (node.kind == FileType::Directory && Support::can_be_walked(fs_type)).then(|| {
            Dir(Rc::new(Open {
                fd,
                id: (node.dev, node.ino),
                mount: node.mount,
            }))
        })
    }

    fn ask(&self, dir: &Dir, name: &[u8]) -> ChildNode<Dir> {
        let fd = match openat(&dir.0.fd, name, O_LOOKUP, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return ChildNode::Absent,
            // Such as a name that is too long for any directory.
            Err(_) => return ChildNode::Elsewhere,
        };
        let Some(node) = stat_node(&fd) else {
            return ChildNode::Elsewhere;
        };
        let ino = node.ino;
        if node.dev != dir.0.id.0 || node.mount != dir.0.mount {
            return self
                .opened(fd)
                .map_or(ChildNode::Elsewhere, ChildNode::Mounted);
        }
        match node.kind {
            FileType::Directory => self
                .opened(fd)
                .map_or(ChildNode::Elsewhere, ChildNode::Directory),
            FileType::Symlink => match readlinkat(&fd, "", Vec::new()) {
                Ok(target) => ChildNode::Link {
                    ino,
                    target: target.into_bytes(),
                },
                Err(_) => ChildNode::Elsewhere,
            },
            _ => ChildNode::Other { ino },
        }
    }
}

impl Tree for LiveTree {
    type Dir = Dir;

    fn id(&self, dir: &Dir) -> Id {
        dir.0.id
    }

    fn child(&mut self, dir: &Dir, name: &[u8]) -> ChildNode<Dir> {
        let key = (dir.0.id, dir.0.mount);
        if let Some(child) = self.known.get(&key).and_then(|names| names.get(name)) {
            return child.clone();
        }
        if self.open >= MOST_OPEN {
            self.known.clear();
            self.open = 0;
        }
        let child = self.ask(dir, name);
        self.open += usize::from(matches!(
            child,
            ChildNode::Directory(_) | ChildNode::Mounted(_)
        ));
        let names = self.known.entry(key).or_default();
        names.insert(name.to_vec(), child.clone());
        child
    }

    fn parent(&mut self, dir: &Dir) -> Option<Dir> {
        let fd = openat(&dir.0.fd, "..", O_LOOKUP, Mode::empty()).ok()?;
        self.opened(fd)
    }
}
