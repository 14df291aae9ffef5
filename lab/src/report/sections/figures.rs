//! The papers' experiments, redrawn with our apps.

use super::super::app::App;
use super::super::format::{or_nothing, percent, seconds};
use super::super::scenarios::{self, BOUND_AS_READ, BOUND_EXACT, Kind};
use super::super::stats::median;
use super::super::summary::Device;
use super::super::table::Table;
use super::launches::behind;
use super::{Picture, Section, average_bars, groups, present};

/// The paper's Figure 10, on a microSD card its Figure 13: our optimisations added one at a time.
pub fn increments(device: &Device) -> Option<Section> {
    let ours = device.of_kinds(&[Kind::Ours]);
    if ours.len() < 2 {
        return None;
    }
    let figure = if device.name == "microsd" { "13" } else { "10" };
    let mut bars = present(device, &["gsoc"]);
    bars.extend(&ours);
    let text = "The paper applies shift and merge to the set as read; the exact set, infill merge and \
                what follows go beyond it.";
    let apps: Vec<&App> = device.launched().collect();
    let marks = present(device, &["warm"]);
    grouped(
        &apps,
        &bars,
        &marks,
        true,
        Heading {
            title: format!("Optimisations added one at a time (Paralfetch, Figure {figure})"),
            text,
        },
    )
}

/// FAST's Figure 6: warm, sorted, FAST and ours with t_ssd and t_bound.
pub fn fast(device: &Device) -> Option<Section> {
    let mut bars = present(device, &["warm", "sorted", "fast"]);
    if !bars.contains(&"fast") {
        return None;
    }
    bars.extend(device.ours());
    bars.extend(present(
        device,
        &["only-as-read", BOUND_AS_READ, "only-exact", BOUND_EXACT],
    ));
    let text = "t_ssd is prefetching alone, t_bound = max(t_ssd, t_cpu). FAST and sorted fetch the set \
                as read; Paralfetch in full fetches the exact set, so its bound is the exact one.";
    let apps: Vec<&App> = device.launched().collect();
    grouped(
        &apps,
        &bars,
        &[],
        true,
        Heading {
            title: "Between warm and bound (FAST, Figure 6)".to_owned(),
            text,
        },
    )
}

/// The paper's Figure 12: averages over apps.
pub fn averages(device: &Device) -> Option<Section> {
    let kinds = [
        Kind::Baseline,
        Kind::Rival,
        Kind::Ours,
        Kind::Unknown,
        Kind::Reference,
    ];
    let mut names = Vec::new();
    for kind in kinds {
        names.extend(device.of_kinds(&[kind]));
    }
    let bars = average_bars(device, &names);
    if bars.len() < 2 {
        return None;
    }
    let mut table = Table::new(
        "Averages",
        "Normalized to cold; gap closed of the averaged times.",
        [
            "scenario",
            "average",
            "95 % interval",
            "reduction",
            "gap closed",
            "apps",
        ],
    );
    for bar in &bars {
        let interval = bar
            .estimate
            .interval
            .map(|(low, high)| format!("{low:.3}–{high:.3}"));
        let apps = device
            .average(&bar.scenario)
            .map(|average| average.apps.to_string());
        table.push([
            scenarios::label(&bar.scenario).to_owned(),
            format!("{:.3}", bar.estimate.value),
            or_nothing(interval),
            percent(1.0 - bar.estimate.value),
            or_nothing(bar.gap_closed.map(percent)),
            or_nothing(apps),
        ]);
    }
    let apps = device.launched().count();
    let noun = if apps == 1 { "app" } else { "apps" };
    Some(Section {
        title: "Averages (Paralfetch, Figure 12)".to_owned(),
        text: vec![format!(
            "Average launch time of {apps} {noun}, normalized to cold."
        )],
        picture: Some(Picture::Averages(bars)),
        tables: vec![table],
    })
}

/// The paper's Figure 11: learned while another app ran.
pub fn background(device: &Device) -> Option<Section> {
    let bars = device.of_kinds(&[Kind::Background]);
    let marks = present(device, &["warm"]);
    let apps = having(device, &bars);
    grouped(
        &apps,
        &bars,
        &marks,
        true,
        Heading {
            title: "Learned while another app ran (Paralfetch, Figure 11)".to_owned(),
            text: "Learned while LibreOffice Writer runs, launched in a system cold start.",
        },
    )
}

/// Launches while the drive is being written.
pub fn writer(device: &Device) -> Option<Section> {
    let names = device.of_kinds(&[Kind::Writer]);
    let bars: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| *name != "writer-cold")
        .collect();
    let apps = having(device, &bars);
    let mut section = grouped(
        &apps,
        &bars,
        &[],
        false,
        Heading {
            title: "While the drive is being written (QASIO §3)".to_owned(),
            text: "Normalized to a cold launch under the same writer.",
        },
    )?;
    let ours = device.ours().unwrap_or("infill");
    let columns = ["cold", ours, "writer-cold", "writer-prefetch"];
    let mut table = Table::new(
        "With and without a writer",
        "Medians in seconds.",
        [
            "app",
            "quiet, cold",
            "quiet, Paralfetch",
            "writer, cold",
            "writer, Paralfetch",
        ],
    );
    for app in apps {
        let middle = |name: &&str| {
            let times = app.times(name);
            or_nothing((!times.is_empty()).then(|| seconds(median(&times))))
        };
        table.push(std::iter::once(app.name.clone()).chain(columns.iter().map(middle)));
    }
    section.tables.push(table);
    Some(section)
}

/// FAST's Figure 8: several apps launched at once.
pub fn together(device: &Device) -> Option<Section> {
    let names = device.of_kinds(&[Kind::Together]);
    let bars: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| *name != "together-cold")
        .collect();
    let apps = having(device, &bars);
    grouped(
        &apps,
        &bars,
        &[],
        false,
        Heading {
            title: "Several apps at once (FAST, Figure 8)".to_owned(),
            text: "Until the last app is there, normalized to the same apps launched cold at once.",
        },
    )
}

struct Heading {
    title: String,
    text: &'static str,
}

fn grouped(
    apps: &[&App],
    bars: &[&str],
    marks: &[&str],
    average: bool,
    heading: Heading,
) -> Option<Section> {
    let picture = groups(apps, bars, marks, average);
    if bars.is_empty() || picture.groups.is_empty() {
        return None;
    }
    Some(Section {
        tables: vec![behind(&picture, "Numbers")],
        title: heading.title,
        text: vec![heading.text.to_owned()],
        picture: Some(Picture::Groups(picture)),
    })
}

fn having<'a>(device: &'a Device, scenarios: &[&str]) -> Vec<&'a App> {
    let has = |app: &&App| scenarios.iter().any(|name| app.normalized(name).is_some());
    device.apps.iter().filter(has).collect()
}
