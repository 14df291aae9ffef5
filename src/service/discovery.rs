//! Which programs may become apps by themselves, because their processes read much.
//!
//! A path is text that any user may write: `/usr/../home/user/x` begins like a system directory. What counts is the
//! file: the administrator has installed it, and every directory on the way to it is the administrator's, too.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::apps::Rules;

/// Directories whose programs may become apps by themselves: only the administrator installs there.
const TRUSTED: [&str; 4] = ["/usr/", "/opt/", "/snap/", "/var/lib/flatpak/"];

/// Permission bits that let others than the owner write.
const WRITABLE: u32 = 0o022;

/// Permission bit that lets everybody search a directory.
const SEARCHABLE: u32 = 0o001;

/// Permission bits that make a program run as another user: `su` and its kind start programs.
const RUNS_AS_ANOTHER: u32 = 0o6000;

/// Whether the path may be that of such a program, as far as its text tells.
pub fn is_plausible(path: &Path) -> bool {
    is_normal(path) && is_trusted(path)
}

/// Whether the path has no ".", ".." or empty part.
fn is_normal(path: &Path) -> bool {
    // `components` leaves out "." and empty parts.
    path.components().collect::<PathBuf>().as_os_str() == path.as_os_str()
        && !path.components().any(|part| part == Component::ParentDir)
}

/// Whether everybody may look at the file that this path leads to, through directories of the administrator that
/// everybody may search. No user can have the answer depend on a file that he does not see himself.
pub fn is_public(path: &Path) -> bool {
    let is_open = |path: &Path| {
        let mut directories = path.ancestors().skip(1);
        owned_on_the_way(path).is_ok()
            && directories.all(|directory| {
                let found = fs::symlink_metadata(directory);
                found.is_ok_and(|found| found.is_symlink() || found.mode() & SEARCHABLE != 0)
            })
    };
    is_normal(path)
        && is_open(path)
        && fs::canonicalize(path).is_ok_and(|file| {
            let found = fs::symlink_metadata(&file);
            is_open(&file) && found.is_ok_and(|found| found.is_file() && found.uid() == 0)
        })
}

fn is_trusted(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    TRUSTED
        .iter()
        .any(|start| text.starts_with(start.as_bytes()))
}

/// Why the program at this path, as execve was given it, may not become an app by itself.
///
/// Opens no file: looks at metadata alone, below directories of the administrator.
///
/// # Errors
/// The reason, for the log.
pub fn check(path: &Path, rules: &Rules) -> Result<(), String> {
    if !is_plausible(path) {
        return Err("it is in no directory where only the administrator installs".to_owned());
    }
    owned_on_the_way(path)?;
    let file = fs::canonicalize(path).map_err(|error| error.to_string())?;
    if !is_trusted(&file) {
        return Err(format!("it leads to {}", file.display()));
    }
    owned_on_the_way(&file)?;
    let found = fs::symlink_metadata(&file).map_err(|error| error.to_string())?;
    if !found.is_file() || found.uid() != 0 || found.mode() & WRITABLE != 0 {
        return Err("its file is not the administrator's alone".to_owned());
    }
    check_kind(path, &file, rules)
}

/// Why an ordinary user may not have the program at this path managed: a tool, or the loader of all programs, is no app by
/// what one of its launches reads.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn check_named(path: &Path, rules: &Rules) -> Result<(), String> {
    let file = fs::canonicalize(path).map_err(|error| error.to_string())?;
    check_kind(path, &file, rules)
}

/// Why a program is no app by its kind: `path` leads to `file`.
fn check_kind(path: &Path, file: &Path, rules: &Rules) -> Result<(), String> {
    let found = fs::symlink_metadata(file).map_err(|error| error.to_string())?;
    if found.mode() & RUNS_AS_ANOTHER != 0 {
        return Err("it runs as another user".to_owned());
    }
    let loads_programs = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        [&b"ld-"[..], b"ld.so", b"libc.so"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    for name in [path.file_name(), file.file_name()].into_iter().flatten() {
        if rules.starts_others(name) || loads_programs(name) {
            return Err("it works on what its user gives it, or starts other programs".to_owned());
        }
    }
    Ok(())
}

/// Whether all directories above the file are the administrator's alone.
fn owned_on_the_way(path: &Path) -> Result<(), String> {
    for directory in path.ancestors().skip(1) {
        let found = fs::symlink_metadata(directory).map_err(|error| error.to_string())?;
        // Of a link, the directory that it is in decides.
        let is_owned = found.uid() == 0 && (found.is_symlink() || found.mode() & WRITABLE == 0);
        if !is_owned {
            return Err(format!("others may write to {}", directory.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &str) -> Option<String> {
        check(Path::new(path), &Rules::builtin()).err()
    }

    #[test]
    fn programs_of_the_administrator_may_be_discovered_and_tools_may_not() {
        // Packages that each system has, and that no rule names.
        assert_eq!(refused("/usr/bin/id"), None);
        for path in [
            "/usr/lib64/ld-linux-x86-64.so.2",
            "/usr/bin/sh",
            "/usr/bin/bash",
            "/usr/bin/env",
            "/usr/bin/cat",
        ] {
            let why = refused(path).expect(path);
            assert!(why.contains("starts other programs"), "{path}: {why}");
        }
        let su = refused("/usr/bin/su").expect("su");
        assert!(su.contains("runs as another user"), "{su}");
    }

    #[test]
    fn files_of_the_system_are_public_and_those_of_users_or_in_closed_directories_are_not() {
        for path in [
            "/usr/bin/id",
            "/bin/sh",
            "/usr/share/applications/../../bin/id",
        ] {
            assert_eq!(is_public(Path::new(path)), !path.contains(".."), "{path}");
        }
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("program");
        fs::write(&own, "").unwrap();
        let closed = [
            "/root/.bashrc",
            "/etc/ssl/private/key",
            "/usr/bin/no-such-program",
            "/usr/bin",
        ];
        for path in closed.map(Path::new).into_iter().chain([own.as_path()]) {
            assert!(!is_public(path), "{}", path.display());
        }
    }

    #[test]
    fn what_only_looks_like_a_system_path_is_refused() {
        for path in [
            "/usr/../home/user/x",
            "/usr/bin/../../home/user/x",
            "/usr/./bin/id",
            "/usr//bin/id",
            "/home/user/x",
            "usr/bin/id",
            "/usr/bin/no-such-program",
            "/usr/bin",
            "/usrx/id",
        ] {
            assert!(refused(path).is_some(), "{path}");
        }
    }
}
