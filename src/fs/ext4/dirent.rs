//! Directory entries: `struct ext4_dir_entry_2` of the kernel.

use super::inode::{le16, le32};

/// Size of an entry without its name, in bytes.
const HEADER: usize = 8;

/// An entry in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    pub ino: u64,
    pub name: &'a [u8],
}

/// A length in a directory that leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// The entries in use of a block, or of inline data.
pub fn entries(area: &[u8]) -> impl Iterator<Item = Result<DirectoryEntry<'_>, Damaged>> {
    let mut rest = area;
    std::iter::from_fn(move || {
        while rest.len() >= HEADER {
            let Some((entry, after)) = split(rest) else {
                rest = &[];
                return Some(Err(Damaged));
            };
            rest = after;
            if entry.ino != 0 {
                return Some(Ok(entry));
            }
        }
        None
    })
}

/// The first entry, in use or not, and what follows it.
fn split(area: &[u8]) -> Option<(DirectoryEntry<'_>, &[u8])> {
    let len = match le16(area, 4)? {
        // Blocks of 64 KiB: the largest length does not fit in 16 bits (`ext4_rec_len_from_disk`).
        0 | u16::MAX if area.len() >= 1 << 16 => 1 << 16,
        len => usize::from(len),
    };
    if len < HEADER || len % 4 != 0 || len > area.len() {
        return None;
    }
    let (record, after) = area.split_at(len);
    let ino = u64::from(le32(record, 0)?);
    let name_len = match ino {
        0 => 0,
        _ => usize::from(*record.get(6)?),
    };
    let name = record.get(HEADER..HEADER + name_len)?;
    Some((DirectoryEntry { ino, name }, after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(ino: u32, name: &[u8], len: u16) -> Vec<u8> {
        let mut record = vec![0; usize::from(len)];
        record[..4].copy_from_slice(&ino.to_le_bytes());
        record[4..6].copy_from_slice(&len.to_le_bytes());
        record[6] = name.len() as u8;
        record[HEADER..HEADER + name.len()].copy_from_slice(name);
        record
    }

    #[test]
    fn deleted_entries_and_checksums_are_passed_over() {
        // The checksum at the end of a block looks like an unused entry with a long name.
        let mut tail = record(0, b"", 12);
        tail[7] = 0xde;
        let area = [
            record(12, b"first", 16),
            record(0, b"gone", 20),
            record(13, b"second", 40),
            tail,
        ]
        .concat();
        let found: Result<Vec<_>, _> = entries(&area).collect();
        let expected =
            [(12, &b"first"[..]), (13, b"second")].map(|(ino, name)| DirectoryEntry { ino, name });
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn a_length_that_leads_nowhere_ends_the_block() {
        for len in [0_u16, 4, 10, 60] {
            let mut area = [record(12, b"a", 12), record(13, b"b", 12)].concat();
            area[16..18].copy_from_slice(&len.to_le_bytes());
            let found: Vec<_> = entries(&area).collect();
            assert_eq!(found.len(), 2);
            assert_eq!(found[1], Err(Damaged), "length {len}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(entries(&bytes).count() <= bytes.len() / HEADER + 1);
        }
    }
}
