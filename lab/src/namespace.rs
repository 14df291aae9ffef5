//! A mount namespace of one's own. `unsafe` for unshare(2).

use anyhow::{Context, Result};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives this process, which must have no other threads, a mount namespace of its own: what is mounted
/// in it goes with its last process.
///
/// # Errors
/// Without the privilege.
pub fn private_namespace() -> Result<()> {
    // SAFETY: a new mount namespace concerns no memory and no descriptors; only the working directory
    // is shared with threads, of which there are none.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
        .context("cannot make a mount namespace: run this as root")?;
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", flags).context("cannot make mounts private")
}
