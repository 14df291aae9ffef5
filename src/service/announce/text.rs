//! The text of an announcement.

use std::str;

use rustix::process::Pid;
use thiserror::Error;

/// Longest name, in bytes.
pub const MAX_NAME: usize = 128;
/// Most digits of a process id; the kernel's own limit is 4,194,304 (PID_MAX_LIMIT).
const MAX_DIGITS: usize = 10;
/// Longest text, in bytes: a process id, a space, a name and the end of the line.
pub const MAX_TEXT: usize = MAX_DIGITS + 1 + MAX_NAME + 1;

/// What an announcement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement<'a> {
    /// The process in the sender's eyes; `None` for the sender itself.
    pub pid: Option<Pid>,
    /// The app.
    pub name: &'a str,
}

/// Why a text is not an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The part before the space is no process id.
    #[error("the process id must be a decimal number below 2147483648")]
    Pid,
    /// The name is not in the alphabet.
    #[error(
        "the name must be 1 to {MAX_NAME} letters, digits, '.', '_', '+' and '-', begin with a letter, \
         a digit or '_', and hold more than digits"
    )]
    Name,
}

/// Reads an announcement:
///
/// ```text
/// announcement = [ pid " " ] name [ "\n" ]
/// pid          = 1*10 digit              ; at most 2147483647; 0 means the sender itself
/// name         = first *127 other        ; not digits alone
/// first        = letter | digit | "_"    ; ASCII
/// other        = first | "." | "+" | "-"
/// ```
///
/// A name becomes a part of identities, file names and messages. So it holds no `/` (it cannot lead
/// out of a directory), no `:` (which separates the parts of an identity), no space or control
/// character, and does not look like a hidden file or an option. Main classes of Java and Android,
/// ids of .desktop entries and names of packages fit; for a `/` or `$` in a class name, send `_`.
///
/// # Errors
/// What is wrong with the text, whatever the bytes.
pub fn parse(text: &[u8]) -> Result<Announcement<'_>, Malformed> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let (pid, name) = match text.iter().position(|&byte| byte == b' ') {
        Some(space) => (parse_pid(&text[..space])?, &text[space + 1..]),
        None => (None, text),
    };
    Ok(Announcement {
        pid,
        name: parse_name(name)?,
    })
}

fn parse_pid(digits: &[u8]) -> Result<Option<Pid>, Malformed> {
    // The standard library would accept a sign.
    if digits.len() > MAX_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Malformed::Pid);
    }
    let digits = str::from_utf8(digits).map_err(|_| Malformed::Pid)?;
    let pid: i32 = digits.parse().map_err(|_| Malformed::Pid)?;
    Ok(Pid::from_raw(pid))
}

fn parse_name(name: &[u8]) -> Result<&str, Malformed> {
    let is_first = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_other = |byte: u8| is_first(byte) || b".+-".contains(&byte);
    let good = name.len() <= MAX_NAME
        && name.first().is_some_and(|&byte| is_first(byte))
        && name.iter().all(|&byte| is_other(byte))
        // A number alone is a process id without a name.
        && !name.iter().all(u8::is_ascii_digit);
    if !good {
        return Err(Malformed::Name);
    }
    str::from_utf8(name).map_err(|_| Malformed::Name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pid(raw: i32) -> Option<Pid> {
        Pid::from_raw(raw)
    }

    #[test]
    fn pid_and_name() {
        for (text, pid, name) in [
            ("42 org.example.Mail", pid(42), "org.example.Mail"),
            ("42 org.example.Mail\n", pid(42), "org.example.Mail"),
            ("0042 0ad", pid(42), "0ad"),
            ("2147483647 g++-14", pid(i32::MAX), "g++-14"),
            ("0 _a", None, "_a"),
            ("mail", None, "mail"),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(Announcement { pid, name }));
        }
    }

    #[test]
    fn bad_process_ids() {
        for text in [
            " mail",
            "-1 mail",
            "+1 mail",
            "0x1 mail",
            "1.0 mail",
            "2147483648 mail",
            "00000000001 mail",
            "mail 42",
            "\u{661} mail",
        ] {
            assert_eq!(parse(text.as_bytes()), Err(Malformed::Pid), "{text:?}");
        }
    }

    #[test]
    fn bad_names() {
        let too_long = "x".repeat(MAX_NAME + 1);
        for name in [
            "",
            "\n",
            "1 ",
            "42",
            "1 42",
            ".",
            "..",
            ".hidden",
            "-rf",
            "+x",
            "../x",
            "a/b",
            "a:b",
            "1  mail",
            "1 mail ",
            "1 mail\r\n",
            "1 mail\n\n",
            "a\0",
            "é",
            "a\u{1b}[m",
            &too_long,
        ] {
            assert_eq!(parse(name.as_bytes()), Err(Malformed::Name), "{name:?}");
        }
        assert_eq!(parse(b"a\xff"), Err(Malformed::Name));
    }

    #[test]
    fn the_longest_text() {
        let text = format!("2147483647 {}\n", "x".repeat(MAX_NAME));
        assert_eq!(text.len(), MAX_TEXT);
        assert!(parse(text.as_bytes()).is_ok());
    }

    proptest! {
        #[test]
        fn accepted_text_is_safe_and_reads_the_same_again(
            text in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b' '), b'0'..b'z'], 0..150)
        ) {
            if let Ok(announcement) = parse(&text) {
                let Announcement { pid, name } = announcement;
                prop_assert!(text.len() <= MAX_TEXT);
                prop_assert!(!name.is_empty() && !name.contains(['/', ':', ' ', '\n', '\0']));
                prop_assert!(!name.starts_with(['.', '-']));
                let pid = pid.map_or(0, |pid| pid.as_raw_nonzero().get());
                let again = format!("{pid} {name}");
                prop_assert_eq!(parse(again.as_bytes()), Ok(announcement));
            }
        }
    }
}
