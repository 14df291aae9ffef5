//! Blocks of symbolic links and of extended attributes: fs/ext4/symlink.c and xattr.c of the kernel.

use super::inode::{INLINE_DATA, RawInode, le16, le32};
use super::map::BlockReads;
use super::raw::Trait;
use super::{Ext4, Ext4Error};

/// Where the entries of a block of attributes begin, in bytes: after `struct ext4_xattr_header`, which
/// begins with its magic number.
const BLOCK_HEADER: usize = 32;
const BLOCK_MAGIC: u32 = 0xea02_0000;

/// Size of an entry without its name, in bytes (`struct ext4_xattr_entry`).
const ENTRY: usize = 16;

/// The attribute that continues inline data: `system.data`.
const INDEX_SYSTEM: u8 = 7;
const INLINE_NAME: &[u8] = b"data";

/// Largest value that setxattr(2) takes, in bytes (`XATTR_SIZE_MAX`).
const MAX_VALUE: u64 = 1 << 16;

/// An extended attribute.
#[derive(Debug, PartialEq, Eq)]
struct Attribute<'a> {
    /// Which prefix the name has.
    index: u8,
    name: &'a [u8],
    /// The inode that holds the value; 0 if it lies here.
    value_ino: u64,
    /// Where the value lies otherwise, in bytes from the base.
    value_start: usize,
    /// In bytes.
    value_len: usize,
}

/// The attributes in an area; `None` if it is damaged.
fn attributes(area: &[u8]) -> Option<Vec<Attribute<'_>>> {
    let mut found = Vec::new();
    let mut rest = area;
    // Four zero bytes end the list, unless the area ends there.
    while rest.len() >= 4 && le32(rest, 0)? != 0 {
        let name_len = usize::from(rest[0]);
        found.push(Attribute {
            index: rest[1],
            name: rest.get(ENTRY..ENTRY + name_len)?,
            value_start: usize::from(le16(rest, 2)?),
            value_ino: u64::from(le32(rest, 4)?),
            value_len: usize::try_from(le32(rest, 8)?).ok()?,
        });
        rest = rest.get((ENTRY + name_len).next_multiple_of(4)..)?;
    }
    Some(found)
}

/// The part of an inode's inline data that is an attribute; empty if there is none.
pub fn inline_data(inode: &RawInode) -> Result<&[u8], Ext4Error> {
    let area = inode.attributes();
    let bad = || inode.damaged("its extended attributes are damaged");
    let all = attributes(area).ok_or_else(bad)?;
    let data = all
        .iter()
        .find(|attribute| attribute.index == INDEX_SYSTEM && attribute.name == INLINE_NAME);
    let Some(data) = data else {
        return Ok(&[]);
    };
    // In an inode, values are addressed from the first entry on.
    let value = data.value_start..data.value_start.saturating_add(data.value_len);
    area.get(value).ok_or_else(bad)
}

impl Ext4 {
    /// The blocks that reading a symbolic link (readlink(2), or going through it) needs besides the
    /// inode-table block, in file-system blocks from the start of the device. None if the target is in
    /// the inode, and for anything but links.
    ///
    /// Since Linux 5.19 they are read through the block device's cache; before, through a page cache
    /// of the link's own.
    ///
    /// # Errors
    /// [`Ext4Error::Inode`] if the inode or its map is damaged.
    pub fn link_blocks(&self, ino: u64) -> Result<Vec<u64>, Ext4Error> {
        let inode = self.inode(ino)?;
        let mut reads = BlockReads::default();
        if inode.is_link() && !inode.has(INLINE_DATA) && !inode.is_fast_link(&self.traits()) {
            // A target is never longer than a block.
            let block = self.locate(&inode, 0, &mut reads)?;
            reads.note(block.ok_or_else(|| inode.damaged("the link has no target"))?);
        }
        Ok(reads.into_order())
    }

    /// The blocks that reading an inode's extended attributes needs besides its inode-table block, in
    /// file-system blocks from the start of the device: those of values in inodes of their own
    /// (inode-table blocks, maps and data) and the external block. None if all are in the inode.
    ///
    /// # Errors
    /// [`Ext4Error::Inode`] if the inode or its attributes are damaged.
    pub fn xattr_blocks(&self, ino: u64) -> Result<Vec<u64>, Ext4Error> {
        let inode = self.inode(ino)?;
        let bad = || inode.damaged("its extended attributes are damaged");
        let mut reads = BlockReads::default();
        let own = attributes(inode.attributes()).ok_or_else(bad)?;
        self.values(&inode, &own, &mut reads)?;
        let block = inode.attribute_block(&self.traits());
        if block != 0 {
            let data = self.read_block(ino, block)?;
            reads.note(block);
            if le32(&data, 0) != Some(BLOCK_MAGIC) {
                return Err(bad());
            }
            let external = attributes(&data[BLOCK_HEADER..]).ok_or_else(bad)?;
            self.values(&inode, &external, &mut reads)?;
        }
        Ok(reads.into_order())
    }

    /// Notes the blocks of values in inodes of their own (`ext4_xattr_inode_get`).
    fn values(
        &self,
        owner: &RawInode,
        attributes: &[Attribute<'_>],
        reads: &mut BlockReads,
    ) -> Result<(), Ext4Error> {
        let traits = self.traits();
        for attribute in attributes {
            if attribute.value_ino == 0 || !traits.has(Trait::EaInode) {
                continue;
            }
            reads.note(self.inode_block(attribute.value_ino)?);
            let value = self.inode(attribute.value_ino)?;
            let size = value.size(&traits);
            if size > MAX_VALUE {
                return Err(owner.damaged("the value of an extended attribute is too large"));
            }
            for logical in 0..size.div_ceil(self.block_size()) {
                let block = self.locate(&value, logical, reads)?;
                reads.note(block.ok_or_else(|| value.damaged("an attribute's value has a hole"))?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(index: u8, name: &[u8], value_ino: u32) -> Vec<u8> {
        let mut entry = vec![0; (ENTRY + name.len()).next_multiple_of(4)];
        entry[0] = name.len() as u8;
        entry[1] = index;
        entry[4..8].copy_from_slice(&value_ino.to_le_bytes());
        entry[8] = 5;
        entry[ENTRY..ENTRY + name.len()].copy_from_slice(name);
        entry
    }

    #[test]
    fn attributes_are_listed_up_to_the_end_mark_or_the_end() {
        let listed = [entry(1, b"one", 0), entry(7, b"data", 77)].concat();
        let marked = [listed.clone(), vec![0; 4], entry(1, b"value", 0)].concat();
        for area in [&listed, &marked] {
            let found = attributes(area).unwrap();
            assert_eq!(found.len(), 2);
            assert_eq!(found[0].name, b"one");
            assert_eq!((found[1].value_ino, found[1].value_len), (77, 5));
        }
        assert_eq!(attributes(&[]), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_listed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(found) = attributes(&bytes) {
                prop_assert!(found.len() <= bytes.len() / ENTRY);
            }
        }
    }
}
