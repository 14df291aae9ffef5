//! Launches and learning runs that are not alone on the machine: beside another app or a writer.

use super::super::app::App;
use super::super::format::{near_one_with_interval, or_nothing, ratio_with_interval, seconds};
use super::super::scenarios::{self, Kind};
use super::super::stats::{Statistic, median};
use super::super::summary::Device;
use super::super::table::{NOTHING, Table};
use super::figures::{Heading, grouped};
use super::{AVERAGE, Section, present};

/// The paper's Figure 11: what was learned while another app ran beside what was learned idle, with the
/// same prefetcher.
pub fn background(device: &Device) -> Option<Section> {
    beside_idle(
        device,
        Kind::Background,
        Heading {
            title: "Learned while another app ran (Paralfetch, Figure 11)".to_owned(),
            text: "Launched in a system cold start, with what was learned while another app ran \
                   (background; LibreOffice Writer, if no other is named) beside what was learned while nothing else did.",
        },
        "Background by idle",
    )
}

/// Live learning beside a cold learning run, and what it costs.
pub fn live(device: &Device) -> Option<Section> {
    let heading = Heading {
        title: "Learned live".to_owned(),
        text: "Launched cold, with what was learned from a warm launch without dropping a cache \
               beside what was learned from a cold one.",
    };
    let cost = cost_of_learning(device);
    let section = beside_idle(device, Kind::Live, heading.clone(), "Live by cold").or_else(|| {
        cost.is_some().then(|| Section {
            title: heading.title,
            ..Section::default()
        })
    });
    section.map(|mut section| {
        section.tables.extend(cost);
        section
    })
}

/// Warm launches that are being learned live by warm launches that are not.
fn cost_of_learning(device: &Device) -> Option<Table> {
    let (over, under) = ("warm-live", "warm");
    let apps: Vec<&App> = device
        .apps
        .iter()
        .filter(|app| app.ratio(over, under).is_some())
        .collect();
    if apps.is_empty() {
        return None;
    }
    let mut table = Table::new(
        "Cost of live learning",
        "Time of a warm launch that is being learned live, by that of one in the same turn that is \
         not, with 95 % intervals; the design allows 1.03. Seconds are medians.",
        ["app", "warm s", "being learned s", "ratio"],
    );
    let cell = |ratio: Option<Statistic>| {
        or_nothing(ratio.map(|ratio| near_one_with_interval(ratio.estimate())))
    };
    let middle = |app: &App, name: &str| seconds(median(&app.times(name)));
    for app in &apps {
        table.push([
            app.name.clone(),
            middle(app, under),
            middle(app, over),
            cell(app.ratio(over, under)),
        ]);
    }
    let parts: Vec<Statistic> = apps
        .iter()
        .filter(|app| !app.is_tiny())
        .filter_map(|app| app.ratio(over, under))
        .collect();
    if parts.len() > 1 {
        table.push([
            AVERAGE.to_owned(),
            NOTHING.to_owned(),
            NOTHING.to_owned(),
            cell(Statistic::mean(parts)),
        ]);
    }
    Some(table)
}

/// Sets that were learned in another way, beside the set learned cold on an idle system.
fn beside_idle(
    device: &Device,
    kind: Kind,
    heading: Heading,
    title: &'static str,
) -> Option<Section> {
    let learned = device.of_kinds(&[kind]);
    let mut bars = Vec::new();
    for name in &learned {
        bars.extend(scenarios::learned_idle(name).map_or(vec![], |idle| present(device, &[idle])));
        bars.push(name);
    }
    let marks = present(device, &["warm"]);
    let ratios = against_idle(device, &learned, title);
    let mut section = grouped(
        &having(device, &learned),
        &bars,
        &marks,
        true,
        heading.clone(),
    )
    .or_else(|| {
        // Without a cold launch there is nothing to draw, but still something to compare.
        ratios.as_ref().map(|_| Section {
            title: heading.title,
            text: vec![heading.text.to_owned()],
            ..Section::default()
        })
    })?;
    section.tables.extend(ratios);
    Some(section)
}

/// Time with what was learned so, by that with what was learned idle.
fn against_idle(device: &Device, learned: &[&str], title: &'static str) -> Option<Table> {
    let ratio = |app: &App, name: &str| app.ratio(name, scenarios::learned_idle(name)?);
    let measured = |name: &&&str| device.apps.iter().any(|app| ratio(app, name).is_some());
    let columns: Vec<&str> = learned.iter().filter(measured).copied().collect();
    if columns.is_empty() {
        return None;
    }
    let mut table = Table::new(
        title,
        "Launch time with what was learned so, by that with what was learned from a cold cache on an \
         idle system, with 95 % intervals; 1 is no loss.",
        std::iter::once("app").chain(columns.iter().map(|name| {
            let idle = scenarios::learned_idle(name);
            idle.map_or(*name, scenarios::label)
        })),
    );
    let cell = |ratio: Option<Statistic>| {
        or_nothing(ratio.map(|ratio| ratio_with_interval(ratio.estimate())))
    };
    let apps: Vec<&App> = device
        .apps
        .iter()
        .filter(|app| columns.iter().any(|name| ratio(app, name).is_some()))
        .collect();
    for app in &apps {
        let cells = columns.iter().map(|name| cell(ratio(app, name)));
        table.push(std::iter::once(app.name.clone()).chain(cells));
    }
    if apps.len() > 1 {
        let mean = |name: &&str| {
            let parts = apps.iter().filter_map(|app| ratio(app, name)).collect();
            cell(Statistic::mean(parts))
        };
        table.push(std::iter::once(AVERAGE.to_owned()).chain(columns.iter().map(mean)));
    }
    Some(table)
}

/// Launches while another app runs in the background.
pub fn beside(device: &Device) -> Option<Section> {
    let (apps, mut section) = against(
        device,
        Kind::Beside,
        Heading {
            title: "Beside another app".to_owned(),
            text: "Launched while another app ran (LibreOffice Writer, if no other is named), normalized to a \
                   cold launch beside it.",
        },
    )?;
    section.tables.push(in_seconds(
        &apps,
        "With and without another app",
        &[
            ("cold", "alone, cold"),
            ("infill", "alone, + infill"),
            ("beside-cold", "beside, cold"),
            ("beside-infill", "beside, + infill"),
        ],
    ));
    Some(section)
}

/// Launches while the drive is being written.
pub fn writer(device: &Device) -> Option<Section> {
    let (apps, mut section) = against(
        device,
        Kind::Writer,
        Heading {
            title: "While the drive is being written (QASIO §3)".to_owned(),
            text: "Normalized to a cold launch under the same writer.",
        },
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
    section.tables.extend(against_quiet(&apps, ours));
    section.tables.extend(throughput(&apps));
    Some(section)
}

/// The scenarios with a writer.
const WRITER: [&str; 3] = ["writer-cold", "writer-prefetch", "writer-shield"];

/// Launches under the writer by the quiet prefetched launch of the same turn.
fn against_quiet(apps: &[&App], quiet: &str) -> Option<Table> {
    let mut table = Table::new(
        "By a quiet launch with Paralfetch",
        "Medians, and the worst in brackets.",
        std::iter::once("app").chain(WRITER.map(scenarios::label)),
    );
    for app in apps {
        let cells = WRITER.map(|name| {
            let middle = app.ratio(name, quiet)?.value();
            let base = median(&app.times(quiet));
            let worst = app.times(name).into_iter().fold(0.0, f64::max) / base;
            Some(format!("{middle:.2} ({worst:.2})"))
        });
        if cells.iter().any(Option::is_some) {
            table.push(std::iter::once(app.name.clone()).chain(cells.map(or_nothing)));
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What the drive wrote beside launches, and with the shield by without.
fn throughput(apps: &[&App]) -> Option<Table> {
    let head = [
        "app",
        "cold",
        "Paralfetch",
        "shield",
        "shield by Paralfetch",
    ];
    let mut table = Table::new(
        "The writer's throughput",
        "Medians in MB/s that the drive wrote, from the start of each launch until 15 s after its end.",
        head,
    );
    for app in apps {
        let rates = WRITER.map(|name| {
            let launches = app.runs.get(name).into_iter().flatten();
            let rates: Vec<f64> = launches
                .filter_map(|launch| launch.beside.map(|beside| beside.drive_mb_s))
                .collect();
            (!rates.is_empty()).then(|| median(&rates))
        });
        if rates.iter().all(Option::is_none) {
            continue;
        }
        let [cold, without, shield] = rates;
        let told = |rate: Option<f64>| or_nothing(rate.map(|rate| format!("{rate:.1}")));
        let by = |with: Option<f64>| {
            let by = with.zip(without).map(|(with, without)| with / without);
            or_nothing(by.map(|by| format!("{by:.2}")))
        };
        table.push([
            app.name.clone(),
            told(cold),
            told(without),
            told(shield),
            by(shield),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Launches of a kind that has a baseline of its own, normalized to that; with the apps that are drawn.
pub(super) fn against(
    device: &Device,
    kind: Kind,
    heading: Heading,
) -> Option<(Vec<&App>, Section)> {
    let mut bars = device.of_kinds(&[kind]);
    bars.retain(|name| scenarios::baseline(name) != *name);
    let apps = having(device, &bars);
    let section = grouped(&apps, &bars, &[], false, heading)?;
    Some((apps, section))
}

/// Medians of scenarios, each with the head of its column.
fn in_seconds(apps: &[&App], title: &str, columns: &[(&str, &str)]) -> Table {
    let head = std::iter::once("app").chain(columns.iter().map(|(_, head)| *head));
    let mut table = Table::new(title, "Medians in seconds.", head);
    for app in apps {
        let middle = |(name, _): &(&str, &str)| {
            let times = app.times(name);
            or_nothing((!times.is_empty()).then(|| seconds(median(&times))))
        };
        table.push(std::iter::once(app.name.clone()).chain(columns.iter().map(middle)));
    }
    table
}

fn having<'a>(device: &'a Device, scenarios: &[&str]) -> Vec<&'a App> {
    let has = |app: &&App| scenarios.iter().any(|name| app.normalized(name).is_some());
    device.apps.iter().filter(has).collect()
}
