//! The app of a command line that this program is about to start.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::launchers::Rules;
use super::lookup::absolute;
use crate::model::{App, Identity};
use crate::process::Command;

/// Which app a command starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandApp {
    /// The app under which profiles are kept.
    pub app: App,
    /// Whether it is one app; see [`Identity::distinct`].
    pub distinct: bool,
    /// The command's own executable as an app: what the profile was kept under before launchers were told
    /// from their apps. `None` if that is `app`.
    pub by_path: Option<App>,
}

/// The app that `command` starts for the user `uid`: by the same rules, and so with the same key, as the service finds for it
/// at a plain launch. Commands of wrappers are looked up as the command itself was, in its root directory.
pub fn identify_command(rules: &Rules, command: &Command, uid: u32) -> CommandApp {
    let root = command.root();
    let cwd = match root {
        Some(_) => PathBuf::from("/"),
        None => env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
    };
    let look_up = |name: &OsStr| {
        let found = Command::find(&[name.to_owned()], root).ok()?;
        Some(found.path().to_owned())
    };
    let identity = rules.identify_with(command.path(), command.argv(), &cwd, &look_up);
    let own = App {
        uid,
        path: command.path().as_os_str().as_bytes().to_vec(),
        root: root.map(|root| root.as_os_str().as_bytes().to_vec()),
        program: None,
        dev: command.inode().0,
        ino: command.inode().1,
    };
    let app = match identity.distinct && !starts_itself(&identity, command) {
        true => with_inode(identity.app(uid, root)),
        false => own.clone(),
    };
    CommandApp {
        distinct: identity.distinct,
        by_path: (app.key() != own.key()).then_some(own),
        app,
    }
}

/// Whether the command is the app's own program.
fn starts_itself(identity: &Identity, command: &Command) -> bool {
    identity.is_program() && identity.program == absolute(command.path(), Path::new("/"))
}

/// Fills in the device and inode number of the app's file, if it is a file.
fn with_inode(mut app: App) -> App {
    let file = app.path.starts_with(b"/").then(|| app.id());
    if let Some(found) = file.and_then(|file| fs::metadata(OsStr::from_bytes(&file)).ok()) {
        (app.dev, app.ino) = (found.dev(), found.ino());
    }
    app
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A root directory with a few programs and scripts.
    fn root() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("usr/bin")).unwrap();
        for program in ["python3", "env", "tool", "sh"] {
            let path = dir.path().join("usr/bin").join(program);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(dir.path().join("a.py"), "").unwrap();
        dir
    }

    fn identify(root: &Path, line: &[&str]) -> CommandApp {
        let argv: Vec<OsString> = line.iter().map(OsString::from).collect();
        let command = Command::find(&argv, Some(root)).unwrap();
        identify_command(&Rules::builtin(), &command, 0)
    }

    #[test]
    fn scripts_inside_a_root_are_apps_of_their_own() {
        let root = root();
        let a = identify(root.path(), &["/usr/bin/python3", "a.py"]);
        assert_eq!(a.app.path, b"/a.py");
        assert_eq!(a.app.program.as_deref(), Some(&b"/usr/bin/python3"[..]));
        let file = fs::metadata(root.path().join("a.py")).unwrap();
        assert_eq!((a.app.dev, a.app.ino), (file.dev(), file.ino()));
        assert_eq!(a.by_path.unwrap().path, b"/usr/bin/python3");
        let wrapped = identify(
            root.path(),
            &["/usr/bin/env", "A=b", "/usr/bin/python3", "a.py"],
        );
        assert_eq!((wrapped.app, wrapped.distinct), (a.app, true));
        let module = identify(root.path(), &["/usr/bin/python3", "-m", "idlelib"]).app;
        assert_eq!((&module.path[..], module.ino), (&b"python3:idlelib"[..], 0));
    }

    #[test]
    fn ordinary_programs_keep_their_key_and_inode() {
        let root = root();
        let found = identify(root.path(), &["/usr/bin/tool", "a.py"]);
        let file = fs::metadata(root.path().join("usr/bin/tool")).unwrap();
        assert_eq!(found.app.path, b"/usr/bin/tool");
        assert_eq!(found.app.program, None);
        assert_eq!((found.app.dev, found.app.ino), (file.dev(), file.ino()));
        assert_eq!((found.by_path, found.distinct), (None, true));
    }

    #[test]
    fn a_launcher_that_does_not_tell_is_known_by_the_command() {
        let root = root();
        for line in [
            &["/usr/bin/python3", "-c", "x"][..],
            &["/usr/bin/env", "/usr/bin/python3", "-c", "x"],
            &["/usr/bin/sh", "-c", "cat *"],
        ] {
            let found = identify(root.path(), line);
            assert_eq!(found.app.path, line[0].as_bytes());
            assert_eq!((found.by_path, found.distinct), (None, false));
        }
    }
}
