//! Inodes as they lie in their table: `struct ext4_inode` of the kernel's fs/ext4/ext4.h.

use super::raw::{Trait, Traits};
use super::{Ext4, Ext4Error};

/// File type bits of the mode, and two values of them.
const S_IFMT: u16 = 0o170_000;
const S_IFDIR: u16 = 0o040_000;
const S_IFLNK: u16 = 0o120_000;

/// `EXT4_ENCRYPT_FL`, `EXT4_INDEX_FL`, `EXT4_EXTENTS_FL`, `EXT4_INLINE_DATA_FL` and
/// `EXT4_CASEFOLD_FL`.
pub const ENCRYPT: u32 = 0x800;
pub const INDEX: u32 = 0x1000;
pub const EXTENTS: u32 = 0x8_0000;
pub const INLINE_DATA: u32 = 0x1000_0000;
pub const CASEFOLD: u32 = 0x4000_0000;

/// Size of the part that every inode has, in bytes. What follows begins with its own length.
const CLASSIC_SIZE: usize = 128;

/// Magic number of the extended attributes after an inode, `EXT4_XATTR_MAGIC`.
const XATTR_MAGIC: u32 = 0xea02_0000;

/// Little-endian integers at an offset in bytes; `None` past the end.
pub fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    bytes.try_into().ok().map(u16::from_le_bytes)
}

/// As [`le16`].
pub fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_le_bytes)
}

/// An inode's bytes.
pub struct RawInode {
    pub ino: u64,
    /// At least [`CLASSIC_SIZE`].
    bytes: Vec<u8>,
}

impl Ext4 {
    /// Reads an inode from its table.
    pub(super) fn inode(&self, ino: u64) -> Result<RawInode, Ext4Error> {
        let (block, offset) = self.inode_place(ino)?;
        let size = self.traits().inode_size as usize;
        let table = self.read_block(ino, block)?;
        match table.get(offset..offset + size) {
            Some(bytes) if size >= CLASSIC_SIZE => Ok(RawInode {
                ino,
                bytes: bytes.to_owned(),
            }),
            _ => Err(damaged(
                ino,
                "it does not lie within a block of the inode table",
            )),
        }
    }
}

/// The error that says what is wrong with an inode.
pub fn damaged(ino: u64, reason: &str) -> Ext4Error {
    Ext4Error::Inode {
        ino,
        reason: reason.to_owned(),
    }
}

impl RawInode {
    fn u16(&self, at: usize) -> u16 {
        le16(&self.bytes, at).unwrap_or(0)
    }

    fn u32(&self, at: usize) -> u32 {
        le32(&self.bytes, at).unwrap_or(0)
    }

    pub fn damaged(&self, reason: &str) -> Ext4Error {
        damaged(self.ino, reason)
    }

    pub fn is_directory(&self) -> bool {
        self.u16(0) & S_IFMT == S_IFDIR
    }

    pub fn is_link(&self) -> bool {
        self.u16(0) & S_IFMT == S_IFLNK
    }

    pub fn has(&self, flag: u32) -> bool {
        self.u32(32) & flag != 0
    }

    /// Size in bytes. Of directories, the upper half counts with large_dir only (`ext4_isize`).
    pub fn size(&self, traits: &Traits) -> u64 {
        let lower = u64::from(self.u32(4));
        if self.is_directory() && !traits.has(Trait::LargeDir) {
            return lower;
        }
        lower | u64::from(self.u32(108)) << 32
    }

    /// Whether a symbolic link's target is in the inode (`ext4_inode_is_fast_symlink`). With inline
    /// data it is there too, but elsewhere.
    pub fn is_fast_link(&self, traits: &Traits) -> bool {
        if traits.has(Trait::EaInode) {
            let size = self.size(traits);
            return size > 0 && size < self.block_map().len() as u64;
        }
        let allocated = u64::from(self.u32(28)) | u64::from(self.u16(116)) << 32;
        let attributes = match self.attribute_block(traits) {
            0 => 0,
            _ => u64::from(traits.cluster_size / 512),
        };
        allocated == attributes
    }

    /// The root of the extent tree, the block map, or inline data: 60 bytes.
    pub fn block_map(&self) -> &[u8] {
        &self.bytes[40..100]
    }

    /// The block of extended attributes; 0 if there is none.
    pub fn attribute_block(&self, traits: &Traits) -> u64 {
        let lower = u64::from(self.u32(104));
        if traits.has(Trait::Wide) {
            return lower | u64::from(self.u16(118)) << 32;
        }
        lower
    }

    /// The extended attributes in the inode's own space: first entry to end. Empty if there are none.
    pub fn attributes(&self) -> &[u8] {
        let start = CLASSIC_SIZE + usize::from(self.u16(CLASSIC_SIZE));
        match le32(&self.bytes, start) {
            Some(XATTR_MAGIC) => &self.bytes[start + 4..],
            _ => &[],
        }
    }
}
