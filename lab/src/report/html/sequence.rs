//! The launch sequence on the drive, before and after scheduling.

use maud::{Markup, html};

use super::lanes::thinned;
use super::svg::{self, Path};
use crate::timeline::Timeline;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 12.0;
const FOOT: f64 = 34.0;
/// Marks of each kind in a picture.
const MARKS: usize = 1500;
const SECTORS_PER_GIB: f64 = 2_097_152.0;

/// As in [`Timeline::before`].
type Entry = [u64; 4];

/// Two pictures: position in the sequence against place on the drive. Nothing where there is neither.
pub fn before_and_after(timeline: &Timeline) -> Markup {
    let all = || {
        timeline
            .before
            .iter()
            .chain(&timeline.after)
            .map(|entry| entry[1])
    };
    let (Some(low), Some(high)) = (all().min(), all().max()) else {
        return html! {};
    };
    let parts = [
        ("before scheduling", &timeline.before),
        ("after scheduling", &timeline.after),
    ];
    html! {
        div.pair {
            @for (name, entries) in parts {
                @if !entries.is_empty() {
                    figure {
                        figcaption { "Launch sequence " (name) ": " (entries.len()) " entries" }
                        (scatter(entries, low, high, name))
                    }
                }
            }
        }
        ul.legend {
            li { svg viewBox="0 0 22 12" aria-hidden="true" { path.dots d="M4 6h0M11 3h0M18 8h0" {} } "data" }
            li { svg viewBox="0 0 22 12" aria-hidden="true" { path.ticks d="M5 2V10M11 2V10M17 2V10" {} } "metadata" }
        }
    }
}

fn scatter(entries: &[Entry], low: u64, high: u64, name: &str) -> Markup {
    let title = format!("Place on the drive of each entry of the launch sequence, {name}");
    let mut shapes = Vec::new();
    let (right, foot) = (WIDTH - 10.0, HEIGHT - FOOT);
    let last = entries
        .iter()
        .map(|entry| entry[0])
        .max()
        .unwrap_or(0)
        .max(1) as f64;
    let range = high.saturating_sub(low).max(1) as f64;
    let x = |position: u64| LEFT + (right - LEFT) * position as f64 / last;
    let y = |sector: u64| foot - (foot - TOP) * sector.saturating_sub(low) as f64 / range;
    shapes.push(svg::rect(
        "lane-back",
        (LEFT, TOP - 4.0),
        (right - LEFT + 4.0, foot - TOP + 8.0),
        "",
    ));
    for quarter in 0..=4u64 {
        let sector = low + high.saturating_sub(low) / 4 * quarter;
        shapes.push(svg::line(
            "grid",
            (LEFT, y(sector)),
            (right + 4.0, y(sector)),
        ));
        let gib = sector as f64 / SECTORS_PER_GIB;
        shapes.push(svg::text(
            "end faint",
            LEFT - 7.0,
            y(sector) + 4.0,
            &format!("{gib:.2}"),
        ));
    }
    shapes.push(svg::text(
        "faint",
        LEFT,
        HEIGHT - 8.0,
        "LBA in GiB ↑   position in the sequence →",
    ));
    shapes.push(svg::text(
        "end faint",
        right,
        HEIGHT - 8.0,
        &format!("{last:.0}"),
    ));
    let of = |metadata: bool| {
        let kept: Vec<Entry> = entries
            .iter()
            .copied()
            .filter(|entry| (entry[3] != 0) == metadata)
            .collect();
        thinned(&kept, MARKS)
    };
    let mut dots = Path::new();
    for entry in of(false) {
        dots.dot(x(entry[0]), y(entry[1]));
    }
    shapes.push(svg::path("dots", &dots, ""));
    let mut ticks = Path::new();
    for entry in of(true) {
        ticks.move_to(x(entry[0]), y(entry[1]) - 4.0);
        ticks.down_to(y(entry[1]) + 4.0);
    }
    shapes.push(svg::path("ticks", &ticks, ""));
    svg::picture(WIDTH, HEIGHT, "chart", &title, &shapes)
}
