//! The directory that a session works in.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::lock::Lock;

/// How the names of these directories begin.
const PREFIX: &str = "session-";

/// A directory of a session's own beside the images, removed when this is dropped. What a killed session
/// left behind is removed by the next one.
pub struct Workplace {
    // Before the lock, which says that it is in use.
    directory: TempDir,
    _lock: Lock,
}

impl Workplace {
    /// Creates one in `images`. First removes those that ended sessions have left behind.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(images: &Path) -> Result<Self> {
        // All sessions share a lock as long as they last, so that who has it alone is the first.
        let sessions = images.join("sessions");
        if let Some(alone) = Lock::alone(&sessions)? {
            remove_stale(images).with_context(|| format!("cannot list {}", images.display()))?;
            drop(alone);
        }
        let lock = Lock::beside_others(&sessions)?;
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(images);
        let directory = directory
            .with_context(|| format!("cannot make a directory in {}", images.display()))?;
        Ok(Workplace {
            directory,
            _lock: lock,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes the directories of sessions that were killed. What cannot be removed is said, and stays.
fn remove_stale(images: &Path) -> io::Result<()> {
    for entry in fs::read_dir(images)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let stale = entry.path();
        if let Err(error) = remove(&stale) {
            let stale = stale.display();
            eprintln!("lab: cannot remove {stale}, which a killed session left: {error}");
        }
    }
    Ok(())
}

/// Removes a session's directory: the copy of the image, and mount points. Nothing below those, which
/// would be what is mounted there.
fn remove(stale: &Path) -> io::Result<()> {
    for entry in fs::read_dir(stale)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(stale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_sessions_left_goes_with_the_next() {
        let images = tempfile::tempdir().unwrap();
        let at = |name: &str| images.path().join(name);
        fs::create_dir_all(at("session-killed/root-a")).unwrap();
        fs::write(at("session-killed/image"), "copy").unwrap();
        fs::create_dir_all(at("session-mounted/root-b/etc")).unwrap();
        fs::write(at("apps.img"), "image").unwrap();

        let first = Workplace::new(images.path()).unwrap();
        assert!(!at("session-killed").exists());
        assert!(at("session-mounted/root-b/etc").exists() && at("apps.img").exists());

        let second = Workplace::new(images.path()).unwrap();
        assert!(first.path().exists() && second.path().exists());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists() && second.path().exists());
    }
}
