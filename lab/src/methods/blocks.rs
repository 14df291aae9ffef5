//! FAST's LBA-to-inode map (§4.2): by which path a metadata block can be read.

use serde::{Deserialize, Serialize};

/// Which system calls read a block (FAST Table 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replay {
    /// A block of the inode table: open(2) of what has its inode there.
    Inode,
    /// A directory's block: opendir(3) and readdir(3).
    Directory,
}

/// A metadata block that can be read by path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Block {
    /// Position on the device, in 4 KiB pages.
    pub page: u64,
    /// How it is read.
    pub replay: Replay,
    /// Index in [`BlockMap::paths`].
    pub path: u32,
}

/// How to read metadata blocks of one device by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockMap {
    /// The device that is mounted at the image's root, by index in the first as-read set's table.
    pub device: u16,
    /// Absolute paths below the image's root; arbitrary bytes.
    pub paths: Vec<Vec<u8>>,
    /// The blocks, by position. File systems with small blocks have several in a page.
    pub blocks: Vec<Block>,
}

impl BlockMap {
    /// The known blocks in a page of the device.
    pub fn in_page(&self, page: u64) -> &[Block] {
        let start = self.blocks.partition_point(|block| block.page < page);
        let end = self.blocks.partition_point(|block| block.page <= page);
        &self.blocks[start..end]
    }
}
