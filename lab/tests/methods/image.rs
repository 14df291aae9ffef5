//! A small system on an ext4 image, with an app that reads files, lists directories, follows symbolic
//! links and looks for what is not there.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use paralfetch::drive::checkpoint_journal;
use paralfetch::fs::residency;
use rustix::fs::{major, minor};

use common::{LoopExt4, drop_caches, succeed};

/// Files that the app reads whole; each of 16 pages.
pub const FILES: usize = 120;
const PAGES: usize = 16;

pub struct Image {
    ext4: LoopExt4,
}

impl Image {
    /// The app. Of `big` it touches a few pages only.
    pub const APP: [&str; 3] = [
        "/bin/sh",
        "-c",
        "cat /data/[0-9]*; cat /links/a; echo /data/listed/*; cat /data/missing/x; \
         dd if=/data/big bs=4096 skip=50 count=2; dd if=/data/big bs=4096 skip=300 count=1",
    ];

    pub fn new() -> Image {
        // Blocks as large as pages, of which none shares its page with another.
        let ext4 = LoopExt4::new(256, &["-b", "4096"]);
        let root = ext4.mount_point();
        for program in ["sh", "cat", "dd"] {
            install(program, root);
        }
        for directory in ["data/listed", "data/missing", "links"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in 0..FILES {
            fs::write(root.join(format!("data/{file}")), content(PAGES)).unwrap();
        }
        for file in 0..40 {
            fs::write(root.join(format!("data/listed/{file}")), content(1)).unwrap();
        }
        fs::write(root.join("data/big"), content(512)).unwrap();
        fs::write(root.join("links/target"), content(PAGES)).unwrap();
        symlink("/links/target", root.join("links/a")).unwrap();
        Image { ext4 }
    }

    pub fn root(&self) -> &Path {
        self.ext4.mount_point()
    }

    /// Empties the caches, those metadata included that the journal holds.
    fn empty_caches(&self) {
        let root = fs::File::open(self.root()).unwrap();
        checkpoint_journal(root.as_fd()).unwrap();
        drop(root);
        drop_caches();
    }

    /// Does `work` from empty caches; again if another process has dropped them meanwhile,
    /// which would undo the prefetch.
    pub fn with_empty_caches<T>(&self, mut work: impl FnMut() -> T) -> T {
        loop {
            self.empty_caches();
            let before = drops();
            let result = work();
            if drops() == before {
                return result;
            }
        }
    }

    /// Read requests of a launch after `prefetch` from empty caches, the fewest of a few attempts: some
    /// kernels reclaim unused pages at any time (DAMON), whereas pages that a method leaves out are read
    /// in every launch.
    pub fn fewest_reads(&self, prefetch: impl Fn()) -> u64 {
        let mut fewest = u64::MAX;
        for _ in 0..5 {
            let reads = self.with_empty_caches(|| {
                prefetch();
                self.reads_of_launch()
            });
            fewest = fewest.min(reads);
            if fewest == 0 {
                break;
            }
        }
        fewest
    }

    /// Read requests that the image's drive serves while the app runs without us.
    pub fn reads_of_launch(&self) -> u64 {
        let before = self.reads();
        Command::new("chroot")
            .arg(self.root())
            .args(Image::APP)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        self.reads() - before
    }

    /// Reads completed on the drive (Documentation/block/stat.rst in the kernel).
    fn reads(&self) -> u64 {
        let dev = fs::metadata(self.root()).unwrap().dev();
        let stat = format!("/sys/dev/block/{}:{}/stat", major(dev), minor(dev));
        let text = fs::read_to_string(stat).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Whether a page of a file is in the page cache.
    pub fn is_cached(&self, path: &[u8], page: u64) -> bool {
        let path = path.strip_prefix(b"/").unwrap();
        let path = self.root().join(std::ffi::OsStr::from_bytes(path));
        let file = fs::File::open(path).unwrap();
        !residency::cached(file.as_fd(), &(page..page + 1))
            .unwrap()
            .is_empty()
    }
}

/// How often the page cache and the slab cache have been dropped since the system started. Inodes go
/// with the latter, and take their pages along.
fn drops() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap();
    let counts = text.lines().filter_map(|line| {
        let (name, count) = line.split_once(' ')?;
        ["drop_pagecache", "drop_slab"]
            .contains(&name)
            .then(|| count.parse::<u64>().unwrap())
    });
    counts.sum()
}

fn content(pages: usize) -> Vec<u8> {
    (0..pages * 4096).map(|i| (i / 7) as u8).collect()
}

/// Copies a program and the libraries that ldd(1) names, each to its own path below `root`.
fn install(program: &str, root: &Path) {
    let file = Path::new("/bin").join(program);
    let libraries = succeed(Command::new("ldd").arg(&file));
    let libraries = libraries
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for file in [file.as_path()].into_iter().chain(libraries.map(Path::new)) {
        let inside = root.join(file.strip_prefix("/").unwrap());
        fs::create_dir_all(inside.parent().unwrap()).unwrap();
        fs::copy(file, &inside).unwrap();
    }
}
