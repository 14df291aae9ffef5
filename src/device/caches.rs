//! Emptying the disk caches.

use std::fs;
use std::io;

/// Writes dirty pages back and drops the page, buffer and slab caches (paper §2.2). What is in use
/// stays: pages that a program has mapped, inodes and directory entries that are open.
///
/// # Errors
/// When the kernel refuses, which it does to anyone but root.
pub fn drop_caches() -> io::Result<()> {
    // Dirty pages are not dropped: write them back first.
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot drop the disk caches (/proc/sys/vm/drop_caches): {error}"),
        )
    })
}
