//! Where a block of a file or directory lies, and what must be read to know it: `ext4_map_blocks` of
//! the kernel.

use std::collections::HashSet;

use super::inode::{EXTENTS, RawInode, le16, le32};
use super::{Ext4, Ext4Error};

/// `EXT4_MAX_EXTENT_DEPTH`: no valid tree is deeper.
const MAX_DEPTH: u16 = 5;

/// `EXT4_EXT_MAGIC`, the first two bytes of a node of an extent tree.
const MAGIC: u16 = 0xf30a;

/// Size of an extent-tree node's header, and of each of its entries, in bytes.
const ENTRY: usize = 12;

/// Longest extent, in blocks (`EXT_INIT_MAX_LEN`); a greater length says that nothing was written
/// there yet.
const MAX_WRITTEN: u16 = 1 << 15;

/// Blocks that the inode's block map names directly (`EXT4_NDIR_BLOCKS`).
const DIRECT: u64 = 12;

/// Blocks that have been read, each once, in the order of the first access.
#[derive(Debug, Default)]
pub struct BlockReads {
    order: Vec<u64>,
    seen: HashSet<u64>,
}

impl BlockReads {
    pub fn note(&mut self, block: u64) {
        if self.seen.insert(block) {
            self.order.push(block);
        }
    }

    pub fn contains(&self, block: u64) -> bool {
        self.seen.contains(&block)
    }

    pub fn into_order(self) -> Vec<u64> {
        self.order
    }
}

impl Ext4 {
    /// The place of a file's logical block, in file-system blocks; `None` in a hole. The extent-tree
    /// nodes or indirect blocks that tell it are noted as read.
    pub(super) fn locate(
        &self,
        inode: &RawInode,
        logical: u64,
        reads: &mut BlockReads,
    ) -> Result<Option<u64>, Ext4Error> {
        if logical > u64::from(u32::MAX) {
            return Err(inode.damaged("it is larger than a file can be"));
        }
        let place = if inode.has(EXTENTS) {
            self.locate_extent(inode, logical, reads)?
        } else {
            self.locate_indirect(inode, logical, reads)?
        };
        match place {
            Some(block) if !self.holds(block) => {
                Err(inode.damaged("it lies outside of the file system"))
            }
            place => Ok(place),
        }
    }

    /// Whether a block of this number can hold anything.
    pub(super) fn holds(&self, block: u64) -> bool {
        (self.traits().first_block.max(1)..self.blocks()).contains(&block)
    }

    fn locate_extent(
        &self,
        inode: &RawInode,
        logical: u64,
        reads: &mut BlockReads,
    ) -> Result<Option<u64>, Ext4Error> {
        let bad = || inode.damaged("its extent tree is damaged");
        let mut node = inode.block_map().to_owned();
        let mut depth = le16(&node, 6)
            .filter(|&depth| depth <= MAX_DEPTH)
            .ok_or_else(bad)?;
        loop {
            let entries = entries(&node, depth).ok_or_else(bad)?;
            let after = entries.partition_point(|entry| u64::from(entry.first) <= logical);
            if depth == 0 {
                return Ok(after
                    .checked_sub(1)
                    .and_then(|at| entries[at].maps(logical)));
            }
            // What comes before the first key is looked for there, as the kernel does.
            let child = entries
                .get(after.saturating_sub(1))
                .ok_or_else(bad)?
                .child();
            node = self.read_block(inode.ino, child)?;
            reads.note(child);
            depth -= 1;
        }
    }

    fn locate_indirect(
        &self,
        inode: &RawInode,
        logical: u64,
        reads: &mut BlockReads,
    ) -> Result<Option<u64>, Ext4Error> {
        let fanout = self.block_size() / 4;
        let pointer = |node: &[u8], at: u64| le32(node, at as usize * 4).map_or(0, u64::from);
        let Some(Path { slot, mut below }) = Path::new(logical, fanout) else {
            return Err(inode.damaged("it is larger than its block map can tell"));
        };
        let mut block = pointer(inode.block_map(), slot);
        // Each pass goes down one of at most three levels.
        while let (true, Some(at)) = (block != 0, below.pop()) {
            let node = self.read_block(inode.ino, block)?;
            reads.note(block);
            block = pointer(&node, at);
        }
        Ok((block != 0).then_some(block))
    }
}

/// The way through a block map to a logical block (`ext4_block_to_path`).
#[derive(Debug, PartialEq, Eq)]
struct Path {
    /// Pointer in the inode, 0 to 14.
    slot: u64,
    /// Pointers in the indirect blocks below it; the last is taken first.
    below: Vec<u64>,
}

impl Path {
    /// `None` past the end of the map. `fanout` is the number of pointers in a block.
    fn new(logical: u64, fanout: u64) -> Option<Path> {
        if logical < DIRECT {
            return Some(Path {
                slot: logical,
                below: Vec::new(),
            });
        }
        let mut rest = logical - DIRECT;
        let mut reach = 1;
        for level in 1..=3 {
            reach *= fanout;
            if rest < reach {
                let below = (0..level).map(|digit| rest / fanout.pow(digit) % fanout);
                return Some(Path {
                    slot: DIRECT + u64::from(level) - 1,
                    below: below.collect(),
                });
            }
            rest -= reach;
        }
        None
    }
}

/// An entry of an extent-tree node: `struct ext4_extent` in leaves, `struct ext4_extent_idx` above.
struct MapEntry {
    first: u32,
    rest: [u8; 8],
}

impl MapEntry {
    fn half(&self, at: usize) -> u64 {
        u64::from(u16::from_le_bytes([self.rest[at], self.rest[at + 1]]))
    }

    /// The place of the node that an index entry names.
    fn child(&self) -> u64 {
        self.half(0) | self.half(2) << 16 | self.half(4) << 32
    }

    /// The place of a logical block from `first` on, if a leaf's entry maps it to written data.
    fn maps(&self, logical: u64) -> Option<u64> {
        let (len, into) = (self.half(0), logical - u64::from(self.first));
        let start = self.half(4) | self.half(6) << 16 | self.half(2) << 32;
        (len <= u64::from(MAX_WRITTEN) && into < len).then_some(start + into)
    }
}

/// The entries of a node that must be of this depth (0 for leaves); `None` if it is damaged.
fn entries(node: &[u8], depth: u16) -> Option<Vec<MapEntry>> {
    let (count, max) = (le16(node, 2)?, le16(node, 4)?);
    let fits = count <= max && usize::from(max) <= (node.len() / ENTRY).saturating_sub(1);
    if le16(node, 0)? != MAGIC || le16(node, 6)? != depth || !fits {
        return None;
    }
    node[ENTRY..]
        .chunks_exact(ENTRY)
        .take(usize::from(count))
        .map(|entry| {
            Some(MapEntry {
                first: le32(entry, 0)?,
                rest: entry.get(4..)?.try_into().ok()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaf(extents: &[(u32, u16, u64)]) -> Vec<u8> {
        let mut node = vec![0; 60];
        node[..2].copy_from_slice(&MAGIC.to_le_bytes());
        node[2..4].copy_from_slice(&(extents.len() as u16).to_le_bytes());
        node[4..6].copy_from_slice(&4_u16.to_le_bytes());
        for (entry, &(first, len, start)) in node[ENTRY..].chunks_exact_mut(ENTRY).zip(extents) {
            entry[..4].copy_from_slice(&first.to_le_bytes());
            entry[4..6].copy_from_slice(&len.to_le_bytes());
            entry[6..8].copy_from_slice(&((start >> 32) as u16).to_le_bytes());
            entry[8..].copy_from_slice(&(start as u32).to_le_bytes());
        }
        node
    }

    #[test]
    fn an_extent_maps_what_was_written() {
        let node = leaf(&[
            (0, 2, 100),
            (5, MAX_WRITTEN + 3, 7 << 32 | 9),
            (9, 1, 7 << 32 | 9),
        ]);
        let entries = entries(&node, 0).unwrap();
        assert_eq!(entries[0].maps(1), Some(101));
        assert_eq!(entries[0].maps(2), None);
        assert_eq!(entries[1].maps(5), None);
        assert_eq!(entries[2].maps(9), Some(7 << 32 | 9));
    }

    #[test]
    fn damaged_nodes_have_no_entries() {
        let sound = leaf(&[(0, 2, 100)]);
        assert!(entries(&sound, 0).is_some());
        assert!(entries(&sound, 1).is_none());
        for (at, byte) in [(0, 0), (2, 5), (4, 5), (6, 1)] {
            let mut node = sound.clone();
            node[at] = byte;
            assert!(entries(&node, 0).is_none(), "byte {at} is {byte}");
        }
        assert!(entries(&[], 0).is_none());
        assert!(entries(&sound[..11], 0).is_none());
    }

    proptest! {
        #[test]
        fn a_path_counts_in_the_fanout(logical in 0..12 + 256 + 256 * 256 + 256_u64.pow(3)) {
            let path = Path::new(logical, 256).unwrap();
            let within = path.below.iter().rev().fold(0, |sum, at| sum * 256 + at);
            let before = [0, 12, 12 + 256, 12 + 256 + 256 * 256][path.below.len()];
            let expected = if path.below.is_empty() { path.slot } else { before + within };
            prop_assert_eq!(expected, logical);
            prop_assert_eq!(path.below.len() as u64, path.slot.saturating_sub(11));
        }
    }

    #[test]
    fn a_block_map_has_an_end() {
        assert_eq!(Path::new(12 + 256 + 256 * 256 + 256_u64.pow(3), 256), None);
    }
}
