//! Which blocks looking a name up, or listing a directory, reads: `__ext4_find_entry` and `ext4_readdir` of
//! the kernel's fs/ext4.
//!
//! Whether a name exists is not looked for: the caller has asked the kernel. So only the index of a hashed
//! directory is read here, and none of its entries.

use rustix::fs::FileType;

use super::directory_index::{IndexFormat, IndexRoot, block_below, parse_node};
use super::{Ext4, Ext4Error, ExtentNode, INLINE_DATA, damaged};

/// Most blocks of a directory that are considered: 256 MiB in blocks of 1 KiB. A larger directory is taken
/// for damaged.
const MAX_DIRECTORY_BLOCKS: u64 = 1 << 18;

/// Most blocks of a directory without an index that one look-up is said to read. The kernel reads them from the
/// first on until it finds the name. Directories of more than a few blocks have an index.
const MAX_SEARCHED_BLOCKS: u64 = 1024;

/// Longest name, in bytes (`EXT4_NAME_LEN`). The kernel refuses longer ones without reading anything.
const MAX_NAME: usize = 255;

/// `EXT4_ENCRYPT_FL`, `EXT4_INDEX_FL` and `EXT4_CASEFOLD_FL`.
const ENCRYPT: u32 = 0x800;
const INDEX: u32 = 0x1000;
const CASEFOLD: u32 = 0x4000_0000;

/// What looking a name up in a directory reads from empty caches, in file-system blocks from the start of the
/// device, each block once. The inode-table blocks of the directory and of what was found are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryLookUp {
    /// Blocks that the look-up reads in any case, in the order of first access.
    pub blocks: Vec<u64>,
    /// Blocks that it may read: all but the first of a directory without an index, which is searched from its
    /// beginning.
    pub perhaps: Vec<u64>,
}

/// A directory's inode, and where its blocks lie.
struct Directory {
    ino: u64,
    /// Size in blocks, at most [`MAX_DIRECTORY_BLOCKS`].
    blocks: u64,
    flags: u32,
    nodes: Vec<ExtentNode>,
}

impl Ext4 {
    /// What the kernel reads to look `name` up in a directory when nothing of the directory is cached,
    /// whether the name exists or not. `.` and `..` are answered from memory and must not be asked for.
    ///
    /// # Errors
    /// If the hashes of names are not those of their bytes: if the directory is encrypted or ignores case; if it
    /// is no directory or is damaged.
    pub fn look_up(&self, dir_ino: u64, name: &[u8]) -> Result<DirectoryLookUp, Ext4Error> {
        let dir = self.directory(dir_ino)?;
        let unsupported = |reason| {
            let what = format!("cannot tell what a look-up in directory {dir_ino} reads: {reason}");
            Err(Ext4Error(what))
        };
        if dir.flags & ENCRYPT != 0 {
            return unsupported("its names are encrypted");
        }
        if dir.flags & CASEFOLD != 0 {
            return unsupported("it ignores case");
        }
        if name.len() > MAX_NAME || dir.blocks == 0 {
            return Ok(DirectoryLookUp::default());
        }
        if dir.flags & INDEX != 0
            && self.info.dir_index != 0
            && let Some(blocks) = self.search_index(&dir, name)?
        {
            return Ok(DirectoryLookUp {
                blocks,
                perhaps: Vec::new(),
            });
        }
        let mut blocks = Vec::new();
        self.locate(&dir, 0, &mut blocks)?;
        let searched = dir.blocks.min(MAX_SEARCHED_BLOCKS);
        let mut perhaps = self.first_blocks(&dir, searched)?;
        perhaps.retain(|block| !blocks.contains(block));
        Ok(DirectoryLookUp { blocks, perhaps })
    }

    /// Every block that listing a whole directory (getdents(2)) reads, each once, in file-system blocks
    /// from the start of the device. Extent-tree nodes and indirect blocks come first; the inode-table block
    /// is not among them. Empty if the directory is inline.
    ///
    /// # Errors
    /// If it is no directory, is damaged, or has more than 2^18 blocks.
    pub fn directory_blocks(&self, dir_ino: u64) -> Result<Vec<u64>, Ext4Error> {
        let dir = self.directory(dir_ino)?;
        self.first_blocks(&dir, dir.blocks)
    }

    fn directory(&self, ino: u64) -> Result<Directory, Ext4Error> {
        let inode = self.inode(ino)?;
        if inode.kind() != FileType::Directory {
            return Err(damaged(ino, "it is no directory"));
        }
        let blocks = match inode.flags & INLINE_DATA {
            0 => inode.size / self.block_size(),
            _ => 0,
        };
        if blocks > self.blocks().min(MAX_DIRECTORY_BLOCKS) {
            return Err(damaged(ino, "it is too large for a directory"));
        }
        Ok(Directory {
            ino,
            blocks,
            flags: inode.flags,
            nodes: self.extent_nodes(ino)?,
        })
    }

    /// The first `count` blocks of a directory, and the tree nodes that map them.
    fn first_blocks(&self, dir: &Directory, count: u64) -> Result<Vec<u64>, Ext4Error> {
        let nodes = dir.nodes.iter().filter(|node| node.first < count);
        let mut blocks: Vec<u64> = nodes.map(|node| node.physical).collect();
        for logical in 0..count {
            blocks.extend(self.map(dir.ino, logical)?);
        }
        Ok(blocks)
    }

    /// The place of a directory's logical block. It and the nodes that lead to it are noted in `reads`.
    fn locate(
        &self,
        dir: &Directory,
        logical: u64,
        reads: &mut Vec<u64>,
    ) -> Result<u64, Ext4Error> {
        if logical >= dir.blocks {
            return Err(damaged(dir.ino, "its index points past its end"));
        }
        let Some(block) = self.map(dir.ino, logical)? else {
            return Err(damaged(dir.ino, "it has a hole"));
        };
        let on_the_way = dir
            .nodes
            .iter()
            .filter(|node| (node.first..node.first.saturating_add(node.len)).contains(&logical))
            .map(|node| node.physical);
        for read in on_the_way.chain([block]) {
            if !reads.contains(&read) {
                reads.push(read);
            }
        }
        Ok(block)
    }

    /// The blocks that looking a name up by its hash reads (`ext4_dx_find_entry`), but for leaves after the
    /// first: names of one hash seldom fill two. `None` if the index is of no use, and the kernel searches the
    /// whole directory.
    fn search_index(&self, dir: &Directory, name: &[u8]) -> Result<Option<Vec<u64>>, Ext4Error> {
        let format = IndexFormat {
            checksum: self.info.metadata_csum != 0,
            large: self.info.large_dir != 0,
        };
        let mut blocks = Vec::new();
        let root = self.locate(dir, 0, &mut blocks)?;
        let Some(root) = IndexRoot::parse(&self.read_block(dir.ino, root)?, format) else {
            return Ok(None);
        };
        let hash = self.name_hash(dir.ino, root.version, name)?;
        let mut next = block_below(&root.keys, hash);
        for _ in 0..root.levels {
            let block = self.locate(dir, next, &mut blocks)?;
            let Some(keys) = parse_node(&self.read_block(dir.ino, block)?, format) else {
                return Ok(None);
            };
            next = block_below(&keys, hash);
        }
        self.locate(dir, next, &mut blocks)?;
        Ok(Some(blocks))
    }
}
