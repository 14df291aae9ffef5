//! The running system's directories, to walk paths through.
//!
//! Directories are opened with O_PATH and without following links, which runs no driver; of files, only programs that were
//! executed and their libraries are opened to be read. Names are looked up only in file systems that the kernel serves alone:
//! neither over a network nor by a user-space process.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;

use super::need::Id;
use crate::fs::handle;
use crate::fs::kind::FsKind;
use crate::fs::mounts::{MountTable, OpenMount};
use crate::fs::node::{O_LOOKUP, OpenNode};
use crate::fs::safe_open::{self, SEARCH, may, own_path};
use crate::fs::support::Support;
use crate::model::InodeId;

/// Most directories that are kept open: half of what a process may open by default.
const MOST_OPEN: usize = 512;

/// Most starting directories that are kept open.
const MOST_STARTS: usize = 128;

/// An open directory.
pub type Dir = Rc<OpenDir>;

/// A directory in which names can be looked up.
#[derive(Debug)]
pub struct OpenDir {
    fd: OwnedFd,
    /// Which directory it is.
    pub id: Id,
    mount: u64,
    /// Whether the user of [`Directories::new`] may look names up in it.
    can_search: bool,
}

/// What a name in a directory refers to.
#[derive(Clone, Debug)]
pub enum ChildNode {
    /// Nothing.
    Absent,
    /// A directory of the same file system.
    Directory(Dir),
    /// A directory on which another file system is mounted: the root of that. The covered name stays in
    /// memory as long as the file system is mounted.
    Mounted(Dir),
    /// A symbolic link, by its inode number.
    Link { ino: u64, target: Vec<u8> },
    /// Anything else with an inode of this number on the same file system.
    Other(u64),
    /// Something that must not be examined: it is on a file system that is left out, or cannot be opened.
    Elsewhere,
}

/// The directories of a mount namespace.
pub struct Directories {
    mounts: MountTable,
    uid: u32,
    /// Open mounts, by their numbers.
    open_mounts: HashMap<u32, Rc<OpenMount>>,
    /// A mount of each file system, whichever can be opened; `None` if none can. Only in our own namespace.
    any_mounts: Option<HashMap<u64, Option<Rc<OpenMount>>>>,
    /// Directories that paths start from.
    starts: HashMap<(InodeId, u32), Option<Dir>>,
    /// Answers so far, and how many directories they keep open.
    known: HashMap<(Id, u64), HashMap<Vec<u8>, ChildNode>>,
    open: usize,
    /// Directories in which names were looked up, by their paths from the roots of their file systems.
    paths: HashMap<Id, Vec<u8>>,
}

impl Directories {
    /// The directories of a mount namespace with the given table; `open` are mounts that paths start from.
    /// Of a namespace that is not ours, only these can be entered, and what is mounted below them. Nothing is looked
    /// up where the user `uid` could not do so himself.
    pub fn new(mounts: MountTable, open: Vec<OpenMount>, is_ours: bool, uid: u32) -> Self {
        let open = open.into_iter();
        let by_id = open.map(|mount| (mount.mount.id, Rc::new(mount)));
        Directories {
            mounts,
            uid,
            open_mounts: by_id.collect(),
            any_mounts: is_ours.then(HashMap::new),
            starts: HashMap::new(),
            known: HashMap::new(),
            open: 0,
            paths: HashMap::new(),
        }
    }

    /// Those of one file system, as if it were ext4, and the directory at `top` in it.
    #[cfg(test)]
    pub fn of_one_fs(top: &std::path::Path) -> (Self, Dir) {
        use std::os::unix::fs::MetadataExt;

        let dev = top.metadata().unwrap().dev();
        let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
        let table = format!("20 1 {major}:{minor} / / rw - ext4 /dev/x rw\n");
        let mounts = MountTable::parse(table.as_bytes());
        let uid = rustix::process::geteuid().as_raw();
        let directories = Directories::new(mounts, Vec::new(), true, uid);
        let top = rustix::fs::open(top, O_LOOKUP, Mode::empty()).unwrap();
        let top = directories.opened(top).unwrap();
        (directories, top)
    }

    /// Whether a mount is open.
    pub fn is_open(&self, mount: u32) -> bool {
        self.open_mounts.contains_key(&mount)
    }

    /// Whether the device has a file system whose metadata can be found.
    pub fn has_metadata(&self, dev: u64) -> bool {
        self.mounts.kind(dev).is_some_and(FsKind::has_layout)
    }

    /// Whether the device has a file system that is served.
    pub fn is_served(&self, dev: u64) -> bool {
        self.mounts.kind(dev).is_some()
    }

    /// The directories in which names were looked up, and those that were noted, by their paths from the roots of their
    /// file systems. Those whose paths are unknown are left out.
    pub fn into_paths(self) -> HashMap<Id, Vec<u8>> {
        self.paths
    }

    /// Notes the path of a directory from the root of its file system.
    pub fn note_path(&mut self, dir: &Dir) {
        if !self.paths.contains_key(&dir.id)
            && let Some(path) = self.shown_path(dir)
        {
            self.paths.insert(dir.id, path);
        }
    }

    /// As the kernel shows it. It is text, of which nobody may conclude which directory it leads to by now.
    fn shown_path(&self, dir: &Dir) -> Option<Vec<u8>> {
        let mount = self.mounts.by_id(u32::try_from(dir.mount).ok()?)?;
        let shown = std::fs::read_link(own_path(&dir.fd)).ok()?;
        let below = shown.strip_prefix(&mount.mount_point).ok()?;
        Some(handle::joined(&mount.root, below.as_os_str().as_bytes()))
    }

    /// A directory that a trace names, in the mount that it was reached through if that is open; `None` if it is
    /// gone or its file system is left out.
    pub fn start(&mut self, inode: InodeId, mount: u32) -> Option<Dir> {
        if let Some(opened) = self.starts.get(&(inode, mount)) {
            return opened.clone();
        }
        if self.starts.len() >= MOST_STARTS {
            self.starts.clear();
        }
        let opened = self.directory(inode, mount);
        self.starts.insert((inode, mount), opened.clone());
        opened
    }

    fn directory(&mut self, inode: InodeId, mount: u32) -> Option<Dir> {
        let mount = self.open_mounts.get(&mount).cloned();
        let mount = mount.filter(|open| open.mount.dev == inode.dev);
        let top = mount.as_ref().and_then(|mount| self.root_of(mount));
        let own_root = self
            .any_mounts
            .as_ref()
            .and_then(|_| self.opened(rustix::fs::open("/", O_LOOKUP, Mode::empty()).ok()?));
        for known in [top, own_root].into_iter().flatten() {
            if known.id == (inode.dev, inode.ino) {
                return Some(known);
            }
        }
        self.mounts.kind(inode.dev)?;
        let mount = mount.or_else(|| self.any_mount(inode.dev))?;
        let fd = handle::open_by_ino(&mount, inode.ino, inode.generation).ok()?;
        self.opened(fd)
    }

    /// The path to a directory from the root of its mount: that root, and the path from there.
    pub fn path_to(&mut self, dir: &Dir) -> Option<(Dir, Vec<u8>)> {
        let mount = u32::try_from(dir.mount).ok()?;
        let mount = self.open_mounts.get(&mount).cloned();
        let mount = mount.or_else(|| self.any_mount(dir.id.0))?;
        let path = handle::path_in_fs(dir.fd.as_fd(), &mount)?;
        self.below(&mount, &path)
    }

    /// A directory of the file system with this device, and the path from there for one from the file system's root.
    pub fn in_fs(&mut self, dev: u64, path: &[u8]) -> Option<(Dir, Vec<u8>)> {
        let mount = self.any_mount(dev)?;
        self.below(&mount, path)
    }

    /// What `name`, which is neither `.` nor `..`, refers to in the directory.
    pub fn child(&mut self, dir: &Dir, name: &[u8]) -> ChildNode {
        if !dir.can_search {
            return ChildNode::Elsewhere;
        }
        self.note_path(dir);
        let key = (dir.id, dir.mount);
        if let Some(child) = self.known.get(&key).and_then(|names| names.get(name)) {
            return child.clone();
        }
        if self.open >= MOST_OPEN {
            self.known.clear();
            self.open = 0;
        }
        let child = self.ask(dir, name);
        let is_open = matches!(child, ChildNode::Directory(_) | ChildNode::Mounted(_));
        self.open += usize::from(is_open);
        let names = self.known.entry(key).or_default();
        names.insert(name.to_vec(), child.clone());
        child
    }

    /// The directory above; `None` if it must not be examined.
    pub fn parent(&self, dir: &Dir) -> Option<Dir> {
        let fd = dir
            .can_search
            .then(|| openat(&dir.fd, "..", O_LOOKUP, Mode::empty()).ok())?;
        self.opened(fd?)
    }

    /// The regular file of this name, a program or a library, to be read.
    pub fn program(&self, dir: &Dir, name: &[u8]) -> Option<OwnedFd> {
        let found = openat(&dir.fd, name, O_LOOKUP, Mode::empty()).ok()?;
        // Another file system may be mounted on a file, too.
        (OpenNode::of(&found).ok()?.dev == dir.id.0).then_some(())?;
        let (file, _) = safe_open::regular(&found, OFlags::NOATIME).ok()??;
        Some(file)
    }

    fn below(&self, mount: &OpenMount, path: &[u8]) -> Option<(Dir, Vec<u8>)> {
        let below = path.strip_prefix(mount.mount.root.as_slice())?.to_vec();
        Some((self.root_of(mount)?, below))
    }

    fn root_of(&self, mount: &OpenMount) -> Option<Dir> {
        self.opened(openat(&mount.fd, ".", O_LOOKUP, Mode::empty()).ok()?)
    }

    fn any_mount(&mut self, dev: u64) -> Option<Rc<OpenMount>> {
        let usable = self.mounts.kind(dev).is_some();
        let mounts = &self.mounts;
        self.any_mounts
            .as_mut()?
            .entry(dev)
            .or_insert_with(|| usable.then(|| mounts.open_root(dev).ok().map(Rc::new))?)
            .clone()
    }

    /// The directory behind a descriptor that was opened with [`O_LOOKUP`], unless it must not be examined.
    pub fn opened(&self, fd: OwnedFd) -> Option<Dir> {
        let node = OpenNode::of(&fd).ok()?;
        let fs_type = self.mounts.fs_type(node.dev)?;
        let (id, mount) = ((node.dev, node.ino), node.mount);
        if node.kind != FileType::Directory || !Support::can_be_walked(fs_type) {
            return None;
        }
        let can_search = may(&fd, &fstat(&fd).ok()?, self.uid, SEARCH);
        Some(Rc::new(OpenDir {
            fd,
            id,
            mount,
            can_search,
        }))
    }

    fn ask(&self, dir: &Dir, name: &[u8]) -> ChildNode {
        let fd = match openat(&dir.fd, name, O_LOOKUP, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return ChildNode::Absent,
            // Such as a name that is too long for any directory.
            Err(_) => return ChildNode::Elsewhere,
        };
        let Ok(node) = OpenNode::of(&fd) else {
            return ChildNode::Elsewhere;
        };
        let known = if node.dev != dir.id.0 || node.mount != dir.mount {
            self.opened(fd).map(ChildNode::Mounted)
        } else if node.kind == FileType::Directory {
            self.opened(fd).map(ChildNode::Directory)
        } else if node.kind == FileType::Symlink {
            let target = readlinkat(&fd, "", Vec::new()).ok();
            target.map(|target| ChildNode::Link {
                ino: node.ino,
                target: target.into_bytes(),
            })
        } else {
            Some(ChildNode::Other(node.ino))
        };
        known.unwrap_or(ChildNode::Elsewhere)
    }
}
