//! Which blocks looking a name up, or listing a directory, reads: `__ext4_find_entry` and `ext4_readdir` of
//! the kernel's fs/ext4.
//!
//! Whether a name exists is not looked for: the caller has asked the kernel. So only the index of a hashed
//! directory is read here, and none of its entries.

use super::directory_index::{HashKey, IndexFormat, IndexRoot, parse_node, position};
use super::{
    DIR_INDEX, Ext4, Ext4Error, ExtentNode, INLINE_DATA, LARGE_DIR, METADATA_CSUM, S_IFDIR, S_IFMT,
    damaged,
};

/// Most blocks of a directory that are considered: 256 MiB in blocks of 1 KiB. A larger directory is taken
/// for damaged.
pub const MAX_DIRECTORY_BLOCKS: u64 = 1 << 18;

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
    /// Blocks that it may read: the leaf after the name's own if names of the same hash go on there, and
    /// all but the first of a directory without an index, which is searched from its beginning.
    pub perhaps: Vec<u64>,
}

/// A directory's inode, and where its blocks lie.
struct Directory {
    ino: u64,
    /// Size in blocks, at most [`MAX_DIRECTORY_BLOCKS`].
    blocks: u64,
    flags: u32,
    nodes: Vec<ExtentNode>,
    format: IndexFormat,
}

/// A path from the root of an index to a leaf: for each level its keys, and the index of the one taken.
struct IndexPath(Vec<(Vec<HashKey>, usize)>);

impl IndexPath {
    fn key(&self) -> Option<HashKey> {
        let (keys, at) = self.0.last()?;
        keys.get(*at).copied()
    }
}

impl Ext4 {
    /// What the kernel reads to look `name` up in a directory when nothing of the directory is cached,
    /// whether the name exists or not. `.` and `..` are answered from memory and must not be asked for.
    ///
    /// # Errors
    /// [`Ext4Error::Unsupported`] if the hashes of names are not those of their bytes: if the directory is
    /// encrypted or ignores case. [`Ext4Error::Inode`] if it is no directory or is damaged.
    pub fn look_up(&self, dir_ino: u64, name: &[u8]) -> Result<DirectoryLookUp, Ext4Error> {
        let dir = self.directory(dir_ino)?;
        for (flag, reason) in [
            (ENCRYPT, "its names are encrypted"),
            (CASEFOLD, "it ignores case"),
        ] {
            if dir.flags & flag != 0 {
                return Err(Ext4Error::Unsupported {
                    ino: dir_ino,
                    reason,
                });
            }
        }
        if name.len() > MAX_NAME || dir.blocks == 0 {
            return Ok(DirectoryLookUp::default());
        }
        if dir.flags & INDEX != 0
            && self.features() & DIR_INDEX != 0
            && let Some(found) = self.search_index(&dir, name)?
        {
            return Ok(found);
        }
        let mut blocks = Vec::new();
        self.locate(&dir, 0, &mut blocks)?;
        let mut perhaps = self.all_blocks(&dir)?;
        perhaps.retain(|block| !blocks.contains(block));
        Ok(DirectoryLookUp { blocks, perhaps })
    }

    /// Every block that listing a whole directory (getdents(2)) reads, each once, in file-system blocks
    /// from the start of the device. Extent-tree nodes and indirect blocks come first; the inode-table block
    /// is not among them. Empty if the directory is inline.
    ///
    /// # Errors
    /// [`Ext4Error::Inode`] if it is no directory, is damaged, or has more than [`MAX_DIRECTORY_BLOCKS`].
    pub fn directory_blocks(&self, dir_ino: u64) -> Result<Vec<u64>, Ext4Error> {
        self.all_blocks(&self.directory(dir_ino)?)
    }

    fn directory(&self, ino: u64) -> Result<Directory, Ext4Error> {
        let inode = self.inode(ino)?;
        if inode.mode & S_IFMT != S_IFDIR {
            return Err(damaged(ino, "it is no directory"));
        }
        let is_inline = inode.flags & INLINE_DATA != 0;
        let blocks = if is_inline {
            0
        } else {
            inode.size / self.block_size()
        };
        if blocks > self.blocks().min(MAX_DIRECTORY_BLOCKS) {
            return Err(damaged(ino, "it is too large for a directory"));
        }
        let features = self.features();
        Ok(Directory {
            ino,
            blocks,
            flags: inode.flags,
            nodes: self.extent_nodes(ino)?,
            format: IndexFormat {
                checksum: features & METADATA_CSUM != 0,
                large: features & LARGE_DIR != 0,
            },
        })
    }

    fn all_blocks(&self, dir: &Directory) -> Result<Vec<u64>, Ext4Error> {
        let mut all: Vec<u64> = dir.nodes.iter().map(|node| node.physical).collect();
        for logical in 0..dir.blocks {
            all.extend(self.map(dir.ino, logical)?);
        }
        Ok(all)
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

    /// Looks a name up by its hash (`ext4_dx_find_entry`); `None` if the index is of no use, and the kernel
    /// searches the whole directory.
    fn search_index(
        &self,
        dir: &Directory,
        name: &[u8],
    ) -> Result<Option<DirectoryLookUp>, Ext4Error> {
        let mut blocks = Vec::new();
        let root = self.locate(dir, 0, &mut blocks)?;
        let Some(root) = IndexRoot::parse(&self.read_block(dir.ino, root)?, dir.format) else {
            return Ok(None);
        };
        let hash = self.name_hash(dir.ino, root.version, name)?;
        let mut path = IndexPath(Vec::new());
        let mut keys = root.keys;
        for level in 0..=root.levels {
            let at = position(&keys, hash);
            let block = keys[at].block;
            path.0.push((keys, at));
            let block = self.locate(dir, block, &mut blocks)?;
            if level == root.levels {
                break;
            }
            keys = match parse_node(&self.read_block(dir.ino, block)?, dir.format) {
                Some(keys) => keys,
                None => return Ok(None),
            };
        }
        let mut perhaps = Vec::new();
        // No valid index has a leaf twice.
        for _ in 0..dir.blocks {
            let Some(leaf) = self.next_leaf(dir, &mut path, hash, &mut perhaps)? else {
                perhaps.retain(|block| !blocks.contains(block));
                return Ok(Some(DirectoryLookUp { blocks, perhaps }));
            };
            self.locate(dir, leaf, &mut perhaps)?;
        }
        Err(damaged(dir.ino, "its index runs in circles"))
    }

    /// Goes on to the next leaf if names of this hash may be in it (`ext4_htree_next_block`).
    fn next_leaf(
        &self,
        dir: &Directory,
        path: &mut IndexPath,
        hash: u32,
        reads: &mut Vec<u64>,
    ) -> Result<Option<u64>, Ext4Error> {
        let depth = path.0.len();
        // Up to the lowest level that has a key left.
        while let Some((keys, at)) = path.0.last_mut() {
            *at += 1;
            if *at < keys.len() {
                break;
            }
            path.0.pop();
        }
        let Some(mut key) = path.key().filter(|key| key.hash & !1 == hash) else {
            return Ok(None);
        };
        // And down again along the first keys.
        while path.0.len() < depth {
            let block = self.locate(dir, key.block, reads)?;
            let keys = parse_node(&self.read_block(dir.ino, block)?, dir.format)
                .ok_or_else(|| damaged(dir.ino, "a node of its index is damaged"))?;
            key = keys[0];
            path.0.push((keys, 0));
        }
        Ok(Some(key.block))
    }
}
