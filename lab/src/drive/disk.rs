//! A disk of the machine's as it is: neither emulated nor behind a loop device.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::profile::DriveProfile;
use super::sysfs::{self, Scheduler};

/// A disk that nobody uses. It gets its I/O scheduler back when this is dropped.
#[derive(Debug)]
pub struct Disk {
    node: PathBuf,
    name: String,
    /// The scheduler that it had.
    before: String,
}

impl Disk {
    /// The disk with this node, such as `/dev/vdb`: a whole one, since partitions share a scheduler.
    ///
    /// # Errors
    /// When it is no such disk, or somebody uses it.
    pub fn open(node: &Path) -> Result<Self> {
        let (node, name) = named(node)?;
        let exclusive = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_EXCL | libc::O_CLOEXEC)
            .open(&node)
            .with_context(|| format!("cannot have {} for ourselves", node.display()))?;
        ensure!(
            exclusive.metadata()?.file_type().is_block_device(),
            "{} is no disk",
            node.display()
        );
        let before =
            sysfs::chosen(&name).with_context(|| format!("{} is no whole disk", node.display()))?;
        Ok(Disk { node, name, before })
    }

    /// What is known of such a disk: nothing but its name. Its class is taken to be that of drives with command queuing.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn profile(node: &Path) -> Result<DriveProfile> {
        let (node, name) = named(node)?;
        Ok(DriveProfile {
            name,
            title: format!("The machine's own disk {}", node.display()),
            nr_requests: None,
            scheduler_requests: None,
            bus: None,
            flash: None,
            heads: None,
            claims: None,
        })
    }

    /// Its node.
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// Its name in sysfs, such as `vdb`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Has the kernel schedule its requests so.
    ///
    /// # Errors
    /// When the kernel does not have it.
    pub fn set_scheduler(&self, scheduler: Scheduler) -> Result<()> {
        sysfs::choose(&self.name, scheduler.name())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(error) = sysfs::choose(&self.name, &self.before) {
            eprintln!("lab: {error:#}");
        }
    }
}

/// The node itself, where links such as /dev/disk/by-id lead to it, and its name.
fn named(node: &Path) -> Result<(PathBuf, String)> {
    let node = node
        .canonicalize()
        .with_context(|| format!("there is no {}", node.display()))?;
    let name = node.file_name().and_then(|name| name.to_str());
    let name = name.context("a disk has a name")?.to_owned();
    Ok((node, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_disk_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Disk::open(file.path()).unwrap_err().to_string();
        assert!(error.contains("is no disk"), "{error}");
        let missing = file.path().with_extension("missing");
        assert!(Disk::open(&missing).is_err() && Disk::profile(&missing).is_err());
    }

    #[test]
    fn a_disk_is_known_by_the_name_of_its_node() {
        let profile = Disk::profile(Path::new("/dev/null")).unwrap();
        assert_eq!(profile.name, "null");
        assert!(!profile.is_emulated() && profile.title.ends_with("/dev/null"));
    }
}
