//! File systems with all kinds of files in them.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use common::LoopExt4;

/// A file of a populated file system.
#[derive(Clone, Debug)]
pub struct Sample {
    pub path: PathBuf,
    pub ino: u64,
}

impl Sample {
    fn new(path: PathBuf) -> Self {
        let ino = fs::metadata(&path).unwrap().ino();
        Sample { path, ino }
    }

    /// The path from the file system's root.
    pub fn path_in_fs(&self, image: &LoopExt4) -> Vec<u8> {
        let relative = self.path.strip_prefix(image.mount_point()).unwrap();
        format!("/{}", relative.to_str().unwrap()).into_bytes()
    }
}

/// Fills the file system with copies of `count` of the system's own files, fragmented files, sparse
/// files and a small one, in several directories.
pub fn populate(image: &LoopExt4, count: usize) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut add = |path| samples.push(Sample::new(path));
    for (index, source) in system_files(count).into_iter().enumerate() {
        let directory = image.mount_point().join(format!("copies{}", index % 7));
        fs::create_dir_all(&directory).unwrap();
        let copy = directory.join(format!("{index}"));
        fs::copy(source, &copy).unwrap();
        add(copy);
    }
    for (name, blocks) in [("few-holes", 60), ("many-holes", 4000)] {
        add(with_holes(&image.mount_point().join(name), blocks));
    }
    let names = ["interleaved-a", "interleaved-b", "interleaved-c"];
    interleaved(image.mount_point(), &names);
    for name in names {
        add(image.mount_point().join(name));
    }
    let sparse = image.mount_point().join("sparse");
    let file = File::create(&sparse).unwrap();
    for megabyte in [0, 3, 5, 40, 80, 81] {
        file.write_all_at(&[7; 5000], megabyte << 20).unwrap();
    }
    add(sparse);
    let small = image.mount_point().join("small");
    fs::write(&small, "small").unwrap();
    add(small);
    image.sync();
    samples
}

/// Regular files of the system, of up to 1 MiB.
fn system_files(count: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::from("/usr/lib"), PathBuf::from("/usr/share")];
    while let (Some(directory), true) = (directories.pop(), found.len() < count) {
        let mut entries: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        entries.sort_by_key(fs::DirEntry::path);
        for entry in entries {
            let metadata = entry.path().symlink_metadata().unwrap();
            if metadata.is_dir() {
                directories.push(entry.path());
            } else if metadata.is_file() && (1..1 << 20).contains(&metadata.len()) {
                found.push(entry.path());
            }
        }
    }
    found.truncate(count);
    assert_eq!(
        found.len(),
        count,
        "the system has too few files of its own"
    );
    found
}

/// A file of `blocks` pages, of which every other one is a hole.
fn with_holes(path: &Path, blocks: u64) -> PathBuf {
    let file = File::create(path).unwrap();
    file.write_all_at(&vec![5; blocks as usize * 4096], 0)
        .unwrap();
    // Delayed allocation would not give the holes any blocks in the first place.
    file.sync_all().unwrap();
    for block in (1..blocks).step_by(2) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, flags, block * 4096, 4096).unwrap();
    }
    path.to_owned()
}

/// Files that grow by turns.
fn interleaved(directory: &Path, names: &[&str]) {
    let mut files: Vec<File> = names
        .iter()
        .map(|name| File::create(directory.join(name)).unwrap())
        .collect();
    for turn in 0..24_u8 {
        for file in &mut files {
            file.write_all(&vec![turn; 3000 + 700 * usize::from(turn)])
                .unwrap();
            file.sync_data().unwrap();
        }
    }
}
