//! The running system's answers to the questions of a judgement.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, StatxFlags, StatxTimestamp, major, statx};

use super::misses::{FileLookUp, FileNow, PageFate};
use crate::fs::ext4::{BlockKind, Ext4};
use crate::fs::handle;
use crate::fs::mounts::{MountTable, OpenMount};
use crate::fs::support::Support;
use crate::model::InodeId;
use crate::model::PAGE_SIZE;

/// Asks the kernel and libext2fs. A question that they cannot answer has an answer without a name: a report
/// about a launch must not fail because of it.
pub struct LiveSystem {
    mounts: MountTable,
    /// The launch's start, in nanoseconds since the epoch.
    started_ns: i128,
    roots: HashMap<u64, Option<OpenMount>>,
    ext4: HashMap<u64, Option<Ext4>>,
}

impl LiveSystem {
    /// `started` is the launch's start.
    pub fn new(mounts: MountTable, started: SystemTime) -> Self {
        let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
        LiveSystem {
            mounts,
            started_ns: since.as_nanos() as i128 - i128::from(handle::COARSE_CLOCK_NS),
            roots: HashMap::new(),
            ext4: HashMap::new(),
        }
    }

    /// The file system on a device; `None` if the device cannot be read.
    fn ext4(&mut self, dev: u64) -> Option<&Ext4> {
        let mounts = &self.mounts;
        let open = || Ext4::of_device(dev, mounts).ok();
        self.ext4.entry(dev).or_insert_with(open).as_ref()
    }

    fn look(&mut self, key: InodeId) -> Option<FileNow> {
        let mounts = &self.mounts;
        let root = self
            .roots
            .entry(key.dev)
            .or_insert_with(|| mounts.open_root(key.dev).ok())
            .as_ref()?;
        let opened = handle::open_cached_file(root, key.ino, key.generation);
        let fd = opened.ok()?.fd;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let stat = statx(&fd, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
        let since = |time: &StatxTimestamp| nanoseconds(time) >= self.started_ns;
        let fate = if stat.stx_mask & StatxFlags::BTIME.bits() != 0 && since(&stat.stx_btime) {
            PageFate::Made
        } else if since(&stat.stx_mtime) || since(&stat.stx_ctime) {
            PageFate::Written
        } else {
            PageFate::Unchanged
        };
        Some(FileNow {
            path: handle::path_in_fs(fd.as_fd(), root),
            fate,
        })
    }
}

impl FileLookUp for LiveSystem {
    fn on_drive(&mut self, dev: u64) -> bool {
        match self.mounts.fs_type(dev) {
            Some(fs_type) => Support::is_read_from_drive(fs_type),
            // Not mounted here. File systems without a drive, such as the kernel's own mounts, have major
            // number 0.
            None => major(dev) != 0,
        }
    }

    fn can_be_learned(&mut self, key: InodeId) -> bool {
        // Of a device that cannot be read, files are learned all the same.
        self.mounts.kind(key.dev).is_some_and(|kind| {
            let is_read = match kind.has_layout() {
                true => self.ext4(key.dev).is_some(),
                false => kind.has_metadata(),
            };
            key.ino != 0 || is_read
        })
    }

    fn file(&mut self, key: InodeId) -> FileNow {
        self.look(key).unwrap_or(FileNow {
            path: None,
            fate: PageFate::Gone,
        })
    }

    fn block(&mut self, dev: u64, page: u64) -> BlockKind {
        // Of several small blocks in a page, the first speaks for it.
        self.ext4(dev).map_or(BlockKind::Other, |ext4| {
            ext4.block_kind(page.saturating_mul(PAGE_SIZE) / ext4.block_size())
        })
    }
}

fn nanoseconds(time: &StatxTimestamp) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}
