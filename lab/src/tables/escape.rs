//! Text as Markdown shows it unchanged.

/// For Markdown, also within a table. Control characters become spaces.
pub fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' => escaped.extend(['\\', character]),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            _ if character.is_control() => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn escaped_text_holds_no_markup(text in ".*") {
            prop_assert!(!markdown(&text).contains(['<', '>', '\n']));
        }
    }

    #[test]
    fn markdown_marks_are_escaped() {
        assert_eq!(markdown("a_b*c\\[d]|`"), r"a\_b\*c\\\[d\]\|\`");
        assert_eq!(markdown("AT&T\t<b>"), "AT&amp;T &lt;b&gt;");
    }
}
