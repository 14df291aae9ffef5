//! A small builder of SVG pictures: shapes with CSS classes, all text escaped.

use std::fmt::Write;

use super::super::escape::html as escape;

/// A picture in the making. Lengths are in units of its view box, y grows downwards.
pub struct Svg {
    markup: String,
}

impl Svg {
    /// An empty picture. `title` is what screen readers call it, `class` decides on its size on the page.
    pub fn new(width: f64, height: f64, class: &str, title: &str) -> Self {
        let title = escape(title);
        let markup = format!(
            "<svg class=\"{}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">",
            escape(class)
        );
        Self { markup }
    }

    /// A rectangle, with a text on hover unless that is empty.
    pub fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64, hover: &str) {
        let shape = format!(
            "x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            number(x),
            number(y),
            number(width.max(0.0)),
            number(height.max(0.0))
        );
        self.shape("rect", class, &shape, hover);
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let path = Path::new().to(from.0, from.1).line(to.0, to.1);
        self.path(class, &path, "");
    }

    /// A path, with a text on hover unless that is empty. An empty path draws nothing.
    pub fn path(&mut self, class: &str, path: &Path, hover: &str) {
        if !path.0.is_empty() {
            self.shape("path", class, &format!("d=\"{}\"", path.0), hover);
        }
    }

    /// Text at a point; the class decides how it is anchored.
    pub fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let (x, y, class, text) = (number(x), number(y), escape(class), escape(text));
        let _ = write!(
            self.markup,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>"
        );
    }

    /// Text turned by `degrees` about its point.
    pub fn turned(&mut self, class: &str, (x, y): (f64, f64), degrees: i32, text: &str) {
        let (x, y, class, text) = (number(x), number(y), escape(class), escape(text));
        let _ = write!(
            self.markup,
            "<text class=\"{class}\" transform=\"translate({x} {y}) rotate({degrees})\">{text}</text>"
        );
    }

    /// The picture's markup.
    pub fn finish(mut self) -> String {
        self.markup.push_str("</svg>");
        self.markup
    }

    fn shape(&mut self, element: &str, class: &str, shape: &str, hover: &str) {
        let class = escape(class);
        let _ = write!(self.markup, "<{element} class=\"{class}\" {shape}");
        if hover.is_empty() {
            self.markup.push_str("/>");
        } else {
            let _ = write!(self.markup, "><title>{}</title></{element}>", escape(hover));
        }
    }
}

/// Data of a path.
#[derive(Clone, Debug, Default)]
pub struct Path(String);

impl Path {
    /// An empty path.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a part at a point.
    pub fn to(mut self, x: f64, y: f64) -> Self {
        self.move_to(x, y);
        self
    }

    /// A straight line to a point.
    pub fn line(mut self, x: f64, y: f64) -> Self {
        self.line_to(x, y);
        self
    }

    /// Starts a part at a point.
    pub fn move_to(&mut self, x: f64, y: f64) {
        let _ = write!(self.0, "M{} {}", number(x), number(y));
    }

    /// A straight line to a point.
    pub fn line_to(&mut self, x: f64, y: f64) {
        let _ = write!(self.0, "L{} {}", number(x), number(y));
    }

    /// A horizontal line to `x`.
    pub fn across_to(&mut self, x: f64) {
        let _ = write!(self.0, "H{}", number(x));
    }

    /// A vertical line to `y`.
    pub fn down_to(&mut self, y: f64) {
        let _ = write!(self.0, "V{}", number(y));
    }

    /// A dot, for classes with round line ends.
    pub fn dot(&mut self, x: f64, y: f64) {
        let _ = write!(self.0, "M{} {}h0", number(x), number(y));
    }
}

/// A length with one decimal at most: a tenth of a unit is not seen, and pages stay small. What is no
/// number is 0, so that a picture is never broken as a whole.
fn number(value: f64) -> String {
    let value = if value.is_finite() {
        (value * 10.0).round() / 10.0
    } else {
        0.0
    };
    // −0 and 0 are one place.
    (value + 0.0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let mut svg = Svg::new(10.0, 5.0, "wide", "a \"b\"");
        svg.rect("bar", 1.04, 2.0, 3.0, -1.0, "x < y");
        svg.text("label", 0.0, f64::NAN, "&");
        let mut path = Path::new().to(0.0, 1.0);
        path.across_to(2.0);
        path.down_to(-0.01);
        svg.path("curve", &path, "");
        svg.path("curve", &Path::new(), "");
        assert_eq!(
            svg.finish(),
            "<svg class=\"wide\" viewBox=\"0 0 10 5\" role=\"img\" aria-label=\"a &quot;b&quot;\">\
             <rect class=\"bar\" x=\"1\" y=\"2\" width=\"3\" height=\"0\"><title>x &lt; y</title></rect>\
             <text class=\"label\" x=\"0\" y=\"0\">&amp;</text>\
             <path class=\"curve\" d=\"M0 1H2V0\"/></svg>"
        );
    }
}
