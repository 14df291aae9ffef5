//! How launches of an app are recognised before its process can be looked at.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::roots::below;
use crate::apps::Rules;
use crate::fs::local_path::LocalFile;
use crate::fs::mounts::MountTable;
use crate::model::App;

/// Longest argument that the kernel compares, in bytes.
const MAX_ARGUMENT: usize = 254;

/// Directories above that of a script from which it may be named: each costs two entries of the kernel's table.
const MOST_ABOVE: usize = 3;

/// How launches of an app are recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// Base names under which it, or its launcher, is executed.
    pub names: Vec<String>,
    /// The argument of its launcher that stands for it; `None` for a program of its own.
    pub argument: Option<String>,
    /// Base names of launchers that may be given its file: it is a script that can be executed, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interpreters: Vec<String>,
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
            interpreters: Vec::new(),
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

    /// The arguments that tell the kernel of a launch of the app with this id, which compares whole arguments: the app's own and, for a
    /// file, those that name it from a working directory that it lies in or below (an entry's Path=), up to
    /// [`MOST_ABOVE`] directories above it. Those that the kernel cannot compare are left out.
    pub fn arguments(&self, id: &str) -> Vec<OsString> {
        let own = (!self.interpreters.is_empty()).then_some(id);
        let Some(argument) = self.argument.as_deref().or(own) else {
            return Vec::new();
        };
        let mut arguments = vec![OsString::from(argument)];
        if let Some(path) = argument.strip_prefix('/') {
            let mut starts: Vec<usize> = path.match_indices('/').map(|(at, _)| at + 1).collect();
            starts.insert(0, 0);
            for start in starts.into_iter().rev().take(1 + MOST_ABOVE) {
                let relative = &path[start..];
                arguments.extend([relative.into(), format!("./{relative}").into()]);
            }
        }
        arguments.retain(|argument| argument.len() <= MAX_ARGUMENT);
        arguments
    }

    /// Why launches of the app with this id cannot be seen, as the end of a sentence; `None` if they can.
    pub fn objection(&self, id: &str) -> Option<String> {
        let (argument, what) = match (&self.argument, self.interpreters.first()) {
            (Some(argument), _) => (argument.as_str(), "this one".to_owned()),
            (None, Some(interpreter)) => (id, format!("the one that {interpreter} is given")),
            (None, None) => return None,
        };
        (argument.len() > MAX_ARGUMENT).then(|| {
            format!(
                "the kernel side compares arguments of {MAX_ARGUMENT} bytes, and {what} has {}: give the app a shorter \
                 path",
                argument.len()
            )
        })
    }

    /// Why launches by an entry with these arguments cannot be seen, as [`Marks::objection`]: it names the file of the app with
    /// this id in a way that the kernel, which compares whole arguments, is not told.
    pub fn objection_to_entry(&self, id: &str, arguments: &[OsString]) -> Option<String> {
        let file = self
            .argument
            .as_deref()
            .filter(|own| own.starts_with('/'))?;
        let seen = self.arguments(id);
        // What a shell makes of a line is not foretold: it may hold the file's name anywhere.
        let names = |one: &OsString| {
            let line = one.to_string_lossy();
            let is_within =
                |own: &OsString| line.contains(' ') && line.contains(&*own.to_string_lossy());
            seen.contains(one) || seen.iter().any(is_within)
        };
        let is_seen = arguments.is_empty() || arguments.iter().any(names);
        (!is_seen).then(|| {
            format!(
                "its entry names {file} by \"..\", from more than {MOST_ABOVE} directories above it, or within another \
                 argument: give the whole path in the entry (Exec)"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apps_of_launchers_are_recognised_by_their_arguments_and_launchers_are_no_apps() {
        let script = ["/opt/x.py", "x.py", "./x.py", "opt/x.py", "./opt/x.py"];
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
            let found = marks.as_ref().map(|marks| marks.arguments(path));
            let expected = arguments.map(|arguments| arguments.iter().map(Into::into).collect());
            assert_eq!(found, expected, "{path}");
            assert_eq!(Marks::new(&app, &["x".into()]).names, ["x"]);
        }
    }

    #[test]
    fn a_script_is_named_from_directories_above_it_and_long_arguments_are_objected_to() {
        let marks = |argument: String| Marks {
            argument: Some(argument),
            ..Marks::default()
        };
        let game = marks("/opt/games/pong/src/main.py".to_owned()).arguments("");
        let has = |argument: &str| game.iter().any(|one| one == argument);
        for seen in [
            "main.py",
            "src/main.py",
            "./pong/src/main.py",
            "games/pong/src/main.py",
        ] {
            assert!(has(seen), "{seen}");
        }
        assert_eq!(game.len(), 1 + 2 * (1 + MOST_ABOVE));
        let short = marks("x".repeat(MAX_ARGUMENT));
        assert!(short.objection("").is_none() && short.arguments("").len() == 1);
        let long = marks(format!("/{}/main.py", "x".repeat(MAX_ARGUMENT)));
        assert!(long.objection("").unwrap().contains("shorter path"));
        assert_eq!(long.arguments(""), ["main.py", "./main.py"]);
    }

    #[test]
    fn a_script_with_a_long_path_is_objected_to_if_an_interpreter_may_be_given_it() {
        let program = Marks::default();
        let script = Marks {
            interpreters: vec!["python3".to_owned()],
            ..Marks::default()
        };
        let (short, long) = ("x".repeat(MAX_ARGUMENT), "x".repeat(MAX_ARGUMENT + 1));
        assert_eq!(program.objection(&long), None);
        assert_eq!(script.objection(&short), None);
        let why = script.objection(&long).unwrap();
        assert!(why.contains("python3 is given has 255"), "{why}");
    }

    #[test]
    fn entries_are_objected_to_that_name_their_script_as_the_kernel_does_not_look_for_it() {
        let marks = |argument: &str| Marks {
            argument: Some(argument.to_owned()),
            ..Marks::default()
        };
        let script = marks("/opt/a/b/c/d/x.py");
        let objects = |marks: &Marks, words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            marks.objection_to_entry("", &words).is_some()
        };
        for (words, is_objected_to) in [
            (&["-u", "/opt/a/b/c/d/x.py"][..], false),
            (&["b/c/d/x.py"], false),
            (&["./x.py", "--full"], false),
            (&["-c", "cd .. && exec python3 d/x.py"], false),
            // The path was named, and no entry.
            (&[], false),
            (&["a/b/c/d/x.py"], true),
            (&["../d/x.py"], true),
            (&["--file=/opt/a/b/c/d/x.py"], true),
        ] {
            assert_eq!(objects(&script, words), is_objected_to, "{words:?}");
        }
        // Names are told by their launchers' rules.
        assert!(!objects(&marks("org.gimp.GIMP"), &["run", "x"]));
        assert!(!objects(&Marks::default(), &["x"]));
    }
}
