//! Messages on standard error, a line each, after the program's name.

use std::io::{self, Write};

use super::terminal;

/// Prints one line on standard error, on a terminal broken between words. The app runs even if that fails.
pub fn say(message: &str) {
    say_all(&[message.to_owned()], said_columns());
}

/// By whom a line on standard error is: the app that was started writes there, too.
pub const BY: &str = "paralfetch: ";

/// Columns that a line on standard error has behind that, if they are bounded.
pub fn said_columns() -> Option<usize> {
    terminal::error_columns().map(|columns| columns.saturating_sub(BY.len()))
}

/// Prints lines on standard error. Those that are longer than so many columns are broken between words.
pub fn say_all(lines: &[String], columns: Option<usize>) {
    for line in fitted(lines, columns) {
        let _ = writeln!(io::stderr(), "{BY}{line}");
    }
}

/// The lines, broken where they are longer.
pub fn fitted(lines: &[String], columns: Option<usize>) -> Vec<String> {
    let pieces = lines.iter().flat_map(|line| {
        let indent = line.len() - line.trim_start().len() + 2;
        terminal::wrapped(line, columns, indent)
    });
    pieces.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_too_long_are_broken() {
        let lines = ["word ".repeat(20), "  row".to_owned(), String::new()];
        let broken = fitted(&lines, Some(40));
        assert!(broken.iter().all(|line| line.chars().count() <= 40));
        assert!(broken.len() > 4 && broken.ends_with(&lines[1..]));
        assert_eq!(fitted(&lines, None), lines);
    }
}
