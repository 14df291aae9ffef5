//! The command line in a .desktop file: key Exec.

use std::ffi::OsString;
use std::iter::Peekable;
use std::str::Chars;

/// Field codes of the specification, deprecated ones included.
const FIELD_CODES: &str = "fFuUdDnNickvm";

/// Why a command line cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// There is no command.
    #[error("there is no command")]
    Empty,
    /// A quotation mark has no partner.
    #[error("the quotation mark {0} is not closed")]
    Unclosed(char),
    /// A backslash ends the line.
    #[error("nothing follows the backslash at the end")]
    Backslash,
    /// A percent sign ends the line.
    #[error("nothing follows the % at the end; a percent sign is written %%")]
    Percent,
    /// No such field code.
    #[error("%{0} is no field code; a percent sign is written %%")]
    FieldCode(char),
}

/// The words of Exec's value, whose string escapes are already resolved. Field codes are dropped: no
/// files are opened, and icon, title and place of the file do not tell apps apart.
///
/// Like GLib, and unlike the specification, this takes single quotes, quotation marks within words and
/// backslashes outside of them, all as the shell does: real files have them. What the specification
/// leaves undefined, a percent sign in quotes, is a field code if it can be, and plain otherwise.
///
/// # Errors
/// Where it breaks these rules, and that it is empty.
pub fn command_line(exec: &str) -> Result<Vec<OsString>, ExecError> {
    let mut words = Vec::new();
    let mut word = Word::default();
    let mut rest = exec.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            ' ' | '\t' | '\n' | '\r' => words.extend(std::mem::take(&mut word).finished()),
            '\'' | '"' => {
                word.kept = true;
                quoted(&mut rest, char, &mut word)?;
            }
            '\\' => word.text.push(rest.next().ok_or(ExecError::Backslash)?),
            '%' => match rest.next() {
                Some('%') => word.text.push('%'),
                Some(code) if FIELD_CODES.contains(code) => {}
                Some(other) => return Err(ExecError::FieldCode(other)),
                None => return Err(ExecError::Percent),
            },
            _ => word.text.push(char),
        }
    }
    words.extend(word.finished());
    match words.first() {
        Some(command) if !command.is_empty() => Ok(words),
        _ => Err(ExecError::Empty),
    }
}

#[derive(Default)]
struct Word {
    text: String,
    /// It is one even if it is empty.
    kept: bool,
}

impl Word {
    fn finished(self) -> Option<OsString> {
        (self.kept || !self.text.is_empty()).then(|| self.text.into())
    }
}

/// The rest of a quotation.
fn quoted(rest: &mut Peekable<Chars>, mark: char, word: &mut Word) -> Result<(), ExecError> {
    while let Some(char) = rest.next() {
        match char {
            _ if char == mark => return Ok(()),
            '\\' if mark == '"' => match rest.next_if(|next| "\"`$\\".contains(*next)) {
                Some(escaped) => word.text.push(escaped),
                None => word.text.push('\\'),
            },
            '%' => match rest.next_if(|next| *next == '%' || FIELD_CODES.contains(*next)) {
                Some('%') | None => word.text.push('%'),
                Some(_) => {}
            },
            _ => word.text.push(char),
        }
    }
    Err(ExecError::Unclosed(mark))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_quotes_and_field_codes() {
        for (exec, words) in [
            ("gimp-2.10 %U", &["gimp-2.10"][..]),
            ("a  b\tc ", &["a", "b", "c"]),
            ("a --file=%f --100%% %i %c %k", &["a", "--file=", "--100%"]),
            (r#""/opt/my app/run" "" x"#, &["/opt/my app/run", "", "x"]),
            (r#"a "\"\$\`\\" "\n""#, &["a", "\"$`\\", "\\n"]),
            (
                "sh -c 'exec gimp \"$@\"'",
                &["sh", "-c", "exec gimp \"$@\""],
            ),
            (
                r#"env P="/a b"/c wine C:\\x.exe"#,
                &["env", "P=/a b/c", "wine", r"C:\x.exe"],
            ),
            (r"a\ b c 'd\'", &["a b", "c", "d\\"]),
            ("a '%s %f 5%'", &["a", "%s  5%"]),
            ("a \"%u\"", &["a", ""]),
        ] {
            assert_eq!(command_line(exec).unwrap(), words, "{exec}");
        }
    }

    #[test]
    fn bad_lines_are_refused() {
        for (exec, error) in [
            ("", ExecError::Empty),
            (" \t", ExecError::Empty),
            ("%f", ExecError::Empty),
            ("\"\" a", ExecError::Empty),
            ("a \"b", ExecError::Unclosed('"')),
            ("a 'b", ExecError::Unclosed('\'')),
            ("a \"b\\\"", ExecError::Unclosed('"')),
            ("a \\", ExecError::Backslash),
            ("a %", ExecError::Percent),
            ("a 100%x", ExecError::FieldCode('x')),
        ] {
            assert_eq!(command_line(exec), Err(error), "{exec}");
        }
    }

    /// A word as the specification has it quoted.
    fn quote(word: &str) -> String {
        let mut quoted = String::from("\"");
        for char in word.chars() {
            match char {
                '"' | '`' | '$' | '\\' => quoted.extend(['\\', char]),
                '%' => quoted.push_str("%%"),
                _ => quoted.push(char),
            }
        }
        quoted + "\""
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(
            command in "[^\0]{1,8}",
            words in prop::collection::vec("[^\0]{0,8}", 0..6),
        ) {
            let line: Vec<String> =
                [&command].into_iter().chain(&words).map(|word| quote(word)).collect();
            let mut expected = vec![OsString::from(command)];
            expected.extend(words.iter().map(OsString::from));
            prop_assert_eq!(command_line(&line.join(" ")), Ok(expected));
        }

        #[test]
        fn any_text_is_a_command_or_an_error(exec in "[ab %f\"'\\\\$`\t]{0,24}|\\PC{0,16}") {
            if let Ok(words) = command_line(&exec) {
                prop_assert!(!words[0].is_empty());
            }
        }
    }
}
