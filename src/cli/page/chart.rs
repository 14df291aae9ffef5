//! Launches as a bar chart in SVG. Lengths are in CSS pixels, y grows downwards.

use maud::{Markup, html};

use super::{printable, words};
use crate::policy::Warmth;
use crate::service::control::LaunchRecord;
use crate::service::history::Kind;

const TOP: f64 = 10.0;
/// Height of the longest time.
const PLOT: f64 = 220.0;
/// Room for the state of the caches and the numbers.
const FOOT: f64 = 42.0;
/// Most lines of the grid above the base line.
const GRID_LINES: f64 = 5.0;
/// Widest character of the labels.
const CHARACTER: f64 = 7.0;
/// Below this distance, only each fifth launch has its number.
const NUMBERED: f64 = 18.0;

/// A bar for each launch, the oldest first: its height is the time that the launch took, that of the narrow bar in it
/// the time that its tasks waited for the drive. `description` says in words what is to be seen.
pub fn chart(launches: &[LaunchRecord], description: &str) -> Markup {
    let times = launches
        .iter()
        .flat_map(|launch| [launch.duration_us, launch.waiting_us])
        .flatten();
    let scale = Scale::of(times.max().unwrap_or(0));
    let left = scale.labels().map(|(_, label)| label.chars().count()).max();
    let left = left.unwrap_or(0) as f64 * CHARACTER + 12.0;
    let pitch = (960.0 / launches.len().max(1) as f64).clamp(16.0, 44.0);
    let width = left + pitch * launches.len() as f64 + 8.0;
    let height = TOP + PLOT + FOOT;
    let view = format!("0 0 {} {}", px(width), px(height));
    html! {
        svg.chart width=(px(width)) height=(px(height)) viewBox=(view) role="img"
            aria-labelledby="chart-title chart-description" {
            title id="chart-title" { "Launch times, the oldest launch first" }
            desc id="chart-description" { (printable(description)) }
            (hatch())
            @for (us, label) in scale.labels() {
                (line((left, scale.y(us)), (width, scale.y(us))))
                (text("end", (left - 6.0, scale.y(us) + 4.0), &label))
            }
            @for (index, launch) in launches.iter().enumerate() {
                @let number = index + 1;
                @let is_numbered = pitch >= NUMBERED || number % 5 == 0 || number == launches.len();
                (bar(&scale, launch, number, (left + pitch * index as f64, pitch), is_numbered))
            }
        }
    }
}

/// The pattern of learned launches, for the chart and the legend.
fn hatch() -> Markup {
    html! {
        defs {
            @for (id, ground) in [("hatch", "hatch-ground"), ("hatch-both", "hatch-both")] {
                pattern id=(id) width="6" height="6" patternUnits="userSpaceOnUse" {
                    rect class=(ground) width="6" height="6" {}
                    path.hatch-line d="M-1 1L1 -1M0 6L6 0M5 7L7 5" {}
                }
            }
        }
    }
}

/// The bars of one launch between `at` and `at + pitch`, with its figures on hover.
fn bar(
    scale: &Scale,
    launch: &LaunchRecord,
    number: usize,
    (at, pitch): (f64, f64),
    is_numbered: bool,
) -> Markup {
    let middle = at + pitch / 2.0;
    let foot = TOP + PLOT;
    let kind = format!("bar {}", class(launch));
    html! {
        g {
            title { (number) ": " (printable(&words(launch))) }
            @if let Some(took_us) = launch.duration_us {
                (standing(&kind, scale, took_us, (middle, pitch * 0.7)))
            }
            @if let Some(waiting_us) = launch.waiting_us {
                (standing("bar waited", scale, waiting_us, (middle, pitch * 0.26)))
            }
            (text("middle", (middle, foot + 16.0), letter(launch.warmth)))
            @if is_numbered {
                (text("middle faint", (middle, foot + 34.0), &number.to_string()))
            }
        }
    }
}

/// The style of a launch's bar, by what was done with it.
fn class(launch: &LaunchRecord) -> &'static str {
    match launch.kind {
        Kind::Learned if launch.done() != "learned" => "both",
        Kind::Learned => "learned",
        Kind::Prefetched => "prefetched",
        Kind::Anticipated => "anticipated",
        Kind::Withheld | Kind::Watched => "neither",
    }
}

/// The state of the caches, below the bar.
pub fn letter(warmth: Option<Warmth>) -> &'static str {
    match warmth {
        Some(Warmth::Cold) => "C",
        Some(Warmth::Partly) => "P",
        Some(Warmth::Warm) => "W",
        None => "–",
    }
}

/// What the bars and letters mean.
pub fn legend() -> Markup {
    let bars = [
        ("prefetched", "prefetched"),
        ("anticipated", "anticipated: read ahead before it began"),
        ("learned", "learned, which slows a launch"),
        ("both", "learned + prefetched"),
        (
            "neither",
            "neither (cold, from cold caches): withheld for comparison, or only watched",
        ),
        (
            "waited",
            "narrow bar: waited for the drive, summed up over the app’s tasks, so that it may exceed the launch’s time",
        ),
    ];
    let letters = [
        (Some(Warmth::Cold), "caches cold"),
        (Some(Warmth::Partly), "partly warm"),
        (Some(Warmth::Warm), "warm"),
        (None, "not known, or not to be compared"),
    ];
    html! {
        ul.legend {
            @for (class, meaning) in bars {
                @let (x, width) = if class == "waited" { (8.0, 6.0) } else { (0.5, 21.0) };
                li {
                    svg viewBox="0 0 22 12" width="22" height="12" aria-hidden="true" {
                        (rect(&format!("bar {class}"), (x, 0.5), (width, 11.0)))
                    }
                    (meaning)
                }
            }
            @for (warmth, meaning) in letters {
                li { b { (letter(warmth)) } " " (meaning) }
            }
        }
    }
}

/// A bar that stands on the base line and is as high as the time `us`, in microseconds.
fn standing(class: &str, scale: &Scale, us: u64, (middle, width): (f64, f64)) -> Markup {
    let y = scale.y(us as f64);
    rect(class, (middle - width / 2.0, y), (width, TOP + PLOT - y))
}

fn rect(class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) -> Markup {
    html! { rect class=(class) x=(px(x)) y=(px(y)) width=(px(width)) height=(px(height)) {} }
}

fn line(from: (f64, f64), to: (f64, f64)) -> Markup {
    html! { line.grid x1=(px(from.0)) y1=(px(from.1)) x2=(px(to.0)) y2=(px(to.1)) {} }
}

fn text(class: &str, (x, y): (f64, f64), text: &str) -> Markup {
    html! { text class=(class) x=(px(x)) y=(px(y)) { (text) } }
}

/// A length with one decimal: smaller differences are invisible.
fn px(length: f64) -> String {
    format!("{length:.1}")
}

/// The axis of times.
struct Scale {
    /// Time at the top, in microseconds; at least 1.
    top_us: f64,
    /// Time between two lines of the grid, in microseconds: 1, 2 or 5 times a power of ten.
    step_us: f64,
}

impl Scale {
    fn of(longest_us: u64) -> Self {
        // Without any time, the axis shows a second.
        let top_us = match longest_us {
            0 => 1e6,
            us => us as f64,
        };
        let power = 10_f64.powf((top_us / GRID_LINES).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let fits = |step: &f64| top_us / step <= GRID_LINES;
        let step_us = steps.into_iter().find(fits).unwrap_or(top_us);
        Scale { top_us, step_us }
    }

    /// The height of a time in microseconds.
    fn y(&self, us: f64) -> f64 {
        TOP + PLOT * (1.0 - (us / self.top_us).min(1.0))
    }

    /// The times that have a line, in microseconds, and their labels.
    fn labels(&self) -> impl Iterator<Item = (f64, String)> {
        let decimals = (6.0 - self.step_us.log10().floor()).clamp(0.0, 6.0) as usize;
        let count = (self.top_us / self.step_us).floor() as u32;
        (0..=count).map(move |line| {
            let us = self.step_us * f64::from(line);
            (us, format!("{:.decimals$} s", us / 1e6))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_lines_are_round_and_few_whatever_the_times() {
        let labels =
            |us| -> Vec<String> { Scale::of(us).labels().map(|(_, label)| label).collect() };
        let expected = ["0.0 s", "0.5 s", "1.0 s", "1.5 s"];
        assert_eq!(labels(1_700_000), expected);
        assert_eq!(
            labels(0),
            ["0.0 s", "0.2 s", "0.4 s", "0.6 s", "0.8 s", "1.0 s"]
        );
        assert_eq!(labels(5_000_000).last().unwrap(), "5 s");
        for us in [1, 2, 9, 999_999, 31_536_000_000_000, u64::MAX] {
            let labels = labels(us);
            assert!((2..=7).contains(&labels.len()), "{us}: {labels:?}");
        }
    }

    #[test]
    fn bars_stay_within_the_plot_and_differ_by_more_than_colour() {
        let launch = |kind, warmth, duration_us, waiting_us| LaunchRecord {
            kind,
            warmth,
            duration_us: Some(duration_us),
            waiting_us: Some(waiting_us),
            ..LaunchRecord::default()
        };
        let launches = [
            launch(Kind::Learned, None, 2_000_000, 3_000_000),
            launch(Kind::Prefetched, Some(Warmth::Cold), 500_000, 0),
            launch(Kind::Withheld, Some(Warmth::Partly), 0, u64::MAX),
        ];
        let svg = chart(&launches, "three & more").into_string();
        assert!(svg.contains("three &amp; more</desc>"), "{svg}");
        for part in [
            "bar learned",
            "bar prefetched",
            "bar neither",
            ">–<",
            ">C<",
            ">P<",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        for attribute in svg.split(" height=\"").skip(1) {
            let height: f64 = attribute.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..=TOP + PLOT + FOOT).contains(&height), "{svg}");
        }
        for bad in ["NaN", "inf", "\"-"] {
            assert!(!svg.contains(bad), "{svg}");
        }
    }
}
