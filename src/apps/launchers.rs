//! Programs that start other programs. Which of their arguments tells apps apart is data, described in
//! `dist/launchers.toml`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::Deserialize;

use crate::fs::root_owned;
use crate::model::shown;

/// Where the administrator's rules files are.
pub const LAUNCHERS_DIR: &str = "/etc/paralfetch/launchers.d";

/// Largest rules file, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Most rules files.
const MAX_FILES: usize = 64;

/// What the first argument of a launcher that is not an option is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AppArgument {
    /// The app's file.
    File,
    /// The app's name, or its file if it looks like one.
    Name,
    /// The launcher is a wrapper: the first argument that is a program is executed in its turn.
    Program,
    /// The argument does not tell the app.
    #[default]
    Nothing,
}

/// The rule of one launcher, as `dist/launchers.toml` describes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct LauncherRule {
    pub files: Vec<String>,
    pub directories: Vec<PathBuf>,
    pub app: AppArgument,
    pub subcommand: Option<String>,
    pub bundled: bool,
    pub values: Vec<String>,
    pub attached: Vec<String>,
    pub file_options: Vec<String>,
    pub name_options: Vec<String>,
    pub line_options: Vec<String>,
    pub ends: Vec<String>,
}

/// A rules file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default, rename = "multi-call")]
    multi_call: Vec<String>,
    #[serde(default)]
    launcher: BTreeMap<String, LauncherRule>,
}

/// The launchers that are known, and their rules.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Base names of programs that work on whatever their user gives them.
    tools: Vec<String>,
    /// Base names of programs that are another one by each name that they are executed by.
    multi_call: Vec<String>,
    launchers: BTreeMap<String, LauncherRule>,
}

impl Rules {
    /// The rules that come with the program.
    pub fn builtin() -> Rules {
        let mut rules = Rules::none();
        let added = rules.extend(include_str!("../../dist/launchers.toml"));
        added.expect("the tests read the built-in rules");
        rules
    }

    /// Without any launcher: every program is an app.
    pub fn none() -> Rules {
        Rules {
            tools: Vec::new(),
            multi_call: Vec::new(),
            launchers: BTreeMap::new(),
        }
    }

    /// The built-in rules, extended by the files `*.toml` of `dir` ([`LAUNCHERS_DIR`]) in the order of
    /// their names, and one line for the log about each file that cannot be used. Files have to be
    /// regular, and belong to root or this user and be writable by nobody else, as does the directory. A
    /// missing directory counts as empty.
    pub fn load(dir: &Path) -> (Rules, Vec<String>) {
        let mut rules = Rules::builtin();
        let mut warnings = Vec::new();
        let names = match rules_files(dir) {
            Ok(names) => names,
            Err(why) => {
                let dir = dir.display();
                let warning = format!("cannot use the launcher rules in {dir}: {why}");
                return (rules, vec![warning]);
            }
        };
        if names.len() > MAX_FILES {
            warnings.push(format!(
                "{} has {} rules files; only the first {MAX_FILES} are used",
                dir.display(),
                names.len()
            ));
        }
        for name in names.into_iter().take(MAX_FILES) {
            let path = dir.join(name);
            if let Err(why) = read(&path).and_then(|text| rules.extend(&text)) {
                let path = path.display();
                warnings.push(format!("launcher rules {path} are left out: {why}"));
            }
        }
        (rules, warnings)
    }

    /// Adds the rules of a file's `text`; they replace those of the same names.
    ///
    /// # Errors
    /// One line that says what is wrong and where. No rule is added then.
    pub fn extend(&mut self, text: &str) -> Result<(), String> {
        let parsed: RulesFile = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
            let what: Vec<&str> = error.message().lines().collect();
            format!("line {line}: {}", what.join(" "))
        })?;
        for (name, rule) in &parsed.launcher {
            rule.check(name)
                .map_err(|why| format!("launcher {name:?}: {why}"))?;
        }
        for (list, named) in [("tools", &parsed.tools), ("multi-call", &parsed.multi_call)] {
            if let Some(name) = named.iter().find(|name| !is_base(name)) {
                return Err(not_base(name, list));
            }
        }
        self.launchers.extend(parsed.launcher);
        self.tools.extend(parsed.tools);
        self.multi_call.extend(parsed.multi_call);
        Ok(())
    }

    /// Whether a program of this base name starts others, or works on whatever its user gives it: what one of its
    /// launches reads says nothing of the next.
    pub fn starts_others(&self, base: &OsStr) -> bool {
        let mut tools = self.tools.iter();
        self.launcher(base).is_some() || tools.any(|tool| fit(tool, base.as_bytes()).is_some())
    }

    /// Names by which the interpreter of this base name is executed with a script: its own, and that of its rule. None if it
    /// is no interpreter, or a shell.
    pub fn interpreter_names(&self, base: &str) -> Vec<String> {
        let Some((rule, launcher)) = self.launcher(OsStr::new(base)) else {
            return Vec::new();
        };
        if launcher.app != AppArgument::File || !launcher.line_options.is_empty() {
            return Vec::new();
        }
        let mut names = vec![base.to_owned(), rule.to_owned()];
        names.dedup();
        names
    }

    /// Whether a program of this base name is another app by each name that it is executed by, whatever links there are.
    pub(super) fn is_multi_call(&self, base: &OsStr) -> bool {
        let mut known = self.multi_call.iter();
        known.any(|name| fit(name, base.as_bytes()).is_some())
    }

    /// The launcher with this base name.
    pub(super) fn launcher(&self, base: &OsStr) -> Option<(&str, &LauncherRule)> {
        let fitting = self.launchers.iter().filter_map(|(name, rule)| {
            let files = rule.files.iter();
            let fits = files.filter_map(|file| fit(file, base.as_bytes()));
            Some((fits.max()?, name.as_str(), rule))
        });
        let best = fitting.max_by_key(|(fit, _, _)| *fit);
        best.map(|(_, name, rule)| (name, rule))
    }

    /// The launcher of everything that is executed from a directory.
    pub(super) fn launcher_of_directory(&self, directory: &Path) -> Option<&str> {
        let mut launchers = self.launchers.iter();
        let found = launchers.find(|(_, rule)| rule.directories.iter().any(|one| one == directory));
        found.map(|(name, _)| name.as_str())
    }
}

impl LauncherRule {
    /// Names and options that could not be used would be ignored silently.
    fn check(&self, name: &str) -> Result<(), String> {
        if name.is_empty() || name.contains(['/', ':']) || name.chars().any(|c| c != shown(c)) {
            return Err("its name must not be empty or contain \"/\" or \":\"".to_owned());
        }
        if let Some(file) = self.files.iter().find(|file| !is_base(file)) {
            return Err(not_base(file, "files"));
        }
        match self.directories.iter().find(|path| !path.is_absolute()) {
            Some(path) => Err(format!("{path:?} in directories is not an absolute path")),
            None => Ok(()),
        }
    }
}

/// Whether it is a base name with a "*" at most at its end.
fn is_base(file: &str) -> bool {
    let plain = file.strip_suffix('*').unwrap_or(file);
    !plain.is_empty() && !plain.contains(['/', '*'])
}

fn not_base(file: &str, list: &str) -> String {
    format!("{file:?} in {list} is not a base name with a \"*\" at most at its end")
}

/// How closely a base name fits a rule's file name: exactly or with a version, and by how many bytes.
fn fit(file: &str, base: &[u8]) -> Option<(bool, usize)> {
    let Some(prefix) = file.strip_suffix('*') else {
        return (base == file.as_bytes()).then_some((true, file.len()));
    };
    let version = base.strip_prefix(prefix.as_bytes())?;
    let mut version = version.iter();
    let is_version = version.all(|byte| byte.is_ascii_digit() || *byte == b'.');
    is_version.then_some((false, prefix.len()))
}

/// Names of the rules files in a directory, sorted.
fn rules_files(dir: &Path) -> Result<Vec<OsString>, String> {
    let stat = match rustix::fs::stat(dir) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        found => found.map_err(|error| error.to_string())?,
    };
    if let Some(why) = root_owned::objection(&stat) {
        return Err(why.to_owned());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(|error| error.to_string())? {
        let name = entry.map_err(|error| error.to_string())?.file_name();
        if name.as_bytes().ends_with(b".toml") && !name.as_bytes().starts_with(b".") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = root_owned::read(path, MAX_BYTES).map_err(|error| match error {
        root_owned::NotRootOwned::Untrusted(why) => why.to_owned(),
        root_owned::NotRootOwned::Io(error) => error.to_string(),
    })?;
    let bytes = bytes.ok_or("it has been removed")?;
    if bytes.len() > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn launcher<'a>(rules: &'a Rules, base: &str) -> Option<&'a str> {
        rules.launcher(OsStr::new(base)).map(|(name, _)| name)
    }

    #[test]
    fn launchers_are_found_by_name_with_a_version_or_exactly() {
        let mut rules = Rules::builtin();
        let text =
            "[launcher.three]\nfiles = ['python3.1*']\n[launcher.exact]\nfiles = ['python3.14']";
        rules.extend(text).unwrap();
        for (base, name) in [
            ("python", Some("python3")),
            ("python3.9", Some("python3")),
            ("python3.11", Some("three")),
            ("python3.14", Some("exact")),
            ("python3-config", None),
            ("pythonista", None),
            ("nodejs", Some("node")),
            ("electron28", Some("electron")),
            ("env", Some("wrapper")),
            ("environment", None),
            ("", None),
        ] {
            assert_eq!(launcher(&rules, base), name, "{base}");
        }
    }

    #[test]
    fn wrong_rules_are_refused_in_one_line_and_change_nothing() {
        for (text, told) in [
            ("[launcher.x]\nfiles = 3", "line 2: "),
            ("[launcher.x]\nfile = ['x']", "line 2: unknown field"),
            ("\n\n[launcher", "line 3: "),
            ("rule = 1", "line 1: unknown field"),
            ("[launcher.x]\napp = 'path'", "line 2: unknown variant"),
            ("[launcher.'a:b']", "must not"),
            ("[launcher.'']", "must not"),
            (
                "[launcher.python3]\n[launcher.x]\nfiles = ['*']",
                "not a base",
            ),
            ("[launcher.x]\nfiles = ['/bin/x']", "not a base name"),
            ("[launcher.x]\nfiles = ['a*b*']", "not a base name"),
            ("[launcher.x]\ndirectories = ['bin']", "not an absolute"),
        ] {
            let mut rules = Rules::builtin();
            let error = rules.extend(text).expect_err(text);
            assert!(
                error.contains(told) && error.lines().count() == 1,
                "{error}"
            );
            assert_eq!(launcher(&rules, "python3"), Some("python3"));
        }
    }

    #[test]
    fn rules_files_are_read_in_order_and_unusable_ones_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| fs::write(dir.path().join(name), text).unwrap();
        write("10.toml", b"[launcher.a]\nfiles = ['a-one']");
        write(
            "20.toml",
            b"[launcher.a]\nfiles = ['a-two']\n[launcher.perl]",
        );
        write("30.toml", b"[launcher.b\n");
        write("50.toml", b"# \xff");
        write("60.toml", &vec![b'#'; MAX_BYTES + 1]);
        write("80.toml", b"[launcher.c]\nfiles = ['c']");
        fs::set_permissions(dir.path().join("80.toml"), Permissions::from_mode(0o666)).unwrap();
        write("other.conf", b"[launcher.d]\nfiles = ['d']");
        symlink("10.toml", dir.path().join("70.toml")).unwrap();

        let (rules, warnings) = Rules::load(dir.path());
        for (base, name) in [
            ("a-one", None),
            ("a-two", Some("a")),
            ("perl", None),
            ("c", None),
            ("d", None),
            ("python3", Some("python3")),
        ] {
            assert_eq!(launcher(&rules, base), name, "{base}");
        }
        let expected = ["30.toml", "50.toml", "60.toml", "70.toml", "80.toml"];
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for (warning, name) in warnings.iter().zip(expected) {
            assert!(
                warning.contains(name) && warning.lines().count() == 1,
                "{warning}"
            );
        }
    }

    #[test]
    fn rules_directories_of_others_are_not_used_and_missing_ones_are_empty() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.toml"), "[launcher.a]\nfiles = ['a']").unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let (rules, warnings) = Rules::load(dir.path());
        assert_eq!(launcher(&rules, "a"), None);
        assert!(warnings[0].contains("others may write it"), "{warnings:?}");
        let (rules, warnings) = Rules::load(&dir.path().join("none"));
        assert!(warnings.is_empty() && launcher(&rules, "flatpak").is_some());
    }
}
