//! Making FAST's LBA-to-inode map: asking the file system where the inodes and directories lie that
//! the launch used (FAST §4.2.1).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result};
use paralfetch::fs::ext4::Ext4;
use paralfetch::fs::fiemap;
use paralfetch::fs::mounts::{MountTable, fs_uuid};
use paralfetch::model::{PAGE_SIZE, Place};
use rustix::fs::{Dir, FileType, OFlags, fstat, open};
use rustix::io::Errno;

use super::blocks::{Block, BlockMap, Replay};
use super::fast::open_below;
use super::learned::{LearnedApp, LearningRun};
use super::pages::common_sequence;

impl BlockMap {
    /// Finds paths for the metadata blocks that both as-read learning runs read, on the ext4 file system
    /// that is mounted at `root`. FAST has the names that the app passed to system calls; the product
    /// keeps those of opened files. They and the directories on the way to them come first. Blocks
    /// that none of these accounts for (of files only asked about, of symbolic links, of directories
    /// only listed or searched in vain) go by the first name that is found in these directories, and
    /// by their subdirectories.
    ///
    /// It reads the directories, so it leaves the caches warm.
    ///
    /// # Errors
    /// When a learned set is missing, or the file system cannot be read.
    pub fn read(learned: &LearnedApp, root: &Path) -> Result<BlockMap> {
        let learned_set = |how| {
            learned
                .get(how)
                .with_context(|| format!("there is no learned set `{how}`"))
        };
        let (first, second) = (
            learned_set(LearningRun::AsRead)?,
            learned_set(LearningRun::AsReadAgain)?,
        );
        let said = || format!("cannot look up blocks on {}", root.display());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(root, flags, rustix::fs::Mode::empty()).with_context(said)?;
        let uuid = fs_uuid(root.as_fd()).with_context(said)?;
        let device = (0u16..)
            .zip(&first.profile.devices)
            .find(|(_, device)| device.fs_uuid == uuid)
            .map(|(number, _)| number)
            .with_context(said)
            .context("the app was not learned from the file system there")?;
        let mounts = MountTable::read().context("cannot read the mount table")?;
        let ext4 = Ext4::of_device(fstat(&root)?.st_dev, &mounts)?;

        let wanted = common_sequence(first, second)
            .iter()
            .filter(|entry| entry.span.place == Place::Metadata { device })
            .flat_map(|entry| entry.span.start..entry.span.end())
            .collect();
        let mut search = Search {
            root,
            ext4,
            wanted,
            found: BTreeMap::new(),
        };
        let files = first.profile.files.iter();
        let files = files.filter(|file| file.device == device);
        let files: Vec<(&[u8], u64)> = files
            .filter_map(|file| Some((file.path.as_deref()?, file.ino)))
            .collect();
        search.launch(&files)?;
        Ok(search.map(device))
    }
}

/// The search for the paths of blocks.
struct Search {
    root: OwnedFd,
    ext4: Ext4,
    /// Positions of the blocks to find, in 4 KiB pages.
    wanted: HashSet<u64>,
    /// For a page and a kind of block, the first path found.
    found: BTreeMap<(u64, Replay), Vec<u8>>,
}

impl Search {
    /// Looks up what a launch needs that opened these files, named by path and inode number.
    fn launch(&mut self, files: &[(&[u8], u64)]) -> Result<()> {
        let mut directories = BTreeSet::new();
        for &(path, ino) in files {
            self.inode(path, ino)?;
            directories.extend(ancestors(path));
        }
        for path in &directories {
            self.directory(path)?;
        }
        let mut subdirectories = Vec::new();
        for path in &directories {
            for (name, ino, is_directory) in self.list(path)? {
                let path = child(path, &name);
                self.inode(&path, ino)?;
                if is_directory && !directories.contains(&path) {
                    subdirectories.push(path);
                }
            }
        }
        for path in &subdirectories {
            self.directory(path)?;
        }
        Ok(())
    }

    /// Notes the path for the block of the inode table that has the inode.
    fn inode(&mut self, path: &[u8], ino: u64) -> Result<()> {
        let block = self.ext4.inode_block(ino)?;
        let position = block * self.ext4.block_size() / PAGE_SIZE;
        self.note(position, Replay::Inode, path);
        Ok(())
    }

    /// Notes the path for a directory's inode and for its blocks.
    fn directory(&mut self, path: &[u8]) -> Result<()> {
        let Some(directory) = self.open(path)? else {
            return Ok(());
        };
        let stat = fstat(&directory)?;
        self.inode(path, stat.st_ino)?;
        let pages = u64::try_from(stat.st_size)?.div_ceil(PAGE_SIZE);
        let extents = fiemap::extents(directory.as_fd(), 0, pages)
            .with_context(|| format!("cannot find {}", String::from_utf8_lossy(path)))?;
        for extent in extents.iter().filter(|extent| extent.has_lba()) {
            let end = (extent.physical + extent.length).div_ceil(PAGE_SIZE);
            for position in extent.physical / PAGE_SIZE..end {
                self.note(position, Replay::Directory, path);
            }
        }
        Ok(())
    }

    fn note(&mut self, position: u64, replay: Replay, path: &[u8]) {
        if self.wanted.contains(&position) {
            let found = self.found.entry((position, replay));
            found.or_insert_with(|| path.to_vec());
        }
    }

    /// Names in a directory, with inode numbers, and whether they are directories; sorted.
    fn list(&self, path: &[u8]) -> Result<Vec<(Vec<u8>, u64, bool)>> {
        let Some(directory) = self.open(path)? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let is_directory = entry.file_type() == FileType::Directory;
                names.push((name.to_vec(), entry.ino(), is_directory));
            }
        }
        names.sort();
        Ok(names)
    }

    /// A directory of this file system; `None` if it is gone or another one is mounted there.
    fn open(&self, path: &[u8]) -> Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME;
        match open_below(self.root.as_fd(), path, flags) {
            Ok(fd) if fstat(&fd)?.st_dev == fstat(&self.root)?.st_dev => Ok(Some(fd)),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => {
                Err(error).with_context(|| format!("cannot open {}", String::from_utf8_lossy(path)))
            }
        }
    }

    fn map(self, device: u16) -> BlockMap {
        let paths: BTreeSet<&Vec<u8>> = self.found.values().collect();
        let paths: Vec<Vec<u8>> = paths.into_iter().cloned().collect();
        let mut blocks: Vec<Block> = self
            .found
            .iter()
            .filter_map(|(&(page, replay), path)| {
                let path = u32::try_from(paths.binary_search(path).ok()?).ok()?;
                Some(Block { page, replay, path })
            })
            .collect();
        blocks.sort_unstable();
        BlockMap {
            device,
            paths,
            blocks,
        }
    }
}

/// The directories that a look-up of the absolute path goes through, `/` among them.
fn ancestors(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let slashes = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/');
    slashes.map(|(at, _)| path[..at.max(1)].to_vec())
}

fn child(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    [directory, b"/", name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart_and_put_together() {
        let found: Vec<Vec<u8>> = ancestors(b"/usr/lib/x.so").collect();
        assert_eq!(found, [&b"/"[..], b"/usr", b"/usr/lib"]);
        assert_eq!(child(b"/", b"usr"), b"/usr");
        assert_eq!(child(b"/usr", b"lib"), b"/usr/lib");
    }
}
