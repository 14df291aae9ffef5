//! The names by which apps are told apart.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Longest path of a file that can be an app, in bytes: the kernel's PATH_MAX without its NUL.
const MAX_FILE: usize = 4095;

/// Longest name of an app behind its launcher's, in bytes, as of a file's name.
const MAX_NAME: usize = 255;

/// What tells one app from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A program, script or archive: its absolute path as it was asked for, without "." and "..", and
    /// without following symbolic links. It tells apps apart; it is no path to open, for behind a link
    /// ".." means something else.
    File(PathBuf),
    /// A launcher and the name that the app has with it, such as `flatpak:org.gimp.GIMP`.
    Name(OsString),
    /// A command that a wrapper looks up in its PATH, which was not known: `gimp` of `env gimp`.
    Command(OsString),
}

impl Key {
    /// The file at `path`, which is relative to `cwd` if it is not absolute; `None` if it is no path of
    /// a file, or too long for one.
    pub(super) fn file(path: &OsStr, cwd: &Path) -> Option<Key> {
        let file = absolute(Path::new(path), cwd);
        let usable = !path.is_empty() && file.as_os_str().len() <= MAX_FILE;
        usable.then_some(Key::File(file))
    }

    /// The app that `launcher` calls `name`; `None` if that is no name to remember.
    pub(super) fn name(launcher: &str, name: &OsStr) -> Option<Key> {
        let usable = !name.is_empty() && name.len() <= MAX_NAME;
        usable.then(|| {
            let mut key = OsString::from(launcher);
            key.push(":");
            key.push(name);
            Key::Name(key)
        })
    }

    /// The command `name`, without a slash; `None` if that is none.
    pub(super) fn command(name: &OsStr) -> Option<Key> {
        let usable = !name.is_empty() && name.len() <= MAX_NAME;
        usable.then(|| Key::Command(name.into()))
    }

    /// The path, name or command. Paths begin with a slash, and commands contain neither a slash nor
    /// a launcher's name with a colon.
    pub fn as_os_str(&self) -> &OsStr {
        match self {
            Key::File(path) => path.as_os_str(),
            Key::Name(name) | Key::Command(name) => name,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Path::new(self.as_os_str()).display(), out)
    }
}

/// The path below `cwd` (itself taken below "/"), plain: without ".", ".." and doubled slashes.
pub(super) fn absolute(path: &Path, cwd: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in Path::new("/").join(cwd).join(path).components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                // Nothing is above the root.
                plain.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// The last component of a path or command; empty for none.
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
    fn no_key_is_empty_or_endless() {
        let cwd = Path::new("/");
        let long = "x".repeat(5000);
        for text in ["", &long] {
            let text = OsStr::new(text);
            assert_eq!(Key::file(text, cwd), None);
            assert_eq!(Key::name("java", text), None);
            assert_eq!(Key::command(text), None);
        }
        let key = Key::name("java", OsStr::new("Main")).expect("a name");
        assert_eq!(key.to_string(), "java:Main");
    }

    #[test]
    fn base_names() {
        for (path, base) in [("/a/b", "b"), ("b", "b"), ("a/", ""), ("", "")] {
            assert_eq!(base_name(OsStr::new(path)), base);
        }
    }
}
