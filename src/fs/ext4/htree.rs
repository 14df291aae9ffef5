//! The index of a hashed directory: `struct dx_root` and `struct dx_node` of the kernel's
//! fs/ext4/namei.c.

use super::inode::{le16, le32};

/// Size of an entry of the index, in bytes; the first one's key is the entries' limit and count.
const ENTRY: usize = 8;

/// Where the root's information begins, after the entries for `.` and `..`, in bytes.
const ROOT_INFO: usize = 24;

/// Bits of a block number (`dx_get_block`).
const BLOCK_MASK: u32 = 0x0fff_ffff;

/// `DX_HASH_TEA`, the last of the hashes of plain names, and `DX_HASH_SIPHASH`, that of encrypted
/// names without case.
const HASH_TEA: u8 = 2;
const HASH_SIPHASH: u8 = 6;

/// What the blocks of an index look like in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// They end in a checksum (metadata_csum).
    pub checksum: bool,
    /// The directory's entries hold their hashes: names are encrypted, without case.
    pub hash_in_entry: bool,
    /// The index may have three levels (large_dir), not two.
    pub large: bool,
}

/// A key: names whose hash is this or greater, up to the next key, are below that logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKey {
    /// Of the first key, no meaning.
    pub hash: u32,
    /// In blocks of the directory.
    pub block: u64,
}

/// The root of an index.
#[derive(Debug)]
pub struct Root {
    /// Of the hash, as stored: whether bytes are signed is the superblock's matter.
    pub version: u8,
    /// Levels of nodes between the root and the leaves, 0 to 2.
    pub levels: u8,
    /// Never empty.
    pub keys: Vec<HashKey>,
}

impl Root {
    /// Reads block 0 of a directory. `None` where the kernel gives up on the index and searches all of
    /// the directory instead (`dx_probe`).
    pub fn parse(block: &[u8], shape: Shape) -> Option<Root> {
        let [version, info_len, levels, flags] = *block.get(ROOT_INFO + 4..ROOT_INFO + 8)? else {
            return None;
        };
        let known = match shape.hash_in_entry {
            true => version == HASH_SIPHASH,
            false => version <= HASH_TEA,
        };
        let most_levels = if shape.large { 3 } else { 2 };
        if !known || flags & 1 != 0 || levels >= most_levels {
            return None;
        }
        let start = ROOT_INFO + usize::from(info_len);
        Some(Root {
            version,
            levels,
            keys: keys(block, start, shape)?,
        })
    }
}

/// Reads a block of the index below the root; `None` as in [`Root::parse`].
pub fn node(block: &[u8], shape: Shape) -> Option<Vec<HashKey>> {
    // It poses as one unused entry that fills the block, with room for a hash where entries have one.
    let start = if shape.hash_in_entry { 16 } else { 8 };
    keys(block, start, shape)
}

/// The keys from byte `start` of a block on.
fn keys(block: &[u8], start: usize, shape: Shape) -> Option<Vec<HashKey>> {
    let tail = if shape.checksum { 8 } else { 0 };
    let room = block.len().checked_sub(start + tail)? / ENTRY;
    let (limit, count) = (le16(block, start)?, le16(block, start + 2)?);
    if usize::from(limit) != room || count == 0 || count > limit {
        return None;
    }
    block[start..]
        .chunks_exact(ENTRY)
        .take(usize::from(count))
        .map(|entry| {
            Some(HashKey {
                hash: le32(entry, 0)?,
                block: u64::from(le32(entry, 4)? & BLOCK_MASK),
            })
        })
        .collect()
}

/// The key that a hash is below: the last one that is not greater, or else the first.
pub fn position(keys: &[HashKey], hash: u32) -> usize {
    match keys.split_first() {
        Some((_, others)) => others.partition_point(|key| key.hash <= hash),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        checksum: true,
        hash_in_entry: false,
        large: false,
    };

    fn root(levels: u8, keys: &[(u32, u32)]) -> Vec<u8> {
        let mut block = vec![0; 1024];
        block[28..32].copy_from_slice(&[1, 8, levels, 0]);
        for (entry, (hash, block)) in block[32..].chunks_exact_mut(ENTRY).zip(keys) {
            entry[..4].copy_from_slice(&hash.to_le_bytes());
            entry[4..].copy_from_slice(&block.to_le_bytes());
        }
        block[32..34].copy_from_slice(&123_u16.to_le_bytes());
        block[34..36].copy_from_slice(&(keys.len() as u16).to_le_bytes());
        block
    }

    #[test]
    fn a_root_is_read() {
        let read = Root::parse(&root(1, &[(0, 1), (50, 0xf000_0002), (90, 3)]), SHAPE).unwrap();
        assert_eq!((read.version, read.levels), (1, 1));
        let blocks: Vec<u64> = read.keys.iter().map(|key| key.block).collect();
        assert_eq!(blocks, [1, 2, 3]);
        let at = |hash| position(&read.keys, hash);
        assert_eq!([0, 49, 50, 89, 90, u32::MAX].map(at), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn what_the_kernel_gives_up_on_is_no_root() {
        let sound = root(1, &[(0, 1)]);
        // Version, length of the information, levels, flags, limit, count.
        for (at, byte) in [
            (28, 3),
            (28, 6),
            (29, 12),
            (29, 255),
            (30, 2),
            (31, 1),
            (32, 9),
            (34, 0),
            (34, 124),
        ] {
            let mut block = sound.clone();
            block[at] = byte;
            assert!(Root::parse(&block, SHAPE).is_none(), "byte {at} is {byte}");
        }
        assert!(Root::parse(&sound[..40], SHAPE).is_none());
        let large = Shape {
            large: true,
            ..SHAPE
        };
        let three = root(2, &[(0, 1)]);
        assert!(Root::parse(&three, SHAPE).is_none());
        assert_eq!(Root::parse(&three, large).unwrap().levels, 2);
    }
}
