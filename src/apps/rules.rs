//! Rules of launchers: which of their arguments tells apps apart. The rules are data, described in
//! `dist/launchers.toml`.

mod load;
mod parse;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use load::{LAUNCHERS_DIR, LoadedRules, RulesError};

/// What the first argument of a launcher that is no option says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Argument {
    /// A file, which is the app.
    File,
    /// The app's name, or a file if it looks like one.
    Name,
    /// A command: the launcher is a wrapper.
    Command,
    /// Nothing about the app.
    #[default]
    Nothing,
}

/// What follows from an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionKind {
    /// It is alone.
    Flag,
    /// Its value does not matter.
    Value,
    /// What is behind it in the same argument belongs to it.
    Attached,
    /// Its value is the directory that relative paths belong to.
    Directory,
    /// Its value is the app's name.
    Name,
    /// Its value is the app's file.
    File,
    /// A line for the shell follows.
    Line,
    /// No argument tells the app.
    End,
}

/// A base name of a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileName {
    Exact(Vec<u8>),
    /// Followed by digits and dots, or nothing.
    Versioned(Vec<u8>),
}

impl FileName {
    /// How closely it fits: exactly or not, and by how many bytes; `None` if it does not.
    fn fits(&self, base: &[u8]) -> Option<(bool, usize)> {
        match self {
            FileName::Exact(name) => (base == name).then_some((true, name.len())),
            FileName::Versioned(prefix) => {
                let version = base.strip_prefix(&prefix[..])?;
                version
                    .iter()
                    .all(|byte| byte.is_ascii_digit() || *byte == b'.')
                    .then_some((false, prefix.len()))
            }
        }
    }
}

/// The rule of one launcher. The fields are those of `dist/launchers.toml`.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub files: Vec<FileName>,
    pub directories: Vec<PathBuf>,
    pub linked: bool,
    pub argument: Argument,
    pub file_suffixes: Vec<Vec<u8>>,
    pub subcommands: Vec<Vec<u8>>,
    pub words: Vec<Vec<u8>>,
    pub positional: usize,
    pub assignments: bool,
    pub bundled: bool,
    pub options: BTreeMap<Vec<u8>, OptionKind>,
    /// Number of the file that it comes from: of rules that fit alike, that of the last one applies.
    pub rank: usize,
}

/// The launchers that are known, and their rules.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: BTreeMap<String, Rule>,
    files: usize,
}

impl Rules {
    /// The rules that come with the program.
    pub fn builtin() -> Rules {
        let mut rules = Rules::none();
        rules
            .extend(include_str!("../../dist/launchers.toml"))
            .expect("the built-in rules are read in the tests");
        rules
    }

    /// No launcher is known: every program is an app.
    pub fn none() -> Rules {
        Rules {
            rules: BTreeMap::new(),
            files: 0,
        }
    }

    /// Adds the rules of a file's `text`; they replace those of the same names.
    ///
    /// # Errors
    /// One line that names the line and what is wrong with it. No rule is added then.
    pub fn extend(&mut self, text: &str) -> Result<(), String> {
        let rules = parse::parse(text, self.files)?;
        self.files += 1;
        self.rules.extend(rules);
        Ok(())
    }

    /// The launcher with this base name.
    pub(super) fn launcher(&self, base: &OsStr) -> Option<(&str, &Rule)> {
        let fit = |rule: &Rule| {
            let best = rule
                .files
                .iter()
                .filter_map(|file| file.fits(base.as_bytes()));
            best.max().map(|fit| (fit, rule.rank))
        };
        let fitting = self.rules.iter().filter_map(|(name, rule)| {
            let fit = fit(rule)?;
            Some((fit, name.as_str(), rule))
        });
        fitting
            .max_by_key(|(fit, _, _)| *fit)
            .map(|(_, name, rule)| (name, rule))
    }

    /// The launcher of whatever is executed from a directory.
    pub(super) fn launcher_of_directory(&self, directory: &Path) -> Option<&str> {
        let in_it = |rule: &Rule| rule.directories.iter().any(|one| one == directory);
        let found = self.rules.iter().filter(|(_, rule)| in_it(rule));
        found
            .max_by_key(|(_, rule)| rule.rank)
            .map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launcher<'a>(rules: &'a Rules, base: &str) -> Option<&'a str> {
        rules.launcher(OsStr::new(base)).map(|(name, _)| name)
    }

    #[test]
    fn names_fit_with_a_version_or_exactly() {
        let rules = Rules::builtin();
        for (base, name) in [
            ("python", Some("python3")),
            ("python3", Some("python3")),
            ("python3.11", Some("python3")),
            ("python3-config", None),
            ("pythonista", None),
            ("perl5.36.0", Some("perl")),
            ("nodejs", Some("node")),
            ("node", Some("node")),
            ("electron28", Some("electron")),
            ("env", Some("env")),
            ("environment", None),
            ("gimp", None),
            ("", None),
        ] {
            assert_eq!(launcher(&rules, base), name, "{base}");
        }
    }

    #[test]
    fn later_rules_replace_and_switch_off_earlier_ones() {
        let mut rules = Rules::builtin();
        rules
            .extend("[launcher.perl]\n[launcher.mine]\nfiles = ['run-mine', 'node*']\n")
            .unwrap();
        assert_eq!(launcher(&rules, "perl"), None);
        assert_eq!(launcher(&rules, "run-mine"), Some("mine"));
        // The same claim: the file read last.
        assert_eq!(launcher(&rules, "node20"), Some("mine"));
        assert_eq!(launcher(&rules, "python3"), Some("python3"));
    }

    #[test]
    fn exact_and_longer_names_come_first() {
        let mut rules = Rules::none();
        rules
            .extend(
                "[launcher.any]\nfiles = ['run*']\n[launcher.three]\nfiles = ['run3*']\n\
                 [launcher.exact]\nfiles = ['run3.1']\n",
            )
            .unwrap();
        assert_eq!(launcher(&rules, "run2"), Some("any"));
        assert_eq!(launcher(&rules, "run3.2"), Some("three"));
        assert_eq!(launcher(&rules, "run3.1"), Some("exact"));
    }

    #[test]
    fn a_file_with_a_mistake_changes_nothing() {
        let mut rules = Rules::builtin();
        let refused = rules.extend("[launcher.python3]\n[launcher.x]\nfiles = ['a/b']\n");
        assert!(refused.is_err());
        assert_eq!(launcher(&rules, "python3"), Some("python3"));
    }
}
