//! Accesses to pages and paths, as tracing reports them.

/// How an access was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// Pages added to a cache: read from the drive (or, in a written file, made to be written).
    Added,
    /// Pages that read(2) and its kin took from the page cache. The range may reach past the
    /// file's end.
    Read,
    /// One page that a page fault asked for: either it was not cached, and [`Source::Added`] follows, or it
    /// was cached and was written to or could not be mapped with its neighbours.
    Fault,
    /// The faultaround window of a page fault on a cached page: its cached pages were mapped, and one of them
    /// was touched.
    Window,
    /// Metadata that a path's look-up depends on, derived from the path. Whether they were read or cached is
    /// not known.
    LookedUp,
}

/// Who made an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum By {
    /// A task of the launch tree.
    Tree,
    /// A thread of this program: the launcher or the prefetch thread.
    Own,
    /// A helper: a process outside of the tree that was started since the launch began. It may be a service
    /// that the bus starts for the app, or have nothing to do with it.
    Helper,
    /// An older process of the app's user, which may do something for the app: a portal, dconf, gvfs. Only what it
    /// adds to the caches is seen.
    Daemon,
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
    /// Whose pages they are.
    pub fn inode(&self) -> InodeId {
        InodeId {
            dev: self.dev,
            ino: self.ino,
            generation: self.generation,
        }
    }

    /// Whether a page fault caused it, so that the file is mapped.
    pub fn is_fault(&self) -> bool {
        matches!(self.source, Source::Fault | Source::Window)
    }

    /// Whether this is file-system metadata in the buffer cache.
    pub fn is_metadata(&self) -> bool {
        self.ino == 0
    }
}

/// Identifies an inode for as long as it exists. Where pages are concerned, number 0 stands for a device's
/// metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InodeId {
    /// Device of its file system, in the encoding of `st_dev`.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Inode generation.
    pub generation: u32,
}

/// How a path was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// The path was looked up, whether something was found or not. With `follow`, a symbolic link in its last place was
    /// followed.
    LookUp {
        /// Whether a symbolic link in the last place was followed.
        follow: bool,
    },
    /// The path was looked up to execute the file: a program, or the interpreter of a script. A link in its last place
    /// was followed.
    Execute,
    /// The directory [`PathUse::from`] was read; the path is empty.
    List,
    /// The directory [`PathUse::from`] became the working directory, by an unknown path; the path is empty.
    Enter,
}

/// The first use of a path by the launch tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathUse {
    /// When the system call returned, CLOCK_MONOTONIC in nanoseconds.
    pub time_ns: u64,
    /// The directory that the path starts from; for absolute paths the task's root.
    pub from: InodeId,
    /// Number of the mount that it was reached through, as /proc/PID/mountinfo shows it.
    pub from_mount: u32,
    /// Root directory of the task: what `/` means to it.
    pub root: InodeId,
    /// Number of the mount that the root was reached through.
    pub root_mount: u32,
    /// Number of the task's mount namespace, as /proc/PID/ns/mnt shows it.
    pub mount_ns: u32,
    /// The task's process, which may be gone by now; 0 if it is in our mount namespace.
    pub pid: u32,
    /// The path as the task gave it; arbitrary bytes other than zero.
    pub path: Vec<u8>,
    /// How it was used.
    pub how: Use,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_have_no_inode_and_what_a_fault_reads_is_mapped() {
        let access = |ino, source| Access {
            time_ns: 0,
            dev: 1,
            ino,
            generation: 3,
            start: 0,
            len: 1,
            source,
            by: By::Tree,
        };
        assert!(access(0, Source::Read).is_metadata() && !access(2, Source::Read).is_metadata());
        assert!(access(2, Source::Fault).is_fault() && access(2, Source::Window).is_fault());
        assert!(!access(2, Source::Read).is_fault());
        let inode = InodeId {
            dev: 1,
            ino: 2,
            generation: 3,
        };
        assert_eq!(access(2, Source::Read).inode(), inode);
    }
}
