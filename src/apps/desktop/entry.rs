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
    /// Whether the entry counts as deleted.
    pub hidden: bool,
    /// Whether menus leave the entry out.
    pub no_display: bool,
    /// Whether the application runs in a terminal.
    pub terminal: bool,
}

impl DesktopEntry {
    /// Reads the contents of a .desktop file. Of a key that stands there several times, the last one
    /// counts.
    ///
    /// # Errors
    /// Where it breaks the specification. Other groups, and keys that are not used, may hold anything.
    pub fn parse(bytes: &[u8]) -> Result<DesktopEntry, String> {
        if bytes.contains(&0) {
            return Err("it is not a text file".to_owned());
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
                _ if !in_group => break,
                _ => {
                    let equals = line.iter().position(|&byte| byte == b'=');
                    let equals = equals
                        .ok_or_else(|| format!("line {number} is not of the form Key=Value"))?;
                    let (key, value) = (&line[..equals], &line[equals + 1..]);
                    entry
                        .set(key.trim_ascii_end(), value.trim_ascii_start())
                        .map_err(|why| format!("line {number}: {why}"))?;
                }
            }
        }
        if !in_group {
            return Err("it does not begin with the group [Desktop Entry]".to_owned());
        }
        // An entry that only hides others of its ID needs neither.
        match (entry.kind.is_empty(), entry.name.is_empty()) {
            _ if entry.hidden => Ok(entry),
            (true, _) => Err("it has no Type".to_owned()),
            (false, true) => Err("it has no Name".to_owned()),
            (false, false) => Ok(entry),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let wrong = |wanted| format!("{} is not {wanted}", String::from_utf8_lossy(key));
        let text = || text(value).ok_or_else(|| wrong("text in UTF-8"));
        // Old files have numbers.
        let truth = || match value {
            b"true" | b"1" => Ok(true),
            b"false" | b"0" => Ok(false),
            _ => Err(wrong("true or false")),
        };
        // An empty value is as good as none.
        let optional = || text().map(|text| Some(text).filter(|text| !text.is_empty()));
        match key {
            b"Type" => self.kind = text()?,
            b"Name" => self.name = text()?,
            b"Exec" => self.exec = optional()?,
            b"TryExec" => self.try_exec = optional()?,
            b"Path" => self.path = optional()?,
            b"Hidden" => self.hidden = truth()?,
            b"NoDisplay" => self.no_display = truth()?,
            b"Terminal" => self.terminal = truth()?,
            _ => {}
        }
        Ok(())
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
            Some('\\') | None => text.push('\\'),
            Some(other) => text.extend(['\\', other]),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
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
        // An entry that only hides others needs no name.
        let entry = DesktopEntry::parse(b"[Desktop Entry]\nHidden=true").unwrap();
        assert!(entry.hidden && entry.exec.is_none());
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
    }

    #[test]
    fn malformed_files_are_refused_with_the_line() {
        let no_group = "it does not begin with the group [Desktop Entry]";
        for (text, error) in [
            (&b""[..], no_group),
            (b"Type=Application", no_group),
            (b"[Other]\n[Desktop Entry]", no_group),
            (b"\xef\xbb\xbf[Desktop Entry]", no_group),
            (b"[Desktop Entry]", "it has no Type"),
            (b"[Desktop Entry]\nType=Application", "it has no Name"),
            (b"[Desktop Entry]\nName=x\nType=", "it has no Type"),
            (
                b"[Desktop Entry]\nnonsense",
                "line 2 is not of the form Key=Value",
            ),
            (
                b"[Desktop Entry]\nType=Application\nHidden=yes",
                "line 3: Hidden is not true or false",
            ),
            (
                b"[Desktop Entry]\nName=\xe4",
                "line 2: Name is not text in UTF-8",
            ),
            (b"[Desktop Entry]\na\0b=c", "it is not a text file"),
        ] {
            assert_eq!(DesktopEntry::parse(text).unwrap_err(), error, "{text:?}");
        }
    }
}
