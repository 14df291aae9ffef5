//! What a reader needs to judge the numbers: conditions, requests, rules for the end of a launch,
//! disturbed runs.

use super::super::app::{App, Rule, TINY};
use super::super::summary::Device;
use super::{Section, head};
use crate::record::Session;
use crate::scenarios::{self, Kind};
use crate::tables::Table;
use crate::tables::format::{change, date, listed, mebibytes, or_nothing, percent, seconds};

/// By how much two rules may differ before the report says so.
const DISAGREEMENT: f64 = 0.10;

/// Under which conditions the drive's results were made; repeated sessions with the same are one row.
pub fn conditions(device: &Device) -> Section {
    let head = [
        "started",
        "drive",
        "kernel",
        "machine",
        "Paralfetch",
        "read_ahead_kb",
    ];
    let mut table = Table::new("Sessions", "", head);
    for (session, last) in alike(&device.sessions) {
        let started = if last == session.started {
            date(session.started)
        } else {
            format!("{} to {}", date(session.started), date(last))
        };
        table.push([
            started,
            session.drive.clone(),
            session.kernel.clone(),
            session.machine.clone(),
            session.version.clone(),
            session.read_ahead_kb.to_string(),
        ]);
    }
    let mut text = Vec::new();
    if device.sessions.is_empty() {
        text.push(
            "No session was recorded: the conditions of these results are unknown.".to_owned(),
        );
    }
    let differ = |what: fn(&crate::record::Session) -> String| {
        device
            .sessions
            .windows(2)
            .any(|pair| what(&pair[0]) != what(&pair[1]))
    };
    if differ(|s| {
        format!(
            "{}\n{}\n{}\n{}",
            s.kernel, s.machine, s.version, s.read_ahead_kb
        )
    }) {
        text.push(
            "Sessions differ in kernel, machine, version or readahead: results mix them.".into(),
        );
    }
    text.extend(without_baseline(device));
    Section {
        title: "Conditions".to_owned(),
        text,
        tables: with_rows(table),
    }
}

/// Sessions under the same conditions, by the first of them, with the start of the last.
fn alike(sessions: &[Session]) -> Vec<(&Session, u64)> {
    let mut rows: Vec<(&Session, u64)> = Vec::new();
    for session in sessions {
        let same = |(first, _): &&mut (&Session, u64)| {
            let started = first.started;
            Session {
                started,
                ..session.clone()
            } == **first
        };
        match rows.iter_mut().find(same) {
            Some((_, last)) => *last = session.started.max(*last),
            None => rows.push((session, session.started)),
        }
    }
    rows
}

/// Which apps cannot be normalized, in a sentence for each kind of launch that they lack.
fn without_baseline(device: &Device) -> impl Iterator<Item = String> + '_ {
    let baselines = [
        ("cold", "no cold launch"),
        ("writer-cold", "no cold launch under the writer"),
        ("together-cold", "no cold launch of all at once"),
    ];
    baselines.into_iter().filter_map(|(base, lacking)| {
        let lacks = |app: &&App| {
            let mut measured = app.runs.keys().chain(app.disturbed.keys());
            measured.any(|name| scenarios::baseline(name) == base) && app.times(base).is_empty()
        };
        let names: Vec<&str> = device
            .apps
            .iter()
            .filter(lacks)
            .map(|app| app.name.as_str())
            .collect();
        let have = if names.len() > 1 { "have" } else { "has" };
        (!names.is_empty())
            .then(|| format!("{} {have} {lacking} to be normalized to.", listed(&names)))
    })
}

/// Programs with nothing to gain: what prefetching costs them.
pub fn tiny(device: &Device) -> Option<Section> {
    let apps: Vec<&App> = device.apps.iter().filter(|app| app.is_tiny()).collect();
    let columns = columns(
        device,
        &apps,
        &[Kind::Baseline, Kind::Reference, Kind::Rival, Kind::Ours],
    );
    let labels = columns.iter().map(|name| scenarios::label(name));
    let milliseconds = |seconds: f64| format!("{:.2}", seconds * 1e3);
    let table = Table::new("Milliseconds", "Medians.", head(labels)).by_app(
        &apps,
        &columns,
        |app, name| app.middle(name).map(milliseconds),
        |_| None,
    );
    let text = format!(
        "Programs that start within {:.0} ms when cold have nothing to gain. They are left out of \
         averages; this is what prefetching costs them.",
        TINY * 1e3
    );
    Section::of("Tiny programs (FAST §5.2)", vec![text], vec![table])
}

/// Read requests that apps still made themselves.
pub fn requests(device: &Device) -> Option<Section> {
    let apps: Vec<&App> = device
        .apps
        .iter()
        .filter(|app| app.runs.contains_key("cold"))
        .collect();
    let kinds = [
        Kind::Baseline,
        Kind::Reference,
        Kind::Rival,
        Kind::Ours,
        Kind::Background,
        Kind::Wrong,
    ];
    let mut columns = columns(device, &apps, &kinds);
    columns.extend(device.of_kinds(&[Kind::Unknown]));
    columns.retain(|name| !scenarios::is_prefetch_only(name) && !name.starts_with("bound-"));
    let note =
        "Median number of read requests that the app made itself and waited for (share of cold).";
    let head = head(columns.iter().map(|name| scenarios::label(name)));
    let requests = |app: &App, name: &str| app.median_of(name, |l| Some(l.app_requests as f64));
    let cell = |app: &App, name: &&str| {
        let own = requests(app, name)?;
        let cold = requests(app, "cold").filter(|cold| *cold > 0.0 && *name != "cold");
        let share = cold.map(|cold| format!(" ({})", percent(own / cold)));
        Some(format!("{own:.0}{}", share.unwrap_or_default()))
    };
    let own = Table::new("The app's own requests", note, head.clone());
    let own = own.by_app(&apps, &columns, cell, |_| None);
    let cell = |app: &App, name: &&str| {
        let app_bytes = app.median_of(name, |l| Some(l.app_bytes as f64))?;
        let prefetched = app.median_of(name, |l| Some(l.prefetch_bytes as f64))?;
        let [app_bytes, prefetched] = [app_bytes, prefetched].map(|bytes| mebibytes(bytes as u64));
        Some(format!("{app_bytes} + {prefetched}"))
    };
    let note = "Median MiB read by the app itself + by the prefetcher.";
    let bytes = Table::new("Bytes", note, head).by_app(&apps, &columns, cell, |_| None);
    Section::of("Requests", Vec::new(), vec![own, bytes])
}

/// Main window (or exit) against completion block.
pub fn ends(device: &Device) -> Option<Section> {
    let note = "(a) main window mapped, or exit; (b) completion block. Medians in seconds of cold \
                launches, and all scenarios in which they differ by more than 10 %.";
    let head = [
        "app",
        "(a) is",
        "(a) cold",
        "(b) cold",
        "difference",
        "disagree in",
    ];
    let mut table = Table::new("Rules for the end of a launch", note, head);
    let mut flagged = Vec::new();
    for app in device
        .apps
        .iter()
        .filter(|app| app.rule != Rule::Completion)
    {
        let both = |name: &str| {
            let first = app.median_of(name, |launch| app.rule.time(launch))?;
            Some((first, app.median_of(name, |launch| launch.completion)?))
        };
        let difference = |name: &str| both(name).map(|(first, second)| second / first - 1.0);
        let disagreeing: Vec<String> = device
            .scenarios
            .iter()
            .filter(|name| !scenarios::is_prefetch_only(name))
            .filter_map(|name| Some((name, difference(name)?)))
            .filter(|(_, difference)| difference.abs() > DISAGREEMENT)
            .map(|(name, difference)| format!("{} {}", scenarios::label(name), change(difference)))
            .collect();
        let verdict = if disagreeing.is_empty() {
            "agree".to_owned()
        } else {
            disagreeing.join(", ")
        };
        table.push([
            app.name.clone(),
            app.rule.description().to_owned(),
            or_nothing(both("cold").map(|(first, _)| seconds(first))),
            or_nothing(both("cold").map(|(_, second)| seconds(second))),
            or_nothing(difference("cold").map(change)),
            verdict,
        ]);
        if !disagreeing.is_empty() {
            flagged.push(app.name.as_str());
        }
    }
    let text = if flagged.is_empty() {
        "The two rules agree within 10 % for all apps.".to_owned()
    } else {
        format!(
            "The two rules disagree by more than 10 % for: {}.",
            flagged.join(", ")
        )
    };
    Section::of("When a launch ends", vec![text], vec![table])
}

/// How many runs were disturbed, and by what.
pub fn disturbed(device: &Device) -> Option<Section> {
    let head = ["app", "scenario", "disturbed", "used", "by what"];
    let mut table = Table::new("Disturbed runs", "", head);
    let (mut all, mut left_out) = (0, 0);
    for app in &device.apps {
        all += app
            .runs
            .values()
            .chain(app.disturbed.values())
            .map(Vec::len)
            .sum::<usize>();
        for (name, launches) in &app.disturbed {
            left_out += launches.len();
            let mut reasons: Vec<&str> = launches
                .iter()
                .flat_map(|l| &l.disturbed)
                .map(String::as_str)
                .collect();
            reasons.sort_unstable();
            reasons.dedup();
            table.push([
                app.name.clone(),
                scenarios::label(name).to_owned(),
                launches.len().to_string(),
                app.runs.get(name).map_or(0, Vec::len).to_string(),
                reasons.join("; "),
            ]);
        }
    }
    (all > 0).then(|| Section {
        title: "Disturbed runs".to_owned(),
        text: vec![format!(
            "{left_out} of {all} runs were disturbed and are left out."
        )],
        tables: with_rows(table),
    })
}

fn with_rows(table: Table) -> Vec<Table> {
    let tables = vec![table].into_iter();
    tables.filter(|table| !table.rows.is_empty()).collect()
}

fn columns<'a>(device: &'a Device, apps: &[&App], kinds: &[Kind]) -> Vec<&'a str> {
    let mut names = device.of_kinds(kinds);
    names.retain(|name| apps.iter().any(|app| app.runs.contains_key(*name)));
    names
}
