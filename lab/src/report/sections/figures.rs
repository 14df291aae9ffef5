//! The papers' launches of one app in peace, redrawn with our apps.

use super::super::app::App;
use super::super::format::{or_nothing, percent};
use super::super::scenarios::{self, BOUND_AS_READ, BOUND_EXACT, Kind};
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

/// What stands above a picture.
#[derive(Clone)]
pub(super) struct Heading {
    pub title: String,
    pub text: &'static str,
}

/// A picture with the numbers behind it; `None` where there is nothing to draw.
pub(super) fn grouped(
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
