//! What tracing says about a launch: plain data, as user space sees it.

/// How an access was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// Pages added to a cache: read from the drive (or, in a written file, made to be written).
    Added,
    /// Pages that read(2) and its kin took from the page cache. The range may reach past the
    /// file's end.
    Read,
    /// One page that a page fault asked for: one that was not cached, of which [`Source::Added`]
    /// follows, or a cached one that was written to or could not be mapped with its neighbours.
    Fault,
    /// The faultaround window of a page fault on a cached page: those of its pages that were cached
    /// were mapped, and one of them was touched.
    Window,
    /// Metadata that the look-up of a path depends on, worked out from the path: whether they were
    /// read, or were cached in whatever form, is not known.
    LookedUp,
}

/// Who made an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum By {
    /// A task of the launch tree.
    Tree,
    /// A thread of this program: the launcher or the prefetch thread.
    Own,
    /// A task of another process that was started since the launch began: a service that the bus starts
    /// for the app, or something that has nothing to do with it.
    Helper,
    /// Any other task.
    Other,
}

/// One access to pages of the page cache (a regular file) or of the buffer cache (metadata).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// Device of the file system, in the user-space encoding (`st_dev`). For metadata: the block
    /// device itself.
    pub dev: u64,
    /// Inode number; 0 for metadata.
    pub ino: u64,
    /// Inode generation; 0 for metadata.
    pub generation: u32,
    /// First page, in 4 KiB pages: of the file, or of the device for metadata.
    pub start: u64,
    /// Number of 4 KiB pages.
    pub len: u64,
    /// How it was seen.
    pub source: Source,
    /// Who made it.
    pub by: By,
}

impl Access {
    /// Whether a page fault made it: then the file is mapped.
    pub fn is_fault(&self) -> bool {
        matches!(self.source, Source::Fault | Source::Window)
    }

    /// Whether this is file-system metadata in the buffer cache.
    pub fn is_metadata(&self) -> bool {
        self.ino == 0
    }
}
