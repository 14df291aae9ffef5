//! Which blocks looking a name up, or listing a directory, reads: `__ext4_find_entry` and
//! `ext4_readdir` of the kernel's fs/ext4.

use std::ops::Range;

use super::dirent::{self, Damaged};
use super::hashed::Hashed;
use super::htree::Shape;
use super::inode::{CASEFOLD, ENCRYPT, INDEX, INLINE_DATA, RawInode};
use super::map::BlockReads;
use super::raw::{Trait, Traits};
use super::{Ext4, Ext4Error};

/// Most blocks of a directory that are read one after the other: 256 MiB in blocks of 1 KiB. Nobody
/// has such a directory without an index; beyond it the directory is taken for damaged.
pub const MAX_DIRECTORY_BLOCKS: u64 = 1 << 18;

/// Longest name, in bytes (`EXT4_NAME_LEN`): longer ones are refused unread.
const MAX_NAME: usize = 255;

/// Blocks that a linear search asks for at a time (`NAMEI_RA_SIZE`).
const BATCH: u64 = 8;

/// What looking a name up in a directory reads from empty caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryLookUp {
    /// Inode number of what has the name; `None` if nothing has.
    pub found: Option<u64>,
    /// What the look-up waits for, in order of first access, each block once; in file-system blocks
    /// from the start of the device. The inode-table blocks of the directory and of what was found
    /// are not among them.
    pub blocks: Vec<u64>,
    /// What it asks for as well but does not wait for: a linear search reads 8 blocks at a time, of
    /// which these come after the one that holds the name.
    pub ahead: Vec<u64>,
}

/// A directory's inode and what its flags mean.
pub struct Directory {
    pub inode: RawInode,
    /// Number of blocks; not more than the file system has.
    pub blocks: u64,
    /// Whether it has an index that the kernel uses.
    pub indexed: bool,
    /// Whether it ignores case.
    pub folded: bool,
    pub shape: Shape,
    traits: Traits,
}

impl Ext4 {
    /// What the kernel reads to look `name` up in a directory when nothing of the directory is cached,
    /// whether the name exists or not.
    ///
    /// `.` and `..` are looked up as NFS does; to programs the kernel answers them from memory. On a
    /// directory without case, a look-up that finds nothing goes through all blocks on kernels that
    /// repeat it without the hash (6.14 and some stable ones since early 2025, but not Debian's 6.1),
    /// unless the file system forbids it; this is always reckoned with, since a kernel does not tell.
    ///
    /// # Errors
    /// [`Ext4Error::Unsupported`] if the directory is encrypted, or ignores case by rules that libext2fs
    /// does not know; [`Ext4Error::Inode`] if it is no directory or is damaged.
    pub fn look_up(&self, dir_ino: u64, name: &[u8]) -> Result<DirectoryLookUp, Ext4Error> {
        let dir = self.directory(dir_ino)?;
        let unsupported = |reason| {
            Err(Ext4Error::Unsupported {
                ino: dir_ino,
                reason,
            })
        };
        if dir.inode.has(ENCRYPT) {
            return unsupported("its names are encrypted");
        }
        if dir.folded && !dir.traits.has(Trait::Casefold) {
            return unsupported("it ignores case by rules that libext2fs does not know");
        }
        let refused = dir.folded && dir.traits.has(Trait::StrictNames) && !self.valid_name(name);
        if name.len() > MAX_NAME || refused {
            return Ok(DirectoryLookUp::default());
        }
        if dir.inode.has(INLINE_DATA) {
            return Ok(DirectoryLookUp {
                found: self.search_inline(&dir, name)?,
                ..DirectoryLookUp::default()
            });
        }
        let mut reads = BlockReads::default();
        if name == b"." || name == b".." {
            return self.search_linear(&dir, name, 0..1, reads);
        }
        if dir.indexed {
            let found = match self.search_hashed(&dir, name, &mut reads)? {
                Hashed::Found(ino) => Some(Some(ino)),
                Hashed::Absent if dir.folded && !dir.traits.has(Trait::NoLinearRetry) => None,
                Hashed::Absent => Some(None),
                Hashed::Useless => None,
            };
            if let Some(found) = found {
                return Ok(DirectoryLookUp {
                    found,
                    blocks: reads.into_order(),
                    ahead: Vec::new(),
                });
            }
        }
        self.search_linear(&dir, name, 0..dir.blocks, reads)
    }

    /// Every block that listing a whole directory (getdents(2)) reads, in order of first access, each
    /// once; in file-system blocks from the start of the device. Indirect blocks and extent-tree nodes
    /// are among them, the inode-table block is not. None if the directory is inline.
    ///
    /// # Errors
    /// [`Ext4Error::Inode`] if it is no directory, is damaged, or has more than
    /// [`MAX_DIRECTORY_BLOCKS`].
    pub fn directory_blocks(&self, dir_ino: u64) -> Result<Vec<u64>, Ext4Error> {
        let dir = self.directory(dir_ino)?;
        let mut reads = BlockReads::default();
        if dir.inode.has(INLINE_DATA) {
            return Ok(Vec::new());
        }
        if dir.blocks > MAX_DIRECTORY_BLOCKS {
            return Err(dir
                .inode
                .damaged("it is too large a directory to be listed"));
        }
        if dir.indexed && self.list_hashed(&dir, &mut reads)? {
            return Ok(reads.into_order());
        }
        for logical in 0..dir.blocks {
            if let Some(block) = self.locate(&dir.inode, logical, &mut reads)? {
                reads.note(block);
            }
        }
        Ok(reads.into_order())
    }

    fn directory(&self, ino: u64) -> Result<Directory, Ext4Error> {
        let inode = self.inode(ino)?;
        if !inode.is_directory() {
            return Err(inode.damaged("it is no directory"));
        }
        let traits = self.traits();
        let blocks = inode.size(&traits) / self.block_size();
        if blocks > self.blocks() {
            return Err(inode.damaged("it is larger than the file system"));
        }
        let folded = inode.has(CASEFOLD);
        Ok(Directory {
            blocks,
            indexed: traits.has(Trait::DirIndex) && inode.has(INDEX),
            folded,
            shape: Shape {
                checksum: traits.has(Trait::MetadataCsum),
                hash_in_entry: folded && inode.has(ENCRYPT),
                large: traits.has(Trait::LargeDir),
            },
            inode,
            traits,
        })
    }

    /// The place of a block that the index of a directory names, noted as read.
    pub(super) fn locate_logical(
        &self,
        dir: &Directory,
        logical: u64,
        reads: &mut BlockReads,
    ) -> Result<u64, Ext4Error> {
        if logical >= dir.blocks {
            return Err(dir.inode.damaged("its index points past its end"));
        }
        let Some(block) = self.locate(&dir.inode, logical, reads)? else {
            return Err(dir.inode.damaged("its index points to a hole"));
        };
        reads.note(block);
        Ok(block)
    }

    /// Reads a block that the index of a directory names (`ext4_read_dirblock`).
    pub(super) fn read_logical(
        &self,
        dir: &Directory,
        logical: u64,
        reads: &mut BlockReads,
    ) -> Result<Vec<u8>, Ext4Error> {
        let block = self.locate_logical(dir, logical, reads)?;
        self.read_block(dir.inode.ino, block)
    }

    /// The inode that has the name in a block or in inline data.
    pub(super) fn search(
        &self,
        dir: &Directory,
        area: &[u8],
        name: &[u8],
    ) -> Result<Option<u64>, Damaged> {
        for entry in dirent::entries(area) {
            let entry = entry?;
            let same = entry.name == name || (dir.folded && self.same_folded(entry.name, name));
            if same {
                return Ok(Some(entry.ino));
            }
        }
        Ok(None)
    }

    fn search_inline(&self, dir: &Directory, name: &[u8]) -> Result<Option<u64>, Ext4Error> {
        let map = dir.inode.block_map();
        match name {
            b"." => return Ok(Some(dir.inode.ino)),
            // The entry for it is only the parent's number.
            b".." => return Ok(super::inode::le32(map, 0).map(u64::from)),
            _ => {}
        }
        let bad = |Damaged| dir.inode.damaged("its inline entries are damaged");
        let first = self.search(dir, &map[4..], name).map_err(bad)?;
        if first.is_some() {
            return Ok(first);
        }
        // What did not fit there is the value of an attribute.
        let rest = super::attributes::inline_data(&dir.inode)?;
        self.search(dir, rest, name).map_err(bad)
    }

    /// Searches block after block, and lists what had been asked for beyond.
    fn search_linear(
        &self,
        dir: &Directory,
        name: &[u8],
        range: Range<u64>,
        mut reads: BlockReads,
    ) -> Result<DirectoryLookUp, Ext4Error> {
        let end = range.end.min(dir.blocks);
        if end > MAX_DIRECTORY_BLOCKS {
            return Err(dir
                .inode
                .damaged("it is too large a directory to be searched"));
        }
        for first in (range.start..end).step_by(BATCH as usize) {
            let places: Result<Vec<Option<u64>>, Ext4Error> = (first..end.min(first + BATCH))
                .map(|logical| self.locate(&dir.inode, logical, &mut reads))
                .collect();
            // The kernel passes over holes.
            let batch: Vec<u64> = places?.into_iter().flatten().collect();
            for (at, &block) in batch.iter().enumerate() {
                reads.note(block);
                let data = self.read_block(dir.inode.ino, block)?;
                let found = self.search(dir, &data, name);
                let found =
                    found.map_err(|Damaged| dir.inode.damaged("its entries are damaged"))?;
                if found.is_some() {
                    let unread = batch[at + 1..]
                        .iter()
                        .filter(|&&block| !reads.contains(block));
                    return Ok(DirectoryLookUp {
                        found,
                        ahead: unread.copied().collect(),
                        blocks: reads.into_order(),
                    });
                }
            }
        }
        Ok(DirectoryLookUp {
            found: None,
            blocks: reads.into_order(),
            ahead: Vec::new(),
        })
    }
}
