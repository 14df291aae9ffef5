//! Cutting page ranges into pieces that are contiguous on the disk.

use std::ops::Range;

use crate::fs::fiemap::FileExtent;
use crate::model::{PAGE_SIZE, SECTORS_PER_PAGE};

/// Pages of a file that are contiguous on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// 4 KiB pages of the file.
    pub pages: Range<u64>,
    /// Disk position of the first page, in 512-byte sectors.
    pub lba: u64,
}

/// Cuts a range of a file's pages into pieces that are contiguous on the disk. Pages without a place
/// there (holes, unwritten, not yet allocated or inline data) are left out. A page that spans two
/// extents, on file systems with blocks smaller than a page, counts with its first block that has a
/// place.
///
/// `extents` are in file order and do not overlap, as FIEMAP gives them.
pub fn split(pages: Range<u64>, extents: &[FileExtent]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut page = pages.start;
    let first = extents.partition_point(|extent| extent.end() <= page.saturating_mul(PAGE_SIZE));
    for extent in extents[first..].iter().filter(|extent| extent.has_lba()) {
        // The page in which the extent begins may have its place from the extent before.
        page = page.max(extent.logical / PAGE_SIZE);
        let end = extent.end().div_ceil(PAGE_SIZE).min(pages.end);
        if page >= pages.end {
            break;
        }
        if page >= end {
            continue;
        }
        if extent.logical > page * PAGE_SIZE {
            // It begins inside of the page, so that the next page lies less than a page further on.
            push(&mut pieces, page..page + 1, extent.physical);
            page += 1;
        }
        if page < end {
            push(
                &mut pieces,
                page..end,
                extent.physical + (page * PAGE_SIZE - extent.logical),
            );
            page = end;
        }
    }
    pieces
}

fn push(pieces: &mut Vec<Piece>, pages: Range<u64>, physical: u64) {
    let lba = physical / 512;
    match pieces.last_mut() {
        Some(last)
            if last.pages.end == pages.start
                && last.lba + (last.pages.end - last.pages.start) * SECTORS_PER_PAGE == lba =>
        {
            last.pages.end = pages.end;
        }
        _ => pieces.push(Piece { pages, lba }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Blocks of 1 KiB, each mapped at random, against a look-up page by page: holes and unwritten blocks
        /// are left out, and a page over several extents counts with its first block that has a place.
        #[test]
        fn agrees_with_a_look_up_page_by_page(
            blocks in proptest::collection::vec((0u8..5, 0u64..20), 0..60),
            start in 0u64..16,
            len in 0u64..16,
        ) {
            let blocks: Vec<FileExtent> = (0..)
                .zip(blocks)
                .filter(|(_, (kind, _))| *kind != 0)
                .map(|(index, (kind, place))| FileExtent {
                    logical: index * 1024,
                    // Half of the blocks lie in order, the others anywhere; some are unwritten.
                    physical: 1024 * if kind < 3 { 1000 + index } else { place },
                    length: 1024,
                    flags: if kind == 4 { 0x800 } else { 0 },
                })
                .collect();
            let mut extents = blocks.clone();
            extents.dedup_by(|next, last| {
                let is_next = last.end() == next.logical
                    && last.physical + last.length == next.physical
                    && last.flags == next.flags;
                if is_next {
                    last.length += next.length;
                }
                is_next
            });
            let expected: Vec<(u64, u64)> = (start..start + len)
                .filter_map(|page| {
                    let found = blocks
                        .iter()
                        .find(|extent| extent.has_lba() && extent.logical / PAGE_SIZE == page)?;
                    Some((page, found.physical / 512))
                })
                .collect();
            let pieces = split(start..start + len, &extents);
            let lba = |piece: &Piece, page: u64| piece.lba + (page - piece.pages.start) * SECTORS_PER_PAGE;
            let found: Vec<(u64, u64)> = pieces
                .iter()
                .flat_map(|piece| piece.pages.clone().map(|page| (page, lba(piece, page))))
                .collect();
            prop_assert_eq!(found, expected);
            for pair in pieces.windows(2) {
                let end = pair[0].pages.end;
                let continues = end == pair[1].pages.start && lba(&pair[0], end) == pair[1].lba;
                prop_assert!(!continues, "contiguous pieces are joined: {pair:?}");
            }
        }
    }
}
