//! Disk positions of a file's pages: the `FS_IOC_FIEMAP` ioctl (Documentation/filesystems/fiemap.rst in the
//! kernel).

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::model::{PAGE_SIZE, SECTORS_PER_PAGE};

/// Part of a file that is contiguous on the disk: `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileExtent {
    /// Where it begins in the file, in bytes.
    pub logical: u64,
    /// Where it begins on the device, in bytes; meaningless unless [`FileExtent::has_lba`].
    pub physical: u64,
    /// Length, in bytes.
    pub length: u64,
    pub(crate) reserved64: [u64; 2],
    /// `FIEMAP_EXTENT_*`.
    pub flags: u32,
    pub(crate) reserved: [u32; 3],
}

/// `FIEMAP_EXTENT_LAST`.
const LAST: u32 = 0x1;

/// `FIEMAP_EXTENT_*` of blocks without a place of their own: `UNKNOWN`, `DELALLOC` (not allocated yet), `ENCODED`,
/// `NOT_ALIGNED`, `DATA_INLINE` and `DATA_TAIL` (inside of metadata), `UNWRITTEN` (which read as zeros).
const WITHOUT_LBA: u32 = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400 | 0x800;

impl FileExtent {
    /// Whether reading it reads `physical` from the device.
    pub fn has_lba(&self) -> bool {
        self.flags & WITHOUT_LBA == 0
    }

    /// First byte of the file after it.
    pub fn end(&self) -> u64 {
        self.logical.saturating_add(self.length)
    }
}

/// `FIEMAP_FLAG_SYNC`: write the file back first, so that blocks written a moment ago have a place. Live
/// learning has no other sync.
const FLAG_SYNC: u32 = 0x1;

/// Extents asked for in one call.
const BATCH: usize = 256;

/// `struct fiemap`, with its array.
#[repr(C)]
struct FiemapRequest {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FileExtent; BATCH],
}

/// `_IOWR('f', 11, struct fiemap)`; the array does not count towards the size.
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;

/// Extents of `pages` 4 KiB pages from `first_page` on, in file order, without holes. The first and the last
/// extent may reach beyond the range.
///
/// # Errors
/// The errors of ioctl(2): `EOPNOTSUPP` where the file system does not support it.
pub fn extents(file: BorrowedFd<'_>, first_page: u64, pages: u64) -> io::Result<Vec<FileExtent>> {
    let mut found = Vec::new();
    let mut start = first_page.saturating_mul(PAGE_SIZE);
    let end = first_page.saturating_add(pages).saturating_mul(PAGE_SIZE);
    while start < end {
        let mut request = FiemapRequest {
            start,
            length: end - start,
            flags: FLAG_SYNC,
            mapped_extents: 0,
            extent_count: BATCH as u32,
            reserved: 0,
            extents: [FileExtent::default(); BATCH],
        };
        // SAFETY: the struct has the kernel's layout, and room for `extent_count` extents.
        if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut request) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = BATCH.min(request.mapped_extents as usize);
        found.extend_from_slice(&request.extents[..mapped]);
        match found.last() {
            // A kernel that makes no progress must not keep the loop going.
            Some(last) if mapped > 0 && last.flags & LAST == 0 && last.end() > start => {
                start = last.end()
            }
            _ => break,
        }
    }
    Ok(found)
}

/// Cuts a range of a file's pages where its extents end. Gives the pages of each piece and the disk position
/// of its first, in 512-byte sectors. Pages without a place on the disk (holes, unwritten, not yet allocated or
/// inline data) are left out. A page that spans two extents, on file systems with blocks smaller than a page,
/// counts with its first block that has a place.
///
/// `extents` are in file order and do not overlap, as FIEMAP gives them.
pub fn pieces(pages: Range<u64>, extents: &[FileExtent]) -> Vec<(Range<u64>, u64)> {
    let mut found = Vec::new();
    let mut page = pages.start;
    let first = extents.partition_point(|extent| extent.end() <= page.saturating_mul(PAGE_SIZE));
    for extent in extents[first..].iter().filter(|extent| extent.has_lba()) {
        // The page in which the extent begins may have its place from the extent before.
        page = page.max(extent.logical / PAGE_SIZE);
        let end = extent.end().div_ceil(PAGE_SIZE).min(pages.end);
        if page < end && extent.logical > page * PAGE_SIZE {
            // It begins inside of the page, so that the next page lies less than a page further on.
            found.push((page..page + 1, extent.physical / 512));
            page += 1;
        }
        if page < end {
            let physical = extent.physical + (page * PAGE_SIZE - extent.logical);
            found.push((page..end, physical / 512));
            page = end;
        }
    }
    found
}

/// A place for a file whose file system is not asked where it lies. Such files are ordered one after the other by their
/// numbers (in a file table), and each has room for 2³² sectors, so that its pages are consecutive.
pub fn place_by_file(file: u32, pages: Range<u64>) -> (Range<u64>, u64) {
    let start = u64::from(file) << 32;
    let lba = start.saturating_add(pages.start.saturating_mul(SECTORS_PER_PAGE));
    (pages, lba)
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
            let found: Vec<(u64, u64)> = pieces(start..start + len, &extents)
                .into_iter()
                .flat_map(|(pages, lba)| (0..).zip(pages).map(move |(at, page)| (page, lba + at * 8)))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
