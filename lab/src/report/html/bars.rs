//! Bars: launch times as the papers draw them, and averages.

use maud::{Markup, html};

use super::super::format::{percent, ratio, ratio_with_interval};
use super::super::scenarios::{self, Kind};
use super::super::sections::{AVERAGE, Bar, Groups};
use super::super::stats::Estimate;
use super::svg::{self, Path};

const LEFT: f64 = 40.0;
const TOP: f64 = 26.0;
const PLOT: f64 = 240.0;
/// Room for names of up to three lines below the bars.
const FOOT: f64 = 56.0;
const GAP: f64 = 18.0;
/// A group is at least as wide as a part of a name.
const NARROWEST: f64 = 84.0;

/// Grouped bars with whiskers, their values written above, the baseline at 1.
pub fn groups(groups: &Groups, title: &str) -> Markup {
    let count = groups.bars.len().max(1) as f64;
    let width = (1080.0 / groups.groups.len().max(1) as f64 - GAP) / count;
    let width = width.clamp(11.0, 30.0);
    let pitch = (width * count + GAP).max(NARROWEST);
    let margin = (pitch - width * count) / 2.0;
    let total = LEFT + pitch * groups.groups.len() as f64 + 8.0;
    let scale = Scale {
        top: highest(groups),
    };
    let mut shapes = Vec::new();
    if groups
        .groups
        .last()
        .is_some_and(|group| group.name == AVERAGE)
    {
        shapes.push(svg::rect(
            "average",
            (total - 8.0 - pitch, TOP - 8.0),
            (pitch, PLOT + 8.0),
            "",
        ));
    }
    axis(&mut shapes, &scale, total);
    shapes.push(svg::line(
        "one",
        (LEFT, scale.y(1.0)),
        (total, scale.y(1.0)),
    ));
    for (index, group) in groups.groups.iter().enumerate() {
        let left = LEFT + pitch * index as f64 + margin;
        for (place, estimate) in group.bars.iter().enumerate() {
            let Some(estimate) = estimate else { continue };
            let name = &groups.bars[place];
            bar(
                &mut shapes,
                &scale,
                left + width * place as f64,
                width,
                name,
                &group.name,
                *estimate,
            );
        }
        for (place, estimate) in group.marks.iter().enumerate() {
            let Some(estimate) = estimate else { continue };
            let y = scale.y(estimate.value);
            let name = &groups.marks[place];
            let hover = hover(&group.name, name, *estimate);
            let path = Path::new()
                .to(left - 5.0, y)
                .line(left + width * count + 5.0, y);
            shapes.push(svg::path(&format!("mark m-{}", mark(name)), &path, &hover));
        }
        let class = if group.name == AVERAGE {
            "middle strong"
        } else {
            "middle"
        };
        for (line, text) in (0..).zip(lines(&group.name, (pitch / 6.6) as usize)) {
            let y = TOP + PLOT + 18.0 + 14.0 * f64::from(line);
            shapes.push(svg::text(class, left + width * count / 2.0, y, &text));
        }
    }
    let style = format!("--natural:{total:.0}px");
    let chart = svg::picture(total, TOP + PLOT + FOOT, "chart", title, &shapes);
    html! {
        div.scroll tabindex="0" role="group" aria-label=(title) { div style=(style) { (chart) } }
        (legend(groups))
    }
}

struct Scale {
    top: f64,
}

impl Scale {
    fn y(&self, value: f64) -> f64 {
        TOP + PLOT * (1.0 - value.clamp(0.0, self.top) / self.top)
    }
}

/// Upper end of the axis: 1, or more where a scenario is slower than its baseline, up to 2; labels of
/// bars beyond that still say the value.
fn highest(groups: &Groups) -> f64 {
    let values = groups
        .groups
        .iter()
        .flat_map(|group| group.bars.iter().chain(&group.marks))
        .flatten();
    let top = values
        .map(|e| e.interval.map_or(e.value, |(_, high)| high))
        .fold(1.0, f64::max);
    ((top * 5.0 - 0.01).ceil() / 5.0).clamp(1.0, 2.0)
}

fn axis(shapes: &mut Vec<Markup>, scale: &Scale, width: f64) {
    let steps = (scale.top * 5.0).round() as u32;
    for step in 0..=steps {
        let value = f64::from(step) / 5.0;
        shapes.push(svg::line(
            "grid",
            (LEFT, scale.y(value)),
            (width, scale.y(value)),
        ));
        shapes.push(svg::text(
            "end faint",
            LEFT - 7.0,
            scale.y(value) + 4.0,
            &format!("{value:.1}"),
        ));
    }
}

fn bar(
    shapes: &mut Vec<Markup>,
    scale: &Scale,
    x: f64,
    width: f64,
    name: &str,
    app: &str,
    value: Estimate,
) {
    let y = scale.y(value.value);
    let hover = hover(app, name, value);
    let class = classes(name);
    shapes.push(svg::rect(
        &class,
        (x + 1.0, y),
        (width - 2.0, TOP + PLOT - y),
        &hover,
    ));
    let middle = x + width / 2.0;
    let mut top = y;
    if let Some((low, high)) = value.interval {
        let (from, to) = (scale.y(low), scale.y(high));
        let mut path = Path::new().to(middle, from).line(middle, to);
        for end in [from, to] {
            path.move_to(middle - 2.5, end);
            path.line_to(middle + 2.5, end);
        }
        shapes.push(svg::path("whisker", &path, &hover));
        top = top.min(to);
    }
    let label = ratio(value.value);
    if width >= 26.0 {
        shapes.push(svg::text("value middle", middle, top - 5.0, &label));
    } else {
        shapes.push(svg::turned("value", (middle + 3.5, top - 5.0), -90, &label));
    }
}

fn hover(app: &str, name: &str, estimate: Estimate) -> String {
    format!(
        "{app}, {}: {}",
        scenarios::label(name),
        ratio_with_interval(estimate)
    )
}

/// A name in up to three lines of at most `most` characters, broken after `-` and `+`.
fn lines(name: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in name.split_inclusive(['-', '+', ' ']) {
        match lines.last_mut() {
            Some(last) if last.chars().count() + part.chars().count() <= most => {
                last.push_str(part)
            }
            _ => lines.push(part.to_owned()),
        }
    }
    if lines.len() > 3 {
        lines.truncate(3);
        lines[2].push('…');
    }
    for line in &mut lines {
        if line.chars().count() > most {
            *line = line
                .chars()
                .take(most.saturating_sub(1))
                .chain(['…'])
                .collect();
        }
    }
    lines
}

/// What a scenario is called in a picture of `names`: where only one variant of Paralfetch is drawn,
/// that is Paralfetch.
fn called<'a>(name: &str, mut names: impl Iterator<Item = &'a str>) -> String {
    if let Some(idle) = scenarios::learned_idle(name) {
        let how = match scenarios::kind(name) {
            Kind::Live => "live",
            _ => "background",
        };
        return format!("{}, {how}", called(idle, names));
    }
    let ours = |name: &str| scenarios::kind(name) == Kind::Ours;
    let alone = ours(name) && names.all(|other| other == name || !ours(other));
    if alone {
        "Paralfetch".to_owned()
    } else {
        scenarios::label(name).to_owned()
    }
}

fn legend(groups: &Groups) -> Markup {
    html! {
        ul.legend {
            @for name in &groups.bars {
                li title=(scenarios::description(name)) { (swatch(name)) (called(name, groups.bars.iter().map(String::as_str))) }
            }
            @for name in &groups.marks {
                li title=(scenarios::description(name)) {
                    svg viewBox="0 0 22 12" aria-hidden="true" {
                        path.{ "mark m-" (mark(name)) } d="M0 6H22" {}
                    }
                    (scenarios::label(name))
                }
            }
            li { svg viewBox="0 0 22 12" aria-hidden="true" { path.one d="M0 6H22" {} } "cold = 1" }
        }
    }
}

fn swatch(name: &str) -> Markup {
    html! {
        svg viewBox="0 0 22 12" aria-hidden="true" {
            rect class=(classes(name)) x="0.5" y="0.5" width="21" height="11" {}
        }
    }
}

/// Horizontal bars, one a scenario; they keep their size of text on narrow screens.
pub fn averages(bars: &[Bar], title: &str) -> Markup {
    let high = |bar: &Bar| {
        bar.estimate
            .interval
            .map_or(bar.estimate.value, |(_, high)| high)
    };
    let top = bars.iter().map(high).fold(1.0, f64::max);
    let share = |value: f64| format!("{:.2}%", value / top * 100.0);
    html! {
        div.averages role="img" aria-label=(title) {
            @for bar in bars {
                div.row title=(scenarios::description(&bar.scenario)) {
                    span.name { (called(&bar.scenario, bars.iter().map(|bar| bar.scenario.as_str()))) }
                    svg.strip aria-hidden="true" {
                        rect class=(classes(&bar.scenario)) y="3" height="14" width=(share(bar.estimate.value)) {}
                        @if let Some((low, high)) = bar.estimate.interval {
                            line.whisker x1=(share(low)) x2=(share(high)) y1="10" y2="10" {}
                            @for end in [low, high] {
                                line.whisker x1=(share(end)) x2=(share(end)) y1="7" y2="13" {}
                            }
                        }
                        line.one x1=(share(1.0)) x2=(share(1.0)) y1="0" y2="20" {}
                    }
                    span.number { (ratio(bar.estimate.value)) }
                    span.gap { @if let Some(gap) = bar.gap_closed { (percent(gap)) } }
                }
            }
        }
    }
}

/// Classes of a scenario's bar: what was learned in the background is as what was learned idle, but
/// paler and with a dashed outline.
fn classes(name: &str) -> String {
    match scenarios::learned_idle(name) {
        Some(idle) => format!("bar f-{} background", fill(idle)),
        None => format!("bar f-{}", fill(name)),
    }
}

/// Number of the fill in the style sheet: colour and pattern, one for each scenario.
fn fill(name: &str) -> &'static str {
    match name {
        "cold" => "cold",
        "warm" => "warm",
        "only-as-read" | "only-exact" => "ssd",
        "bound-as-read" | "bound-exact" => "bound",
        "gsoc" => "gsoc",
        "sorted" | "together-sorted" => "sorted",
        "fast" | "together-fast" => "fast",
        "traced" => "traced",
        "shift" => "shift",
        "shift+merge" => "merge",
        "exact" => "exact",
        "infill" | "writer-prefetch" | "together-infill" => "infill",
        "dynamic" => "dynamic",
        _ => "other",
    }
}

fn mark(name: &str) -> &'static str {
    if name == "warm" { "warm" } else { "bound" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_at_their_joints() {
        assert_eq!(lines("gimp", 12), ["gimp"]);
        assert_eq!(lines("libreoffice-writer", 12), ["libreoffice-", "writer"]);
        assert_eq!(lines("gimp+okular+vlc", 12), ["gimp+okular+", "vlc"]);
        assert_eq!(lines("abcdefghij", 5), ["abcd…"]);
        assert_eq!(lines("a+b+c+d", 2), ["a+", "b+", "c…"]);
        assert!(lines("", 5).is_empty());
    }

    #[test]
    fn the_only_variant_is_paralfetch() {
        let called = |name, names: [&'static str; 2]| called(name, names.into_iter());
        assert_eq!(called("infill", ["fast", "infill"]), "Paralfetch");
        assert_eq!(called("infill", ["exact", "infill"]), "+ infill");
        assert_eq!(called("fast", ["fast", "infill"]), "FAST");
        let names = ["infill", "background-infill"];
        assert_eq!(called("background-infill", names), "Paralfetch, background");
    }
}
