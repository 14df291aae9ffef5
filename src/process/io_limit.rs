//! Limits of what a process may read from drives (cgroups of version 2, `io.max`).
//!
//! What is read ahead for an app counts for the program that reads ahead, not for the app.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Cgroup;
use crate::fs::mounts::MountTable;

/// The innermost cgroup of a process, or above it, whose reads from any drive are limited; `None` if there is none, no
/// hierarchy of version 2 is mounted, or the process has ended. Reads a small file of the kernel's for each cgroup.
pub fn limited_reads(mounts: &MountTable, pid: i32) -> Option<PathBuf> {
    let cgroup = Cgroup::of(mounts, pid).ok()??;
    limited(cgroup.path(), cgroup.directory())
}

/// The innermost limited cgroup from the one of this path and directory on. The root has no limit.
fn limited(path: &Path, directory: &Path) -> Option<PathBuf> {
    let mut places = path.ancestors().zip(directory.ancestors());
    let found = places.find(|(path, directory)| path.parent().is_some() && is_limited(directory));
    found.map(|(path, _)| path.to_owned())
}

/// Whether the cgroup of this directory limits reads from any drive. The file is missing where the controller is not
/// enabled; what cannot be read may be a limit.
pub fn is_limited(directory: &Path) -> bool {
    match fs::read_to_string(directory.join("io.max")) {
        Ok(text) => limits_reads(&text),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Whether these contents of `io.max` limit reads from any drive, in bytes or requests a second.
pub fn limits_reads(io_max: &str) -> bool {
    let limits = io_max.split_ascii_whitespace().filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        matches!(name, "rbps" | "riops").then_some(value)
    });
    limits.into_iter().any(|value| value != "max")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_reads_are_told_from_those_of_writes() {
        for (text, expected) in [
            ("", false),
            ("8:0 rbps=max wbps=1048576 riops=max wiops=120\n", false),
            ("8:0 rbps=1048576 wbps=max riops=max wiops=max\n", true),
            (
                "8:0 rbps=max wbps=max riops=max wiops=max\n8:16 rbps=max riops=40\n",
                true,
            ),
            ("8:0", false),
            ("rbps", false),
        ] {
            assert_eq!(limits_reads(text), expected, "{text}");
        }
    }

    #[test]
    fn the_limit_of_a_cgroup_above_is_found_and_the_roots_is_not_asked() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("user.slice/app.scope");
        fs::create_dir_all(&inner).unwrap();
        let app = Path::new("/user.slice/app.scope");
        let limit = "8:0 rbps=1048576 wbps=max riops=max wiops=max\n";
        fs::write(root.path().join("io.max"), limit).unwrap();
        assert_eq!(limited(app, &inner), None);
        fs::write(root.path().join("user.slice/io.max"), limit).unwrap();
        assert_eq!(limited(app, &inner), Some("/user.slice".into()));
    }
}
