//! Launches and learning runs that are not alone on the machine: beside another app or a writer.

use super::super::app::App;
use super::super::summary::Device;
use super::figures::grouped;
use super::{Section, average, head, present};
use crate::scenarios::{self, Kind};
use crate::tables::Table;
use crate::tables::format::{near_one_with_interval, ratio_with_interval, seconds};
use crate::tables::stats::median;

/// The paper's Figure 11: what was learned while another app ran beside what was learned idle, with the
/// same prefetcher.
pub fn background(device: &Device) -> Option<Section> {
    let title = "Learned while another app ran (Paralfetch, Figure 11)";
    let text = "Launched in a system cold start, with what was learned while another app ran \
                (background; LibreOffice Writer, if no other is named) beside what was learned while nothing else did.";
    let tables = beside_idle(device, Kind::Background, "Background by idle");
    Section::of(title, vec![text.to_owned()], tables)
}

/// Live learning beside a cold learning run, and what it costs.
pub fn live(device: &Device) -> Option<Section> {
    let text = "Launched cold, with what was learned from a warm launch without dropping a cache \
                beside what was learned from a cold one.";
    let mut tables = beside_idle(device, Kind::Live, "Live by cold");
    let is_compared = tables.iter().any(|table| !table.rows.is_empty());
    tables.push(cost_of_learning(device));
    let text = is_compared.then(|| text.to_owned());
    Section::of("Learned live", text.into_iter().collect(), tables)
}

/// Warm launches that are being learned live by warm launches that are not.
fn cost_of_learning(device: &Device) -> Table {
    let (over, under) = ("warm-live", "warm");
    let apps = device.apps.iter();
    let apps: Vec<&App> = apps
        .filter(|app| app.ratio(over, under).is_some())
        .collect();
    let by_warm = |app: &App| app.ratio(over, under);
    Table::new(
        "Cost of live learning",
        "Time of a warm launch that is being learned live, by that of one in the same turn that is \
         not, with 95 % intervals; the design allows 1.03. Seconds are medians.",
        ["app", "warm s", "being learned s", "ratio"],
    )
    .by_app(
        &apps,
        &[Some(under), Some(over), None],
        |app, column| match column {
            Some(name) => app.middle(name).map(seconds),
            None => by_warm(app).map(|ratio| near_one_with_interval(ratio.estimate())),
        },
        |column| {
            let mean = column.is_none().then(|| average(&apps, by_warm)).flatten();
            mean.map(|mean| near_one_with_interval(mean.estimate()))
        },
    )
}

/// Sets that were learned in another way, beside the set learned cold on an idle system: by cold launches, and by the
/// launches with the other set.
fn beside_idle(device: &Device, kind: Kind, title: &str) -> Vec<Table> {
    let learned = device.of_kinds(&[kind]);
    let mut columns = Vec::new();
    for name in &learned {
        let idle = scenarios::learned_idle(name);
        columns.extend(idle.map_or(vec![], |idle| present(device, &[idle])));
        columns.push(name);
    }
    columns.extend(present(device, &["warm"]));
    let by_cold = grouped("", "", &having(device, &learned), &columns, true);
    let mut tables = by_cold.map_or(vec![], |section| section.tables);
    let ratio = |app: &App, name: &&str| app.ratio(name, scenarios::learned_idle(name)?);
    let measured = |name: &&str| device.apps.iter().any(|app| ratio(app, name).is_some());
    let compared: Vec<&str> = learned.into_iter().filter(measured).collect();
    let idle = compared
        .iter()
        .filter_map(|name| scenarios::learned_idle(name));
    let note = "Launch time with what was learned so, by that with what was learned from a cold cache on an \
                idle system, with 95 % intervals; 1 is no loss.";
    let apps: Vec<&App> = device.apps.iter().collect();
    let table = Table::new(title, note, head(idle.map(scenarios::label)));
    tables.push(table.of_statistics(&apps, &compared, ratio, ratio_with_interval));
    tables
}

/// Launches while the drive is being written.
pub fn writer(device: &Device) -> Option<Section> {
    let (apps, mut section) = against(
        device,
        Kind::Writer,
        "While the drive is being written (QASIO §3)",
        "Normalized to a cold launch under the same writer.",
    )?;
    let ours = device.ours().unwrap_or("infill");
    section.tables.push(in_seconds(
        &apps,
        "With and without a writer",
        &[
            ("cold", "quiet, cold"),
            (ours, "quiet, Paralfetch"),
            ("writer-cold", "writer, cold"),
            ("writer-prefetch", "writer, Paralfetch"),
            ("writer-shield", "writer, shield"),
        ],
    ));
    let more = [against_quiet(&apps, ours), throughput(&apps)];
    let more = more.into_iter().filter(|table| !table.rows.is_empty());
    section.tables.extend(more);
    Some(section)
}

/// The scenarios with a writer.
const WRITER: [&str; 3] = ["writer-cold", "writer-prefetch", "writer-shield"];

/// Launches under the writer by the quiet prefetched launch of the same turn.
fn against_quiet(apps: &[&App], quiet: &str) -> Table {
    let cell = |app: &App, name: &&str| {
        let middle = app.ratio(name, quiet)?.value();
        let base = app.middle(quiet)?;
        let worst = app.times(name).into_iter().fold(0.0, f64::max) / base;
        Some(format!("{middle:.2} ({worst:.2})"))
    };
    Table::new(
        "By a quiet launch with Paralfetch",
        "Medians, and the worst in brackets.",
        head(WRITER.map(scenarios::label)),
    )
    .by_app(apps, &WRITER, cell, |_| None)
}

/// What the drive wrote beside launches, and with the shield by without.
fn throughput(apps: &[&App]) -> Table {
    let rate = |app: &App, name: &str| {
        let launches = app.runs.get(name).into_iter().flatten();
        let rates = launches.filter_map(|launch| launch.beside.map(|beside| beside.drive_mb_s));
        let rates: Vec<f64> = rates.collect();
        (!rates.is_empty()).then(|| median(&rates))
    };
    let [_, without, shield] = WRITER;
    let cell = |app: &App, name: &Option<&str>| match name {
        Some(name) => rate(app, name).map(|rate| format!("{rate:.1}")),
        None => Some(format!("{:.2}", rate(app, shield)? / rate(app, without)?)),
    };
    Table::new(
        "The writer's throughput",
        "Medians in MB/s that the drive wrote, from the start of each launch until 15 s after its end.",
        head(["cold", "Paralfetch", "shield", "shield by Paralfetch"]),
    )
    .by_app(
        apps,
        &[WRITER.map(Some).as_slice(), &[None]].concat(),
        cell,
        |_| None,
    )
}

/// Launches of a kind that has a baseline of its own, normalized to that; with the apps that are in it.
pub(super) fn against<'a>(
    device: &'a Device,
    kind: Kind,
    title: &str,
    text: &str,
) -> Option<(Vec<&'a App>, Section)> {
    let mut columns = device.of_kinds(&[kind]);
    columns.retain(|name| scenarios::baseline(name) != *name);
    let apps = having(device, &columns);
    let section = grouped(title, text, &apps, &columns, false)?;
    Some((apps, section))
}

/// Medians of scenarios, each with the head of its column.
fn in_seconds(apps: &[&App], title: &str, columns: &[(&str, &str)]) -> Table {
    let heads = columns.iter().map(|(_, head)| *head);
    let cell = |app: &App, (name, _): &(&str, &str)| app.middle(name).map(seconds);
    Table::new(title, "Medians in seconds.", head(heads)).by_app(apps, columns, cell, |_| None)
}

fn having<'a>(device: &'a Device, scenarios: &[&str]) -> Vec<&'a App> {
    let has = |app: &&App| scenarios.iter().any(|name| app.normalized(name).is_some());
    device.apps.iter().filter(has).collect()
}
