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

    fn extent(logical: u64, physical: u64, length: u64, flags: u32) -> FileExtent {
        FileExtent {
            logical,
            physical,
            length,
            flags,
        }
    }

    #[test]
    fn contiguous_extents_join_and_unwritten_ones_and_holes_are_left_out() {
        let extents = [
            extent(0, 40_960, 8192, 0),
            extent(8192, 49_152, 4096, 0),
            extent(12_288, 53_248, 4096, 0x800),
            extent(20_480, 4096, 4096, 1),
        ];
        assert_eq!(
            split(0..9, &extents),
            [
                Piece {
                    pages: 0..3,
                    lba: 80
                },
                Piece {
                    pages: 5..6,
                    lba: 8
                }
            ]
        );
        assert_eq!(
            split(1..2, &extents),
            [Piece {
                pages: 1..2,
                lba: 88
            }]
        );
        assert_eq!(split(3..5, &extents), []);
    }

    #[test]
    fn a_page_over_two_extents_counts_with_its_first_block() {
        // Blocks of 1 KiB: 5 blocks at 100 KiB, then a hole of 1, then 6 blocks at 300 KiB.
        let extents = [extent(0, 102_400, 5120, 0), extent(6144, 307_200, 6144, 1)];
        assert_eq!(
            split(0..3, &extents),
            [
                Piece {
                    pages: 0..2,
                    lba: 200
                },
                Piece {
                    pages: 2..3,
                    lba: 604
                }
            ]
        );
        // A page that begins with a hole counts with the block after it.
        assert_eq!(
            split(1..2, &extents[1..]),
            [Piece {
                pages: 1..2,
                lba: 600
            }]
        );
    }

    proptest! {
        /// Blocks of 1 KiB, each mapped at random, against a look-up page by page.
        #[test]
        fn agrees_with_a_look_up_page_by_page(
            blocks in proptest::collection::vec((0u8..4, 0u64..20), 0..60),
            start in 0u64..16,
            len in 0u64..16,
        ) {
            let extents: Vec<FileExtent> = blocks
                .iter()
                .enumerate()
                .filter(|(_, (kind, _))| *kind != 0)
                .map(|(index, &(kind, place))| {
                    // Half of the blocks lie in order, the others anywhere; some are unwritten.
                    let place = if kind == 1 { 1000 + index as u64 } else { place };
                    let flags = if kind == 3 { 0x800 } else { 0 };
                    extent(index as u64 * 1024, place * 1024, 1024, flags)
                })
                .collect();
            let expected: Vec<(u64, u64)> = (start..start + len)
                .filter_map(|page| {
                    let found = extents
                        .iter()
                        .find(|extent| extent.has_lba() && extent.logical / PAGE_SIZE == page)?;
                    Some((page, found.physical / 512))
                })
                .collect();
            let pieces = split(start..start + len, &extents);
            let found: Vec<(u64, u64)> = pieces
                .iter()
                .flat_map(|piece| {
                    piece.pages.clone().map(|page| {
                        (page, piece.lba + (page - piece.pages.start) * SECTORS_PER_PAGE)
                    })
                })
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
