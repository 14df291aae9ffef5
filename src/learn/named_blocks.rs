//! What reads the metadata of a launch sequence: the directories that they belong to, and the names in these.
//!
//! A profile has the blocks that look-ups read, and not the look-ups. On another machine the blocks lie elsewhere. So the
//! directories that lead to the launch's files are gone through, and those below them of which a block is in the launch
//! sequence: a block of a directory says that a name was looked up in it, or all of them listed; a block of inodes, which of
//! its names may have been meant. A look-up too many costs less than one that is missing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs::DirEntry;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;

use super::probe::LiveProbe;
use super::sequence::block_pages;
use crate::fs::handle::joined;
use crate::fs::public_tree::{PublicNode, PublicTree};
use crate::fs::safe_open::own_path;
use crate::profile::{PortableUse, is_plain_path};

/// Most names of directories that are looked at, and most look-ups that come of them.
const MOST_NAMES: usize = 1 << 18;
const MOST_USES: usize = 1 << 15;

/// A page of metadata: its device (`st_dev`) and position.
type Page = (u64, u64);

/// The metadata that are to be named.
pub(super) struct NamedBlocks<'a> {
    /// Where the launch's paths lead.
    pub tree: &'a PublicTree<'a>,
    /// The pages, each with the time of its access in microseconds.
    pub wanted: BTreeMap<Page, u64>,
    /// Pages that opening and reading the launch's files needs.
    pub known: BTreeSet<Page>,
    /// Whether a path is not to be named.
    pub is_left_out: &'a dyn Fn(&str) -> bool,
}

/// The uses of paths that read metadata.
#[derive(Debug, Default)]
pub(super) struct NamedUses {
    /// Names that were looked up, in the order of time.
    pub look_ups: Vec<PortableUse>,
    /// Directories that were listed, likewise.
    pub listings: Vec<PortableUse>,
    /// Pages that none of them reads, nor the files.
    pub unnamed: u64,
}

/// Names the metadata. `directories` are those that lead to the launch's files.
pub(super) fn name_blocks(
    blocks: NamedBlocks<'_>,
    directories: BTreeSet<String>,
    probe: &mut LiveProbe<'_>,
) -> NamedUses {
    let mut left: BTreeSet<Page> = blocks.wanted.keys().copied().collect();
    left.retain(|page| !blocks.known.contains(page));
    let mut walk = BlockWalk {
        waiting: directories.iter().cloned().collect(),
        seen: directories.clone(),
        directories,
        blocks,
        left,
        names: 0,
        uses: NamedUses::default(),
    };
    while let Some(path) = walk.waiting.pop_front() {
        let found = walk.uses.look_ups.len() + walk.uses.listings.len();
        if found >= MOST_USES || walk.names >= MOST_NAMES {
            break;
        }
        walk.directory(&path, probe);
    }
    let mut uses = walk.uses;
    uses.unnamed = walk.left.len() as u64;
    uses.look_ups.sort();
    uses.look_ups.truncate(MOST_USES);
    uses.listings.sort();
    uses
}

struct BlockWalk<'a> {
    blocks: NamedBlocks<'a>,
    directories: BTreeSet<String>,
    /// Directories that wait, and those that do or did.
    waiting: VecDeque<String>,
    seen: BTreeSet<String>,
    /// Pages that are not named yet.
    left: BTreeSet<Page>,
    /// Names that were looked at.
    names: usize,
    uses: NamedUses,
}

/// A directory of which a block is wanted.
struct ReadDirectory<'a> {
    path: &'a str,
    dev: u64,
    ino: u64,
    /// When it was first read, in microseconds.
    time_us: u64,
    /// Whether no file of the launch lies below it. What is in the others was most often looked up for these files.
    is_new: bool,
    /// Wanted blocks of the directory for which no name stands yet.
    blocks: BTreeSet<Page>,
}

impl BlockWalk<'_> {
    fn directory(&mut self, path: &str, probe: &mut LiveProbe<'_>) {
        let found = self.blocks.tree.find(path).ok();
        let Some(dir) = found.filter(|_| !(self.blocks.is_left_out)(path)) else {
            return;
        };
        let (dev, ino) = (dir.node.dev, dir.node.ino);
        let own = probe.ask_ext4(dev, |ext4| {
            let size = ext4.block_size();
            let blocks = ext4.directory_blocks(ino)?.into_iter();
            let pages = blocks.flat_map(|block| block_pages(block, 1, size));
            Ok(pages.map(|page| (dev, page)).collect::<BTreeSet<Page>>())
        });
        let own = own.unwrap_or_default();
        let mut blocks = own.clone();
        blocks.retain(|page| self.blocks.wanted.contains_key(page));
        let times = blocks.iter().map(|page| self.blocks.wanted[page]);
        let Some(time_us) = times.min() else {
            return;
        };
        for page in inode_pages(dev, ino, probe) {
            self.left.remove(&page);
        }
        if blocks.len() == own.len() {
            self.uses.listings.push((time_us, path.to_owned()).into());
            self.left.retain(|page| !blocks.contains(page));
        }
        blocks.retain(|page| self.left.contains(page));
        let mut read = ReadDirectory {
            path,
            dev,
            ino,
            time_us,
            is_new: !self.directories.contains(path),
            blocks,
        };
        for entry in self.entries(&dir) {
            self.name(&mut read, &entry, probe);
        }
    }

    /// The entries of a directory, as far as they may be looked at.
    fn entries(&mut self, dir: &PublicNode) -> Vec<DirEntry> {
        let listed = std::fs::read_dir(own_path(&dir.fd)).into_iter().flatten();
        let room = MOST_NAMES.saturating_sub(self.names);
        let entries: Vec<DirEntry> = listed.filter_map(Result::ok).take(room).collect();
        self.names += entries.len();
        entries
    }

    /// Names what a look-up of this entry reads, if that is wanted: its inode, or the directory's block that holds its name.
    fn name(&mut self, dir: &mut ReadDirectory<'_>, entry: &DirEntry, probe: &mut LiveProbe<'_>) {
        let name = entry.file_name();
        let Ok(path) = String::from_utf8(joined(dir.path.as_bytes(), name.as_bytes())) else {
            return;
        };
        if !is_plain_path(&path) || (self.blocks.is_left_out)(&path) {
            return;
        }
        let inode = inode_pages(dir.dev, entry.ino(), probe);
        let time_us = inode
            .iter()
            .find_map(|page| self.blocks.wanted.get(page))
            .copied();
        let is_unknown = inode.iter().any(|page| !self.blocks.known.contains(page));
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if time_us.is_some() && is_directory && self.seen.insert(path.clone()) {
            self.waiting.push_back(path.clone());
        }
        let of_inode = time_us.filter(|_| dir.is_new || is_unknown);
        let Some(time_us) = of_inode.or_else(|| self.holding_block(dir, &name, probe)) else {
            return;
        };
        for page in inode {
            self.left.remove(&page);
        }
        self.uses.look_ups.push((time_us, path).into());
    }

    /// When the directory was read, if a block of it that holds this name was wanted, and no other name stands for that.
    fn holding_block(
        &mut self,
        dir: &mut ReadDirectory<'_>,
        name: &OsStr,
        probe: &mut LiveProbe<'_>,
    ) -> Option<u64> {
        if dir.blocks.is_empty() {
            return None;
        }
        let pages = probe.ask_ext4(dir.dev, |ext4| {
            let size = ext4.block_size();
            let blocks = ext4.look_up(dir.ino, name.as_bytes())?.blocks.into_iter();
            Ok(blocks
                .flat_map(|block| block_pages(block, 1, size))
                .collect::<Vec<u64>>())
        });
        let mut holds = false;
        for page in pages.into_iter().flatten().map(|page| (dir.dev, page)) {
            holds |= dir.blocks.remove(&page);
            self.left.remove(&page);
        }
        holds.then_some(dir.time_us)
    }
}

/// The pages of the inode table that hold an inode.
fn inode_pages(dev: u64, ino: u64, probe: &mut LiveProbe<'_>) -> Vec<Page> {
    let pages = probe.ask_ext4(dev, |ext4| {
        Ok(block_pages(ext4.inode_block(ino)?, 1, ext4.block_size()))
    });
    pages
        .into_iter()
        .flatten()
        .map(|page| (dev, page))
        .collect()
}
