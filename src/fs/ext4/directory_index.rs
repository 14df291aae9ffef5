//! The index of a hashed directory: `struct dx_root` and `struct dx_node` of the kernel's
//! fs/ext4/namei.c.

/// Size of an entry of the index, in bytes. The first one has the index's limit and count in place of its
/// hash.
const ENTRY: usize = 8;

/// Where the root's information begins, after the entries for `.` and `..`, in bytes.
const ROOT_INFO: usize = 24;

/// Where the keys of a node begin, after an unused directory entry that fills the block, in bytes.
const NODE_HEADER: usize = 8;

/// Bits of a block number (`dx_get_block`).
const BLOCK_MASK: u32 = 0x0fff_ffff;

/// `DX_HASH_TEA`, the last of the hashes of plain names.
const HASH_TEA: u8 = 2;

/// The format of index blocks in a file system.
#[derive(Clone, Copy, Debug)]
pub struct IndexFormat {
    /// Whether they end in a checksum (metadata_csum).
    pub checksum: bool,
    /// Whether the index may have three levels (large_dir), not two.
    pub large: bool,
}

/// A key: names whose hash is the first number or greater, up to the next key's, are below the second, a block of
/// the directory. The hash has no meaning in the first key.
pub type HashKey = (u32, u64);

/// The root of an index.
#[derive(Debug)]
pub struct IndexRoot {
    /// The hash's version. Whether it takes bytes as signed is in the superblock.
    pub version: u8,
    /// Levels of nodes between the root and the leaves, 0 to 2.
    pub levels: u8,
    /// Never empty.
    pub keys: Vec<HashKey>,
}

impl IndexRoot {
    /// Parses block 0 of a directory. `None` where the kernel gives up on the index and searches the whole
    /// directory instead (`dx_probe`).
    pub fn parse(block: &[u8], format: IndexFormat) -> Option<IndexRoot> {
        let [version, info_len, levels, flags] = *block.get(ROOT_INFO + 4..ROOT_INFO + 8)? else {
            return None;
        };
        let most_levels = if format.large { 3 } else { 2 };
        if version > HASH_TEA || flags & 1 != 0 || levels >= most_levels {
            return None;
        }
        let start = ROOT_INFO + usize::from(info_len);
        Some(IndexRoot {
            version,
            levels,
            keys: keys(block, start, format)?,
        })
    }
}

/// Parses a block of the index below the root; `None` as in [`IndexRoot::parse`].
pub fn parse_node(block: &[u8], format: IndexFormat) -> Option<Vec<HashKey>> {
    keys(block, NODE_HEADER, format)
}

/// The keys from byte `start` of a block on; at least one.
fn keys(block: &[u8], start: usize, format: IndexFormat) -> Option<Vec<HashKey>> {
    let checksum_len = if format.checksum { 8 } else { 0 };
    let room = block.len().checked_sub(start + checksum_len)? / ENTRY;
    let le16 = |at: usize| Some(u16::from_le_bytes(*block.get(at..)?.first_chunk()?));
    let (limit, count) = (le16(start)?, le16(start + 2)?);
    if usize::from(limit) != room || count == 0 || count > limit {
        return None;
    }
    let key = |entry: &[u8]| {
        let (hash, rest) = entry.split_first_chunk()?;
        let block = u32::from_le_bytes(*rest.first_chunk()?) & BLOCK_MASK;
        Some((u32::from_le_bytes(*hash), u64::from(block)))
    };
    let entries = block[start..].chunks_exact(ENTRY);
    entries.take(usize::from(count)).map(key).collect()
}

/// The logical block below which a hash is: that of the last key that is not greater, or else of the first.
pub fn block_below(keys: &[HashKey], hash: u32) -> u64 {
    let after = keys.iter().skip(1).take_while(|key| key.0 <= hash);
    keys[after.count()].1
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: IndexFormat = IndexFormat {
        checksum: true,
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
    fn a_hash_is_below_the_last_key_that_is_not_greater() {
        let block = root(1, &[(0, 1), (50, 0xf000_0002), (90, 3)]);
        let read = IndexRoot::parse(&block, FORMAT).unwrap();
        assert_eq!((read.version, read.levels), (1, 1));
        let hashes = [0, 49, 50, 89, 90, u32::MAX];
        let below = hashes.map(|hash| block_below(&read.keys, hash));
        assert_eq!(below, [1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn roots_that_the_kernel_gives_up_on_are_refused() {
        let sound = root(1, &[(0, 1)]);
        // Version, length of the information, levels, flags, limit, count.
        let bytes = [28, 28, 29, 29, 30, 31, 32, 34, 34];
        for (at, byte) in bytes.into_iter().zip([3, 6, 12, 255, 2, 1, 9, 0, 124]) {
            let mut block = sound.clone();
            block[at] = byte;
            let refused = IndexRoot::parse(&block, FORMAT).is_none();
            assert!(refused, "byte {at} is {byte}");
        }
        assert!(IndexRoot::parse(&sound[..40], FORMAT).is_none());
        let large = IndexFormat {
            large: true,
            ..FORMAT
        };
        let three = root(2, &[(0, 1)]);
        assert_eq!(IndexRoot::parse(&three, large).unwrap().levels, 2);
    }
}
