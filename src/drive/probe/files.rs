//! Files of a drive whose node cannot be opened, to read the drive through.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Dir, FileType, Mode, OFlags, open, openat};

use super::area::ReadablePiece;
use crate::fs::node::O_LOOKUP;
use crate::fs::{fiemap, safe_open};
use crate::model::PAGE_SIZE;

/// Smallest file that is worth opening.
const LEAST_BYTES: u64 = 1 << 20;

/// Most files that are open at once.
const MOST_FILES: usize = 128;

/// Most directory entries that are looked at, and for how long.
const MOST_ENTRIES: usize = 50_000;
const MOST_TIME: Duration = Duration::from_secs(1);

/// Opens a regular file for direct I/O. `None` if it is no regular file, or on another device than `dev` (`st_dev`).
///
/// # Errors
/// Those of open(2): `EINVAL` where the file system has no direct I/O.
pub fn open_direct(path: &Path, dev: u64) -> rustix::io::Result<Option<(OwnedFd, u64)>> {
    let found = open(path, O_LOOKUP, Mode::empty())?;
    open_found(&found, dev)
}

fn open_found(found: &OwnedFd, dev: u64) -> rustix::io::Result<Option<(OwnedFd, u64)>> {
    // Examined before it is opened: reading a file of another file system may ask a server.
    if rustix::fs::fstat(found)?.st_dev != dev {
        return Ok(None);
    }
    let opened = safe_open::regular(found, OFlags::DIRECT)?;
    Ok(opened.map(|(file, stat)| (file, stat.st_size as u64)))
}

/// Opens large regular files of the file system `dev` (`st_dev`) below the given directories, searched by breadth.
/// What cannot be opened is left out; so are links.
pub fn find_large(directories: &[PathBuf], dev: u64) -> Vec<(OwnedFd, u64)> {
    let begun = Instant::now();
    let mut found = Vec::new();
    let mut entries = 0;
    let opened = directories.iter().filter_map(|path| {
        let flags = O_LOOKUP | OFlags::DIRECTORY;
        open(path.as_path(), flags, Mode::empty()).ok()
    });
    let mut waiting: VecDeque<OwnedFd> = opened.collect();
    while let Some(directory) = waiting.pop_front() {
        let is_here = rustix::fs::fstat(&directory).is_ok_and(|stat| stat.st_dev == dev);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = openat(&directory, ".", flags, Mode::empty());
        let (true, Ok(readable)) = (is_here, readable) else {
            continue;
        };
        let Ok(listed) = Dir::read_from(&readable) else {
            continue;
        };
        for entry in listed.flatten() {
            entries += 1;
            if entries > MOST_ENTRIES || begun.elapsed() > MOST_TIME || found.len() == MOST_FILES {
                return found;
            }
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let look_up = || openat(&readable, name, O_LOOKUP, Mode::empty()).ok();
            match entry.file_type() {
                FileType::Directory if waiting.len() < MOST_FILES => waiting.extend(look_up()),
                FileType::RegularFile => {
                    let is_large = |file: &OwnedFd| {
                        let stat = rustix::fs::fstat(file);
                        stat.is_ok_and(|stat| stat.st_size as u64 >= LEAST_BYTES)
                    };
                    let file = look_up().filter(is_large);
                    found.extend(file.and_then(|file| open_found(&file, dev).ok().flatten()));
                }
                _ => {}
            }
        }
    }
    found
}

/// Where a file lies, `start` being where its file system's device begins on the drive. Parts that are not on the drive
/// are left out; all of it if the file system does not tell.
pub fn pieces(index: usize, file: impl AsFd, bytes: u64, start: u64) -> Vec<ReadablePiece> {
    let extents = fiemap::extents(file.as_fd(), 0, bytes / PAGE_SIZE).unwrap_or_default();
    let placed = extents.into_iter().filter(|extent| extent.has_lba());
    placed
        .map(|extent| ReadablePiece {
            file: index,
            offset: extent.logical,
            position: start.saturating_add(extent.physical),
            // The last extent may reach beyond the file.
            length: extent.length.min(bytes.saturating_sub(extent.logical)),
        })
        .collect()
}
