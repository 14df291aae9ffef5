//! Which pages of a file are in the page cache: mincore(2).

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::model::PAGE_SIZE;

/// Most system pages asked about in one call. Bounds the answer's memory to 1 MiB.
const CHUNK: u64 = 1 << 20;

/// The given 4 KiB pages that are cached, in file order. Pages past the file's end are never cached.
/// The file is mapped without access rights, and no page of it is touched.
///
/// # Errors
/// The errors of mmap(2) and mincore(2). The caller must own the file or be privileged: for others,
/// mincore(2) reports every page as cached.
pub fn cached(file: BorrowedFd<'_>, pages: &Range<u64>) -> io::Result<Vec<Range<u64>>> {
    // On kernels with larger pages, several 4 KiB pages are cached as one.
    let unit = (rustix::param::page_size() as u64 / PAGE_SIZE).max(1);
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut start = pages.start / unit * unit;
    while start < pages.end {
        let count = (pages.end - start).div_ceil(unit).min(CHUNK);
        for (index, cached) in chunk(file, start * PAGE_SIZE, count, unit * PAGE_SIZE)?
            .into_iter()
            .enumerate()
        {
            let page = start + index as u64 * unit;
            let page = page.max(pages.start)..(page + unit).min(pages.end);
            if cached & 1 == 0 {
                continue;
            }
            match found.last_mut() {
                Some(last) if last.end == page.start => last.end = page.end,
                _ => found.push(page),
            }
        }
        start += count * unit;
    }
    Ok(found)
}

/// One byte for each of `count` system pages of `page_size` bytes from byte `offset` on; bit 0 is set if the
/// page is cached.
fn chunk(file: BorrowedFd<'_>, offset: u64, count: u64, page_size: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(count * page_size).map_err(|_| Errno::OVERFLOW)?;
    let (access, shared) = (ProtFlags::empty(), MapFlags::SHARED);
    // SAFETY: a new mapping at an address of the kernel's choice overlaps no other.
    let address = unsafe { mmap(std::ptr::null_mut(), length, access, shared, file, offset) }?;
    let mut answer = vec![0; count as usize];
    // SAFETY: the range is the mapping just made, and the answer has a byte for each of its pages.
    let result = match unsafe { libc::mincore(address, length, answer.as_mut_ptr()) } {
        0 => Ok(answer),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: unmaps the mapping made above, to which nothing refers.
    unsafe { munmap(address, length) }?;
    result
}
