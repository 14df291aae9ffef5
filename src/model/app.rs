//! Which app a launch is, as plain data. Only `apps` decides it; everything that is kept for an app (its
//! profile, the name of that file, the service's registry) derives from these types.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What tells one app from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A program, script or archive: its absolute path as it was asked for, without "." and "..", and
    /// without following symbolic links. Do not open it: behind a link, ".." means something else.
    File(PathBuf),
    /// A launcher and the name that the app has with it, such as `flatpak:org.gimp.GIMP`.
    Name(OsString),
}

impl Key {
    /// The path or name. Paths begin with a slash, names contain a colon and no slash before it.
    pub fn as_os_str(&self) -> &OsStr {
        match self {
            Key::File(path) => path.as_os_str(),
            Key::Name(name) => name,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Path::new(self.as_os_str()).display(), out)
    }
}

/// Which app a command line starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What tells the app from others.
    pub key: Key,
    /// The program that is executed last on the way to the app, behind all wrappers: the app itself or
    /// its launcher. An absolute path.
    pub program: PathBuf,
    /// Whether this is one app: `false` for a launcher whose arguments do not tell what it starts
    /// (`python3 -c CODE`). The key is that of the launcher then.
    pub distinct: bool,
}

impl Identity {
    /// Whether the app is the executed program itself, not one that a launcher starts.
    pub fn is_program(&self) -> bool {
        self.key.as_os_str() == self.program.as_os_str()
    }

    /// The app as this user launches it, inside `root` if it is chrooted. Its executable is not filled in.
    pub fn app(&self, uid: u32, root: Option<&Path>) -> App {
        let bytes = |path: &OsStr| path.as_bytes().to_vec();
        App {
            uid,
            path: bytes(self.key.as_os_str()),
            root: root.map(|root| bytes(root.as_os_str())),
            program: (!self.is_program()).then(|| bytes(self.program.as_os_str())),
            dev: 0,
            ino: 0,
        }
    }
}

/// An app as one user launches it: what the service keeps anything for. What a user's launches show, with his
/// environment and his files, decides nothing about the launches of others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UserApp {
    /// See [`App::uid`].
    pub uid: u32,
    /// The app's name in the whole system: see [`App::id`].
    pub id: String,
}

impl UserApp {
    /// The app of this id, as this user launches it.
    pub fn new(uid: u32, id: impl Into<String>) -> Self {
        UserApp { uid, id: id.into() }
    }
}

impl fmt::Display for UserApp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of user {}", self.id, self.uid)
    }
}

/// The application that a profile belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// Real user id of the task that calls execve for the app, in the initial user namespace. A program that runs as
    /// another user has the one of its caller.
    #[serde(default)]
    pub uid: u32,
    /// The app's [`Key`]: its absolute path inside `root`, or `LAUNCHER:NAME`; arbitrary bytes.
    pub path: Vec<u8>,
    /// Directory that the app is chrooted into, for images; `None` for the system itself.
    pub root: Option<Vec<u8>>,
    /// Absolute path, inside `root`, of the launcher that is executed for the app; `None` if the app is
    /// executed itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Vec<u8>>,
    /// Device of the app's file (after following symbolic links), as `st_dev` of stat(2); 0 if unknown.
    pub dev: u64,
    /// Inode number of the app's file; 0 if unknown.
    pub ino: u64,
}

/// What a profile is stored under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppKey<'a> {
    /// See [`App::uid`].
    pub uid: u32,
    /// See [`App::path`].
    pub path: &'a [u8],
    /// See [`App::root`].
    pub root: Option<&'a [u8]>,
}

impl App {
    /// Whether this app's file is known to be another one than that of an earlier launch: a package was updated. The
    /// device's number says nothing, since a drive may have another one each time that it is plugged in.
    pub fn has_other_file_than(&self, before: &App) -> bool {
        self.ino != before.ino && self.ino != 0 && before.ino != 0
    }

    /// What the app's profile is stored under.
    pub fn key(&self) -> AppKey<'_> {
        AppKey {
            uid: self.uid,
            path: &self.path,
            root: self.root.as_deref(),
        }
    }

    /// The app's name in the whole system: its path below its root directory, `LAUNCHER:NAME`, or
    /// `LAUNCHER:NAME@ROOT`.
    pub fn id(&self) -> Vec<u8> {
        match &self.root {
            None => self.path.clone(),
            Some(root) if self.path.starts_with(b"/") => {
                [root.strip_suffix(b"/").unwrap_or(root), &self.path].concat()
            }
            Some(root) => [&self.path, b"@".as_slice(), root].concat(),
        }
    }

    /// What the service keeps for the app is kept under this; `None` if its id is not UTF-8.
    pub fn user_app(&self) -> Option<UserApp> {
        let id = String::from_utf8(self.id()).ok()?;
        Some(UserApp::new(self.uid, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_is_called_by_its_key_and_its_user() {
        assert_eq!(Key::File("/bin/app".into()).to_string(), "/bin/app");
        assert_eq!(Key::Name("snap:app".into()).to_string(), "snap:app");
        let app = |path: &[u8]| App {
            uid: 7,
            path: path.to_vec(),
            ..App::default()
        };
        let known = app(b"/bin/app").user_app().unwrap();
        assert_eq!(known, UserApp::new(7, "/bin/app"));
        assert_eq!(known.to_string(), "/bin/app of user 7");
        assert_eq!(app(b"/bin/\xff").user_app(), None);
    }

    fn identity(key: Key, program: &str) -> Identity {
        Identity {
            key,
            program: program.into(),
            distinct: true,
        }
    }

    #[test]
    fn an_app_has_another_file_only_if_both_are_known() {
        let with = |ino| App {
            ino,
            dev: 8,
            ..App::default()
        };
        for (ino, before, is_other) in [(7, 9, true), (7, 7, false), (0, 7, false), (7, 0, false)] {
            assert_eq!(with(ino).has_other_file_than(&with(before)), is_other);
        }
    }

    #[test]
    fn an_app_knows_its_launcher_only_if_it_has_one() {
        let own = identity(Key::File("/usr/bin/gimp".into()), "/usr/bin/gimp").app(0, None);
        assert_eq!((own.program.as_deref(), own.id()), (None, own.path.clone()));
        let script = identity(Key::File("/opt/a.py".into()), "/usr/bin/python3").app(0, None);
        assert_eq!(script.program.as_deref(), Some(&b"/usr/bin/python3"[..]));
        assert_eq!(script.id(), b"/opt/a.py");
    }

    #[test]
    fn ids_tell_the_apps_of_images_from_those_of_the_system() {
        let root = Path::new("/img");
        let file = identity(Key::File("/opt/a.py".into()), "/usr/bin/python3");
        assert_eq!(file.app(0, Some(root)).id(), b"/img/opt/a.py");
        let name = identity(Key::Name("python3:idlelib".into()), "/usr/bin/python3");
        assert_eq!(name.app(0, Some(root)).id(), b"python3:idlelib@/img");
        assert_eq!(name.app(0, None).id(), b"python3:idlelib");
    }
}
