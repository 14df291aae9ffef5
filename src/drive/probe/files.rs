//! Files of a drive whose node cannot be opened, to read the drive through.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Dir, FileType, Mode, OFlags, open, openat};

use super::area::ReadablePiece;
use crate::fs::kept::may_be_kept;
use crate::fs::node::{O_LOOKUP, OpenNode};
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
/// The errors of open(2): `EINVAL` where the file system has no direct I/O.
pub fn open_direct(path: &Path, dev: u64) -> io::Result<Option<(OwnedFd, u64)>> {
    let found = open(path, O_LOOKUP, Mode::empty())?;
    // Examined before it is opened: reading a file of another file system may ask a server.
    match OpenNode::of(&found)?.dev == dev {
        true => open_found(&found),
        false => Ok(None),
    }
}

fn open_found(found: &OwnedFd) -> io::Result<Option<(OwnedFd, u64)>> {
    let opened = safe_open::regular(found, OFlags::DIRECT)?;
    Ok(opened.map(|(file, stat)| (file, stat.st_size as u64)))
}

/// Finds `name` in a directory, without opening it for reading. `None` if that leads to another mount, which may be one
/// that a server or a user-space process serves and is asked nothing, through a link, or to another device than `dev`
/// (`st_dev`); nor what is another user's: measuring takes seconds, and his home may be about to be unmounted or locked.
fn look_up(directory: impl AsFd, name: impl rustix::path::Arg, dev: u64) -> Option<OwnedFd> {
    let found = safe_open::beneath(directory, name).ok()?;
    let node = OpenNode::of(&found).ok()?;
    (node.dev == dev && may_be_kept(&node)).then_some(found)
}

/// Opens large regular files of the file system `dev` (`st_dev`) in these directories below `root`, a directory of it;
/// searched by breadth. What cannot be opened is left out; so are links and other mounts.
pub fn find_large(root: &OwnedFd, directories: &[&str], dev: u64) -> Vec<(OwnedFd, u64)> {
    let begun = Instant::now();
    let mut found = Vec::new();
    let mut entries = 0;
    let known = directories
        .iter()
        .filter_map(|&path| look_up(root, path, dev));
    let mut waiting: VecDeque<OwnedFd> = known.collect();
    // Directories may lie in each other, and files have several names.
    let mut seen = HashSet::new();
    let mut is_new = |file: &OwnedFd| {
        let stat = rustix::fs::fstat(file);
        stat.is_ok_and(|stat| seen.insert(stat.st_ino))
    };
    while let Some(directory) = waiting.pop_front() {
        if !is_new(&directory) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(readable) = openat(&directory, ".", flags, Mode::empty()) else {
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
            let here = || look_up(&readable, name, dev);
            match entry.file_type() {
                FileType::Directory if waiting.len() < MOST_FILES => waiting.extend(here()),
                FileType::RegularFile => {
                    let is_large = |file: &OwnedFd| {
                        let stat = rustix::fs::fstat(file);
                        stat.is_ok_and(|stat| stat.st_size as u64 >= LEAST_BYTES)
                    };
                    let file = here().filter(is_large).filter(&mut is_new);
                    found.extend(file.and_then(|file| open_found(&file).ok().flatten()));
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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn large_files_of_the_device_are_found_below_their_directories() {
        // /tmp may be in memory, where files cannot be opened for direct I/O.
        let tree = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = |name: &str| tree.path().join(name);
        fs::create_dir_all(path("usr/lib")).unwrap();
        let make = |name: &str, bytes| File::create(path(name)).unwrap().set_len(bytes).unwrap();
        make("usr/lib/large", LEAST_BYTES);
        make("usr/lib/small", LEAST_BYTES - 1);
        symlink("large", path("usr/lib/link")).unwrap();
        symlink("usr", path("other")).unwrap();
        let dev = fs::metadata(tree.path()).unwrap().dev();
        let root = OwnedFd::from(File::open(tree.path()).unwrap());
        let found = |directory, dev| find_large(&root, &[directory], dev).len();
        let large = open_direct(&path("usr/lib/large"), dev);
        let direct = usize::from(matches!(large, Ok(Some(_))));
        assert_eq!(found("usr/lib", dev), direct);
        assert_eq!(found(".", dev), direct);
        let nested = find_large(&root, &["usr/lib", "usr", "."], dev);
        assert_eq!(nested.len(), direct, "each file once");
        assert_eq!(found("other", dev), 0);
        assert_eq!(found("missing", dev), 0);
        assert_eq!(found("usr/lib", dev + 1), 0);
        let other = open_direct(&path("usr/lib/large"), dev + 1).unwrap();
        assert!(other.is_none());
    }

    #[test]
    fn other_mounts_are_not_entered() {
        let root = open("/", O_LOOKUP, Mode::empty()).unwrap();
        let dev = fs::metadata("/").unwrap().dev();
        assert!(look_up(&root, ".", dev).is_some());
        let proc = fs::metadata("/proc").unwrap().dev();
        assert_ne!(proc, dev);
        for wanted in [dev, proc] {
            assert!(look_up(&root, "proc", wanted).is_none());
        }
    }
}
