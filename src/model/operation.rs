//! What a launch asks of its file systems beside pages.

/// What an operation does with its path. It neither follows a link nor opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Looks the path up, a component at a time, and gets the inode that it leads to, if any. This reads all that stat(2)
    /// and open(2) read of metadata, also where they find nothing; and links, whose targets lie beside their inodes.
    LookUp,
    /// Reads the names in a directory.
    List,
}

/// A read of metadata that a launch makes, where they are not read as blocks of a device: carried out ahead of the
/// launch, it brings them into the kernel's caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Index of its file system in the device table.
    pub device: u16,
    /// Path from the file system's own root, through no link; arbitrary bytes.
    pub path: Vec<u8>,
    /// What is done with it.
    pub kind: OperationKind,
    /// Time of its first use, in microseconds since the launch's execve.
    pub time_us: u64,
}
