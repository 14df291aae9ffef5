//! The picture of a launch: lanes over a common time axis.

use maud::Markup;

use super::lanes::{COLUMNS, columns, progress, spans};
use super::misses::longest;
use super::svg::{self, Path};
use crate::timeline::{Miss, Timeline};

const LEFT: f64 = 150.0;
const RIGHT: f64 = 44.0;
/// Width of a column of the lanes.
const COLUMN: f64 = 2.0;
const PLOT: f64 = COLUMNS as f64 * COLUMN;
/// Natural width of the picture, in CSS pixels.
pub const WIDTH: f64 = LEFT + PLOT + RIGHT;
const TOP: f64 = 24.0;
const LANE: f64 = 38.0;
const SPACE: f64 = 14.0;
const MISSES: f64 = 32.0;
const CURVES: f64 = 150.0;

struct Drawing {
    shapes: Vec<Markup>,
    total: u64,
    y: f64,
}

/// Lanes, misses and curves as SVG; `title` is its name for screen readers.
pub fn draw(timeline: &Timeline, title: &str) -> Markup {
    let total = length(timeline);
    let lanes = if timeline.background.is_some() {
        5.0
    } else {
        4.0
    };
    let height = TOP + lanes * (LANE + SPACE) + MISSES + CURVES + SPACE + 34.0;
    let mut drawing = Drawing {
        shapes: Vec::new(),
        total,
        y: TOP,
    };
    drawing.axis(height);
    let weighted = |spans: &[[u64; 3]]| {
        columns(
            spans
                .iter()
                .map(|[start, end, tasks]| (*start, *end, *tasks as f64)),
            total,
        )
    };
    drawing.lane(
        "app on a processor",
        "tasks running",
        "cpu",
        &weighted(&timeline.cpu),
    );
    drawing.lane(
        "app waits for drive",
        "tasks waiting",
        "waiting",
        &weighted(&timeline.waiting),
    );
    if let Some(background) = &timeline.background {
        drawing.lane(
            "app waits for writes",
            "tasks waiting",
            "background",
            &weighted(background),
        );
    }
    let queue = |busy: bool| {
        let depth = move |requests: u64| (if busy { requests.min(1) } else { requests }) as f64;
        let spans = spans(&timeline.queue, total);
        columns(
            spans.map(|[start, end, requests]| (start, end, depth(requests))),
            total,
        )
    };
    drawing.lane("drive busy", "share of time", "busy", &queue(true));
    drawing.lane("drive queue", "requests in flight", "queue", &queue(false));
    drawing.misses(&timeline.misses);
    drawing.curves(timeline);
    drawing.ends(timeline, height);
    svg::picture(WIDTH, height, "chart", title, &drawing.shapes)
}

/// Length of the axis in microseconds: the recorded time, and at least until the launch's end.
fn length(timeline: &Timeline) -> u64 {
    let ends = [Some(timeline.seconds), timeline.window, timeline.completion];
    let longest = ends
        .into_iter()
        .flatten()
        .filter(|time| time.is_finite())
        .fold(0.0, f64::max);
    ((longest * 1e6).ceil() as u64).max(1)
}

impl Drawing {
    fn x(&self, time: u64) -> f64 {
        LEFT + PLOT * (time.min(self.total) as f64 / self.total as f64)
    }

    fn axis(&mut self, height: f64) {
        let foot = height - 22.0;
        let step = step(self.total as f64 / 1e6);
        let mut number = 0.0;
        while number * step <= self.total as f64 / 1e6 {
            let time = number * step;
            let x = self.x((time * 1e6) as u64);
            self.shapes.push(svg::line("grid", (x, TOP), (x, foot)));
            let digits = if step < 0.1 { 2 } else { 1 };
            let unit = if number == 0.0 { " s" } else { "" };
            self.shapes.push(svg::text(
                "middle faint",
                x,
                foot + 16.0,
                &format!("{time:.digits$}{unit}"),
            ));
            number += 1.0;
        }
    }

    fn names(&mut self, height: f64, name: &str, unit: &str) {
        self.shapes.push(svg::text(
            "end lane",
            LEFT - 12.0,
            self.y + height / 2.0 - 2.0,
            name,
        ));
        self.shapes.push(svg::text(
            "end faint",
            LEFT - 12.0,
            self.y + height / 2.0 + 12.0,
            unit,
        ));
    }

    fn lane(&mut self, name: &str, unit: &str, class: &str, values: &[f64]) {
        let peak = values.iter().copied().fold(0.0, f64::max);
        let top = if class == "busy" {
            1.0
        } else {
            peak.ceil().max(1.0)
        };
        let foot = self.y + LANE;
        self.shapes
            .push(svg::rect("lane-back", (LEFT, self.y), (PLOT, LANE), ""));
        self.names(LANE, name, unit);
        let mut path = Path::new();
        let mut last = 0.0;
        for (column, value) in values.iter().enumerate() {
            // Changes below a quarter of a unit are invisible.
            let height = (value / top * LANE * 4.0).round() / 4.0;
            if height != last {
                if last == 0.0 {
                    path.move_to(LEFT + column as f64 * COLUMN, foot);
                } else {
                    path.across_to(LEFT + column as f64 * COLUMN);
                }
                path.down_to(foot - height);
                last = height;
            }
        }
        if last != 0.0 {
            path.across_to(LEFT + PLOT);
            path.down_to(foot);
        }
        self.shapes
            .push(svg::path(&format!("area {class}"), &path, ""));
        let top = if class == "busy" {
            "100 %".to_owned()
        } else {
            format!("{top:.0}")
        };
        self.shapes.push(svg::text(
            "faint tick",
            LEFT + PLOT + 4.0,
            self.y + 8.0,
            &top,
        ));
        self.y += LANE + SPACE;
    }

    fn misses(&mut self, misses: &[Miss]) {
        let middle = self.y + 8.0;
        self.shapes
            .push(svg::text("end lane", LEFT - 12.0, middle + 4.0, "misses"));
        self.shapes
            .push(svg::line("grid", (LEFT, middle), (LEFT + PLOT, middle)));
        for miss in longest(misses, COLUMNS) {
            let x = self.x(miss.time_us);
            let path = Path::new()
                .to(x - 4.0, middle - 4.0)
                .line(x + 4.0, middle + 4.0)
                .to(x + 4.0, middle - 4.0)
                .line(x - 4.0, middle + 4.0);
            let wait = miss.wait_us as f64 / 1e3;
            let hover = format!(
                "{} (page {}): {wait:.2} ms, {}",
                miss.what,
                miss.offset,
                miss.why.description()
            );
            self.shapes.push(svg::path("miss", &path, &hover));
        }
        self.y += MISSES;
    }

    fn curves(&mut self, timeline: &Timeline) {
        let foot = self.y + CURVES;
        self.shapes
            .push(svg::rect("lane-back", (LEFT, self.y), (PLOT, CURVES), ""));
        self.shapes.push(svg::text(
            "end lane",
            LEFT - 12.0,
            self.y + 14.0,
            "launch sequence",
        ));
        self.shapes.push(svg::text(
            "faint tick",
            LEFT + PLOT + 4.0,
            self.y + 8.0,
            "100 %",
        ));
        let points = timeline.prefetch.iter().chain(&timeline.app_position);
        let most = points
            .map(|[_, pages]| *pages)
            .max()
            .unwrap_or(0)
            .max(timeline.total_pages)
            .max(1);
        let curves = [
            ("prefetched", &timeline.prefetch),
            ("app", &timeline.app_position),
        ];
        let drawn = curves.into_iter().filter(|(_, points)| !points.is_empty());
        for (index, (name, points)) in (0u8..).zip(drawn) {
            let y = self.y + 34.0 + 20.0 * f64::from(index);
            self.shapes
                .push(svg::text("end", LEFT - 46.0, y + 4.0, name));
            self.shapes.push(svg::line(
                &format!("curve {name}"),
                (LEFT - 40.0, y),
                (LEFT - 12.0, y),
            ));
            let mut path = Path::new().to(LEFT, foot);
            let mut last = 0;
            for (column, pages) in progress(points, self.total).into_iter().enumerate() {
                let end = column + 1 == COLUMNS;
                if pages != last || end {
                    path.across_to(LEFT + (column + 1) as f64 * COLUMN);
                    path.down_to(foot - CURVES * (pages as f64 / most as f64));
                    last = pages;
                }
            }
            self.shapes
                .push(svg::path(&format!("curve {name}"), &path, ""));
        }
        self.y += CURVES + SPACE;
    }

    /// Vertical lines where the launch ends by each rule, labelled on their outer sides.
    fn ends(&mut self, timeline: &Timeline, height: f64) {
        let ends = [
            ("window", timeline.window),
            ("completion", timeline.completion),
        ];
        let mut ends: Vec<(&str, f64)> = ends
            .into_iter()
            .filter_map(|(name, time)| Some((name, time?)))
            .collect();
        ends.sort_by(|a, b| a.1.total_cmp(&b.1));
        let several = ends.len() > 1;
        for (index, (name, time)) in ends.into_iter().enumerate() {
            let x = self.x((time.max(0.0) * 1e6) as u64);
            self.shapes
                .push(svg::line("event", (x, TOP - 8.0), (x, height - 22.0)));
            // The first label goes to the left, so that two close lines do not collide.
            let (class, at) = if several && index == 0 {
                ("end event-name", x - 5.0)
            } else {
                ("event-name", (x + 5.0).min(WIDTH - 66.0))
            };
            self.shapes.push(svg::text(class, at, TOP - 12.0, name));
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten that cuts `seconds` into 5 to 12 parts.
fn step(seconds: f64) -> f64 {
    let mut step = 10f64.powf((seconds / 10.0).max(1e-3).log10().floor());
    for factor in [2.0, 2.5, 2.0] {
        if seconds / step > 12.0 {
            step *= factor;
        }
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_a_readable_number_of_steps() {
        for seconds in [0.001, 0.05, 0.3, 0.73, 1.2, 2.4, 9.0, 31.0] {
            let parts = seconds / step(seconds);
            assert!(parts <= 12.0, "{seconds}: {parts}");
        }
        assert_eq!(step(1.0), 0.1);
        assert_eq!(step(2.4), 0.2);
    }
}
