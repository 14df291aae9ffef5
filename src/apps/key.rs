//! Making the keys by which apps are told apart.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::model::Key;

/// Longest path of an app's file, in bytes: the kernel's PATH_MAX without its NUL.
const MAX_FILE: usize = 4095;

/// Longest name of an app after its launcher's, in bytes, as of a file's name.
const MAX_NAME: usize = 255;

/// The key of the file at `path`, which is relative to `cwd` if it is not absolute; `None` if it is empty
/// or too long.
pub(super) fn of_file(path: &OsStr, cwd: &Path) -> Option<Key> {
    let file = absolute(Path::new(path), cwd);
    let usable = !path.is_empty() && file.as_os_str().len() <= MAX_FILE;
    usable.then_some(Key::File(file))
}

/// The key of the app that `launcher` calls `name`; `None` if the name is empty or too long.
pub(super) fn of_name(launcher: &str, name: &OsStr) -> Option<Key> {
    let usable = !name.is_empty() && name.len() <= MAX_NAME;
    usable.then(|| {
        let mut key = OsString::from(launcher);
        key.push(":");
        key.push(name);
        Key::Name(key)
    })
}

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
    let bytes = path.as_bytes();
    let start = bytes.iter().rposition(|&byte| byte == b'/');
    OsStr::from_bytes(&bytes[start.map_or(0, |slash| slash + 1)..])
}

#[cfg(test)]
mod tests {
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
    fn keys_are_neither_empty_nor_unbounded() {
        for text in ["", &"x".repeat(5000)] {
            assert_eq!(of_file(OsStr::new(text), Path::new("/")), None);
            assert_eq!(of_name("java", OsStr::new(text)), None);
        }
        let key = of_name("java", OsStr::new("Main")).expect("a name");
        assert_eq!(key.to_string(), "java:Main");
    }
}
