//! Directories with many names in them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use common::LoopExt4;

/// A name of this many bytes.
pub fn name(index: usize, length: usize) -> String {
    format!("{index:0length$}")
}

/// A file with `count` names of `length` bytes in a directory of its own, and as many in a neighbour:
/// they grow by turns, which leaves neither in one piece. Returns the directory.
pub fn crowd(image: &LoopExt4, count: usize, length: usize) -> PathBuf {
    let (directory, neighbour) = (
        image.mount_point().join("crowd"),
        image.mount_point().join("neighbour"),
    );
    for directory in [&directory, &neighbour] {
        fs::create_dir(directory).unwrap();
    }
    for index in 0..count {
        add(&directory, index, length);
        add(&neighbour, index, length);
    }
    directory
}

/// Hard links need no inodes of their own, but a file has 65,000 names at most.
fn add(directory: &Path, index: usize, length: usize) {
    const LINKS: usize = 60_000;
    let path = directory.join(name(index, length));
    if index.is_multiple_of(LINKS) {
        File::create(path).unwrap();
    } else {
        let first = directory.join(name(index / LINKS * LINKS, length));
        fs::hard_link(first, path).unwrap();
    }
}

/// Leaves only single blocks free, so that files and directories grow in pieces. Needs extents.
pub fn shatter(image: &LoopExt4, block_size: u64) {
    const HOLES: u64 = 4000;
    // Blocks that the kernel keeps for the growth of trees lie in one piece; a few are enough.
    let device = image.device().file_name().unwrap().to_str().unwrap();
    fs::write(format!("/sys/fs/ext4/{device}/reserved_clusters"), "128").unwrap();
    let file = File::create(image.mount_point().join("filler")).unwrap();
    let (mut end, mut piece) = (0, 64 << 20);
    while piece >= block_size {
        match fallocate(&file, FallocateFlags::empty(), end, piece) {
            Ok(()) => end += piece,
            Err(error) => {
                assert_eq!(error, Errno::NOSPC);
                piece /= 2;
            }
        }
    }
    for hole in 0..HOLES {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, flags, 2 * hole * block_size, block_size).unwrap();
    }
}
