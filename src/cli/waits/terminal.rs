//! The size of the terminal, and a frame that fits into it.

use std::io;
use std::os::fd::AsRawFd;

/// Rows and columns where the terminal does not say.
const USUAL: (usize, usize) = (24, 80);

/// Rows and columns of the terminal that standard output is.
pub fn size() -> (usize, usize) {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ fills the struct that it is given, which lives until the call returns.
    let asked = unsafe { libc::ioctl(io::stdout().as_raw_fd(), libc::TIOCGWINSZ, &mut size) };
    match (usize::from(size.ws_row), usize::from(size.ws_col)) {
        (1.., 1..) if asked == 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => USUAL,
    }
}

/// The text that draws these lines over what was drawn before, cut to the terminal's size. Nothing has to be
/// restored afterwards: the last frame stays.
pub fn frame(lines: &[String], (rows, columns): (usize, usize)) -> String {
    // The cursor needs the last row.
    let shown = lines.iter().take(rows.saturating_sub(1).max(1));
    let mut text = String::from("\x1b[H");
    for line in shown {
        text.extend(line.chars().take(columns));
        // Clears to the end of the line.
        text.push_str("\x1b[K\n");
    }
    // Clears what is below.
    text.push_str("\x1b[J");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_into_the_terminal() {
        let lines: Vec<String> = (0..9).map(|row| format!("{row}äöü")).collect();
        assert_eq!(frame(&lines, (3, 2)), "\x1b[H0ä\x1b[K\n1ä\x1b[K\n\x1b[J");
        assert_eq!(frame(&[], (3, 2)), "\x1b[H\x1b[J");
    }
}
