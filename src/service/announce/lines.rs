//! Lines from a pipe, however the writes were cut.

use std::collections::VecDeque;

use super::text::MAX_TEXT;

/// A line is longer than any announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong;

/// Puts lines together from pieces. What waits for the rest of its line is at most [`MAX_TEXT`]
/// bytes; a line that is longer is skipped up to its end.
#[derive(Debug, Default)]
pub struct Lines {
    done: VecDeque<Result<Vec<u8>, LineTooLong>>,
    partial: Vec<u8>,
    skipping: bool,
}

impl Lines {
    /// Takes the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        for &byte in piece {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.partial);
                let skipped = std::mem::take(&mut self.skipping);
                self.done
                    .push_back(if skipped { Err(LineTooLong) } else { Ok(line) });
            } else if self.partial.len() < MAX_TEXT && !self.skipping {
                self.partial.push(byte);
            } else {
                self.skipping = true;
                self.partial.clear();
            }
        }
    }

    /// The next complete line, without its end.
    pub fn pop(&mut self) -> Option<Result<Vec<u8>, LineTooLong>> {
        self.done.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<Result<Vec<u8>, LineTooLong>> {
        let mut lines = Lines::default();
        pieces.iter().for_each(|piece| lines.feed(piece));
        assert!(lines.partial.len() <= MAX_TEXT);
        std::iter::from_fn(|| lines.pop()).collect()
    }

    #[test]
    fn a_line_arrives_in_pieces() {
        assert_eq!(split(&[b"1 ma"]), []);
        assert_eq!(split(&[b"1 ma", b"il\n2"]), [Ok(b"1 mail".to_vec())]);
        assert_eq!(split(&[b"\n\n"]), [Ok(vec![]), Ok(vec![])]);
    }

    #[test]
    fn a_long_line_does_not_take_the_next_with_it() {
        let long = [b'x'; MAX_TEXT + 1];
        let lines = split(&[&long, &long, b"\n1 mail\n"]);
        assert_eq!(lines, [Err(LineTooLong), Ok(b"1 mail".to_vec())]);
        let longest = [b'x'; MAX_TEXT];
        assert_eq!(split(&[&longest, b"\n"]), [Ok(longest.to_vec())]);
    }

    proptest! {
        #[test]
        fn the_cuts_do_not_matter(
            bytes in proptest::collection::vec(prop_oneof![3 => Just(b'x'), 1 => Just(b'\n')], 0..2000),
            at in any::<prop::sample::Index>(),
        ) {
            let (first, second) = bytes.split_at(at.index(bytes.len() + 1));
            prop_assert_eq!(split(&[first, second]), split(&[&bytes]));
        }
    }
}
