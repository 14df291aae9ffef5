//! Predicted against measured times, both on a logarithmic scale: a dot on the line was predicted exactly.

use maud::{Markup, html};

use super::super::format::seconds;
use super::super::sections::Prediction;
use super::svg::{self, Path};

const SIZE: f64 = 420.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 408.0;
const TOP: f64 = 12.0;
const FOOT: f64 = 368.0;

/// A picture of all of them.
pub fn dots(predictions: &[Prediction], title: &str) -> Markup {
    let all = || {
        predictions
            .iter()
            .flat_map(|one| [one.predicted, one.measured])
    };
    // Whole halves of decades, so that there are some labels.
    let low = (all().fold(f64::INFINITY, f64::min).log10() * 2.0).floor() / 2.0;
    let high = (all().fold(0.0, f64::max).log10() * 2.0).ceil() / 2.0;
    let high = high.max(low + 0.5);
    let share = |value: f64| (value.log10() - low) / (high - low);
    let x = |value: f64| LEFT + (RIGHT - LEFT) * share(value);
    let y = |value: f64| FOOT - (FOOT - TOP) * share(value);
    let (first, last) = (10f64.powf(low), 10f64.powf(high));
    let mut shapes = Vec::new();
    for step in 0..=((high - low) * 2.0).round() as u32 {
        let value = 10f64.powf(low + f64::from(step) / 2.0);
        let label = seconds(value);
        shapes.push(svg::line("grid", (LEFT, y(value)), (RIGHT, y(value))));
        shapes.push(svg::line("grid", (x(value), TOP), (x(value), FOOT)));
        shapes.push(svg::text("end faint", LEFT - 7.0, y(value) + 4.0, &label));
        shapes.push(svg::text("middle faint", x(value), FOOT + 18.0, &label));
    }
    shapes.push(svg::line("one", (x(first), y(first)), (x(last), y(last))));
    let axes = "predicted s ↑   measured s →";
    shapes.push(svg::text("faint", LEFT, SIZE - 14.0, axes));
    for one in predictions {
        let mut dot = Path::new();
        dot.dot(x(one.measured), y(one.predicted));
        let hover = format!(
            "{}: predicted {} s, measured {} s",
            one.name,
            seconds(one.predicted),
            seconds(one.measured)
        );
        shapes.push(svg::path("dots large", &dot, &hover));
    }
    let style = format!("--natural:{SIZE:.0}px");
    html! {
        div.scroll tabindex="0" role="group" aria-label=(title) {
            div style=(style) { (svg::picture(SIZE, SIZE, "chart", title, &shapes)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_predicted_exactly_is_on_the_line() {
        let prediction = |predicted, measured| Prediction {
            name: "a".to_owned(),
            predicted,
            measured,
        };
        let page = dots(&[prediction(1.0, 1.0), prediction(10.0, 2.0)], "title").into_string();
        assert!(page.contains(" d=\"M52 368h0\""), "{page}");
        assert!(page.contains("predicted 10.0 s, measured 2.00 s"), "{page}");
        // One alone has a scale, too.
        assert!(
            !dots(&[prediction(1.0, 1.0)], "title")
                .into_string()
                .contains("NaN")
        );
    }
}
