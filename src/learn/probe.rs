//! The running system's answers to the questions of making a launch sequence.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use super::sequence::{Dependencies, FileFacts, NoFacts};
use crate::fs::ext4::{Ext4, Ext4Error};
use crate::fs::kind::FsKind;
use crate::fs::mounts::{MountTable, OpenMount, fs_uuid};
use crate::fs::support::Support;
use crate::fs::{blockdev, fiemap, handle, residency};
use crate::model::{Device, DriveClass, InodeId, PAGE_SIZE};

/// Asks the kernel, each question once.
pub struct LiveProbe<'a> {
    mounts: &'a MountTable,
    class: &'a dyn Fn(u64) -> DriveClass,
    /// Files with later times were written in the launch; nanoseconds since the epoch.
    written_since_ns: i64,
    devices: HashMap<u64, Result<Rc<OpenFs>, NoFacts>>,
    /// Whether it takes too long: nothing is asked any more.
    pub(super) is_late: &'a dyn Fn() -> bool,
    /// What to tell the user, a line each.
    pub warnings: Vec<String>,
    /// Devices and consequences that were warned about: one warning of each kind is enough.
    warned: HashSet<(u64, &'static str)>,
}

/// A file system that can be prefetched.
struct OpenFs {
    kind: FsKind,
    device: Rc<Device>,
    mount: OpenMount,
    /// `None` if the block device cannot be read, or holds another kind of file system.
    ext4: Option<Ext4>,
    /// Whether metadata can be prefetched through the block device.
    has_metadata: bool,
}

impl<'a> LiveProbe<'a> {
    /// `started` is the launch's start.
    pub fn new(
        mounts: &'a MountTable,
        class: &'a dyn Fn(u64) -> DriveClass,
        started: SystemTime,
        is_late: &'a dyn Fn() -> bool,
    ) -> Self {
        // A clock before 1970 or after 2262 was never set: then everything counts as written since, or
        // nothing.
        let launch_ns = started.duration_since(UNIX_EPOCH).map_or(0, |since| {
            i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
        });
        LiveProbe {
            mounts,
            class,
            written_since_ns: launch_ns.saturating_sub(handle::COARSE_CLOCK_NS),
            devices: HashMap::new(),
            is_late,
            warnings: Vec::new(),
            warned: HashSet::new(),
        }
    }

    /// Whether it takes too long, so that no question is answered any more.
    pub fn is_late(&self) -> bool {
        (self.is_late)()
    }

    fn device(&mut self, dev: u64) -> Result<Rc<OpenFs>, NoFacts> {
        if self.is_late() {
            return Err(NoFacts::UnknownDevice);
        }
        if let Some(answer) = self.devices.get(&dev) {
            return answer.clone();
        }
        let answer = self.open_device(dev).map(Rc::new);
        self.devices.insert(dev, answer.clone());
        answer
    }

    fn open_device(&mut self, dev: u64) -> Result<OpenFs, NoFacts> {
        let fs = self.mounts.fs_type(dev).ok_or(NoFacts::UnknownDevice)?;
        let (fs, support) = (fs.to_owned(), Support::of(fs));
        let Support::Served(kind) = support else {
            return Err(NoFacts::FileSystem(fs, support));
        };
        let mount = self.mounts.open_root(dev).map_err(|error| {
            self.warn::<()>(dev, "its files are left out", error);
            NoFacts::UnknownDevice
        })?;
        let fs_uuid = fs_uuid(mount.fd.as_fd()).unwrap_or_else(|error| {
            let consequence = "it will not be found again under another number";
            self.warn::<()>(dev, consequence, error);
            [0; 16]
        });
        let ext4 = kind.has_layout().then(|| Ext4::of_device(dev, self.mounts));
        let ext4 = match ext4.transpose() {
            Ok(ext4) => ext4,
            Err(error) => self.warn(dev, "paths are looked up in place of its metadata", error),
        };
        let device = Device {
            dev,
            name: blockdev::name(blockdev::below(dev, self.mounts)),
            fs,
            fs_uuid,
            class: (self.class)(dev),
        };
        let has_metadata = match kind.has_layout() {
            true => ext4.is_some(),
            false => kind.has_metadata() && blockdev::node(dev, self.mounts).is_some(),
        };
        Ok(OpenFs {
            has_metadata,
            kind,
            device: Rc::new(device),
            mount,
            ext4,
        })
    }

    /// Warns, and gives no answer.
    fn warn<T>(&mut self, dev: u64, consequence: &'static str, error: impl Display) -> Option<T> {
        if self.warned.insert((dev, consequence)) {
            self.warnings
                .push(format!("{}: {consequence}: {error}", blockdev::name(dev)));
        }
        None
    }

    /// What is known of a file or of a device's metadata; see [`super::sequence::Probe`].
    pub fn look_at(
        &mut self,
        key: InodeId,
        pages: &[Range<u64>],
        windows: &[Range<u64>],
    ) -> Result<(Rc<Device>, FileFacts), NoFacts> {
        let fs = self.device(key.dev)?;
        let device = Rc::clone(&fs.device);
        if key.ino == 0 {
            let of_device = fs.has_metadata.then(|| (device, FileFacts::default()));
            return of_device.ok_or(NoFacts::Metadata);
        }
        let opened = handle::open_cached_file(&fs.mount, key.ino, key.generation);
        let file = opened.map_err(|error| {
            // STALE: also a symbolic link, whose target the page cache holds as it does a file's data.
            let expected = [Errno::STALE, Errno::NOENT];
            if !Errno::from_io_error(&error).is_some_and(|errno| expected.contains(&errno)) {
                let consequence = "files cannot be opened by inode number and are left out";
                self.warn::<()>(key.dev, consequence, error);
            }
            NoFacts::Gone
        })?;
        if file.mtime_ns.max(file.ctime_ns) >= self.written_since_ns {
            return Err(NoFacts::Written);
        }
        const NOT_CACHED: &str = "the cached pages of files are unknown and left out";
        const NOT_PLACED: &str = "the disk positions of files are unknown, they are left out";
        let (fd, end) = (file.fd.as_fd(), file.size.div_ceil(PAGE_SIZE));
        let cached = each(windows, end, |range| residency::cached(fd, range));
        let cached = self.known(key.dev, NOT_CACHED, cached).unwrap_or_default();
        let extents = fs.kind.has_places().then(|| {
            let extents = each(pages, end, |range| {
                fiemap::extents(fd, range.start, range.end - range.start)
            });
            let mut extents = self.known(key.dev, NOT_PLACED, extents).unwrap_or_default();
            // Questions about ranges near to each other may find the same extent.
            extents.dedup_by_key(|extent| extent.logical);
            extents
        });
        let facts = FileFacts {
            size: file.size,
            mtime_ns: file.mtime_ns,
            is_roots: file.uid == 0,
            path: handle::path_in_fs(fd, &fs.mount),
            cached: cached.into_iter().collect(),
            extents,
            dependencies: self.dependencies(key, &fs),
        };
        Ok((device, facts))
    }

    /// The metadata that a file's data depend on; none where they cannot be read.
    pub fn dependencies_of(&mut self, key: InodeId) -> Dependencies {
        let fs = self.device(key.dev);
        fs.map_or_else(
            |_| Dependencies::default(),
            |fs| self.dependencies(key, &fs),
        )
    }

    fn dependencies(&mut self, key: InodeId, fs: &OpenFs) -> Dependencies {
        let Some(ext4) = &fs.ext4 else {
            return Dependencies::default();
        };
        let block = self.known(key.dev, NOT_FOUND, ext4.inode_block(key.ino));
        let nodes = self.known(key.dev, NOT_FOUND, ext4.extent_nodes(key.ino));
        Dependencies::new(block, &nodes.unwrap_or_default(), ext4.block_size())
    }

    /// Whether the blocks of the device that a look-up reads can be found: by the layout of its file system, if it can be
    /// read.
    pub fn finds_blocks(&mut self, dev: u64) -> bool {
        self.device(dev).is_ok_and(|fs| fs.ext4.is_some())
    }

    /// A device whose file system is served.
    pub fn served(&mut self, dev: u64) -> Option<Rc<Device>> {
        self.device(dev).ok().map(|fs| Rc::clone(&fs.device))
    }

    /// Asks the file system on a device about its metadata. `None` if it cannot tell, which is warned about,
    /// or if its metadata are left out.
    pub fn ask_ext4<T>(
        &mut self,
        dev: u64,
        ask: impl FnOnce(&Ext4) -> Result<T, Ext4Error>,
    ) -> Option<T> {
        let fs = self.device(dev).ok()?;
        self.known(dev, NOT_FOUND, ask(fs.ext4.as_ref()?))
    }

    fn known<T>(
        &mut self,
        dev: u64,
        consequence: &'static str,
        answer: Result<T, impl Display>,
    ) -> Option<T> {
        match answer {
            Ok(known) => Some(known),
            Err(error) => self.warn(dev, consequence, error),
        }
    }
}

const NOT_FOUND: &str = "some missing metadata are not found";

/// Asks about each range up to page `end`, and joins the answers.
fn each<T>(
    ranges: &[Range<u64>],
    end: u64,
    ask: impl Fn(&Range<u64>) -> io::Result<Vec<T>>,
) -> io::Result<Vec<T>> {
    let mut answers = Vec::new();
    for range in ranges {
        let range = range.start..range.end.min(end);
        if !range.is_empty() {
            answers.extend(ask(&range)?);
        }
    }
    Ok(answers)
}
