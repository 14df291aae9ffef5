//! HTML and SVG, element by element: every element is closed, and every text is escaped.

use std::fmt::Display;

/// An attribute of an element: its name and its value.
pub type HtmlAttribute<'a> = (&'static str, &'a dyn Display);

/// Markup under construction. Names of elements and attributes are the program's own words; everything else may come
/// from users, and is escaped.
#[derive(Debug, Default)]
pub struct Html(String);

impl Html {
    /// Text between elements.
    pub fn text(&mut self, text: impl Display) {
        push_escaped(&mut self.0, &text.to_string());
    }

    /// Text whose direction of writing does not reach beyond it: paths, names and notes.
    pub fn isolated(&mut self, text: &str) {
        self.element("bdi", &[], |html| html.text(text));
    }

    /// The program's own markup, as it stands.
    pub fn literal(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    /// An element, with what `inside` writes.
    pub fn element(
        &mut self,
        name: &'static str,
        attributes: &[HtmlAttribute<'_>],
        inside: impl FnOnce(&mut Html),
    ) {
        self.start(name, attributes);
        inside(self);
        self.0 += &format!("</{name}>");
    }

    /// An element that holds only a text.
    pub fn line(&mut self, name: &'static str, text: impl Display) {
        self.element(name, &[], |html| html.text(text));
        self.literal("\n");
    }

    /// The page or the part of it that was built.
    pub fn into_string(self) -> String {
        self.0
    }

    fn start(&mut self, name: &'static str, attributes: &[HtmlAttribute<'_>]) {
        self.0 += &format!("<{name}");
        for (attribute, value) in attributes {
            self.0 += &format!(" {attribute}=\"");
            push_escaped(&mut self.0, &value.to_string());
            self.0.push('"');
        }
        self.0.push('>');
    }
}

/// Adds text so that it is only text, also between quotes. Control characters, which pages may not have, are replaced.
fn push_escaped(html: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c if c.is_control() => html.push('\u{fffd}'),
            c => html.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_values_are_escaped() {
        let mut html = Html::default();
        html.element("p", &[("title", &"\"a\" & 'b'"), ("x", &1.5)], |html| {
            html.isolated("</bdi><script>\u{1b}\n");
        });
        assert_eq!(
            html.into_string(),
            "<p title=\"&quot;a&quot; &amp; &#39;b&#39;\" x=\"1.5\">\
             <bdi>&lt;/bdi&gt;&lt;script&gt;\u{fffd}\u{fffd}</bdi></p>"
        );
    }
}
