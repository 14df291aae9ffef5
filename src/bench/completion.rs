//! The completion block of a profile, found on the disk (paper §5.1).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Advice, fadvise};

use crate::fs::mounts::MountTable;
use crate::fs::present::present_devices;
use crate::fs::{fiemap, handle, residency};
use crate::kernel::CompletionBlock;
use crate::model::Profile;
use crate::model::{PAGE_SIZE, Place, SECTORS_PER_PAGE, Span};

/// A completion block, where it lies and how to evict it.
pub struct FoundCompletion {
    /// Pages of the file.
    pub span: Span,
    /// The pages as a block of the disk.
    pub on_disk: CompletionBlock,
    file: OwnedFd,
}

/// Finds the profile's completion block, which is file data: metadata could not be evicted while the
/// inode that was made from it is cached. `None` if the profile has none, its file is gone, or its
/// file system is not asked where files lie.
pub fn find(profile: &Profile) -> Option<FoundCompletion> {
    let span = *profile.completion.last()?;
    let Place::Data { file } = span.place else {
        return None;
    };
    let file = &profile.files[file as usize];
    let mounts = MountTable::read().ok()?;
    let present = present_devices(profile, &mounts);
    let dev = present.get(usize::from(file.device))?.dev()?;
    let mount = mounts.open_root(dev).ok()?;
    let fd = handle::open_cached_file(&mount, file.ino, file.generation)
        .ok()?
        .fd;
    mount.mount.kind().filter(|kind| kind.has_places())?;
    let extent = fiemap::extents(fd.as_fd(), span.start, span.len)
        .ok()?
        .into_iter()
        .next()?;
    let physical = extent.physical + (span.start * PAGE_SIZE).checked_sub(extent.logical)?;
    Some(FoundCompletion {
        span,
        on_disk: CompletionBlock {
            dev,
            sector: physical / 512,
            sectors: span.len * SECTORS_PER_PAGE,
        },
        file: fd,
    })
}

impl FoundCompletion {
    /// Drops the block from the page cache, so that a warm launch has to read it. False if it stays,
    /// because a process has it mapped.
    ///
    /// # Errors
    /// As posix_fadvise(2) and mincore(2).
    pub fn evict(&self) -> io::Result<bool> {
        fadvise(
            &self.file,
            self.span.start * PAGE_SIZE,
            std::num::NonZeroU64::new(self.span.bytes()),
            Advice::DontNeed,
        )?;
        let pages = self.span.start..self.span.end();
        Ok(residency::cached(self.file.as_fd(), &pages)?.is_empty())
    }
}
