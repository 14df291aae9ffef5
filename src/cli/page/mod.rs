//! The newest launches of an app as one page of HTML that needs nothing else: no script, no network.
//!
//! It is readable in light and dark, on paper, without colours, and by a screen reader: the figures of the picture stand
//! in a table, too.

mod chart;
mod html;

use std::collections::BTreeSet;

use super::format::{date, mib, seconds};
use super::stats::SavedTime;
use super::tables::user_name;
use crate::model::lower_median;
use crate::policy::Warmth;
use crate::service::control::{AppState, LaunchRecord, word};
use crate::service::history::Kind;
use html::{Html, HtmlAttribute};

/// Most launches that are shown.
pub const SHOWN: usize = 60;

/// With this, and with nothing else, each page begins.
pub const BEGIN: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta name=\"generator\" content=\"paralfetch plot\">\n";

/// Whatever a name on the page tries, the page loads nothing.
const HEAD: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
    style-src 'unsafe-inline'; img-src data:\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n\
    <link rel=\"icon\" href=\"data:,\">\n";

const STYLE: &str = concat!("<style>\n", include_str!("style.css"), "</style>\n");

/// What stands on the page.
pub struct LaunchPage<'a> {
    /// The app's states, one for each user who has it.
    pub apps: &'a [AppState],
    /// Its launches that are known, the newest first.
    pub launches: &'a [LaunchRecord],
    /// The machine on which the page was made.
    pub machine: MachineText,
    /// When the page was made, in seconds since the epoch.
    pub made_s: u64,
}

/// A machine in words.
pub struct MachineText {
    /// The release of its kernel.
    pub kernel: String,
    /// The drives that the app is on, one a line; empty: not known.
    pub drives: Vec<String>,
}

/// The last component of an app's id, for people.
pub fn short_name(id: &str) -> &str {
    let name = id.trim_end_matches(['/', ':']).rsplit(['/', ':']).next();
    name.filter(|name| !name.is_empty()).unwrap_or(id)
}

/// The whole page.
pub fn page(page: &LaunchPage<'_>) -> String {
    let first = page.apps.first();
    let id = first.map_or("", |app| &app.app);
    let name = first.map_or("", |app| &app.name);
    let name = if name.is_empty() {
        short_name(id)
    } else {
        name
    };
    let mut html = Html::default();
    html.literal(BEGIN);
    html.literal(HEAD);
    html.line("title", format!("Launches of {name}"));
    html.literal(STYLE);
    html.literal("</head>\n<body>\n<main>\n");
    html.element("h1", &[], |html| {
        html.text("Launches of ");
        html.isolated(name);
    });
    html.element("p", &[("class", &"faint")], |html| {
        html.element("code", &[], |html| html.isolated(id));
    });
    html.literal("\n");
    saved(&mut html, page);
    let shown = &page.launches[..page.launches.len().min(SHOWN)];
    if shown.is_empty() {
        html.line("p", "No launch is known yet.");
    } else {
        // Pictures run from left to right in time.
        let in_time: Vec<LaunchRecord> = shown.iter().rev().cloned().collect();
        times(&mut html, &in_time, page.launches.len());
        by_kind(&mut html, &in_time);
        each(&mut html, &in_time);
    }
    machine(&mut html, page);
    html.literal("</main>\n</body>\n</html>\n");
    html.into_string()
}

/// What prefetching has saved, for each user who has launched the app.
fn saved(html: &mut Html, page: &LaunchPage<'_>) {
    let has_launches = |app: &&AppState| page.launches.iter().any(|launch| launch.uid == app.uid);
    let mut apps: Vec<&AppState> = page.apps.iter().filter(has_launches).collect();
    if apps.is_empty() {
        apps.extend(page.apps.first());
    }
    html.line("h2", "Saved");
    for app in &apps {
        html.element("p", &[], |html| {
            if apps.len() > 1 {
                html.isolated(&user_name(app.uid));
                html.text(": ");
            }
            match SavedTime::of(app, page.launches) {
                Some(saved) => saved_text(html, &saved),
                None => html.text(
                    "What prefetching saves is not known before cold launches with and without it.",
                ),
            }
        });
        html.literal("\n");
        html.element("p", &[("class", &"faint")], |html| {
            html.text(format!("The app is now in the phase: {}", app.phase));
            if !app.why.is_empty() {
                html.text(", because ");
                html.isolated(&app.why);
            }
            html.text(format!(
                ". {} launches were seen, {} of them prefetched.",
                app.launches, app.prefetched
            ));
        });
        html.literal("\n");
    }
}

fn saved_text(html: &mut Html, saved: &SavedTime) {
    let us = saved.total_us();
    let what = match us < 0 {
        true => "of waiting for the drive was added",
        false => "of waiting for the drive was saved",
    };
    html.element("strong", &[("class", &"headline")], |html| {
        html.text(format!("{:.1} s", us.unsigned_abs() as f64 / 1e6));
    });
    let launches = match saved.launches {
        1 => "1 prefetched cold launch".to_owned(),
        count => format!("{count} prefetched cold launches"),
    };
    html.text(format!(
        " {what} in {launches}: {:.2} s each, {}\u{a0}% of the waiting without prefetching.",
        saved.each_us.unsigned_abs() as f64 / 1e6,
        saved.percent.unsigned_abs(),
    ));
}

/// The picture, with its legend.
fn times(html: &mut Html, launches: &[LaunchRecord], known: usize) {
    html.line("h2", "Launch times");
    let shown = launches.len();
    let caption = match (shown, known) {
        (1, 1) => "The only launch that is known.".to_owned(),
        (shown, known) if shown == known => format!("All {shown} launches that are known"),
        _ => format!("The newest {shown} of {known} launches that are known"),
    };
    let caption = match shown {
        1 => caption,
        _ => format!("{caption}, the oldest on the left. The numbers are those of the last table."),
    };
    let summary: Vec<String> = groups(launches)
        .iter()
        .map(|group| {
            format!(
                "{}, caches {}: {}, which took {} and waited {}",
                group.kind,
                caches(group.warmth),
                group.count,
                seconds(group.duration_us),
                seconds(group.waiting_us)
            )
        })
        .collect();
    let description = format!(
        "A bar for each launch. Number of launches and medians: {}. The tables below have all figures.",
        summary.join("; ")
    );
    html.element("figure", &[], |html| {
        html.line("figcaption", caption);
        let scrolled: &[HtmlAttribute<'_>] = &[
            ("class", &"scroll"),
            ("role", &"region"),
            ("aria-label", &"Launch times"),
            ("tabindex", &0),
        ];
        html.element("div", scrolled, |html| {
            chart::chart(html, launches, &description);
        });
        chart::legend(html);
    });
    html.literal("\n");
}

/// Launches with which the same was done from the same caches: medians, in microseconds and bytes.
struct LaunchGroup {
    kind: Kind,
    warmth: Option<Warmth>,
    count: usize,
    duration_us: u64,
    waiting_us: u64,
    read_bytes: u64,
}

fn groups(launches: &[LaunchRecord]) -> Vec<LaunchGroup> {
    let warmths = [
        Some(Warmth::Cold),
        Some(Warmth::Partly),
        Some(Warmth::Warm),
        None,
    ];
    let kinds = [
        Kind::Prefetched,
        Kind::Withheld,
        Kind::Watched,
        Kind::Learned,
    ];
    let all = kinds
        .into_iter()
        .flat_map(|kind| warmths.map(|warmth| (kind, warmth)));
    all.filter_map(|(kind, warmth)| {
        let fits = |launch: &&LaunchRecord| (launch.kind, launch.warmth) == (kind, warmth);
        let group: Vec<&LaunchRecord> = launches.iter().filter(fits).collect();
        let median = |figure: fn(&LaunchRecord) -> u64| {
            lower_median(
                &group
                    .iter()
                    .map(|launch| figure(launch))
                    .collect::<Vec<_>>(),
            )
        };
        Some(LaunchGroup {
            kind,
            warmth,
            count: group.len(),
            duration_us: median(|launch| launch.duration_us)?,
            waiting_us: median(|launch| launch.waiting_us)?,
            read_bytes: median(|launch| launch.read_bytes)?,
        })
    })
    .collect()
}

fn by_kind(html: &mut Html, launches: &[LaunchRecord]) {
    let name = "Typical launches";
    html.line("h2", name);
    let rows = groups(launches).into_iter().map(|group| {
        vec![
            group.kind.to_string(),
            caches(group.warmth),
            group.count.to_string(),
            seconds(group.duration_us),
            seconds(group.waiting_us),
            mib(group.read_bytes),
        ]
    });
    table(
        html,
        name,
        "Medians of the launches above, by what was done with them and by the state of the caches",
        &[
            ("done", Cell::Words),
            ("caches", Cell::Words),
            ("launches", Cell::Number),
            ("took", Cell::Number),
            ("waited", Cell::Number),
            ("read", Cell::Number),
        ],
        rows,
    );
}

/// Every launch, the newest first; with its user, if there are several.
fn each(html: &mut Html, launches: &[LaunchRecord]) {
    let name = "Each launch";
    html.line("h2", name);
    let users: BTreeSet<u32> = launches.iter().map(|launch| launch.uid).collect();
    let shows_users = users.len() > 1;
    let mut columns = vec![("no.", Cell::Number), ("time", Cell::Words)];
    columns.extend(shows_users.then_some(("user", Cell::Words)));
    columns.extend([
        ("done", Cell::Words),
        ("caches", Cell::Words),
        ("took", Cell::Number),
        ("waited", Cell::Number),
        ("own reads", Cell::Number),
        ("read", Cell::Number),
        ("note", Cell::Text),
    ]);
    let numbered = launches.iter().enumerate().rev();
    let rows = numbered.map(|(index, launch)| {
        let mut row = vec![(index + 1).to_string(), date(launch.time_s)];
        row.extend(shows_users.then(|| user_name(launch.uid)));
        row.extend([
            launch.kind.to_string(),
            caches(launch.warmth),
            seconds(launch.duration_us),
            seconds(launch.waiting_us),
            launch.own_readaheads.to_string(),
            mib(launch.read_bytes),
            launch.note.clone().unwrap_or_default(),
        ]);
        row
    });
    let caption = "The launches above, the newest first. Own reads: requests to the drive that the app made itself and \
                   waited for. Read: what the drive read for the launch and for prefetching it.";
    table(html, name, caption, &columns, rows);
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Number,
    Words,
    /// Text that may come from users, and is long.
    Text,
}

impl Cell {
    fn class(self) -> &'static str {
        match self {
            Cell::Number => "number",
            Cell::Words => "words",
            Cell::Text => "text",
        }
    }
}

/// A table, whose first column names the rows. `name` is what the part that can be scrolled is called.
fn table(
    html: &mut Html,
    name: &'static str,
    caption: &str,
    columns: &[(&'static str, Cell)],
    rows: impl Iterator<Item = Vec<String>>,
) {
    let region: &[HtmlAttribute<'_>] = &[
        ("class", &"scroll"),
        ("role", &"region"),
        ("aria-label", &name),
        ("tabindex", &0),
    ];
    let body = |html: &mut Html| {
        html.line("caption", caption);
        html.element("thead", &[], |html| {
            html.element("tr", &[], |html| {
                for (title, cell) in columns {
                    let heading: &[HtmlAttribute<'_>] =
                        &[("scope", &"col"), ("class", &cell.class())];
                    html.element("th", heading, |html| html.text(title));
                }
            });
        });
        html.literal("\n<tbody>\n");
        for row in rows {
            html.element("tr", &[], |html| {
                for (index, ((_, cell), text)) in columns.iter().zip(row).enumerate() {
                    let class = ("class", &cell.class() as &dyn std::fmt::Display);
                    let isolated = |html: &mut Html| html.isolated(&text);
                    match index {
                        0 => html.element("th", &[("scope", &"row"), class], isolated),
                        _ => html.element("td", &[class], isolated),
                    }
                }
            });
            html.literal("\n");
        }
        html.literal("</tbody>\n");
    };
    html.element("div", region, |html| html.element("table", &[], body));
    html.literal("\n");
}

/// Where and by what the page was made.
fn machine(html: &mut Html, page: &LaunchPage<'_>) {
    html.line("h2", "Machine");
    html.element("dl", &[], |html| {
        html.line("dt", "kernel");
        html.line("dd", &page.machine.kernel);
        html.line("dt", "drive");
        for drive in &page.machine.drives {
            html.line("dd", drive);
        }
        if page.machine.drives.is_empty() {
            html.line("dd", "not known");
        }
        html.line("dt", "program");
        html.line("dd", concat!("paralfetch ", env!("CARGO_PKG_VERSION")));
        html.line("dt", "page");
        html.line("dd", format!("made {}", date(page.made_s)));
    });
    html.literal("\n");
}

/// The state of the caches before a launch.
fn caches(warmth: Option<Warmth>) -> String {
    warmth.map_or_else(|| "–".to_owned(), word)
}

/// A launch in a line.
fn words(launch: &LaunchRecord) -> String {
    format!(
        "{}, {}, caches {}, took {}, waited {}",
        date(launch.time_s),
        launch.kind,
        caches(launch.warmth),
        seconds(launch.duration_us),
        seconds(launch.waiting_us)
    )
}

#[cfg(test)]
mod tests;
