//! The paths that a launch looks up.

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
    /// It was looked up, whether something was found or not. With `follow`, a symbolic link in its last
    /// place was followed.
    LookUp {
        /// Whether a symbolic link in the last place was followed.
        follow: bool,
    },
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
