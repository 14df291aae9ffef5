//! Copying an image without its holes.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{SeekFrom, copy_file_range, seek};
use rustix::io::Errno;

/// Copies a sparse file; the copy has the same holes.
///
/// # Errors
/// When either file cannot be used, or the disk is full.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let source = File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
    let target = File::create(to).with_context(|| format!("cannot write {}", to.display()))?;
    target.set_len(source.metadata()?.len())?;
    let mut at = 0;
    while let Some((start, end)) = data_after(&source, at)? {
        let (mut read, mut write) = (start, start);
        while read < end {
            let left = usize::try_from(end - read)?;
            let copied = copy_file_range(&source, Some(&mut read), &target, Some(&mut write), left)
                .with_context(|| format!("cannot copy to {}", to.display()))?;
            anyhow::ensure!(copied > 0, "{} has become shorter", from.display());
        }
        at = end;
    }
    Ok(())
}

/// The next part with data from byte `at` on: its start and its end; `None` when there is none.
///
/// # Errors
/// As lseek(2).
pub fn data_after(file: &File, at: u64) -> Result<Option<(u64, u64)>> {
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some((start, seek(file, SeekFrom::Hole(start))?)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;

    #[test]
    fn holes_stay_holes() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (from, to) = (directory.path().join("a"), directory.path().join("b"));
        let file = File::create(&from).unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(b"in the middle", 30 << 20).unwrap();
        file.sync_all().unwrap();
        copy(&from, &to).unwrap();
        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap());
        assert!(fs::metadata(&to).unwrap().blocks() < 4096);
    }
}
