//! Cutting page ranges into pieces that are contiguous on the disk.

use std::ops::Range;

use crate::fs::fiemap::FileExtent;
use crate::model::PAGE_SIZE;

/// Cuts a range of a file's pages where its extents end. Gives the pages of each piece and the disk position
/// of its first, in 512-byte sectors. Pages without a place on the disk (holes, unwritten, not yet allocated or
/// inline data) are left out. A page that spans two extents, on file systems with blocks smaller than a page,
/// counts with its first block that has a place.
///
/// `extents` are in file order and do not overlap, as FIEMAP gives them.
pub fn split(pages: Range<u64>, extents: &[FileExtent]) -> Vec<(Range<u64>, u64)> {
    let mut pieces = Vec::new();
    let mut page = pages.start;
    let first = extents.partition_point(|extent| extent.end() <= page.saturating_mul(PAGE_SIZE));
    for extent in extents[first..].iter().filter(|extent| extent.has_lba()) {
        // The page in which the extent begins may have its place from the extent before.
        page = page.max(extent.logical / PAGE_SIZE);
        let end = extent.end().div_ceil(PAGE_SIZE).min(pages.end);
        if page < end && extent.logical > page * PAGE_SIZE {
            // It begins inside of the page, so that the next page lies less than a page further on.
            pieces.push((page..page + 1, extent.physical / 512));
            page += 1;
        }
        if page < end {
            let physical = extent.physical + (page * PAGE_SIZE - extent.logical);
            pieces.push((page..end, physical / 512));
            page = end;
        }
    }
    pieces
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
                    ..FileExtent::default()
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
            let found: Vec<(u64, u64)> = pieces
                .into_iter()
                .flat_map(|(pages, lba)| (0..).zip(pages).map(move |(at, page)| (page, lba + at * 8)))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
