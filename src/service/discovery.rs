//! Which programs may become apps by themselves, because their processes read much.
//!
//! A path is text that any user may write: `/usr/../home/user/x` begins like a system directory. What counts is the
//! file: the administrator has installed it, and every directory on the way to it is the administrator's, too.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, fstat};

use crate::apps::Rules;
use crate::fs::local_path::LocalFile;
use crate::fs::mounts::MountTable;

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
pub fn is_public(path: &Path, mounts: &MountTable) -> bool {
    let is_open = |fd: &OwnedFd| is_administrators(fd) && has_mode(fd, SEARCHABLE);
    is_normal(path)
        && LocalFile::find_through(path, mounts, is_open).is_ok_and(|file| {
            file.node.kind == FileType::RegularFile
                && fstat(&file.fd).is_ok_and(|found| found.st_uid == 0)
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
/// Opens no file: looks at metadata alone, and from the root directory down, so that nothing is looked up in a directory of
/// a user's, or where a server or a user-space process answers.
///
/// # Errors
/// The reason, for the log.
pub fn check(path: &Path, rules: &Rules, mounts: &MountTable) -> Result<(), String> {
    if !is_plausible(path) {
        return Err("it is in no directory where only the administrator installs".to_owned());
    }
    let file = LocalFile::find_through(path, mounts, is_administrators);
    let file = file.map_err(|error| format!("others may decide what it is: {error}"))?;
    if !is_trusted(&file.path) {
        return Err(format!("it leads to {}", file.path.display()));
    }
    if file.node.kind != FileType::RegularFile || !is_administrators(&file.fd) {
        return Err("its file is not the administrator's alone".to_owned());
    }
    check_kind(path, &file, rules)
}

/// Why an ordinary user may not have the program at this path managed: a tool, or the loader of all programs, is no app by
/// what one of its launches reads.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn check_named(path: &Path, rules: &Rules, mounts: &MountTable) -> Result<(), String> {
    let file = LocalFile::find(path, mounts).map_err(|error| error.to_string())?;
    check_kind(path, &file, rules)
}

/// Why a program is no app by its kind, as [`check_named`]: `path` leads to `file`.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn check_kind(path: &Path, file: &LocalFile, rules: &Rules) -> Result<(), String> {
    if has_mode(&file.fd, RUNS_AS_ANOTHER) {
        return Err("it runs as another user".to_owned());
    }
    let loads_programs = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        [&b"ld-"[..], b"ld.so", b"libc.so"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    for name in [path.file_name(), file.path.file_name()]
        .into_iter()
        .flatten()
    {
        if rules.starts_others(name) || loads_programs(name) {
            return Err("it works on what its user gives it, or starts other programs".to_owned());
        }
    }
    Ok(())
}

/// Whether nobody but the administrator may write to a file or directory.
fn is_administrators(fd: &OwnedFd) -> bool {
    fstat(fd).is_ok_and(|found| found.st_uid == 0 && found.st_mode & WRITABLE == 0)
}

/// Whether any of these permission bits is set; a file that cannot be examined has none.
fn has_mode(fd: &OwnedFd, bits: u32) -> bool {
    fstat(fd).is_ok_and(|found| found.st_mode & bits != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn refused(path: &str) -> Option<String> {
        let mounts = MountTable::read().unwrap();
        check(Path::new(path), &Rules::builtin(), &mounts).err()
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
        let mounts = MountTable::read().unwrap();
        for path in [
            "/usr/bin/id",
            "/bin/sh",
            "/usr/share/applications/../../bin/id",
        ] {
            let is_found = is_public(Path::new(path), &mounts);
            assert_eq!(is_found, !path.contains(".."), "{path}");
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
            assert!(!is_public(path, &mounts), "{}", path.display());
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
