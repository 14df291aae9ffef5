//! Text of others, made fit to be shown.

/// A character as it may be shown: what could move a terminal's cursor, or turn the direction of the text around it, so that
/// a name reads as another, becomes U+FFFD.
pub fn shown(character: char) -> char {
    match character.is_control() || turns_text(character) {
        true => '\u{fffd}',
        false => character,
    }
}

/// Whether a character controls the direction of text (Unicode's Bidi_Control), or ends a line as no letter does.
fn turns_text(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_cursor_or_turns_text_is_replaced_and_letters_are_not() {
        for character in [
            '\x1b', '\n', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}',
        ] {
            assert_eq!(shown(character), '\u{fffd}', "{character:?}");
        }
        for character in ['a', 'ß', 'ש', 'ع', '日', ' ', '\u{200d}', '\u{fffd}'] {
            assert_eq!(shown(character), character);
        }
    }
}
