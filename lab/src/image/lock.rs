//! One user of an image at a time.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

/// A lock on an image, as scripts/image.sh takes it; it goes with this, or with the process.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Locks an image that will be written.
    ///
    /// # Errors
    /// When another process uses it.
    pub fn exclusive(image: &Path) -> Result<Self> {
        Self::alone(image)?.with_context(|| in_use(image))
    }

    /// Locks an image that will only be read; others may do so, too.
    ///
    /// # Errors
    /// When another process writes it.
    pub fn shared(image: &Path) -> Result<Self> {
        Self::take(image, FlockOperation::NonBlockingLockShared)?.with_context(|| in_use(image))
    }

    /// As [`Lock::exclusive`]; `None` when another process uses it.
    ///
    /// # Errors
    /// When the lock file cannot be used.
    pub fn alone(image: &Path) -> Result<Option<Self>> {
        Self::take(image, FlockOperation::NonBlockingLockExclusive)
    }

    /// As [`Lock::shared`], but waits for a process that holds it exclusively.
    ///
    /// # Errors
    /// When the lock file cannot be used.
    pub fn beside_others(image: &Path) -> Result<Self> {
        Self::take(image, FlockOperation::LockShared)?.with_context(|| in_use(image))
    }

    fn take(image: &Path, operation: FlockOperation) -> Result<Option<Self>> {
        let path = PathBuf::from(format!("{}.lock", image.display()));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match retry_on_intr(|| flock(&file, operation)) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }
}

fn in_use(image: &Path) -> String {
    format!(
        "{} is in use: wait until the other session has ended",
        image.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_alone() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        let reader = Lock::shared(&image).unwrap();
        let another = Lock::shared(&image).unwrap();
        let error = Lock::exclusive(&image).unwrap_err();
        assert!(error.to_string().contains("is in use"), "{error}");
        drop((reader, another));
        let _writer = Lock::exclusive(&image).unwrap();
        assert!(Lock::shared(&image).is_err());
    }
}
