//! The running system's answers to the questions of making a launch sequence.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, fstat};
use rustix::io::Errno;

use super::sequence::{Dependencies, DeviceState, FileFacts, FileState, Probe};
use crate::fs::ext4::{Ext4, Ext4Error};
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
    devices: HashMap<u64, ProbeAnswer>,
    warnings: Vec<String>,
    /// Devices and consequences that were warned about: one warning of each kind is enough.
    warned: HashSet<(u64, &'static str)>,
}

/// What is known of a device.
struct ProbeAnswer {
    state: DeviceState,
    open: Option<OpenFs>,
}

/// A usable file system.
struct OpenFs {
    mount: OpenMount,
    ext4: Option<Ext4>,
}

impl<'a> LiveProbe<'a> {
    /// `started` is the launch's start.
    pub fn new(
        mounts: &'a MountTable,
        class: &'a dyn Fn(u64) -> DriveClass,
        started: SystemTime,
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
            warnings: Vec::new(),
            warned: HashSet::new(),
        }
    }

    fn look_at_device(&mut self, dev: u64) -> ProbeAnswer {
        let closed = |state| ProbeAnswer { state, open: None };
        let Some(fs_type) = self.mounts.fs_type(dev) else {
            return closed(DeviceState::Unknown);
        };
        let (fs_type, support) = (fs_type.to_owned(), Support::of(fs_type));
        if support != Support::Ext4 {
            return closed(DeviceState::LeftOut { fs_type, support });
        }
        let mount = match self.mounts.open_root(dev) {
            Ok(mount) => mount,
            Err(error) => {
                self.warn(dev, "its files are left out", error);
                return closed(DeviceState::Unknown);
            }
        };
        let ext4 = match open_ext4(dev, self.mounts) {
            Ok(ext4) => Some(ext4),
            Err(error) => {
                self.warn(dev, "its metadata are left out", error);
                None
            }
        };
        let asked = fs_uuid(mount.fd.as_fd()).or_else(|error| {
            // Before Linux 6.0 only the superblock tells.
            ext4.as_ref().map(Ext4::uuid).ok_or(error)
        });
        let fs_uuid = asked.unwrap_or_else(|error| {
            self.warn(
                dev,
                "it will not be found again under another number",
                error,
            );
            [0; 16]
        });
        let device = Device {
            dev,
            name: blockdev::name(dev),
            fs: fs_type,
            fs_uuid,
            class: (self.class)(dev),
        };
        ProbeAnswer {
            state: DeviceState::Usable {
                device,
                metadata: ext4.is_some(),
            },
            open: Some(OpenFs { mount, ext4 }),
        }
    }

    fn warn(&mut self, dev: u64, consequence: &'static str, error: impl Display) {
        if self.warned.insert((dev, consequence)) {
            self.warnings
                .push(format!("{}: {consequence}: {error}", blockdev::name(dev)));
        }
    }

    /// The file, opened, and its state if that is not [`FileState::Present`].
    fn open(&mut self, key: InodeId, mount: &OpenMount) -> Result<(OwnedFd, FileFacts), FileState> {
        let opened = handle::open_cached_file(mount.fd.as_fd(), key.ino, key.generation);
        let fd = opened.map_err(|error| {
            // LOOP: a symbolic link, whose target the page cache holds as it does a file's data.
            let expected = [Errno::STALE, Errno::NOENT, Errno::LOOP];
            if !Errno::from_io_error(&error).is_some_and(|errno| expected.contains(&errno)) {
                self.warn(
                    key.dev,
                    "files cannot be opened by inode number and are left out",
                    error,
                );
            }
            FileState::Gone
        })?;
        let stat = fstat(&fd).map_err(|_| FileState::Gone)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink == 0 {
            return Err(FileState::Gone);
        }
        let mtime_ns = nanoseconds(stat.st_mtime, stat.st_mtime_nsec as i64);
        let ctime_ns = nanoseconds(stat.st_ctime, stat.st_ctime_nsec as i64);
        if mtime_ns.max(ctime_ns) >= self.written_since_ns {
            return Err(FileState::Written);
        }
        let facts = FileFacts {
            size: u64::try_from(stat.st_size).map_err(|_| FileState::Gone)?,
            mtime_ns,
            path: handle::path_in_fs(fd.as_fd(), mount),
            ..FileFacts::default()
        };
        Ok((fd, facts))
    }

    fn look_at_file(
        &mut self,
        key: InodeId,
        fs: &OpenFs,
        pages: &[Range<u64>],
        windows: &[Range<u64>],
    ) -> FileState {
        let (fd, mut facts) = match self.open(key, &fs.mount) {
            Ok(opened) => opened,
            Err(state) => return state,
        };
        let end = facts.size.div_ceil(PAGE_SIZE);
        match each(windows, end, |range| residency::cached(fd.as_fd(), range)) {
            Ok(cached) => facts.cached = cached,
            Err(error) => self.warn(
                key.dev,
                "the cached pages of files are unknown and left out",
                error,
            ),
        }
        match each(pages, end, |range| {
            fiemap::extents(fd.as_fd(), range.start, range.end - range.start)
        }) {
            Ok(extents) => {
                facts.extents = extents;
                // Questions about ranges near to each other may find the same extent.
                facts.extents.dedup_by_key(|extent| extent.logical);
            }
            Err(error) => self.warn(
                key.dev,
                "the disk positions of files are unknown, they are left out",
                error,
            ),
        }
        if let Some(ext4) = &fs.ext4 {
            let block = self.known(key.dev, ext4.inode_block(key.ino));
            let nodes = self
                .known(key.dev, ext4.extent_nodes(key.ino))
                .unwrap_or_default();
            facts.dependencies = Dependencies::new(block, &nodes, ext4.block_size());
        }
        FileState::Present(Box::new(facts))
    }

    /// Asks the file system on a device about its metadata. `None` if it cannot tell, which is warned about,
    /// or if its metadata are left out.
    pub(super) fn ask_ext4<T>(
        &mut self,
        dev: u64,
        ask: impl FnOnce(&Ext4) -> Result<T, Ext4Error>,
    ) -> Option<T> {
        self.device(dev);
        let ext4 = self.devices.get(&dev)?.open.as_ref()?.ext4.as_ref()?;
        let answer = ask(ext4);
        self.known(dev, answer)
    }

    fn known<T>(&mut self, dev: u64, answer: Result<T, Ext4Error>) -> Option<T> {
        answer
            .map_err(|error| self.warn(dev, "some missing metadata are not found", error))
            .ok()
    }
}

impl Probe for LiveProbe<'_> {
    fn device(&mut self, dev: u64) -> DeviceState {
        if let Some(answer) = self.devices.get(&dev) {
            return answer.state.clone();
        }
        let answer = self.look_at_device(dev);
        let state = answer.state.clone();
        self.devices.insert(dev, answer);
        state
    }

    fn file(&mut self, key: InodeId, pages: &[Range<u64>], windows: &[Range<u64>]) -> FileState {
        // Taken out during the call, so that warnings can be added.
        let Some(fs) = self
            .devices
            .get_mut(&key.dev)
            .and_then(|answer| answer.open.take())
        else {
            return FileState::Gone;
        };
        let state = self.look_at_file(key, &fs, pages, windows);
        if let Some(answer) = self.devices.get_mut(&key.dev) {
            answer.open = Some(fs);
        }
        state
    }

    fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

fn open_ext4(dev: u64, mounts: &MountTable) -> Result<Ext4, Ext4Error> {
    let node = blockdev::node(dev, mounts).ok_or_else(|| Ext4Error::Open {
        path: blockdev::name(dev),
        reason: "it has no device node".to_owned(),
    })?;
    Ext4::open(&node)
}

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

fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    // Years after 2262 do not fit; a hostile file may have them.
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}
