//! The report as one page that needs nothing else: no network, light and dark, readable without colour.

mod bars;
mod lanes;
mod lines;
mod misses;
mod patterns;
mod picture;
mod sequence;
mod svg;
mod tables;
mod timeline;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::format::{change, percent, ratio};
use super::scenarios::{self, BOUND_EXACT, Kind};
use super::sections::{
    Picture, Section, average_bars, idle_stretches, of_device, waits_for_writes,
};
use super::summary::Device;
use crate::timeline::Timeline;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("theme.js");
/// Whatever a name in the records tries, the page loads nothing.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The whole page; `notes` are remarks on the files that it was made from.
pub fn page(devices: &[Device], timelines: &[Timeline], notes: &[String]) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                link rel="icon" href="data:,";
                title { "Launch times" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (patterns::definitions())
                (header(devices))
                main {
                    @for note in notes { p.warning { (note) } }
                    (summary(devices))
                    @for (index, device) in devices.iter().enumerate() {
                        (of(device, index, timelines))
                    }
                    (strays(devices, timelines))
                    (descriptions(devices))
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    markup.into_string()
}

fn header(devices: &[Device]) -> Markup {
    html! {
        header {
            h1 { "Launch times" }
            nav aria-label="Drives" {
                @for (index, device) in devices.iter().enumerate() {
                    a href={ "#drive-" (index) } { (device.name) }
                }
                @if !devices.is_empty() { a href="#scenarios" { "scenarios" } }
            }
            button #theme type="button" aria-label="Change between light and dark" { "◐" }
        }
    }
}

/// What gained what on which drive.
fn summary(devices: &[Device]) -> Markup {
    html! {
        section #summary {
            @if devices.is_empty() { p { "Nothing has been measured yet." } }
            div.cards { @for device in devices { (card(device)) } }
        }
    }
}

fn card(device: &Device) -> Markup {
    let ours = device.ours();
    let gained = |name: &str| Some((device.average(name)?, device.average_gap_closed(name)));
    let mut names: Vec<&str> = device.of_kinds(&[Kind::Rival]);
    names.extend(ours);
    names.extend(["warm", BOUND_EXACT]);
    let bars = average_bars(device, &names);
    html! {
        article.card {
            h2 { (device.name) }
            @if let Some((average, gap)) = ours.and_then(gained) {
                p.headline {
                    strong { (change(average.estimate.value - 1.0)) }
                    span { " launch time with Paralfetch" }
                }
                p.note {
                    @if let Some(gap) = gap { (percent(gap)) " of the gap between cold and warm closed. " }
                    (best_rival(device))
                }
            } @else {
                p.note { "Paralfetch was not measured against cold launches here." }
            }
            @if !bars.is_empty() {
                div.averages-head aria-hidden="true" { span {} span {} span { "of cold" } span { "gap" } }
                (bars::averages(&bars, &format!("Average launch times on {}, normalized to cold", device.name)))
            }
        }
    }
}

fn best_rival(device: &Device) -> String {
    let rivals = device.of_kinds(&[Kind::Rival]).into_iter();
    let measured = rivals.filter_map(|name| Some((name, device.average(name)?.estimate.value)));
    match measured.min_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((name, value)) => {
            format!(
                "Best other prefetcher: {} at {} of cold.",
                scenarios::label(name),
                ratio(value)
            )
        }
        None => String::new(),
    }
}

fn of(device: &Device, index: usize, timelines: &[Timeline]) -> Markup {
    let own: Vec<&Timeline> = timelines
        .iter()
        .filter(|own| own.device == device.name)
        .collect();
    html! {
        section.device id={ "drive-" (index) } {
            h2 { (device.name) }
            @for part in of_device(device) { (section(&part)) }
            @if let Some(part) = idle_stretches(&own) { (section(&part)) }
            @if let Some(part) = waits_for_writes(&own) { (section(&part)) }
            (timelines_of(&own))
        }
    }
}

fn section(section: &Section) -> Markup {
    html! {
        section {
            h3 { (section.title) }
            @for text in &section.text { p { (text) } }
            @match &section.picture {
                Some(picture) => {
                    figure { (drawn(picture, &section.title)) }
                    @for table in &section.tables { (tables::folded(table)) }
                }
                None => {
                    @for table in &section.tables {
                        @if table.rows.len() > 12 { (tables::folded(table)) }
                        @else { (tables::shown(table)) }
                    }
                }
            }
        }
    }
}

fn drawn(picture: &Picture, title: &str) -> Markup {
    match picture {
        Picture::Groups(groups) => bars::groups(groups, title),
        Picture::Lines(lines) => lines::lines(lines, title),
        Picture::Averages(averages) => html! {
            div.averages-head aria-hidden="true" { span {} span {} span { "of cold" } span { "gap" } }
            (bars::averages(averages, title))
        },
    }
}

fn timelines_of(timelines: &[&Timeline]) -> Markup {
    let mut timelines = timelines.to_vec();
    timelines.sort_by_key(|own| (own.app.as_str(), scenarios::rank(&own.scenario)));
    let open = timelines
        .iter()
        .position(|own| !own.prefetch.is_empty())
        .unwrap_or(0);
    html! {
        @if !timelines.is_empty() {
            section {
                h3 { "Timelines" }
                p { "Single launches, moment by moment. A cross is a miss: a read that the launch had to \
                     wait for; its file shows on hover and in the table below." }
                @for (index, own) in timelines.iter().enumerate() { (timeline::timeline(own, index == open)) }
            }
        }
    }
}

/// Timelines of drives without results.
fn strays(devices: &[Device], timelines: &[Timeline]) -> Markup {
    let known = |own: &&Timeline| devices.iter().any(|device| device.name == own.device);
    let strays: Vec<&Timeline> = timelines.iter().filter(|own| !known(own)).collect();
    html! {
        @if !strays.is_empty() {
            section.device { h2 { "Other drives" } (timelines_of(&strays)) }
        }
    }
}

fn descriptions(devices: &[Device]) -> Markup {
    let mut names: Vec<&str> = devices
        .iter()
        .flat_map(|device| &device.scenarios)
        .map(|name| scenarios::unnumbered(name))
        .collect();
    names.sort_by_key(|name| (scenarios::rank(name), *name));
    names.dedup();
    html! {
        @if !names.is_empty() {
            section.device #scenarios {
                h2 { "Scenarios" }
                dl {
                    @for name in names {
                        dt { (scenarios::label(name)) " " code { (name) } }
                        dd { (scenarios::description(name)) }
                    }
                }
            }
        }
    }
}
