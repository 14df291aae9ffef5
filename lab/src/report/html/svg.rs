//! SVG shapes with CSS classes. Coordinates are in units of the view box, y grows downwards.

use std::fmt::Write;

use maud::{Markup, html};

/// A picture of these shapes. `title` is its name for screen readers, `class` decides its size on the
/// page.
pub fn picture(width: f64, height: f64, class: &str, title: &str, shapes: &[Markup]) -> Markup {
    html! {
        svg class=(class) viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(title) {
            @for shape in shapes { (shape) }
        }
    }
}

/// A rectangle, with a text on hover unless that is empty.
pub fn rect(class: &str, (x, y): (f64, f64), (width, height): (f64, f64), hover: &str) -> Markup {
    let (width, height) = (number(width.max(0.0)), number(height.max(0.0)));
    html! {
        rect class=(class) x=(number(x)) y=(number(y)) width=(width) height=(height) { (tooltip(hover)) }
    }
}

/// A straight line.
pub fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> Markup {
    path(class, &Path::new().to(from.0, from.1).line(to.0, to.1), "")
}

/// A path, with a text on hover unless that is empty. An empty path draws nothing.
pub fn path(class: &str, path: &Path, hover: &str) -> Markup {
    html! { @if !path.0.is_empty() { path class=(class) d=(path.0) { (tooltip(hover)) } } }
}

/// Text at a point; the class decides how it is anchored.
pub fn text(class: &str, x: f64, y: f64, text: &str) -> Markup {
    html! { text class=(class) x=(number(x)) y=(number(y)) { (text) } }
}

/// Text turned by `degrees` about its point.
pub fn turned(class: &str, (x, y): (f64, f64), degrees: i32, text: &str) -> Markup {
    let transform = format!("translate({} {}) rotate({degrees})", number(x), number(y));
    html! { text class=(class) transform=(transform) { (text) } }
}

fn tooltip(text: &str) -> Markup {
    html! { @if !text.is_empty() { title { (text) } } }
}

/// The data of a path element.
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

    /// A dot, visible in classes with round line ends.
    pub fn dot(&mut self, x: f64, y: f64) {
        let _ = write!(self.0, "M{} {}h0", number(x), number(y));
    }
}

/// A length with at most one decimal: smaller differences are invisible, and pages stay small. NaN and
/// infinity become 0, so that one bad value does not break the whole picture.
fn number(value: f64) -> String {
    let value = if value.is_finite() {
        (value * 10.0).round() / 10.0
    } else {
        0.0
    };
    // Turns −0 into 0.
    (value + 0.0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_escaped_and_rounded() {
        let mut outline = Path::new().to(0.0, 1.0);
        outline.across_to(2.0);
        outline.down_to(-0.01);
        let shapes = [
            rect("bar", (1.04, 2.0), (3.0, -1.0), "x < y"),
            text("label", 0.0, f64::NAN, "&"),
            path("curve", &outline, ""),
            path("curve", &Path::new(), ""),
        ];
        assert_eq!(
            picture(10.0, 5.0, "wide", "a \"b\"", &shapes).into_string(),
            "<svg class=\"wide\" viewBox=\"0 0 10 5\" role=\"img\" aria-label=\"a &quot;b&quot;\">\
             <rect class=\"bar\" x=\"1\" y=\"2\" width=\"3\" height=\"0\"><title>x &lt; y</title></rect>\
             <text class=\"label\" x=\"0\" y=\"0\">&amp;</text>\
             <path class=\"curve\" d=\"M0 1H2V0\"></path></svg>"
        );
    }
}
