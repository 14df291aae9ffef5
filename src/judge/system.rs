//! The running system's answers.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags, StatxTimestamp, major, statx};

use super::blocks::BlockKind;
use super::misses::{FileLookUp, FileNow, PageFate};
use crate::fs::ext4::Ext4;
use crate::fs::mounts::{MountTable, OpenMount};
use crate::fs::support::Support;
use crate::fs::{blockdev, handle};
use crate::learn::sequence::FileKey;
use crate::model::PAGE_SIZE;

/// File times come from the kernel's coarse clock, which may lag by a timer tick: 10 ms at the
/// lowest usual tick rate.
const COARSE_CLOCK_NS: i128 = 10_000_000;

/// Asks the kernel and libext2fs. What they do not tell is unknown in the answers: a report about a
/// launch is not to fail for want of a name.
pub struct LiveSystem {
    mounts: MountTable,
    /// The launch's start, in nanoseconds since the epoch.
    started_ns: i128,
    roots: HashMap<u64, Option<OpenMount>>,
    layouts: HashMap<u64, Option<Layout>>,
}

/// A file system's metadata and its device.
struct Layout {
    ext4: Ext4,
    node: File,
}

impl LiveSystem {
    /// `started` is the launch's start.
    pub fn new(mounts: MountTable, started: SystemTime) -> Self {
        let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
        LiveSystem {
            mounts,
            started_ns: since.as_nanos() as i128 - COARSE_CLOCK_NS,
            roots: HashMap::new(),
            layouts: HashMap::new(),
        }
    }

    fn look(&mut self, key: FileKey) -> Option<FileNow> {
        let mounts = &self.mounts;
        let root = self
            .roots
            .entry(key.dev)
            .or_insert_with(|| mounts.open_root(key.dev).ok())
            .as_ref()?;
        // The kernel saw it as a file with cached pages, which a device or a FIFO is not.
        let flags = OFlags::RDONLY
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::NOFOLLOW
            | OFlags::NOATIME
            | OFlags::CLOEXEC;
        let fd = handle::open_by_ino(root.fd.as_fd(), key.ino, key.generation, flags).ok()?;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let stat = statx(&fd, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
        let is_file = FileType::from_raw_mode(u32::from(stat.stx_mode)) == FileType::RegularFile;
        if !is_file || stat.stx_nlink == 0 {
            return None;
        }
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

    fn open_layout(&self, dev: u64) -> Option<Layout> {
        let node = blockdev::node(dev, &self.mounts)?;
        Some(Layout {
            ext4: Ext4::open(&node).ok()?,
            node: File::open(&node).ok()?,
        })
    }
}

impl FileLookUp for LiveSystem {
    fn on_drive(&mut self, dev: u64) -> bool {
        match self.mounts.fs_type(dev) {
            Some(fs_type) => matches!(Support::of(fs_type), Support::Ext4 | Support::NotYet),
            // Not mounted here: what has no major number lies in memory or is made up, such as the
            // kernel's own mounts.
            None => major(dev) != 0,
        }
    }

    fn file(&mut self, key: FileKey) -> FileNow {
        self.look(key).unwrap_or(FileNow {
            path: None,
            fate: PageFate::Gone,
        })
    }

    fn block(&mut self, dev: u64, page: u64) -> BlockKind {
        if !self.layouts.contains_key(&dev) {
            let layout = self.open_layout(dev);
            self.layouts.insert(dev, layout);
        }
        let layout = self.layouts.get(&dev).and_then(Option::as_ref);
        layout.map_or(BlockKind::Unknown, |layout| layout.kind(page))
    }
}

impl Layout {
    fn kind(&self, page: u64) -> BlockKind {
        let size = self.ext4.block_size();
        // Of several small blocks in a page, the first speaks for it.
        let block = page.saturating_mul(PAGE_SIZE) / size;
        if let Ok(Some(fixed)) = self.ext4.fixed(block) {
            return fixed.into();
        }
        let mut content = vec![0; size as usize];
        match self
            .node
            .read_exact_at(&mut content, block.saturating_mul(size))
        {
            Ok(()) => BlockKind::by_content(&content, self.ext4.blocks()),
            Err(_) => BlockKind::Unknown,
        }
    }
}

fn nanoseconds(time: &StatxTimestamp) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}
