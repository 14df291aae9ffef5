//! The text of an announcement.

use std::str;

use rustix::process::Pid;

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

/// Reads an announcement; `None` if the text is none:
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
pub fn parse(text: &[u8]) -> Option<Announcement<'_>> {
    let text = str::from_utf8(text).ok()?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (pid, name) = text.split_once(' ').unwrap_or(("0", text));
    // The standard library would accept a sign.
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if pid.len() > MAX_DIGITS || !is_number(pid) {
        return None;
    }
    let is_first = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = (1..=MAX_NAME).contains(&name.len())
        && is_first(name.as_bytes()[0])
        && name.bytes().all(|byte| is_first(byte) || b".+-".contains(&byte))
        // A number alone is a process id without a name.
        && !is_number(name);
    let pid = Pid::from_raw(pid.parse().ok()?);
    is_name.then_some(Announcement { pid, name })
}

#[cfg(test)]
mod tests {
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
            assert_eq!(parse(text.as_bytes()), Some(Announcement { pid, name }));
        }
    }

    #[test]
    fn bad_process_ids_and_names() {
        for pid in "|-1|+1|0x1|1.0|2147483648|00000000001|mail|\u{661}".split('|') {
            assert_eq!(parse(format!("{pid} mail").as_bytes()), None, "{pid:?}");
        }
        let names = "|42|.|..|.hidden|-rf|+x|../x|a/b|a:b| mail|mail |mail\r\n|mail\n\n|a\0|\u{e9}|a\u{1b}[m";
        let too_long = "x".repeat(MAX_NAME + 1);
        for name in names.split('|').chain([too_long.as_str()]) {
            assert_eq!(parse(name.as_bytes()), None, "{name:?}");
            assert_eq!(parse(format!("1 {name}").as_bytes()), None, "{name:?}");
        }
        assert_eq!(parse(b"a\xff"), None);
    }

    #[test]
    fn the_longest_text() {
        let text = format!("2147483647 {}\n", "x".repeat(MAX_NAME));
        assert_eq!(text.len(), MAX_TEXT);
        assert!(parse(text.as_bytes()).is_some());
    }
}
