//! Putting a file in the place of another, whole or not at all.
//!
//! The new file is written under a name of its own and then renamed. A process that is killed in between
//! leaves it behind; its name tells whose it was, so that it can be removed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// What the names of new files begin and end with; the process id is between, and something random.
const PREFIX: &str = ".new-";
const SUFFIX: &str = ".tmp";

/// Makes an empty file in `dir`, readable by its owner alone. It is gone when the value is.
///
/// # Errors
/// As open(2).
pub(crate) fn new_file(dir: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(&format!("{PREFIX}{}-", std::process::id()))
        .suffix(SUFFIX)
        .tempfile_in(dir)
}

/// Writes a new file and puts it in the place of `path`, in the same directory. Whoever reads at the same
/// time, or after a crash, finds the old file or the new one.
///
/// # Errors
/// As write(2), fsync(2) and rename(2); the old file is still there then.
pub(crate) fn put(mut file: NamedTempFile, bytes: &[u8], path: &Path) -> io::Result<()> {
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // The rename itself lasts only once the directory is written.
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// Removes new files that processes have left behind, and says how many. To be called before this process
/// makes any.
///
/// # Errors
/// When the directory cannot be read, or a file not removed.
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
            // Its process was not that dead.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

/// Whether the process that a name tells of is gone. One that has the number of this process is: this one
/// has made none yet.
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
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for text in ["old and long", "new"] {
            put(new_file(dir.path()).unwrap(), text.as_bytes(), &path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_what_the_dead_have_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::write(dir.path().join(name), "half").unwrap();
        let own = std::process::id();
        // The first process lives as long as the system; no process has a number that large.
        for name in [".new-1-a.tmp", "app.pf", ".new-", "x.tmp"] {
            make(name);
        }
        for name in [
            &format!(".new-{own}-b.tmp"),
            ".new-4294967295-c.tmp",
            ".new-d.tmp",
        ] {
            make(name);
        }
        assert_eq!(remove_leftovers(dir.path()).unwrap(), 3);
        assert_eq!(remove_leftovers(dir.path()).unwrap(), 0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
        assert!(remove_leftovers(&dir.path().join("x.tmp")).is_err());
    }
}
