//! Directories with many names in them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::common::LoopExt4;

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
    if index % LINKS == 0 {
        File::create(path).unwrap();
    } else {
        let first = directory.join(name(index / LINKS * LINKS, length));
        fs::hard_link(first, path).unwrap();
    }
}
