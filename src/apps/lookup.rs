//! Where programs are: paths, commands in PATH, and files behind symbolic links.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Symbolic links that are followed one after the other, as many as the kernel follows (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// The path below `cwd` (itself taken below "/") without ".", ".." and doubled slashes.
pub(super) fn absolute(path: &Path, cwd: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in Path::new("/").join(cwd).join(path).components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                // The root's parent is the root.
                plain.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// The last component of a path or command; empty if it ends with a slash.
pub(super) fn base_name(path: &OsStr) -> &OsStr {
    let name = path.as_bytes().rsplit(|&byte| byte == b'/').next();
    OsStr::from_bytes(name.unwrap_or_default())
}

/// The first executable file called `name` in `path`, directories separated by colons. Relative
/// directories are skipped: the caller has another working directory. A `name` with a slash is not looked
/// up, but an absolute path of an executable file is returned as it is.
pub(super) fn executable_in(path: &OsStr, name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().starts_with(b"/") {
        return Some(PathBuf::from(name)).filter(|file| is_executable(file));
    }
    if name.is_empty() || name.as_bytes().contains(&b'/') {
        return None;
    }
    path.as_bytes()
        .split(|&byte| byte == b':')
        .filter(|directory| directory.starts_with(b"/"))
        .map(|directory| absolute(Path::new(name), Path::new(OsStr::from_bytes(directory))))
        .find(|file| is_executable(file))
}

/// Whether there is a regular file that somebody may execute. Opens nothing.
pub(super) fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// A file and those that it is a symbolic link to, one after the other; at most 41. Opens nothing.
pub(super) fn link_chain(file: &Path) -> Vec<PathBuf> {
    let mut chain = vec![file.to_path_buf()];
    while chain.len() <= MAX_LINKS {
        let at = &chain[chain.len() - 1];
        // The kernel resolves links on the way to the last component: ".." has to stay in the path.
        let Ok(target) = fs::read_link(at) else {
            break;
        };
        chain.push(at.parent().unwrap_or(Path::new("/")).join(target));
    }
    chain
}

/// The base names under which a file is executed: its own and those of the files that it is a symbolic
/// link to, in that order, each once.
pub(super) fn executed_names(file: &Path) -> Vec<OsString> {
    let mut names: Vec<OsString> = Vec::new();
    for link in link_chain(file) {
        let name = base_name(link.as_os_str());
        if !name.is_empty() && !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_become_absolute_and_plain() {
        for (path, cwd, plain) in [
            ("gimp", "/usr/bin", "/usr/bin/gimp"),
            ("./a//b/./c", "/x", "/x/a/b/c"),
            ("../lib/app", "/opt/bin", "/opt/lib/app"),
            ("../../../etc", "/a", "/etc"),
            ("/usr/bin/../lib/x", "/anywhere", "/usr/lib/x"),
            (".", "/opt/app/", "/opt/app"),
            ("a", "b", "/b/a"),
        ] {
            assert_eq!(absolute(Path::new(path), Path::new(cwd)), Path::new(plain));
        }
    }

    #[test]
    fn the_first_executable_file_in_path_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        for directory in [&one, &two] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("app"), "").unwrap();
        }
        fs::create_dir(one.join("dir")).unwrap();
        let path = format!("relative::/nowhere:{}:{}/", one.display(), two.display());
        let look_up = |name: &str| executable_in(OsStr::new(&path), OsStr::new(name));
        assert_eq!(look_up("app"), None);
        let executable = |file: PathBuf| {
            fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
        };
        executable(two.join("app"));
        assert_eq!(look_up("app"), Some(two.join("app")));
        executable(one.join("app"));
        assert_eq!(look_up("app"), Some(one.join("app")));
        for name in ["dir", "", "none", "../one/app", "."] {
            assert_eq!(look_up(name), None, "{name}");
        }
    }

    #[test]
    fn names_on_a_chain_of_links() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("lib/app")).unwrap();
        fs::create_dir(path("bin")).unwrap();
        fs::write(path("lib/app/main.bin"), "").unwrap();
        symlink("main.bin", path("lib/app/soffice")).unwrap();
        symlink("../lib/app/soffice", path("bin/libreoffice")).unwrap();
        symlink(path("bin/libreoffice"), path("bin/office")).unwrap();
        symlink("loop", path("bin/loop")).unwrap();
        symlink("pong", path("bin/ping")).unwrap();
        symlink("ping", path("bin/pong")).unwrap();
        for (name, names) in [
            (
                "bin/office",
                &["office", "libreoffice", "soffice", "main.bin"][..],
            ),
            ("lib/app/main.bin", &["main.bin"]),
            ("bin/loop", &["loop"]),
            ("bin/ping", &["ping", "pong"]),
            ("bin/none", &["none"]),
        ] {
            assert_eq!(executed_names(&path(name)), names, "{name}");
        }
    }
}
