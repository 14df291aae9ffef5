//! The kinds of file systems that are served, and what differs from one to the next.

use serde::{Deserialize, Serialize};

/// A kind of file system whose files are learned and prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FsKind {
    /// ext2, ext3 and ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs, of which each mounted subvolume counts as a file system.
    Btrfs,
    /// EROFS, an image that nobody writes, compressed or not.
    Erofs,
    /// squashfs, a compressed image that nobody writes, such as a snap.
    Squashfs,
}

impl FsKind {
    /// For a file-system type as mountinfo names it; `None` if it is not served.
    pub fn of(fs_type: &str) -> Option<Self> {
        match fs_type {
            "ext2" | "ext3" | "ext4" => Some(FsKind::Ext4),
            "xfs" => Some(FsKind::Xfs),
            "btrfs" => Some(FsKind::Btrfs),
            "erofs" => Some(FsKind::Erofs),
            "squashfs" => Some(FsKind::Squashfs),
            _ => None,
        }
    }

    /// What it is called, and what of it is read ahead if that is not all.
    pub fn description(self) -> &'static str {
        match self {
            FsKind::Ext4 => "ext4",
            FsKind::Xfs => "XFS (pages, and metadata by look-ups)",
            FsKind::Btrfs => "btrfs (pages, and metadata by look-ups)",
            FsKind::Erofs => {
                "EROFS (pages, metadata that a launch was seen to read, and others by look-ups)"
            }
            FsKind::Squashfs => "squashfs (blocks of its image, pages, and metadata by look-ups)",
        }
    }

    /// Whether its metadata are read through the cache of its block device, so that they are seen there, and prefetched.
    pub fn has_metadata(self) -> bool {
        matches!(self, FsKind::Ext4 | FsKind::Erofs)
    }

    /// Whether metadata that were not seen are found by its layout. Where they are not, the launch's paths are looked up ahead
    /// ([`crate::model::Operation`]).
    pub fn has_layout(self) -> bool {
        self == FsKind::Ext4
    }

    /// By how many threads pages are read ahead at most. readahead(2) itself may wait for the drive: on btrfs for checksums, on
    /// squashfs always, on all but ext4 for the extents of each file. Then one thread leaves the drive idle between its calls.
    pub fn page_threads(self) -> usize {
        match self {
            FsKind::Ext4 => 1,
            FsKind::Xfs | FsKind::Btrfs | FsKind::Erofs | FsKind::Squashfs => 8,
        }
    }

    /// Whether blocks of its image are read ahead before its pages, where the image is a file: reading pages ahead waits for
    /// each block of theirs, and decompresses it.
    pub fn reads_image(self) -> bool {
        self == FsKind::Squashfs
    }

    /// Whether each use of a file's pages by read(2) is seen as it happens: squashfs hides those that reach past the file's end.
    pub fn shows_reads(self) -> bool {
        self != FsKind::Squashfs
    }

    /// Whether it is asked where its files lie on the device. btrfs would read extents of the whole device for that, which
    /// no launch needs, and spreads files over several. What is compressed, or lies among metadata, has no place that a
    /// page could be read from.
    pub fn has_places(self) -> bool {
        matches!(self, FsKind::Ext4 | FsKind::Xfs)
    }

    /// Whether it is written, so that an inode number is given to one file after the other, which generations tell apart.
    pub fn has_generations(self) -> bool {
        !matches!(self, FsKind::Erofs | FsKind::Squashfs)
    }

    /// Whether a file of a profile is opened by its path, if that leads to it, rather than by its inode number: that reads
    /// the directories which the launch needs as well. Where metadata are prefetched, these come in by that, and a path
    /// is only one more look-up.
    pub fn opens_by_path(self) -> bool {
        self != FsKind::Ext4
    }
}
