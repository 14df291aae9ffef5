//! What standard output is: the size of its terminal, whether it takes colours, and text that fits.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use super::format::text_of;

/// Rows and columns where the terminal does not say.
const USUAL: (usize, usize) = (24, 80);

/// Least columns beside the indent that make wrapping worth while.
const LEAST_TEXT: usize = 20;

/// Rows and columns of the terminal that standard output is.
pub fn size() -> (usize, usize) {
    size_of(io::stdout())
}

fn size_of(terminal: impl AsFd) -> (usize, usize) {
    match rustix::termios::tcgetwinsize(terminal) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => USUAL,
    }
}

/// Columns that lines are to fit into; `None` where standard output is no terminal: programs get whole lines.
pub fn columns() -> Option<usize> {
    io::stdout().is_terminal().then(|| size().1)
}

/// Columns that lines on standard error are to fit into, likewise.
pub fn error_columns() -> Option<usize> {
    let error = io::stderr();
    error.is_terminal().then(|| size_of(error).1)
}

/// Whether what was written can be drawn over: on terminals, unless they know no more than lines.
pub fn draws(output: &impl IsTerminal) -> bool {
    output.is_terminal() && can_draw(&variable("TERM"))
}

/// Whether standard output takes colours: a terminal that can be drawn on does, unless the user wants none (no-color.org).
pub fn takes_colours() -> bool {
    io::stdout().is_terminal() && wants_colours(&variable("NO_COLOR"), &variable("TERM"))
}

fn can_draw(term: &OsStr) -> bool {
    term != "dumb"
}

fn wants_colours(no_color: &OsStr, term: &OsStr) -> bool {
    no_color.is_empty() && can_draw(term)
}

fn variable(name: &str) -> OsString {
    std::env::var_os(name).unwrap_or_default()
}

/// The lines as text that fits the terminal, without control characters that names may contain.
pub fn joined(lines: &[String]) -> String {
    let columns = columns();
    let fitted = lines.iter().flat_map(|line| {
        let line = text_of(line.trim_end().as_bytes());
        let indent = line.len() - line.trim_start().len() + 2;
        wrapped(&line, columns, indent)
    });
    fitted.map(|line| line + "\n").collect()
}

/// A line in pieces that fit into so many columns, broken between words, each piece after the first indented so far. A
/// word that does not fit stays whole.
pub fn wrapped(line: &str, columns: Option<usize>, indent: usize) -> Vec<String> {
    let Some(columns) = columns.filter(|columns| *columns >= indent + LEAST_TEXT) else {
        return vec![line.to_owned()];
    };
    let margin = " ".repeat(indent);
    let mut pieces = Vec::new();
    let mut rest = line.to_owned();
    while rest.chars().count() > columns {
        let begin = rest.len() - rest.trim_start().len();
        let fitting = rest.char_indices().take(columns + 1);
        let last = fitting.filter(|(at, c)| *c == ' ' && *at > begin).last();
        let last = last.map(|(at, _)| at);
        let next = || Some(begin + rest[begin..].find(' ')?);
        let Some(at) = last.or_else(next) else {
            break;
        };
        let after = format!("{margin}{}", rest[at..].trim_start());
        pieces.push(rest[..at].trim_end().to_owned());
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// The end of a text that is too long for so many columns, after a mark: of a path, the end says most.
pub fn cut_start(text: &str, columns: usize) -> String {
    let count = text.chars().count();
    if count <= columns {
        return text.to_owned();
    }
    let end = text.chars().skip(count + 1 - columns.max(1));
    std::iter::once('…').chain(end).collect()
}

/// The end of a text behind `before` columns of a line that is to fit into `columns`, where they are bounded and leave room.
pub fn cut_behind(text: &str, before: usize, columns: Option<usize>) -> String {
    let room = columns.and_then(|columns| columns.checked_sub(before));
    match room.filter(|room| *room > 0) {
        Some(room) => cut_start(text, room),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_keep_all_of_them() {
        let line =
            "ok      drive sda   a word äöü and another-one-that-is-quite-long-for-a-word end";
        let pieces = wrapped(line, Some(30), 8);
        assert_eq!(pieces[0], "ok      drive sda   a word äöü");
        assert!(
            pieces[1..]
                .iter()
                .all(|piece| piece.starts_with("        ")),
            "{pieces:?}"
        );
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&pieces.join(" ")), words(line));
        for whole in [None, Some(10), Some(200)] {
            assert_eq!(wrapped(line, whole, 8), [line], "{whole:?}");
        }
        let path = "  /a/path/without/any/space/in/it";
        assert_eq!(wrapped(path, Some(24), 4), [path]);
        assert_eq!(wrapped("", Some(24), 4), [""]);
        // A character of several bytes is not cut.
        let long = "é".repeat(60);
        assert_eq!(
            wrapped(&format!("ü {long} ö"), Some(30), 2),
            ["ü".to_owned(), format!("  {long}"), "  ö".to_owned()]
        );
    }

    #[test]
    fn paths_are_cut_at_their_start() {
        assert_eq!(cut_start("/usr/bin/gimp", 13), "/usr/bin/gimp");
        assert_eq!(cut_start("/usr/bin/gimp", 9), "…bin/gimp");
        assert_eq!(cut_start("äöü", 1), "…");
        assert_eq!(cut_behind("/usr/bin/gimp", 20, Some(29)), "…bin/gimp");
        for columns in [None, Some(20), Some(33)] {
            assert_eq!(cut_behind("/usr/bin/gimp", 20, columns), "/usr/bin/gimp");
        }
    }

    #[test]
    fn colours_are_not_for_everybody() {
        let wants = |no_color, term| wants_colours(OsStr::new(no_color), OsStr::new(term));
        assert!(wants("", "xterm") && wants("", ""));
        assert!(!wants("1", "xterm") && !wants("", "dumb"));
    }
}
