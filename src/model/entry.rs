//! The plain data that scheduling works on.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::model::File;

/// Bytes in a page, the unit of every [`Span`]. Kernels with larger pages are converted to it where
/// their events enter.
pub const PAGE_SIZE: u64 = 4096;

/// 512-byte sectors in a page: file systems and the block layer count disk positions in sectors.
pub const SECTORS_PER_PAGE: u64 = PAGE_SIZE / 512;

/// Where the pages of a [`Span`] lie. Both indices point into the tables of one profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Place {
    /// File-system metadata in the buffer cache; a span's start is the position on the device.
    Metadata {
        /// Index in the device table.
        device: u16,
    },
    /// Data of a regular file in the page cache; a span's start is the position in the file.
    Data {
        /// Index in the file table.
        file: u32,
    },
}

impl Place {
    /// Whether the span is metadata (buffer cache) rather than file data (page cache).
    pub fn is_metadata(self) -> bool {
        matches!(self, Place::Metadata { .. })
    }

    /// Index of its device in the device table, by the file table of its profile.
    pub fn device(self, files: &[File]) -> u16 {
        match self {
            Place::Metadata { device } => device,
            Place::Data { file } => files[file as usize].device,
        }
    }
}

/// Consecutive 4 KiB pages of one file, or of one device's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// File or device.
    pub place: Place,
    /// First page, in 4 KiB pages from the start of the file or of the device.
    pub start: u64,
    /// Number of 4 KiB pages, at least 1.
    pub len: u64,
}

impl Span {
    /// The span of these pages, of which there must be at least one.
    pub fn new(place: Place, pages: Range<u64>) -> Self {
        Span {
            place,
            start: pages.start,
            len: pages.end - pages.start,
        }
    }

    /// Pages of the span.
    pub fn pages(&self) -> Range<u64> {
        self.start..self.end()
    }

    /// First page after the span.
    pub fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Whether the first page of another span is in it.
    pub fn holds(&self, page: Span) -> bool {
        self.place == page.place && self.pages().contains(&page.start)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.len * PAGE_SIZE
    }
}

/// One recorded read of a launch (*log entry*); contiguous on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// What was read.
    pub span: Span,
    /// Index of the device in the device table, for data and metadata alike.
    pub device: u16,
    /// Disk position of the first page, in 512-byte sectors from the start of `device`. On a file system that is not
    /// asked where its files lie (btrfs, images), they count as lying one after the other.
    pub lba: u64,
    /// Time of the first access, in microseconds since the launch's execve.
    pub time_us: u64,
}

impl LogEntry {
    /// First sector after the entry.
    pub fn lba_end(&self) -> u64 {
        self.lba + self.span.len * SECTORS_PER_PAGE
    }
}

/// What the prefetch thread executes (*prefetch entry*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchEntry {
    /// What to read.
    pub span: Span,
    /// Time of the first access to any page of the span, in microseconds since the launch's execve.
    pub time_us: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_holds_what_begins_in_it_and_lies_in_the_same_place() {
        let span = |file, start| Span::new(Place::Data { file }, start..start + 4);
        let held = |file, start| span(1, 8).holds(span(file, start));
        assert!(held(1, 8) && held(1, 11));
        assert!(!held(1, 7) && !held(1, 12) && !held(2, 8));
        assert_eq!(span(1, 8).bytes(), 4 * PAGE_SIZE);
    }
}
