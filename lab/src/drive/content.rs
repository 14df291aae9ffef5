//! The content of an emulated drive: private memory, filled from an image.
//!
//! `unsafe` because the server's threads share the memory without locks, as requests share a drive's
//! medium: the result of two overlapping concurrent writes is undefined on a real drive, too.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, SeekFrom, fadvise, seek};
use rustix::io::Errno;
use rustix::mm::{self, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes copied from the image at a time.
const PIECE: u64 = 8 << 20;

/// Bytes of a page of memory.
const PAGE: u64 = 4096;

/// The drive's content.
#[derive(Debug)]
pub(super) struct Content {
    start: NonNull<u8>,
    length: usize,
    /// Where the image had data.
    extents: Vec<Range<u64>>,
}

// SAFETY: the pointer is to memory that only this value owns, until it is dropped.
unsafe impl Send for Content {}
// SAFETY: shared methods access the memory through the kernel (`slice`) or with raw copies (`write`).
unsafe impl Sync for Content {}

impl Content {
    /// Memory with the image's content; holes of a sparse image take none. The image is only read.
    pub(super) fn load(image: &File) -> Result<Content> {
        let size = image.metadata().context("size of the image")?.len();
        let length = usize::try_from(size).context("image too large")?;
        ensure!(length > 0, "the image is empty: a drive needs a size");
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let start = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let start = start
            .with_context(|| format!("no address space for a drive of {} MiB", size >> 20))?
            .cast();
        let mut content = Content {
            start: NonNull::new(start).context("mapping at address 0")?,
            length,
            extents: Vec::new(),
        };
        content.copy_extents(image, size)?;
        Ok(content)
    }

    /// Bytes.
    pub(super) fn len(&self) -> u64 {
        self.length as u64
    }

    /// The extents, in bytes, in which the image had data.
    pub(super) fn extents(&self) -> &[Range<u64>] {
        &self.extents
    }

    /// Copies what SEEK_DATA finds.
    fn copy_extents(&mut self, image: &File, size: u64) -> Result<()> {
        // SAFETY: `&mut self` proves that no other reference to the mapping exists.
        let memory = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) };
        let mut end = 0;
        while end < size {
            let start = match seek(image, SeekFrom::Data(end)) {
                Ok(start) => start,
                Err(Errno::NXIO) => break,
                Err(error) => return Err(error).context("looking for data in the image"),
            };
            end = seek(image, SeekFrom::Hole(start))
                .context("looking for a hole in the image")?
                .min(size);
            self.extents.push(start..end);
            for at in (start..end).step_by(PIECE as usize) {
                let to = (at + PIECE).min(end);
                image
                    .read_exact_at(&mut memory[at as usize..to as usize], at)
                    .context("reading the image")?;
                // Read once: it would only push other files out of the page cache.
                fadvise(
                    image,
                    at,
                    std::num::NonZeroU64::new(to - at),
                    Advice::DontNeed,
                )
                .context("posix_fadvise on the image")?;
            }
        }
        Ok(())
    }

    /// `size` bytes at `offset`, fewer where the drive ends. Only for handing to a system call that reads
    /// them: other threads may be writing there.
    pub(super) fn slice(&self, offset: u64, size: u32) -> &[u8] {
        let start = offset.min(self.len());
        let length = u64::from(size).min(self.len() - start);
        // SAFETY: within the mapping, which lives as long as `self`. No Rust code looks at these bytes;
        // the kernel copies them, and may do so while `write` changes them.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().add(start as usize), length as usize)
        }
    }

    /// Writes `data` at `offset`; false if that is beyond the end, and then nothing is written.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> bool {
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > self.len()) {
            return false;
        }
        // SAFETY: the range is within the mapping, as just checked, and `data` is the request's buffer,
        // which does not overlap it.
        unsafe {
            ptr::copy_nonoverlapping(
                data.as_ptr(),
                self.start.as_ptr().add(offset as usize),
                data.len(),
            );
        }
        true
    }

    /// Makes `length` bytes at `offset` zero, as far as they are within the drive, and gives back the
    /// memory of whole pages.
    ///
    /// # Errors
    /// When the kernel refuses to take the memory back.
    pub(super) fn discard(&self, offset: u64, length: u64) -> Result<()> {
        let start = offset.min(self.len());
        let end = offset.saturating_add(length).min(self.len());
        let first = start.next_multiple_of(PAGE).min(end);
        let last = (end - end % PAGE).max(first);
        self.zero(start, first);
        self.zero(last, end);
        if first == last {
            return Ok(());
        }
        // SAFETY: whole pages of the mapping, which lives as long as `self`; they read as zeros from now
        // on. No Rust code holds references to them: see `slice` and `write`.
        unsafe {
            madvise(
                self.start.as_ptr().add(first as usize).cast(),
                (last - first) as usize,
                mm::Advice::LinuxDontNeed,
            )
        }
        .context("giving back memory of the drive")
    }

    /// Writes zeros from `start` to `end`, which must be within the drive.
    fn zero(&self, start: u64, end: u64) {
        // SAFETY: within the mapping, as the caller says; like `write`.
        unsafe {
            ptr::write_bytes(
                self.start.as_ptr().add(start as usize),
                0,
                (end - start) as usize,
            );
        }
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        // SAFETY: the mapping of `load`, in whole; slices of it cannot outlive `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        if let Err(error) = unmapped {
            eprintln!("flashsim: munmap: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_the_image_and_never_writes_it() {
        let image = tempfile::tempfile().unwrap();
        image.set_len(20 << 20).unwrap();
        image.write_all_at(b"early", 4096).unwrap();
        image.write_all_at(b"late", (20 << 20) - 4).unwrap();
        let content = Content::load(&image).unwrap();
        assert_eq!(content.slice(4096, 5), b"early");
        assert_eq!(content.slice((20 << 20) - 4, 100), b"late");
        assert_eq!(content.slice(10 << 20, 3), [0; 3]);
        assert!(content.slice(u64::MAX, 3).is_empty());
        assert!(content.write(4096, b"EARLY"));
        assert_eq!(content.slice(4096, 5), b"EARLY");
        assert!(!content.write((20 << 20) - 1, b"xx"));
        assert!(!content.write(u64::MAX, b"x"));
        let mut read = [0; 5];
        image.read_exact_at(&mut read, 4096).unwrap();
        assert_eq!(&read, b"early");
        // Where SEEK_DATA tells holes from data, most of the image is a hole.
        let data = content.extents();
        assert!(data.iter().any(|extent| extent.contains(&4096)), "{data:?}");
    }

    #[test]
    fn what_is_discarded_reads_as_zeros() {
        let image = tempfile::tempfile().unwrap();
        image.set_len(1 << 20).unwrap();
        let content = Content::load(&image).unwrap();
        for (offset, length) in [
            (5000, 20_000),
            (4096, 8192),
            (5000, 10),
            (1 << 19, u64::MAX),
        ] {
            assert!(content.write(0, &vec![7; 1 << 20]));
            content.discard(offset, length).unwrap();
            let bytes = content.slice(0, 1 << 20);
            let end = offset.saturating_add(length).min(1 << 20);
            for (at, byte) in bytes.iter().enumerate() {
                let zero = (offset..end).contains(&(at as u64));
                assert_eq!(*byte == 0, zero, "{at} of {offset} to {end}");
            }
        }
        content.discard(u64::MAX, 1).unwrap();
    }

    #[test]
    fn an_empty_image_is_refused() {
        let error = Content::load(&tempfile::tempfile().unwrap()).unwrap_err();
        assert!(error.to_string().contains("empty"));
    }
}
