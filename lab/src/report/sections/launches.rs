//! Launch times: normalized, reduction, gap closed, seconds.

use super::super::app::App;
use super::super::format::{
    or_nothing, percent, ratio, ratio_with_interval, seconds as in_seconds,
};
use super::super::scenarios::{self, BOUND_EXACT, Kind};
use super::super::stats::{Estimate, median, quartiles};
use super::super::summary::Device;
use super::super::table::Table;
use super::{AVERAGE, Groups, Picture, Section, groups, present};

/// Everything that is normalized to cold: rivals and Paralfetch in full as a picture, all in tables.
pub fn normalized(device: &Device) -> Option<Section> {
    let apps: Vec<&App> = device.launched().collect();
    if apps.is_empty() {
        return None;
    }
    let mut drawn = device.of_kinds(&[Kind::Rival]);
    drawn.extend(device.ours());
    drawn.extend(device.of_kinds(&[Kind::Unknown]));
    let marks = present(device, &[BOUND_EXACT, "warm"]);
    let picture = groups(&apps, &drawn, &marks, true);
    Some(Section {
        title: "Normalized launch times".to_owned(),
        text: vec![
            "Median of the ratio to the cold launch of the same turn; less is better, 1 is cold. \
             Paralfetch in full beside the other prefetchers."
                .to_owned(),
        ],
        picture: (!drawn.is_empty()).then_some(Picture::Groups(picture)),
        tables: tables(device, &apps),
    })
}

fn tables(device: &Device, apps: &[&App]) -> Vec<Table> {
    let kinds = [Kind::Reference, Kind::Rival, Kind::Ours, Kind::Unknown];
    let columns = device.of_kinds(&kinds);
    let gained = device.of_kinds(&kinds[1..]);
    let gap = |app: &App, name: &str| app.gap_closed(name).map(percent);
    let reduction = |e: Estimate| percent(1.0 - e.value);
    vec![
        table(
            device,
            apps,
            &columns,
            "Normalized launch time",
            &partial(device, &columns),
            &|e| ratio(e.value),
        ),
        table(
            device,
            apps,
            &columns,
            "95 % intervals",
            "Bootstrapped.",
            &ratio_with_interval,
        ),
        gap_table(device, apps, &gained, &gap),
        table(
            device,
            apps,
            &gained,
            "Reduction of the launch time",
            "1 − t / t_cold.",
            &reduction,
        ),
    ]
}

fn table(
    device: &Device,
    apps: &[&App],
    columns: &[&str],
    title: &str,
    note: &str,
    cell: &dyn Fn(Estimate) -> String,
) -> Table {
    let mut table = Table::new(title, note, head(columns));
    for app in apps {
        let cells = columns
            .iter()
            .map(|name| or_nothing(app.normalized(name).map(cell)));
        table.push(std::iter::once(app.name.clone()).chain(cells));
    }
    if apps.len() > 1 {
        let mean = |name: &&str| or_nothing(device.average(name).map(|mean| cell(mean.estimate)));
        table.push(std::iter::once(AVERAGE.to_owned()).chain(columns.iter().map(mean)));
    }
    table
}

fn gap_table(
    device: &Device,
    apps: &[&App],
    columns: &[&str],
    cell: &dyn Fn(&App, &str) -> Option<String>,
) -> Table {
    let note = "(t_cold − t) / (t_cold − t_warm); nothing where a warm launch is not faster than a \
                cold one by more than noise. The average is that of the averaged normalized times.";
    let mut table = Table::new("Gap closed", note, head(columns));
    for app in apps {
        let cells = columns.iter().map(|name| or_nothing(cell(app, name)));
        table.push(std::iter::once(app.name.clone()).chain(cells));
    }
    if apps.len() > 1 {
        let mean = |name: &&str| or_nothing(device.average_gap_closed(name).map(percent));
        table.push(std::iter::once(AVERAGE.to_owned()).chain(columns.iter().map(mean)));
    }
    table
}

fn head<'a>(columns: &[&'a str]) -> impl Iterator<Item = &'a str> {
    let labels: Vec<&str> = columns.iter().map(|name| scenarios::label(name)).collect();
    std::iter::once("app").chain(labels)
}

/// Says which averages are of fewer apps than others.
fn partial(device: &Device, columns: &[&str]) -> String {
    let all = device.launched().count();
    let fewer: Vec<String> = columns
        .iter()
        .filter_map(|name| {
            let apps = device.average(name)?.apps;
            (apps < all).then(|| format!("{} ({apps} of {all})", scenarios::label(name)))
        })
        .collect();
    if fewer.is_empty() {
        return String::new();
    }
    format!("The average is of fewer apps for: {}.", fewer.join(", "))
}

/// Medians in seconds with quartiles and numbers of runs, of everything that was measured.
pub fn seconds(device: &Device) -> Option<Section> {
    let mut table = Table::new(
        "Seconds",
        "Median [lower–upper quartile] × undisturbed runs.",
        ["app", "scenario", "seconds", "processor s", "end"],
    );
    for app in &device.apps {
        for name in device
            .scenarios
            .iter()
            .filter(|name| app.runs.contains_key(*name))
        {
            let times = app.times(name);
            let spread = quartiles(&times).map(|(low, high)| {
                let (low, high) = (in_seconds(low), in_seconds(high));
                format!(
                    "{} [{low}–{high}] × {}",
                    in_seconds(median(&times)),
                    times.len()
                )
            });
            let end = if scenarios::is_prefetch_only(name) {
                "last read"
            } else {
                app.rule.description()
            };
            let cpu = app
                .median_of(name, |launch| Some(launch.cpu))
                .map(in_seconds);
            table.push([
                app.name.clone(),
                scenarios::label(name).to_owned(),
                spread.unwrap_or_else(|| "no run reached its end".to_owned()),
                or_nothing(cpu),
                end.to_owned(),
            ]);
        }
    }
    (!table.rows.is_empty()).then(|| Section {
        title: "Launch times in seconds".to_owned(),
        text: Vec::new(),
        picture: None,
        tables: vec![table],
    })
}

/// The numbers behind a picture: bars and marks with their intervals.
pub fn behind(picture: &Groups, title: &str) -> Table {
    let columns: Vec<&str> = picture
        .bars
        .iter()
        .chain(&picture.marks)
        .map(String::as_str)
        .collect();
    let mut table = Table::new(title, "Normalized, with 95 % intervals.", head(&columns));
    for group in &picture.groups {
        let cells = group.bars.iter().chain(&group.marks);
        let cells = cells.map(|cell| or_nothing(cell.map(ratio_with_interval)));
        table.push(std::iter::once(group.name.clone()).chain(cells));
    }
    table
}
