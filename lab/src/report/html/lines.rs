//! Lines over the values of a parameter, evenly spaced: values of sweeps are as good as powers of two.

use maud::{Markup, html};

use super::super::format::ratio;
use super::super::sections::{Line, LineRole, Lines};
use super::svg::{self, Path};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 700.0;
const TOP: f64 = 14.0;
const FOOT: f64 = 254.0;
/// Radius of the marks, for the hover.
const MARK: f64 = 3.5;

/// A picture with its legend.
pub fn lines(lines: &Lines, title: &str) -> Markup {
    let values = lines.lines.iter().flat_map(|line| &line.points).flatten();
    let highest = values.copied().fold(1.0, f64::max);
    let top = (highest * 5.0 - 0.01).ceil() / 5.0;
    let last = lines.values.len().saturating_sub(1).max(1) as f64;
    let x = |index: usize| LEFT + 20.0 + (RIGHT - LEFT - 40.0) * index as f64 / last;
    let y = |value: f64| FOOT - (FOOT - TOP) * value.clamp(0.0, top) / top;
    let mut shapes = Vec::new();
    let steps = (top * 5.0).round() as u32;
    // Enough labels to read, few enough to fit.
    for step in (0..=steps).step_by(steps.div_ceil(10).max(1) as usize) {
        let value = f64::from(step) / 5.0;
        shapes.push(svg::line("grid", (LEFT, y(value)), (RIGHT, y(value))));
        let label = format!("{value:.1}");
        shapes.push(svg::text("end faint", LEFT - 7.0, y(value) + 4.0, &label));
    }
    shapes.push(svg::line("one", (LEFT, y(1.0)), (RIGHT, y(1.0))));
    for (index, value) in lines.values.iter().enumerate() {
        shapes.push(svg::text(
            "middle faint",
            x(index),
            FOOT + 18.0,
            &value.to_string(),
        ));
    }
    shapes.push(svg::text(
        "middle",
        (LEFT + RIGHT) / 2.0,
        FOOT + 38.0,
        &lines.axis,
    ));
    for line in &lines.lines {
        let points: Vec<(usize, f64)> = (line.points.iter().enumerate())
            .filter_map(|(index, point)| Some((index, (*point)?)))
            .collect();
        let mut path = Path::new();
        for (place, &(index, value)) in points.iter().enumerate() {
            match place {
                0 => path.move_to(x(index), y(value)),
                _ => path.line_to(x(index), y(value)),
            }
        }
        shapes.push(svg::path(class(line), &path, &line.name));
        for (index, value) in points {
            let hover = format!("{}, {}: {}", line.name, lines.values[index], ratio(value));
            let corner = (x(index) - MARK, y(value) - MARK);
            shapes.push(svg::rect("hover", corner, (2.0 * MARK, 2.0 * MARK), &hover));
        }
    }
    let style = format!("--natural:{WIDTH:.0}px");
    html! {
        div.scroll tabindex="0" role="group" aria-label=(title) {
            div style=(style) { (svg::picture(WIDTH, HEIGHT, "chart", title, &shapes)) }
        }
        ul.legend {
            @for line in &lines.lines {
                @if line.role != LineRole::App { (entry(line, &line.name)) }
            }
            @if let Some(app) = lines.lines.iter().find(|line| line.role == LineRole::App) {
                (entry(app, "launches of one app"))
            }
        }
    }
}

fn entry(line: &Line, name: &str) -> Markup {
    html! { li { svg viewBox="0 0 22 12" aria-hidden="true" { path class=(class(line)) d="M0 6H22" {} } (name) } }
}

fn class(line: &Line) -> &'static str {
    match line.role {
        LineRole::App => "curve one-app",
        LineRole::Launches => "curve launches",
        LineRole::Alone => "curve alone",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_from_value_to_value_and_over_gaps() {
        let line = |role, points: &[Option<f64>]| Line {
            name: "a < b".to_owned(),
            role,
            points: points.to_vec(),
        };
        let drawn = Lines {
            axis: "hole".to_owned(),
            values: vec![0, 8, 64],
            lines: vec![
                line(LineRole::App, &[Some(0.5), None, Some(9.0)]),
                line(LineRole::Launches, &[None, None, None]),
            ],
        };
        let page = lines(&drawn, "title").into_string();
        assert_eq!(page.matches("<rect").count(), 2, "{page}");
        assert!(
            page.contains("a &lt; b, 64: 9.00") && page.contains("launches of one app"),
            "{page}"
        );
        assert_eq!(page.matches(" d=\"M60 ").count(), 1, "{page}");
    }
}
