//! Recorded events as plain data, and their decoding from the ring buffer.

use std::collections::BTreeMap;

use super::skel::types::{tl_by, tl_event, tl_kind};
use paralfetch::model::PAGE_SIZE;

/// A file, or the metadata of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Device of the file system, in the encoding of `st_dev`.
    pub dev: u64,
    /// Inode number; 0 for the device's metadata.
    pub ino: u64,
    /// Inode generation; 0 for metadata.
    pub generation: u32,
}

impl FileId {
    /// Whether this is file-system metadata in the buffer cache.
    pub fn is_metadata(self) -> bool {
        self.ino == 0
    }
}

/// Pages of a file, or of a device's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whose pages.
    pub file: FileId,
    /// First page, in 4 KiB pages of the file or of the device.
    pub start: u64,
    /// Number of 4 KiB pages, at least 1.
    pub pages: u64,
}

impl Place {
    /// First page after it.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.pages)
    }

    /// Whether the two have a page in common.
    pub fn overlaps(&self, other: &Place) -> bool {
        self.file == other.file && self.start < other.end() && other.start < self.end()
    }
}

/// On whose behalf something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A task of the launch tree.
    Tree,
    /// A thread of the process that started the launch: the prefetcher.
    Helper,
    /// Anything else, or it is not known.
    Other,
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The tree's task `.0` (thread id) came into being, and does not run yet.
    Fork(u32),
    /// It executes a program.
    Exec {
        /// Thread id.
        pid: u32,
        /// Its thread id before: a thread that executes becomes its process's leader.
        was: u32,
    },
    /// It got a processor.
    In(u32),
    /// It gave the processor up.
    Out {
        /// Thread id.
        pid: u32,
        /// To wait for I/O, as the kernel counts it (`in_iowait`).
        io_wait: bool,
        /// When waiting: the pages that it used last, unless it has waited since.
        place: Option<Place>,
    },
    /// It exited.
    Gone(u32),
    /// The tree's last task exited.
    End,
    /// The drive got a request.
    Issue {
        /// Names the request while it is in flight.
        request: u64,
        /// 512-byte sectors from the start of the drive (of its partition).
        sector: u64,
        /// Size.
        bytes: u64,
        /// Anything but a read.
        write: bool,
        /// Thread that made it; 0 if not known.
        pid: u32,
        /// On whose behalf it was made.
        by: By,
        /// The pages that it reads; `None` for direct I/O.
        place: Option<Place>,
    },
    /// The drive completed this request.
    Done(u64),
    /// Pages were added to a cache.
    Added(By, Place),
    /// Pages were used for the first time by the tree.
    Touched(Place),
}

/// Something that happened, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// What happened.
    pub what: What,
}

/// Everything that was recorded of one launch.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    /// The app's execve, CLOCK_MONOTONIC in nanoseconds.
    pub start_ns: u64,
    /// The drive, in the encoding of `st_dev`.
    pub drive: u64,
    /// UUID of the file system on it.
    pub fs_uuid: [u8; 16],
    /// In time order. The drive's and the prefetcher's may begin before the execve.
    pub events: Vec<Event>,
    /// Paths, from their file system's root, of files that were read or waited for; those that are
    /// gone by the end of the launch, or whose names are no longer cached, are missing.
    pub names: BTreeMap<FileId, String>,
}

/// Decodes a record of the ring buffer. `None` for an unknown record, which only a mismatch between the
/// compiled BPF object and this program can cause.
pub(super) fn parse(record: &[u8], kernel_page_bytes: u64) -> Option<Event> {
    let raw = super::ffi::read_raw(record)?;
    let kind = tl_kind(u32::from(raw.kind));
    let pid = raw.pid;
    let by = match tl_by(u32::from(raw.by)) {
        tl_by::TL_BY_TREE => By::Tree,
        tl_by::TL_BY_HELPER => By::Helper,
        _ => By::Other,
    };
    let place = place(&raw, (kernel_page_bytes / PAGE_SIZE).max(1));
    let what = match kind {
        tl_kind::TL_FORK => What::Fork(pid),
        tl_kind::TL_EXEC => What::Exec { pid, was: raw.was },
        tl_kind::TL_IN => What::In(pid),
        tl_kind::TL_OUT => What::Out {
            pid,
            io_wait: raw.io_wait != 0,
            place,
        },
        tl_kind::TL_GONE => What::Gone(pid),
        tl_kind::TL_END => What::End,
        tl_kind::TL_ISSUE => What::Issue {
            request: raw.request,
            sector: raw.sector,
            bytes: raw.bytes.into(),
            write: raw.write != 0,
            pid,
            by,
            place,
        },
        tl_kind::TL_DONE => What::Done(raw.request),
        tl_kind::TL_ADDED => What::Added(by, place?),
        tl_kind::TL_TOUCHED => What::Touched(place?),
        _ => return None,
    };
    Some(Event {
        time_ns: raw.time_ns,
        what,
    })
}

/// A kernel page of 16 or 64 KiB is `scale` of ours.
fn place(raw: &tl_event, scale: u64) -> Option<Place> {
    (raw.pages > 0).then(|| Place {
        file: FileId {
            dev: rustix::fs::makedev(raw.dev >> 20, raw.dev & 0xf_ffff),
            ino: raw.ino,
            generation: raw.generation,
        },
        start: raw.start.saturating_mul(scale),
        pages: u64::from(raw.pages).saturating_mul(scale),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_an_event_is_none() {
        assert_eq!(parse(&[], 4096), None);
        assert_eq!(parse(&[1; 8], 4096), None);
        assert_eq!(parse(&[0; size_of::<tl_event>()], 4096), None);
        assert_eq!(parse(&[255; size_of::<tl_event>()], 4096), None);
    }

    #[test]
    fn places_overlap_within_one_file() {
        let file = FileId {
            dev: 1,
            ino: 2,
            generation: 3,
        };
        let place = |start, pages| Place { file, start, pages };
        assert!(place(4, 2).overlaps(&place(5, 9)));
        assert!(!place(4, 2).overlaps(&place(6, 9)));
        let other = Place {
            file: FileId { ino: 9, ..file },
            ..place(4, 2)
        };
        assert!(!place(4, 2).overlaps(&other));
    }
}
