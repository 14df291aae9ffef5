//! The newest launches of an app as one page of HTML that needs nothing else: no script, no network.
//!
//! It is readable in light and dark, on paper, without colours, and by a screen reader: the figures of the picture stand
//! in a table, too.

mod chart;

use std::collections::BTreeSet;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::format::{counted, date, kib, mib, seconds};
use super::stats::SavedTime;
use super::tables::{read_name, user_name};
use crate::model::{lower_median, shown};
use crate::policy::Warmth;
use crate::service::control::{AppState, LaunchRecord, word};

/// Most launches that are shown.
pub const SHOWN: usize = 60;

/// Most launches whose own reads are shown.
const READS_SHOWN: usize = 5;

/// With this, and with nothing else, each page begins.
pub const BEGIN: &str = "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"generator\" content=\"paralfetch plot\">";

/// Whatever a name on the page tries, the page loads nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
const STYLE: &str = include_str!("style.css");

/// What stands on the page.
pub struct LaunchPage<'a> {
    /// The app's states, one for each user who has it.
    pub apps: &'a [AppState],
    /// Launches of the app that are known, the newest first.
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
    let shown = &page.launches[..page.launches.len().min(SHOWN)];
    // Pictures run from left to right in time.
    let in_time: Vec<LaunchRecord> = shown.iter().rev().cloned().collect();
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="generator" content="paralfetch plot";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { "Launches of " (printable(name)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { "Launches of " (isolated(name)) }
                    p.faint { code { (isolated(id)) } }
                    (saved(page))
                    @if in_time.is_empty() {
                        p { "No launch is known yet." }
                    } @else {
                        (times(&in_time, page.launches.len()))
                        (by_kind(&in_time))
                        (each(&in_time))
                        (own_reads(&in_time))
                    }
                    (machine(page))
                }
            }
        }
    };
    markup.into_string()
}

/// Text whose direction of writing does not reach beyond it: paths, names and notes.
fn isolated(text: &str) -> Markup {
    html! { bdi { (printable(text)) } }
}

/// A text without control characters, which pages may not have, nor those that turn the direction of text.
fn printable(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// What prefetching has saved, for each user who has launched the app.
fn saved(page: &LaunchPage<'_>) -> Markup {
    let has_launches = |app: &&AppState| page.launches.iter().any(|launch| launch.uid == app.uid);
    let mut apps: Vec<&AppState> = page.apps.iter().filter(has_launches).collect();
    if apps.is_empty() {
        apps.extend(page.apps.first());
    }
    html! {
        h2 { "Saved" }
        @for app in &apps {
            p {
                @if apps.len() > 1 { (isolated(&user_name(app.uid))) ": " }
                @match SavedTime::of(app, page.launches) {
                    Some(saved) => (saved_text(&saved)),
                    None => "What prefetching saves is not known before cold launches with and without it.",
                }
            }
            p.faint {
                "The app is now in the phase: " (printable(&app.phase))
                @if !app.why.is_empty() { ", because " (isolated(&app.why)) }
                ". " (counted(app.launches, "launch was", "launches were")) " seen, " (app.prefetched) " of them prefetched."
            }
        }
    }
}

fn saved_text(saved: &SavedTime) -> Markup {
    let us = saved.total_us();
    let what = match us < 0 {
        true => "added",
        false => "saved",
    };
    let launches = match saved.launches {
        1 => "1 prefetched cold launch".to_owned(),
        count => format!("{count} prefetched cold launches"),
    };
    let each = format!("{:.2} s", saved.each_us.unsigned_abs() as f64 / 1e6);
    html! {
        strong.headline { (format!("{:.1} s", us.unsigned_abs() as f64 / 1e6)) }
        " was " (what) " in " (launches) ": " (each) " each, "
        (saved.percent.unsigned_abs()) "\u{a0}% of the time without prefetching."
    }
}

/// The picture, with its legend.
fn times(launches: &[LaunchRecord], known: usize) -> Markup {
    let shown = launches.len();
    let caption = match (shown, known) {
        (1, 1) => "The only launch that is known.".to_owned(),
        (shown, known) if shown == known => format!("All {shown} launches that are known"),
        _ => format!("The newest {shown} of {known} launches that are known"),
    };
    let caption = match shown {
        1 => caption,
        _ => format!(
            "{caption}, the oldest on the left. The numbers are those of the table \"Each launch\"."
        ),
    };
    let summary: Vec<String> = groups(launches)
        .iter()
        .map(|group| {
            format!(
                "{}, caches {}: {}, which took {} and waited {}",
                group.done,
                caches(group.warmth),
                group.count,
                time(group.duration_us),
                time(group.waiting_us)
            )
        })
        .collect();
    let description = format!(
        "A bar for each launch. Number of launches and medians: {}. The tables below have all figures.",
        summary.join("; ")
    );
    html! {
        h2 { "Launch times" }
        figure {
            figcaption { (caption) }
            div.scroll role="region" aria-label="Launch times" tabindex="0" {
                (chart::chart(launches, &description))
            }
            (chart::legend())
        }
    }
}

/// Launches with which the same was done from the same caches: medians, in microseconds and bytes.
struct LaunchGroup {
    done: &'static str,
    warmth: Option<Warmth>,
    count: usize,
    duration_us: Option<u64>,
    waiting_us: Option<u64>,
    read_bytes: u64,
}

fn groups(launches: &[LaunchRecord]) -> Vec<LaunchGroup> {
    let warmths = [
        Some(Warmth::Cold),
        Some(Warmth::Partly),
        Some(Warmth::Warm),
        None,
    ];
    let labels = [
        "cold",
        "prefetched",
        "anticipated",
        "learned",
        "learned + prefetched",
        "withheld",
        "watched",
    ];
    let all = labels
        .into_iter()
        .flat_map(|done| warmths.map(|warmth| (done, warmth)));
    all.filter_map(|(done, warmth)| {
        let fits = |launch: &&LaunchRecord| (launch.done(), launch.warmth) == (done, warmth);
        let group: Vec<&LaunchRecord> = launches.iter().filter(fits).collect();
        let median = |figure: fn(&LaunchRecord) -> Option<u64>| {
            let known = group.iter().filter_map(|launch| figure(launch));
            lower_median(&known.collect::<Vec<_>>())
        };
        Some(LaunchGroup {
            done,
            warmth,
            count: group.len(),
            duration_us: median(|launch| launch.duration_us),
            waiting_us: median(|launch| launch.waiting_us),
            read_bytes: median(|launch| Some(launch.read_bytes))?,
        })
    })
    .collect()
}

fn by_kind(launches: &[LaunchRecord]) -> Markup {
    let rows = groups(launches).into_iter().map(|group| {
        vec![
            group.done.to_owned(),
            caches(group.warmth),
            group.count.to_string(),
            time(group.duration_us),
            time(group.waiting_us),
            mib(group.read_bytes),
        ]
    });
    table(
        "Typical launches",
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
    )
}

/// Every launch, the newest first; with its user, if there are several.
fn each(launches: &[LaunchRecord]) -> Markup {
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
            launch.done().to_owned(),
            caches(launch.warmth),
            time(launch.duration_us),
            time(launch.waiting_us),
            launch.own_readaheads.to_string(),
            mib(launch.read_bytes),
            launch.note.clone().unwrap_or_default(),
        ]);
        row
    });
    let caption = "The launches above, the newest first. Own reads: requests to the drive that the app made itself and \
                   waited for. Read: what the drive read for the launch and for prefetching it.";
    table("Each launch", caption, &columns, rows)
}

/// What the newest prefetched launches still read themselves, a row for each file.
fn own_reads(launches: &[LaunchRecord]) -> Markup {
    let numbered = launches.iter().enumerate().rev();
    let known = numbered.filter_map(|(index, launch)| {
        let files = launch.own_reads.as_deref()?;
        (!files.is_empty()).then_some((index, files))
    });
    let rows: Vec<Vec<String>> = known
        .take(READS_SHOWN)
        .flat_map(|(index, files)| {
            files.iter().map(move |file| {
                vec![
                    (index + 1).to_string(),
                    file.reads.to_string(),
                    kib(file.bytes),
                    kib(file.not_in_profile_bytes),
                    read_name(file).to_owned(),
                ]
            })
        })
        .collect();
    if rows.is_empty() {
        return html! {};
    }
    let caption = "The files from which the newest prefetched launches read most themselves until they were complete, \
                   by the numbers of the launches. Not in profile: what prefetching does not know of; for the rest, \
                   the app came before the prefetch.";
    table(
        "What launches still read themselves",
        caption,
        &[
            ("no.", Cell::Number),
            ("reads", Cell::Number),
            ("read", Cell::Number),
            ("not in profile", Cell::Number),
            ("file", Cell::Text),
        ],
        rows.into_iter(),
    )
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

/// A table with its heading; the first column names the rows.
fn table(
    heading: &'static str,
    caption: &str,
    columns: &[(&'static str, Cell)],
    rows: impl Iterator<Item = Vec<String>>,
) -> Markup {
    html! {
        h2 { (heading) }
        div.scroll role="region" aria-label=(heading) tabindex="0" {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @for (title, cell) in columns { th scope="col" class=(cell.class()) { (title) } }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            @for (index, ((_, cell), text)) in columns.iter().zip(&row).enumerate() {
                                @if index == 0 {
                                    th scope="row" class=(cell.class()) { (isolated(text)) }
                                } @else {
                                    td class=(cell.class()) { (isolated(text)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Where and by what the page was made.
fn machine(page: &LaunchPage<'_>) -> Markup {
    html! {
        h2 { "Machine" }
        dl {
            dt { "kernel" }
            dd { (printable(&page.machine.kernel)) }
            dt { "drive" }
            @for drive in &page.machine.drives { dd { (printable(drive)) } }
            @if page.machine.drives.is_empty() { dd { "not known" } }
            dt { "program" }
            dd { "paralfetch " (env!("CARGO_PKG_VERSION")) }
            dt { "page" }
            dd { "made " (date(page.made_s)) }
        }
    }
}

/// The state of the caches before a launch.
fn caches(warmth: Option<Warmth>) -> String {
    warmth.map_or_else(|| "–".to_owned(), word)
}

/// A time of a launch, if it is known.
fn time(us: Option<u64>) -> String {
    us.map_or_else(|| "–".to_owned(), seconds)
}

/// A launch in a line.
fn words(launch: &LaunchRecord) -> String {
    format!(
        "{}, {}, caches {}, took {}, waited {}",
        date(launch.time_s),
        launch.done(),
        caches(launch.warmth),
        time(launch.duration_us),
        time(launch.waiting_us)
    )
}

#[cfg(test)]
mod tests;
