//! The system calls that benchmarks time. `unsafe` for truncate(2), which takes a path.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};

/// Opens a file as creat(2) does.
pub(super) fn create(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .open(path)
        .with_context(|| format!("cannot create {}", path.display()))
}

/// Writes everything with as few calls as the kernel allows: one, unless a signal comes in between.
pub(super) fn write(mut file: &File, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes).context("cannot write")
}

/// Closes a file. An error of close(2) is not told: what must be on the drive is synced before.
pub(super) fn close(file: File) -> Result<()> {
    drop(file);
    Ok(())
}

/// Truncates a file to nothing, by its path as the paper's M4 does.
pub(super) fn truncate(path: &Path) -> Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero byte and outlives the call.
    let failed = unsafe { libc::truncate(name.as_ptr(), 0) } < 0;
    let result = if failed {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    };
    result.with_context(|| format!("cannot truncate {}", path.display()))
}
