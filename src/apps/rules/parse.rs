//! The text of a rules file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::{Argument, FileName, OptionKind, Rule};

/// More arguments than any wrapper has before its command.
const MAX_POSITIONAL: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    launcher: BTreeMap<String, RuleText>,
}

/// A rule as it is written.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct RuleText {
    files: Vec<String>,
    directories: Vec<String>,
    linked: bool,
    argument: Argument,
    file_suffixes: Vec<String>,
    subcommands: Vec<String>,
    words: Vec<String>,
    positional: usize,
    assignments: bool,
    bundled: bool,
    values: Vec<String>,
    attached: Vec<String>,
    directory_options: Vec<String>,
    name_options: Vec<String>,
    file_options: Vec<String>,
    line_options: Vec<String>,
    ends: Vec<String>,
}

/// The rules in `text`, which get the rank.
///
/// # Errors
/// One line that says where and what.
pub(super) fn parse(text: &str, rank: usize) -> Result<BTreeMap<String, Rule>, String> {
    let parsed: Text = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| {
            let before = text.as_bytes().iter().take(span.start);
            before.filter(|byte| **byte == b'\n').count() + 1
        });
        format!("line {line}: {}", one_line(error.message()))
    })?;
    let mut claimed: BTreeMap<String, String> = BTreeMap::new();
    let mut rules = BTreeMap::new();
    for (name, rule) in parsed.launcher {
        if name.is_empty() || name.contains(['/', ':']) || name.chars().any(char::is_control) {
            return Err(format!(
                "launcher {name:?}: its name must not be empty or contain \"/\" or \":\""
            ));
        }
        for claim in rule.files.iter().chain(&rule.directories) {
            if let Some(other) = claimed.insert(claim.clone(), name.clone()) {
                return Err(format!(
                    "launcher {name:?}: {claim:?} is already that of launcher {other:?}"
                ));
            }
        }
        let rule = checked(rule, rank).map_err(|why| format!("launcher {name:?}: {why}"))?;
        rules.insert(name, rule);
    }
    Ok(rules)
}

fn checked(text: RuleText, rank: usize) -> Result<Rule, String> {
    if text.positional > MAX_POSITIONAL {
        return Err(format!("positional is more than {MAX_POSITIONAL}"));
    }
    let files = text.files.iter().map(|name| file_name(name));
    let directories = text.directories.iter().map(|path| directory(path));
    Ok(Rule {
        files: files.collect::<Result<_, _>>()?,
        directories: directories.collect::<Result<_, _>>()?,
        options: options(&text)?,
        linked: text.linked,
        argument: text.argument,
        file_suffixes: nonempty("file-suffixes", text.file_suffixes)?,
        subcommands: nonempty("subcommands", text.subcommands)?,
        words: nonempty("words", text.words)?,
        positional: text.positional,
        assignments: text.assignments,
        bundled: text.bundled,
        rank,
    })
}

fn file_name(name: &str) -> Result<FileName, String> {
    let plain = name.strip_suffix('*').unwrap_or(name);
    if plain.is_empty() || plain.contains(['/', '*']) {
        return Err(format!(
            "{name:?} in files is no base name with at most one \"*\", at its end"
        ));
    }
    let bytes = plain.as_bytes().to_vec();
    Ok(match plain.len() == name.len() {
        true => FileName::Exact(bytes),
        false => FileName::Versioned(bytes),
    })
}

fn directory(path: &str) -> Result<PathBuf, String> {
    match path.starts_with('/') {
        // Collected anew, it has no slash at its end.
        true => Ok(PathBuf::from(path).components().collect()),
        false => Err(format!("{path:?} in directories is no absolute path")),
    }
}

fn options(text: &RuleText) -> Result<BTreeMap<Vec<u8>, OptionKind>, String> {
    let mut options = BTreeMap::new();
    for (names, kind) in [
        (&text.values, OptionKind::Value),
        (&text.attached, OptionKind::Attached),
        (&text.directory_options, OptionKind::Directory),
        (&text.name_options, OptionKind::Name),
        (&text.file_options, OptionKind::File),
        (&text.line_options, OptionKind::Line),
        (&text.ends, OptionKind::End),
    ] {
        for name in names {
            if name.is_empty() || name == "-" || name == "--" {
                return Err(format!("{name:?} is no option"));
            }
            if options.insert(name.as_bytes().to_vec(), kind).is_some() {
                return Err(format!("option {name:?} stands there twice"));
            }
        }
    }
    Ok(options)
}

fn nonempty(field: &str, words: Vec<String>) -> Result<Vec<Vec<u8>>, String> {
    match words.iter().any(String::is_empty) {
        true => Err(format!("{field} contains an empty text")),
        false => Ok(words.into_iter().map(String::into_bytes).collect()),
    }
}

fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told_in_one_line() {
        for (text, told) in [
            ("[launcher.x]\nfiles = 3", "line 2: "),
            ("[launcher.x]\nfile = ['x']", "line 2: unknown field"),
            ("\n\n[launcher", "line 3: "),
            ("rule = 1", "line 1: unknown field"),
            ("[launcher.x]\nargument = 'path'", "line 2: unknown variant"),
            ("[launcher.x]\npositional = -1", "line 2: "),
            ("[launcher.x]\npositional = 17", "more than 16"),
            ("[launcher.'a:b']", "must not"),
            ("[launcher.'']", "must not"),
            ("[launcher.x]\nfiles = ['*']", "no base name"),
            ("[launcher.x]\nfiles = ['/bin/x']", "no base name"),
            ("[launcher.x]\nfiles = ['a*b*']", "no base name"),
            ("[launcher.x]\ndirectories = ['bin']", "no absolute path"),
            ("[launcher.x]\nvalues = ['--']", "no option"),
            ("[launcher.x]\nvalues = ['-a']\nends = ['-a']", "twice"),
            ("[launcher.x]\nwords = ['']", "empty"),
            (
                "[launcher.x]\nfiles = ['a']\n[launcher.y]\nfiles = ['a']",
                "already",
            ),
        ] {
            let error = parse(text, 0).expect_err(text);
            assert!(error.contains(told), "{text}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn an_empty_file_has_no_rules() {
        assert!(parse("", 0).unwrap().is_empty());
    }
}
