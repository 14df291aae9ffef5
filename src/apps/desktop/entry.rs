//! The text of a .desktop file.

use std::str;

/// What is used of a .desktop file's group `[Desktop Entry]`, untranslated and without escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesktopEntry {
    /// `Application`, `Link`, `Directory`.
    pub kind: String,
    /// The name that menus show; it and the type may be empty in one that is hidden.
    pub name: String,
    /// The command line, still quoted.
    pub exec: Option<String>,
    /// Program without which the application counts as not installed.
    pub try_exec: Option<String>,
    /// The application's working directory.
    pub path: Option<String>,
    /// It counts as deleted.
    pub hidden: bool,
    /// Menus do not show it.
    pub no_display: bool,
    /// It runs in a terminal.
    pub terminal: bool,
}

/// What is wrong with a .desktop file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It contains a NUL byte.
    #[error("it is not a text file")]
    Binary,
    /// The group must be there, and the first.
    #[error("it does not begin with the group [Desktop Entry]")]
    NoGroup,
    /// A line is neither empty, nor a comment, nor `Key=Value`, nor a group.
    #[error("line {0} is not of the form Key=Value")]
    Line(usize),
    /// A value cannot be used.
    #[error("line {line}: {key} is not {wanted}")]
    Value {
        /// Number of the line, from 1.
        line: usize,
        /// The key.
        key: &'static str,
        /// What it has to be.
        wanted: &'static str,
    },
    /// A key that must be there.
    #[error("it has no {0}")]
    Missing(&'static str),
}

impl DesktopEntry {
    /// Reads the contents of a .desktop file. Of a key that stands there several times, the last one
    /// counts.
    ///
    /// # Errors
    /// Where it breaks the specification. Other groups, and keys that are not used, may hold anything.
    pub fn parse(bytes: &[u8]) -> Result<DesktopEntry, EntryError> {
        if bytes.contains(&0) {
            return Err(EntryError::Binary);
        }
        let mut entry = DesktopEntry::default();
        let mut in_group = false;
        for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            let line = line.trim_ascii();
            match line {
                [] | [b'#', ..] => {}
                b"[Desktop Entry]" if !in_group => in_group = true,
                // Another group. Actions and the like follow; nothing there is used.
                [b'[', ..] if in_group => break,
                _ if !in_group => return Err(EntryError::NoGroup),
                _ => {
                    let equals = line.iter().position(|&byte| byte == b'=');
                    let equals = equals.ok_or(EntryError::Line(number))?;
                    let (key, value) = (&line[..equals], &line[equals + 1..]);
                    entry.set(key.trim_ascii_end(), value.trim_ascii_start(), number)?;
                }
            }
        }
        if !in_group {
            return Err(EntryError::NoGroup);
        }
        // An entry that only hides others of its ID needs neither.
        match (entry.kind.is_empty(), entry.name.is_empty()) {
            _ if entry.hidden => Ok(entry),
            (true, _) => Err(EntryError::Missing("Type")),
            (false, true) => Err(EntryError::Missing("Name")),
            (false, false) => Ok(entry),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8], line: usize) -> Result<(), EntryError> {
        let text = |key| text(value).ok_or(wrong(line, key, "text in UTF-8"));
        let truth = |key| truth(value).ok_or(wrong(line, key, "true or false"));
        // An empty value is as good as none.
        let optional = |key| text(key).map(|text| Some(text).filter(|text| !text.is_empty()));
        match key {
            b"Type" => self.kind = text("Type")?,
            b"Name" => self.name = text("Name")?,
            b"Exec" => self.exec = optional("Exec")?,
            b"TryExec" => self.try_exec = optional("TryExec")?,
            b"Path" => self.path = optional("Path")?,
            b"Hidden" => self.hidden = truth("Hidden")?,
            b"NoDisplay" => self.no_display = truth("NoDisplay")?,
            b"Terminal" => self.terminal = truth("Terminal")?,
            _ => {}
        }
        Ok(())
    }
}

fn wrong(line: usize, key: &'static str, wanted: &'static str) -> EntryError {
    EntryError::Value { line, key, wanted }
}

/// A boolean; old files have numbers.
fn truth(value: &[u8]) -> Option<bool> {
    match value {
        b"true" | b"1" => Some(true),
        b"false" | b"0" => Some(false),
        _ => None,
    }
}

/// A string without its escapes. A backslash before anything else stays: files that forget to double
/// those of Exec's quoting then mean what their authors meant.
fn text(value: &[u8]) -> Option<String> {
    let value = str::from_utf8(value).ok()?;
    let mut text = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(char) = rest.next() {
        if char != '\\' {
            text.push(char);
            continue;
        }
        match rest.next() {
            Some('s') => text.push(' '),
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('\\') => text.push('\\'),
            Some(other) => text.extend(['\\', other]),
            None => text.push('\\'),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_group_is_read() {
        let text =
            b"# comment\n\n[Desktop Entry]\r\nType=Application\nName=The GIMP\nName[de]=\xe4\n\
            Exec = gimp-2.10 %U \nTryExec=gimp\nPath=\nTerminal=false\nX-Odd=[\n NoDisplay=true\n\
            [Desktop Action new]\nName=New\nExec=rm\nnonsense\n";
        let entry = DesktopEntry::parse(text).unwrap();
        let expected = DesktopEntry {
            kind: "Application".into(),
            name: "The GIMP".into(),
            exec: Some("gimp-2.10 %U".into()),
            try_exec: Some("gimp".into()),
            no_display: true,
            ..DesktopEntry::default()
        };
        assert_eq!(entry, expected);
    }

    #[test]
    fn escapes_of_strings() {
        for (value, plain) in [
            (r"a\sb\tc\nd\\e", "a b\tc\nd\\e"),
            (r#"\"x\" \y\"#, r#"\"x\" \y\"#),
            ("ä", "ä"),
        ] {
            assert_eq!(text(value.as_bytes()).as_deref(), Some(plain));
        }
        assert_eq!(text(b"\xff"), None);
    }

    #[test]
    fn what_only_hides_needs_no_name() {
        let entry = DesktopEntry::parse(b"[Desktop Entry]\nHidden=true").unwrap();
        assert!(entry.hidden && entry.exec.is_none());
    }

    #[test]
    fn malformed_files_are_refused_with_the_line() {
        let group = |lines: &str| format!("[Desktop Entry]\n{lines}");
        for (text, error) in [
            (String::new(), EntryError::NoGroup),
            ("Type=Application".into(), EntryError::NoGroup),
            ("[Other]\n[Desktop Entry]".into(), EntryError::NoGroup),
            ("\u{feff}[Desktop Entry]".into(), EntryError::NoGroup),
            (group(""), EntryError::Missing("Type")),
            (group("Type=Application"), EntryError::Missing("Name")),
            (group("Name=x\nType="), EntryError::Missing("Type")),
            (group("nonsense"), EntryError::Line(2)),
            (
                group("Type=Application\nHidden=yes"),
                wrong(3, "Hidden", "true or false"),
            ),
            (group("a\0b=c"), EntryError::Binary),
        ] {
            assert_eq!(DesktopEntry::parse(text.as_bytes()), Err(error), "{text:?}");
        }
        let latin = b"[Desktop Entry]\nName=\xe4";
        let error = DesktopEntry::parse(latin).unwrap_err();
        assert_eq!(error.to_string(), "line 2: Name is not text in UTF-8");
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_entry_or_an_error(lines in prop::collection::vec(
            prop_oneof![
                "(Type|Name|Exec|TryExec|Path|Hidden|NoDisplay|Terminal) ?= ?[a-z%\\\\\"]{0,8}"
                    .prop_map(String::into_bytes),
                Just(b"[Desktop Entry]".to_vec()),
                prop::collection::vec(any::<u8>(), 0..20),
            ],
            0..12,
        )) {
            let parsed = DesktopEntry::parse(&lines.join(&b'\n'));
            if let Ok(entry) = parsed {
                prop_assert!(entry.hidden || !entry.name.is_empty());
            }
        }
    }
}
