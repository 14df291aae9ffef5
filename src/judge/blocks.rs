//! What a metadata block is, by its content.

use std::fmt;

use serde::Serialize;

use crate::fs::ext4::Fixed;

/// Kinds of ext4 metadata blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockKind {
    /// The superblock or the group descriptors, or a copy of them.
    Superblock,
    /// A block bitmap.
    BlockBitmap,
    /// An inode bitmap.
    InodeBitmap,
    /// Part of an inode table.
    InodeTable,
    /// Part of the journal.
    Journal,
    /// Directory entries, or the index of a hashed directory.
    Directory,
    /// A node of an extent tree.
    ExtentNode,
    /// A block of block numbers, in files without extents.
    Indirect,
    /// Extended attributes.
    Xattr,
    /// The target of a symbolic link too long for its inode.
    SymbolicLink,
    /// None of these, or it cannot be told.
    Unknown,
}

impl From<Fixed> for BlockKind {
    fn from(fixed: Fixed) -> Self {
        match fixed {
            Fixed::Superblock => BlockKind::Superblock,
            Fixed::BlockBitmap => BlockKind::BlockBitmap,
            Fixed::InodeBitmap => BlockKind::InodeBitmap,
            Fixed::InodeTable => BlockKind::InodeTable,
            Fixed::Journal => BlockKind::Journal,
        }
    }
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            BlockKind::Superblock => "superblock or descriptors",
            BlockKind::BlockBitmap => "block bitmap",
            BlockKind::InodeBitmap => "inode bitmap",
            BlockKind::InodeTable => "inode table",
            BlockKind::Journal => "journal",
            BlockKind::Directory => "directory",
            BlockKind::ExtentNode => "extent node",
            BlockKind::Indirect => "indirect block",
            BlockKind::Xattr => "extended attributes",
            BlockKind::SymbolicLink => "symbolic link",
            BlockKind::Unknown => "unknown",
        })
    }
}

/// Magic number of an extent-tree node (`EXT4_EXT_MAGIC`).
const EXTENT_MAGIC: u16 = 0xF30A;

/// Magic number of a block of extended attributes (`EXT4_XATTR_MAGIC`).
const XATTR_MAGIC: u32 = 0xEA02_0000;

impl BlockKind {
    /// Judges a block that the layout does not fix, by its whole content; the file system has `blocks`
    /// blocks. Magic numbers tell at once. Directories are told by their chain of entries (the index of
    /// a hashed one is wrapped into entries too), links and indirect blocks by having nothing else
    /// in them. Never fails: what fits nothing is [`BlockKind::Unknown`].
    pub fn by_content(block: &[u8], blocks: u64) -> BlockKind {
        let word = |at: usize| u32_at(block, at).unwrap_or(0);
        if word(0) & 0xffff == u32::from(EXTENT_MAGIC) && extent_header_fits(block) {
            BlockKind::ExtentNode
        } else if word(0) == XATTR_MAGIC {
            BlockKind::Xattr
        } else if is_directory(block) {
            BlockKind::Directory
        } else if is_link(block) {
            BlockKind::SymbolicLink
        } else if is_indirect(block, blocks) {
            BlockKind::Indirect
        } else {
            BlockKind::Unknown
        }
    }
}

fn u16_at(block: &[u8], at: usize) -> Option<u16> {
    let bytes = block.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn u32_at(block: &[u8], at: usize) -> Option<u32> {
    let bytes = block.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// A header (`struct ext4_extent_header`) of 12 bytes: magic, entries in use, entries that fit, depth.
fn extent_header_fits(block: &[u8]) -> bool {
    let (Some(used), Some(most)) = (u16_at(block, 2), u16_at(block, 4)) else {
        return false;
    };
    used <= most && 12 * (usize::from(most) + 1) <= block.len()
}

/// A chain of `struct ext4_dir_entry_2` that ends exactly with the block.
fn is_directory(block: &[u8]) -> bool {
    let mut at = 0;
    while at < block.len() {
        let (Some(length), Some(&name)) = (u16_at(block, at + 4), block.get(at + 6)) else {
            return false;
        };
        // 64 KiB does not fit into 16 bits.
        let length = match length {
            0 | u16::MAX if block.len() == 1 << 16 => 1 << 16,
            length => usize::from(length),
        };
        if length < 12 || length % 4 != 0 || usize::from(name) + 8 > length {
            return false;
        }
        at += length;
    }
    at == block.len() && at > 0
}

/// Bytes that are not zero, and then nothing but zeros.
fn is_link(block: &[u8]) -> bool {
    let length = block.iter().position(|&byte| byte == 0);
    length.is_some_and(|length| length > 0 && block[length..].iter().all(|&byte| byte == 0))
}

/// Block numbers inside of the file system, not all of them zero.
fn is_indirect(block: &[u8], blocks: u64) -> bool {
    let mut numbers = block
        .chunks_exact(4)
        .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    block.iter().any(|&byte| byte != 0) && numbers.all(|number| u64::from(number) < blocks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(size: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut block = vec![0; size];
        for (at, bytes) in parts {
            block[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        block
    }

    /// A directory entry without what follows its name.
    fn entry(ino: u32, length: u16, name: &[u8]) -> Vec<u8> {
        let mut bytes = ino.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend([name.len() as u8, 1]);
        bytes.extend(name);
        bytes
    }

    #[test]
    fn each_kind_is_told() {
        let header = [0x0a, 0xf3, 2, 0, 84, 0, 0, 0];
        let many = [0xffu8; 4096];
        let link = b"/a/rather/long/path/that/does/not/fit/into/the/inode/itself/at/all";
        for (expected, bytes) in [
            (BlockKind::ExtentNode, block(1024, &[(0, &header)])),
            (BlockKind::Xattr, block(1024, &[(0, &[0, 0, 2, 0xea])])),
            // A leaf with a checksum behind its entries.
            (
                BlockKind::Directory,
                block(
                    1024,
                    &[
                        (0, &entry(12, 12, b".")),
                        (12, &entry(2, 1000, b"..")),
                        (1012, &entry(0, 12, b"")),
                    ],
                ),
            ),
            // The root of a hashed directory, and one of its nodes.
            (
                BlockKind::Directory,
                block(
                    4096,
                    &[
                        (0, &entry(12, 12, b".")),
                        (12, &entry(2, 4084, b"..")),
                        (28, &[1, 8]),
                    ],
                ),
            ),
            (
                BlockKind::Directory,
                block(4096, &[(0, &entry(0, 4096, b""))]),
            ),
            (
                BlockKind::Directory,
                block(1 << 16, &[(0, &entry(0, 0, b""))]),
            ),
            (BlockKind::SymbolicLink, block(1024, &[(0, link)])),
            (
                BlockKind::Indirect,
                block(1024, &[(0, &[9, 1, 0, 0, 0, 0, 0, 0, 10, 1, 0, 0])]),
            ),
            (BlockKind::Unknown, block(1024, &[])),
            (BlockKind::Unknown, many.to_vec()),
            (BlockKind::Unknown, Vec::new()),
        ] {
            assert_eq!(BlockKind::by_content(&bytes, 1 << 20), expected);
        }
    }

    proptest! {
        /// Damaged blocks are judged, too.
        #[test]
        fn no_content_is_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), blocks: u64) {
            let kind = BlockKind::by_content(&bytes, blocks);
            prop_assert!(!matches!(kind, BlockKind::InodeTable | BlockKind::Journal));
        }
    }
}
