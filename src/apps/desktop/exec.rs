//! The command line in a .desktop file: key Exec.

use std::ffi::OsString;
use std::iter::Peekable;
use std::mem;
use std::str::Chars;

/// Field codes of the specification, deprecated ones included.
const FIELD_CODES: &str = "fFuUdDnNickvm";

/// The words of Exec's value, whose string escapes are already resolved; at least one. Field codes are
/// dropped: no files are opened, and icon, title and place of the file do not tell apps apart.
///
/// Like GLib, and unlike the specification, this takes single quotes, quotation marks within words and
/// backslashes outside of them, all as the shell does: real files have them. What the specification
/// leaves undefined, a percent sign in quotes, is a field code if it can be, and plain otherwise.
///
/// # Errors
/// Where it breaks these rules, and that it is empty.
pub fn command_line(exec: &str) -> Result<Vec<OsString>, String> {
    let mut words: Vec<OsString> = Vec::new();
    // A quoted word is one even if it is empty.
    let (mut word, mut is_quoted) = (String::new(), false);
    let mut rest = exec.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            ' ' | '\t' | '\n' | '\r' => {
                if mem::take(&mut is_quoted) || !word.is_empty() {
                    words.push(mem::take(&mut word).into());
                }
            }
            '\'' | '"' => {
                is_quoted = true;
                quoted(&mut rest, char, &mut word)?;
            }
            '\\' => word.push(rest.next().ok_or("nothing follows the \\ at the end")?),
            '%' => match rest.next() {
                Some('%') => word.push('%'),
                Some(code) if FIELD_CODES.contains(code) => {}
                other => {
                    let code = other.map(String::from).unwrap_or_default();
                    return Err(format!(
                        "%{code} is no field code; a percent sign is written %%"
                    ));
                }
            },
            _ => word.push(char),
        }
    }
    if is_quoted || !word.is_empty() {
        words.push(word.into());
    }
    match words.first() {
        Some(command) if !command.is_empty() => Ok(words),
        _ => Err("there is no command".to_owned()),
    }
}

/// The rest of a quotation.
fn quoted(rest: &mut Peekable<Chars>, mark: char, word: &mut String) -> Result<(), String> {
    while let Some(char) = rest.next() {
        match char {
            _ if char == mark => return Ok(()),
            '\\' if mark == '"' => {
                word.push(
                    rest.next_if(|next| "\"`$\\".contains(*next))
                        .unwrap_or(char),
                );
            }
            '%' => match rest.next_if(|next| *next == '%' || FIELD_CODES.contains(*next)) {
                Some('%') | None => word.push('%'),
                Some(_) => {}
            },
            _ => word.push(char),
        }
    }
    Err(format!("the quotation mark {mark} is not closed"))
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
            ("", "no command"),
            (" \t", "no command"),
            ("%f", "no command"),
            ("\"\" a", "no command"),
            ("a \"b", "mark \" is not closed"),
            ("a 'b", "mark ' is not closed"),
            ("a \"b\\\"", "mark \" is not closed"),
            ("a \\", "nothing follows"),
            ("a %", "% is no field code"),
            ("a 100%x", "%x is no field code"),
        ] {
            let told = command_line(exec).expect_err(exec);
            assert!(told.contains(error), "{exec}: {told}");
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
            let words = [&[command], &words[..]].concat();
            let line: Vec<String> = words.iter().map(|word| quote(word)).collect();
            let expected: Vec<OsString> = words.iter().map(OsString::from).collect();
            prop_assert_eq!(command_line(&line.join(" ")), Ok(expected));
        }
    }
}
