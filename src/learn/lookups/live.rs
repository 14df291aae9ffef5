//! The system's directories, for walking through.
//!
//! Directories are opened with O_PATH and without following links, which runs no driver and asks no
//! user-space file system; only names in directories of file systems that this kernel alone serves are
//! looked up.

use std::collections::HashMap;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{FileType, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use super::walk::{ChildNode, Id, Tree};
use crate::fs::handle;
use crate::fs::mounts::{MountTable, OpenMount};
use crate::fs::open_mount::{LOOK, look_at};
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
    /// Ways into mounts, by their numbers.
    doors: HashMap<u32, Rc<OpenMount>>,
    /// Ways into file systems by whatever mount, in our own namespace; `None` where there is none.
    entrances: Option<HashMap<u64, Option<Rc<OpenMount>>>>,
    /// Answers given, and how many directories they hold open.
    known: HashMap<(Id, u64), HashMap<Vec<u8>, ChildNode<Dir>>>,
    open: usize,
}

impl LiveTree {
    /// The directories of our own mount namespace, with these of its mounts open.
    pub fn new(mounts: MountTable, doors: Vec<OpenMount>) -> Self {
        LiveTree {
            entrances: Some(HashMap::new()),
            ..LiveTree::elsewhere(mounts, doors)
        }
    }

    /// The directories of another mount namespace: only these of its mounts can be entered, and those
    /// that lie in them.
    pub fn elsewhere(mounts: MountTable, doors: Vec<OpenMount>) -> Self {
        let doors = doors.into_iter().map(|door| (door.mount.id, Rc::new(door)));
        LiveTree {
            mounts,
            doors: doors.collect(),
            entrances: None,
            known: HashMap::new(),
            open: 0,
        }
    }

    /// Whether a mount can be entered.
    pub fn has_door(&self, mount: u32) -> bool {
        self.doors.contains_key(&mount)
    }

    /// Opens a directory that a trace names, in the mount that it was reached through if that is open;
    /// `None` if it is gone or its file system is left out.
    pub fn directory(&mut self, inode: InodeId, mount: u32) -> Option<Dir> {
        let id = (inode.dev, inode.ino);
        let door = self.doors.get(&mount).cloned();
        let door = door.filter(|door| door.mount.dev == inode.dev);
        let top = door.as_ref().and_then(|door| self.top_of(door));
        let root = || self.entrances.as_ref().and_then(|_| self.own_root());
        for known in [top, root()].into_iter().flatten() {
            if known.0.id == id {
                return Some(known);
            }
        }
        if !self.is_ext4(inode.dev) {
            return None;
        }
        let door = door.or_else(|| self.entrance(inode.dev))?;
        let flags = LOOK | OFlags::DIRECTORY;
        let fd = handle::open_by_ino(door.fd.as_fd(), inode.ino, inode.generation, flags).ok()?;
        self.opened(fd)
    }

    /// The way to a directory from the root of its mount: that root, and the path from there.
    pub fn way_to(&mut self, dir: &Dir) -> Option<(Dir, Vec<u8>)> {
        let mount = u32::try_from(dir.0.mount).ok()?;
        let door = self.doors.get(&mount).cloned();
        let door = door.or_else(|| self.entrance(dir.0.id.0))?;
        let path = handle::path_in_fs(dir.0.fd.as_fd(), &door)?;
        let way = path.strip_prefix(door.mount.root.as_slice())?.to_vec();
        Some((self.top_of(&door)?, way))
    }

    /// Whether the device has a file system of which the metadata can be found.
    pub fn is_ext4(&self, dev: u64) -> bool {
        self.mounts
            .fs_type(dev)
            .is_some_and(|fs_type| Support::of(fs_type) == Support::Ext4)
    }

    fn top_of(&self, door: &OpenMount) -> Option<Dir> {
        self.opened(openat(&door.fd, ".", LOOK, Mode::empty()).ok()?)
    }

    /// The program interpreter (`PT_INTERP`) that an executable file asks for.
    pub fn interpreter(&mut self, dir: &Dir, name: &[u8]) -> Option<Vec<u8>> {
        let found = openat(&dir.0.fd, name, LOOK, Mode::empty()).ok()?;
        let node = look_at(&found)?;
        if node.kind != FileType::RegularFile || node.dev != dir.0.id.0 {
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

    fn own_root(&self) -> Option<Dir> {
        let fd = rustix::fs::open("/", LOOK, Mode::empty()).ok()?;
        self.opened(fd)
    }

    fn entrance(&mut self, dev: u64) -> Option<Rc<OpenMount>> {
        let usable = self.is_ext4(dev);
        let mounts = &self.mounts;
        self.entrances
            .as_mut()?
            .entry(dev)
            .or_insert_with(|| usable.then(|| mounts.open_root(dev).ok().map(Rc::new))?)
            .clone()
    }

    fn opened(&self, fd: OwnedFd) -> Option<Dir> {
        let node = look_at(&fd)?;
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
        let fd = match openat(&dir.0.fd, name, LOOK, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return ChildNode::Absent,
            // A name that is too long for any directory among others.
            Err(_) => return ChildNode::Elsewhere,
        };
        let Some(node) = look_at(&fd) else {
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
        let fd = openat(&dir.0.fd, "..", LOOK, Mode::empty()).ok()?;
        self.opened(fd)
    }
}
