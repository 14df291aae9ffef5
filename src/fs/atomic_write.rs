//! Replacing a file atomically.
//!
//! The new file is written under a temporary name and then renamed. A process that is killed in between
//! leaves it behind. The name contains the process id, so that such leftovers can be removed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// Beginning and end of temporary names. Between them are the process id and random characters.
const PREFIX: &str = ".new-";
const SUFFIX: &str = ".tmp";

/// Creates an empty file in `dir`, readable by its owner alone. Dropping it removes the file.
///
/// # Errors
/// As open(2).
pub(crate) fn new_file(dir: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(&format!("{PREFIX}{}-", std::process::id()))
        .suffix(SUFFIX)
        .tempfile_in(dir)
}

/// Writes a new file and renames it to `path`, in the same directory. A reader at the same time, or after a
/// crash, finds the old file or the new one.
///
/// # Errors
/// As write(2), fsync(2) and rename(2). The old file is kept then.
pub(crate) fn put(mut file: NamedTempFile, bytes: &[u8], path: &Path) -> io::Result<()> {
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // The rename is durable only once the directory is written.
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// Removes the temporary files of processes that have ended, and returns how many. Must be called before this
/// process creates any.
///
/// # Errors
/// When the directory cannot be read, or a file cannot be removed.
pub(crate) fn remove_leftovers(dir: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let between = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
        if !between.is_some_and(is_left_behind) {
            continue;
        }
        match fs::remove_file(entry.path()) {
            Ok(()) => removed += 1,
            // Another process has removed it first.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

/// Whether the process that a temporary name belongs to has ended. That includes names with the id of this
/// process, which has created none yet.
fn is_left_behind(between: &str) -> bool {
    let pid = between
        .split_once('-')
        .and_then(|(pid, _)| pid.parse::<u32>().ok());
    pid.is_none_or(|pid| pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for text in ["old and long", "new"] {
            put(new_file(dir.path()).unwrap(), text.as_bytes(), &path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_files_of_processes_that_have_ended_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        // Process 1 lives as long as the system; no process has an id as large as the last.
        let own = format!(".new-{}-b.tmp", std::process::id());
        let left_behind = [&own, ".new-4294967295-c.tmp", ".new-d.tmp"];
        for name in [".new-1-a.tmp", "app.pf", ".new-", "x.tmp"]
            .iter()
            .chain(&left_behind)
        {
            fs::write(dir.path().join(name), "half").unwrap();
        }
        assert_eq!(remove_leftovers(dir.path()).unwrap(), 3);
        assert_eq!(remove_leftovers(dir.path()).unwrap(), 0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
        assert!(remove_leftovers(&dir.path().join("x.tmp")).is_err());
    }
}
