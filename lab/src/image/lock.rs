//! One user of an image at a time.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A lock on an image, as scripts/image.sh takes it; it goes with this, or with the process.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Locks an image that will be written.
    ///
    /// # Errors
    /// When somebody else uses it.
    pub fn exclusive(image: &Path) -> Result<Self> {
        Self::take(image, FlockOperation::NonBlockingLockExclusive)
    }

    /// Locks an image that will only be read; others may do so, too.
    ///
    /// # Errors
    /// When somebody writes it.
    pub fn shared(image: &Path) -> Result<Self> {
        Self::take(image, FlockOperation::NonBlockingLockShared)
    }

    fn take(image: &Path, operation: FlockOperation) -> Result<Self> {
        let path = PathBuf::from(format!("{}.lock", image.display()));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match flock(&file, operation) {
            Ok(()) => Ok(Lock { _file: file }),
            Err(Errno::WOULDBLOCK) => bail!(
                "{} is in use: wait until the other session has ended",
                image.display()
            ),
            Err(error) => Err(error.into()),
        }
    }
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
