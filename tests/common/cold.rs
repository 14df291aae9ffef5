//! Counting the drive's reads: nothing else shows that a list of blocks is complete.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paralfetch::drive::{checkpoint_journal, drop_clean_caches};
use paralfetch::fs::ext4::{DirectoryLookUp, Ext4};
use paralfetch::fs::residency;
use rustix::fs::{Advice, fadvise};

use crate::{LoopExt4, drop_caches};

/// The caches are the whole machine's: only one test at a time may empty them.
static CACHES: Mutex<()> = Mutex::new(());

/// How long the drive may take to become idle.
const PATIENCE: Duration = Duration::from_secs(120);

/// Blocks that something needs, and those that it may read as well.
#[derive(Debug, Default)]
pub struct Blocks {
    pub needed: Vec<u64>,
    pub perhaps: Vec<u64>,
}

impl Blocks {
    pub fn add(&mut self, look_up: DirectoryLookUp) {
        self.needed.extend(look_up.blocks);
        self.perhaps.extend(look_up.perhaps);
    }
}

/// An image whose blocks are read only when asked for: without readahead, of inodes or otherwise.
pub struct Cold<'a> {
    image: &'a LoopExt4,
    device: File,
    block_size: u64,
    _turn: MutexGuard<'static, ()>,
}

impl<'a> Cold<'a> {
    /// Both settings end with the image's mount and device.
    pub fn new(image: &'a LoopExt4) -> Cold<'a> {
        let turn = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
        let name = image.device().file_name().unwrap().to_str().unwrap();
        for (setting, value) in [
            (format!("/sys/block/{name}/queue/read_ahead_kb"), "4"),
            (format!("/sys/fs/ext4/{name}/inode_readahead_blks"), "1"),
        ] {
            fs::write(&setting, value).unwrap_or_else(|error| panic!("{setting}: {error}"));
        }
        image.sync();
        Cold {
            image,
            device: File::open(image.device()).unwrap(),
            block_size: Ext4::open(image.device()).unwrap().block_size(),
            _turn: turn,
        }
    }

    /// What opening this path by name needs, the inode-table block of the file included; the last
    /// component may be missing.
    pub fn walk(&self, path: &Path) -> Blocks {
        let ext4 = Ext4::open(self.image.device()).unwrap();
        let mut blocks = Blocks::default();
        // The root directory's inode is never dropped while it is mounted.
        let mut inode = Some(2);
        let mut at = self.image.mount_point().to_owned();
        for component in path.strip_prefix(self.image.mount_point()).unwrap() {
            let dir = inode.unwrap_or_else(|| panic!("{path:?} goes on after a missing name"));
            blocks.add(ext4.look_up(dir, component.as_encoded_bytes()).unwrap());
            at.push(component);
            inode = fs::symlink_metadata(&at).ok().map(|found| found.ino());
            blocks
                .needed
                .extend(inode.map(|ino| ext4.inode_block(ino).unwrap()));
        }
        blocks
    }

    /// Checks that `act` reads nothing from the drive when these blocks are cached and nothing else is,
    /// and something when any one of the needed is missing (of many, a few are tried).
    pub fn check(&self, what: &str, blocks: &Blocks, act: impl Fn()) {
        let needed = self.pages(&blocks.needed);
        let mut all = self.pages(&blocks.perhaps);
        all.extend(&needed);
        let fewest = (0..5)
            .map(|_| self.reads(&all, &act))
            .find(|&reads| reads == 0);
        assert_eq!(fewest, Some(0), "{what}: {blocks:?} are not all it reads");
        let step = needed.len().div_ceil(6).max(1);
        for missing in needed.iter().step_by(step).chain(needed.last()) {
            let mut others = all.clone();
            others.remove(missing);
            let reads = self.reads(&others, &act);
            assert!(
                reads > 0,
                "{what}: page {missing} of {blocks:?} is not read"
            );
        }
    }

    /// Read requests that `act` causes from empty caches, with only these pages of the device cached.
    pub fn reads(&self, pages: &BTreeSet<u64>, act: impl Fn()) -> u64 {
        self.empty_caches();
        // Asked for again until all are there at once: the kernel may have reclaimed the first before the
        // last has come.
        self.wait(|| {
            let missing = pages.iter().filter(|&&page| {
                let cached = residency::cached(self.device.as_fd(), &(page..page + 1)).unwrap();
                cached.is_empty()
            });
            let asked = missing.map(|page| {
                let length = std::num::NonZeroU64::new(4096);
                fadvise(&self.device, page * 4096, length, Advice::WillNeed).unwrap();
            });
            asked.count() == 0
        });
        let before = self.served();
        act();
        self.served() - before
    }

    fn empty_caches(&self) {
        let root = File::open(self.image.mount_point()).unwrap();
        checkpoint_journal(root.as_fd()).unwrap();
        drop(root);
        // Names that were used since the first time survive it.
        drop_caches();
        drop_clean_caches().unwrap();
    }

    fn pages(&self, blocks: &[u64]) -> BTreeSet<u64> {
        let page = |block| block * self.block_size / 4096;
        blocks.iter().copied().map(page).collect()
    }

    /// Read requests that the device has served, once it is idle.
    fn served(&self) -> u64 {
        let name = self.image.device().file_name().unwrap();
        let stat = Path::new("/sys/block").join(name).join("stat");
        let mut served = 0;
        // The fields of the kernel's Documentation/block/stat.rst. `inflight` beside it would not do: a
        // request is out of that, and its reader goes on, before it is counted as served. `stat` takes the
        // number in flight before it takes the others, and from the account that counts them.
        self.wait(|| {
            let fields = numbers(&stat);
            served = fields[0];
            fields[8] == 0
        });
        served
    }

    fn wait(&self, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(
                start.elapsed() < PATIENCE,
                "the drive does not come to rest"
            );
            std::thread::yield_now();
        }
    }
}

fn numbers(path: &PathBuf) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap();
    text.split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect()
}
