//! How launches of an app are recognised before its process can be looked at.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::apps::{Rules, executed_names};
use crate::model::{App, Identity, Key};

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
    pub fn new(identity: &Identity, names: &[OsString]) -> Self {
        let argument = match &identity.key {
            _ if identity.is_program() => None,
            Key::File(file) => Some(file.to_string_lossy().into_owned()),
            Key::Name(name) => {
                let name = name.to_string_lossy();
                // The name of the launcher stands in front of the app's.
                let own = name.split_once(':').map_or(&*name, |(_, own)| own);
                Some(own.to_owned())
            }
        };
        let text = |name: &OsString| name.to_string_lossy().into_owned();
        Marks {
            names: names.iter().map(text).collect(),
            argument,
        }
    }

    /// Of the app of a profile; `None` for a launcher, which is not one app.
    pub fn of_profile(app: &App, rules: &Rules) -> Option<Self> {
        if rules.is_launcher(app) {
            return None;
        }
        let key = OsStr::from_bytes(&app.path);
        let program = app.program.as_ref().unwrap_or(&app.path);
        let identity = Identity {
            key: match app.path.starts_with(b"/") {
                true => Key::File(key.into()),
                false => Key::Name(key.into()),
            },
            program: OsStr::from_bytes(program).into(),
            distinct: true,
        };
        let root = app.root.as_deref().map(OsStr::from_bytes).map(Path::new);
        let names = executed_names(&below(root, &identity.program));
        Some(Marks::new(&identity, &names))
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
    fn apps_of_launchers_are_recognised_by_their_arguments() {
        for (key, program, arguments) in [
            (
                Key::Name("flatpak:org.gimp.GIMP".into()),
                "/usr/bin/flatpak",
                &["org.gimp.GIMP"][..],
            ),
            (
                Key::File("/opt/x.py".into()),
                "/usr/bin/python3",
                &["/opt/x.py", "x.py", "./x.py"],
            ),
            (Key::File("/usr/bin/gimp".into()), "/usr/bin/gimp", &[]),
        ] {
            let identity = Identity {
                key,
                program: program.into(),
                distinct: true,
            };
            let marks = Marks::new(&identity, &["x".into()]);
            assert_eq!(marks.names, ["x"]);
            assert_eq!(marks.arguments(), arguments);
            let of_profile = Marks::of_profile(&identity.app(None), &Rules::builtin());
            assert_eq!(of_profile.unwrap().arguments(), arguments);
        }
    }

    #[test]
    fn a_launcher_is_not_an_app() {
        let python = App {
            path: b"/usr/bin/python3".to_vec(),
            ..App::default()
        };
        assert_eq!(Marks::of_profile(&python, &Rules::builtin()), None);
    }
}
