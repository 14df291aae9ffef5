//! How launches of an app are recognised before its process can be looked at.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::apps::Rules;
use crate::fs::local_path::LocalFile;
use crate::fs::mounts::MountTable;
use crate::model::App;

/// How launches of an app are recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// Base names under which it, or its launcher, is executed.
    pub names: Vec<String>,
    /// The argument of its launcher that stands for it; `None` for a program of its own.
    pub argument: Option<String>,
}

impl Marks {
    /// Of an app whose program may be executed under `names`.
    pub fn new(app: &App, names: &[OsString]) -> Self {
        let path = String::from_utf8_lossy(&app.path);
        let argument = match path.split_once(':') {
            // The name of the launcher stands in front of the app's.
            Some((_, own)) if !path.starts_with('/') => own,
            _ => &path,
        };
        let text = |name: &OsString| name.to_string_lossy().into_owned();
        Marks {
            names: names.iter().map(text).collect(),
            argument: app.program.is_some().then(|| argument.to_owned()),
        }
    }

    /// Of the app of a profile; `None` for a launcher, which is not one app. Where its program is not found now, or only a
    /// server or a user-space process can tell, its own name is all.
    pub fn of_profile(app: &App, rules: &Rules, mounts: &MountTable) -> Option<Self> {
        if rules.is_launcher(app) {
            return None;
        }
        let program = OsStr::from_bytes(app.program.as_ref().unwrap_or(&app.path));
        let root = app.root.as_deref().map(OsStr::from_bytes).map(Path::new);
        let path = below(root, Path::new(program));
        let own = || path.file_name().map(OsStr::to_owned).into_iter().collect();
        let names = LocalFile::find(&path, mounts).map_or_else(|_| own(), |file| file.names);
        Some(Marks::new(app, &names))
    }

    /// The arguments that tell the kernel of a launch, which compares whole arguments: the app's own and, for a
    /// file, those that name it from the working directory that it lies in.
    pub fn arguments(&self) -> Vec<OsString> {
        let Some(argument) = &self.argument else {
            return Vec::new();
        };
        let mut arguments = vec![OsString::from(argument)];
        let file = Path::new(argument).file_name();
        if let Some(name) = file.filter(|_| argument.starts_with('/')) {
            arguments.push(name.to_owned());
            arguments.push(Path::new(".").join(name).into());
        }
        arguments
    }
}

/// An absolute path below a root directory.
pub fn below(root: Option<&Path>, path: &Path) -> PathBuf {
    match root {
        None => path.to_path_buf(),
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apps_of_launchers_are_recognised_by_their_arguments_and_launchers_are_no_apps() {
        let script = ["/opt/x.py", "x.py", "./x.py"];
        for (path, program, arguments) in [
            (
                "flatpak:org.gimp.GIMP",
                Some("flatpak"),
                Some(&["org.gimp.GIMP"][..]),
            ),
            ("/opt/x.py", Some("python3"), Some(&script)),
            ("/usr/bin/gimp", None, Some(&[])),
            ("/usr/bin/python3", None, None),
        ] {
            let app = App {
                path: path.into(),
                program: program.map(|name| format!("/usr/bin/{name}").into_bytes()),
                ..App::default()
            };
            let mounts = MountTable::read().unwrap();
            let marks = Marks::of_profile(&app, &Rules::builtin(), &mounts);
            let found = marks.as_ref().map(Marks::arguments);
            let expected = arguments.map(|arguments| arguments.iter().map(Into::into).collect());
            assert_eq!(found, expected, "{path}");
            assert_eq!(Marks::new(&app, &["x".into()]).names, ["x"]);
        }
    }
}
