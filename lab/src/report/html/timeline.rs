//! One launch, moment by moment: swim-lanes over one axis of time.

use maud::{Markup, PreEscaped, html};

use super::super::format::seconds;
use super::super::scenarios;
use super::super::table::Table;
use super::lanes::{COLUMNS, columns, progress, spans};
use super::sequence;
use super::svg::{Path, Svg};
use super::tables;
use crate::timeline::{Miss, Timeline};

const LEFT: f64 = 150.0;
const RIGHT: f64 = 44.0;
/// Width of a column of the lanes.
const COLUMN: f64 = 2.0;
const PLOT: f64 = COLUMNS as f64 * COLUMN;
const WIDTH: f64 = LEFT + PLOT + RIGHT;
const TOP: f64 = 24.0;
const LANE: f64 = 38.0;
const SPACE: f64 = 14.0;
const MISSES: f64 = 32.0;
const CURVES: f64 = 150.0;
/// Misses in the table below the picture; the longest waits are kept.
const LISTED: usize = 200;

/// The picture of a launch with its misses and its sequence before and after scheduling.
pub fn timeline(timeline: &Timeline, open: bool) -> Markup {
    let label = scenarios::label(&timeline.scenario);
    let mut facts = Vec::new();
    facts.extend(
        timeline
            .window
            .map(|time| format!("window {} s", seconds(time))),
    );
    facts.extend(
        timeline
            .completion
            .map(|time| format!("completion {} s", seconds(time))),
    );
    facts.push(match timeline.misses.len() {
        1 => "1 miss".to_owned(),
        count => format!("{count} misses"),
    });
    let title = format!(
        "Timeline of {}, {label}, on {}",
        timeline.app, timeline.device
    );
    html! {
        details.timeline open[open] {
            summary { strong { (timeline.app) } " · " (label) span.facts { (facts.join(" · ")) } }
            div.scroll tabindex="0" role="group" aria-label=(title) {
                div style={ "--natural:" (WIDTH) "px" } { (PreEscaped(picture(timeline, &title))) }
            }
            (misses(&timeline.misses))
            (sequence::before_and_after(timeline))
        }
    }
}

struct Drawing {
    svg: Svg,
    total: u64,
    y: f64,
}

fn picture(timeline: &Timeline, title: &str) -> String {
    let total = length(timeline);
    let height = TOP + 4.0 * (LANE + SPACE) + MISSES + CURVES + SPACE + 34.0;
    let mut drawing = Drawing {
        svg: Svg::new(WIDTH, height, "chart", title),
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
    drawing.svg.finish()
}

/// Microseconds that the axis spans: what was recorded, and at least until the launch's end.
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
            self.svg.line("grid", (x, TOP), (x, foot));
            let digits = if step < 0.1 { 2 } else { 1 };
            let unit = if number == 0.0 { " s" } else { "" };
            self.svg.text(
                "middle faint",
                x,
                foot + 16.0,
                &format!("{time:.digits$}{unit}"),
            );
            number += 1.0;
        }
    }

    fn names(&mut self, height: f64, name: &str, unit: &str) {
        self.svg
            .text("end lane", LEFT - 12.0, self.y + height / 2.0 - 2.0, name);
        self.svg
            .text("end faint", LEFT - 12.0, self.y + height / 2.0 + 12.0, unit);
    }

    fn lane(&mut self, name: &str, unit: &str, class: &str, values: &[f64]) {
        let peak = values.iter().copied().fold(0.0, f64::max);
        let top = if class == "busy" {
            1.0
        } else {
            peak.ceil().max(1.0)
        };
        let foot = self.y + LANE;
        self.svg.rect("lane-back", LEFT, self.y, PLOT, LANE, "");
        self.names(LANE, name, unit);
        let mut path = Path::new();
        let mut last = 0.0;
        for (column, value) in values.iter().enumerate() {
            // A change that is not seen is not written.
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
        self.svg.path(&format!("area {class}"), &path, "");
        let top = if class == "busy" {
            "100 %".to_owned()
        } else {
            format!("{top:.0}")
        };
        self.svg
            .text("faint tick", LEFT + PLOT + 4.0, self.y + 8.0, &top);
        self.y += LANE + SPACE;
    }

    fn misses(&mut self, misses: &[Miss]) {
        let middle = self.y + 8.0;
        self.svg
            .text("end lane", LEFT - 12.0, middle + 4.0, "misses");
        self.svg.line("grid", (LEFT, middle), (LEFT + PLOT, middle));
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
                miss.why.words()
            );
            self.svg.path("miss", &path, &hover);
        }
        self.y += MISSES;
    }

    fn curves(&mut self, timeline: &Timeline) {
        let foot = self.y + CURVES;
        self.svg.rect("lane-back", LEFT, self.y, PLOT, CURVES, "");
        self.svg
            .text("end lane", LEFT - 12.0, self.y + 14.0, "launch sequence");
        self.svg
            .text("faint tick", LEFT + PLOT + 4.0, self.y + 8.0, "100 %");
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
            self.svg.text("end", LEFT - 46.0, y + 4.0, name);
            self.svg
                .line(&format!("curve {name}"), (LEFT - 40.0, y), (LEFT - 12.0, y));
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
            self.svg.path(&format!("curve {name}"), &path, "");
        }
        self.y += CURVES + SPACE;
    }

    /// Upright lines where the launch ends, by either rule; their names turn away from each other.
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
            self.svg.line("event", (x, TOP - 8.0), (x, height - 22.0));
            // The first name turns to the left, so that two that are near do not collide.
            let (class, at) = if several && index == 0 {
                ("end event-name", x - 5.0)
            } else {
                ("event-name", (x + 5.0).min(WIDTH - 66.0))
            };
            self.svg.text(class, at, TOP - 12.0, name);
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

fn longest(misses: &[Miss], most: usize) -> Vec<&Miss> {
    let mut kept: Vec<&Miss> = misses.iter().collect();
    kept.sort_by_key(|miss| std::cmp::Reverse(miss.wait_us));
    kept.truncate(most);
    kept.sort_by_key(|miss| miss.time_us);
    kept
}

fn misses(misses: &[Miss]) -> Markup {
    let note = match misses.len().checked_sub(LISTED) {
        Some(more) if more > 0 => {
            format!("The {LISTED} longest waits; {more} shorter ones are left out.")
        }
        _ => String::new(),
    };
    let head = ["what", "why", "at ms", "waited ms", "first page", "pages"];
    let mut table = Table::new("Misses", &note, head);
    for miss in longest(misses, LISTED) {
        table.push([
            miss.what.clone(),
            miss.why.words().to_owned(),
            format!("{:.1}", miss.time_us as f64 / 1e3),
            format!("{:.2}", miss.wait_us as f64 / 1e3),
            miss.offset.to_string(),
            miss.pages.to_string(),
        ]);
    }
    html! { @if !table.rows.is_empty() { (tables::folded(&table)) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Why;

    #[test]
    fn the_axis_has_a_readable_number_of_steps() {
        for seconds in [0.001, 0.05, 0.3, 0.73, 1.2, 2.4, 9.0, 31.0] {
            let parts = seconds / step(seconds);
            assert!(parts <= 12.0, "{seconds}: {parts}");
        }
        assert_eq!(step(1.0), 0.1);
        assert_eq!(step(2.4), 0.2);
    }

    #[test]
    fn an_empty_timeline_is_a_picture_too() {
        let markup = timeline(&Timeline::default(), true).into_string();
        assert!(markup.contains("0 misses") && markup.contains("</svg>"));
    }

    #[test]
    fn the_longest_waits_are_kept_in_order_of_time() {
        let miss = |time_us, wait_us| Miss {
            time_us,
            wait_us,
            what: "/lib/a".to_owned(),
            offset: 0,
            pages: 1,
            why: Why::CameTooLate,
        };
        let all = [miss(1, 5), miss(2, 1), miss(3, 9)];
        let kept: Vec<u64> = longest(&all, 2).iter().map(|miss| miss.time_us).collect();
        assert_eq!(kept, [1, 3]);
    }
}
