//! Mounting an image as a system to chroot into.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use paralfetch::fs::mounts::MountTable;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind_recursive, unmount};

/// A mounted image; unmounted when this is dropped, after everything in it has ended.
pub struct Mounted {
    at: PathBuf,
}

impl Mounted {
    /// Mounts the ext4 of a block device at a directory, with what programs expect of a system:
    /// /proc, /sys, /dev, and memory for /tmp, /run and /dev/shm.
    ///
    /// # Errors
    /// When something cannot be mounted.
    pub fn mount(node: &Path, at: &Path) -> Result<Self> {
        let what = |what: &str| format!("cannot mount {what} at {}", at.display());
        mount(node, at, "ext4", MountFlags::empty(), None)
            .with_context(|| what(&node.display().to_string()))?;
        let mounted = Mounted { at: at.to_owned() };
        mount("proc", at.join("proc"), "proc", MountFlags::empty(), None)
            .with_context(|| what("/proc"))?;
        for directory in ["sys", "dev"] {
            mount_bind_recursive(Path::new("/").join(directory), at.join(directory))
                .with_context(|| what(directory))?;
        }
        for directory in ["dev/shm", "tmp", "run"] {
            let place = at.join(directory);
            fs::create_dir_all(&place)?;
            mount("tmpfs", &place, "tmpfs", MountFlags::empty(), c"mode=1777")
                .with_context(|| what("a tmpfs"))?;
        }
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        for place in below(&self.at) {
            if unmount(&place, UnmountFlags::empty()).is_ok() {
                continue;
            }
            // A busy mount goes away with its last user.
            if let Err(error) = unmount(&place, UnmountFlags::DETACH) {
                eprintln!("lab: cannot unmount {}: {error}", place.display());
            }
        }
    }
}

/// Mount points at and below a directory, the innermost first. If they cannot be listed, the directory
/// itself: detached, it takes along what is mounted in it.
fn below(at: &Path) -> Vec<PathBuf> {
    let Ok(table) = MountTable::read() else {
        return vec![at.to_owned()];
    };
    let points = table.mounts().iter().map(|mount| mount.mount_point.clone());
    let mut inside: Vec<PathBuf> = points.filter(|point| point.starts_with(at)).collect();
    inside.reverse();
    inside
}

/// A directory to mount on, removed with this. Unlike a temporary directory it is never emptied: what is
/// found in it would be what could not be unmounted.
pub struct MountPoint(PathBuf);

impl MountPoint {
    /// Makes the directory, with a name of its own, in `directory`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(directory: &Path) -> Result<Self> {
        let made = tempfile::Builder::new()
            .prefix("root-")
            .tempdir_in(directory);
        let made =
            made.with_context(|| format!("cannot make a directory in {}", directory.display()))?;
        Ok(MountPoint(made.keep()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("lab: cannot remove {}: {error}", self.0.display());
        }
    }
}
