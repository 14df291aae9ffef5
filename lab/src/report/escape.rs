//! Text that pages show as it is.

/// For HTML and XML, within attributes too; control characters become spaces.
pub fn html(text: &str) -> String {
    escape(text, |character| match character {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        _ => None,
    })
}

/// For Markdown, within a table too; control characters become spaces.
pub fn markdown(text: &str) -> String {
    escape(text, |character| match character {
        '\\' => Some(r"\\"),
        '|' => Some(r"\|"),
        '`' => Some(r"\`"),
        '*' => Some(r"\*"),
        '_' => Some(r"\_"),
        '[' => Some(r"\["),
        ']' => Some(r"\]"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '&' => Some("&amp;"),
        _ => None,
    })
}

fn escape(text: &str, special: impl Fn(char) -> Option<&'static str>) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match special(character) {
            Some(replacement) => escaped.push_str(replacement),
            None if character.is_control() => escaped.push(' '),
            None => escaped.push(character),
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
        fn no_text_breaks_out(text in ".*") {
            prop_assert!(!html(&text).contains(['<', '>', '"', '\'']));
            prop_assert!(!markdown(&text).contains(['<', '>', '\n']));
        }
    }

    #[test]
    fn markdown_marks_are_text() {
        assert_eq!(markdown("a_b*c\\[d]|`"), r"a\_b\*c\\\[d\]\|\`");
        assert_eq!(markdown("AT&T\t<b>"), "AT&amp;T &lt;b&gt;");
    }
}
