//! The papers' launches of one app in peace, with our apps.

use super::super::app::App;
use super::super::summary::Device;
use super::{Section, average, head, present};
use crate::scenarios::{self, BOUND_AS_READ, BOUND_EXACT, Kind};
use crate::tables::Table;
use crate::tables::format::{or_nothing, percent, ratio_with_interval};

/// The paper's Figure 10, on a microSD card its Figure 13: our optimisations added one at a time.
pub fn increments(device: &Device) -> Option<Section> {
    let ours = device.of_kinds(&[Kind::Ours]);
    if ours.len() < 2 {
        return None;
    }
    let figure = if device.name == "microsd" { "13" } else { "10" };
    let text = "The paper applies shift and merge to the set as read; the exact set, infill merge and \
                what follows go beyond it.";
    let apps: Vec<&App> = device.launched().collect();
    let columns = [present(device, &["gsoc"]), ours, present(device, &["warm"])].concat();
    let title = format!("Optimisations added one at a time (Paralfetch, Figure {figure})");
    grouped(&title, text, &apps, &columns, true)
}

/// FAST's Figure 6: warm, sorted, FAST and ours with t_ssd and t_bound.
pub fn fast(device: &Device) -> Option<Section> {
    let mut columns = present(device, &["warm", "sorted", "fast"]);
    if !columns.contains(&"fast") {
        return None;
    }
    columns.extend(device.ours());
    columns.extend(present(
        device,
        &["only-as-read", BOUND_AS_READ, "only-exact", BOUND_EXACT],
    ));
    let text = "t_ssd is prefetching alone, t_bound = max(t_ssd, t_cpu). FAST and sorted fetch the set \
                as read; Paralfetch in full fetches the exact set, so its bound is the exact one.";
    let apps: Vec<&App> = device.launched().collect();
    let title = "Between warm and bound (FAST, Figure 6)";
    grouped(title, text, &apps, &columns, true)
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
    let names = kinds.iter().flat_map(|kind| device.of_kinds(&[*kind]));
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
    for name in names {
        let Some(average) = device.average(name) else {
            continue;
        };
        let estimate = average.estimate;
        let interval = estimate
            .interval
            .map(|(low, high)| format!("{low:.3}–{high:.3}"));
        table.push([
            scenarios::label(name).to_owned(),
            format!("{:.3}", estimate.value),
            or_nothing(interval),
            percent(1.0 - estimate.value),
            or_nothing(device.average_gap_closed(name).map(percent)),
            average.apps.to_string(),
        ]);
    }
    if table.rows.len() < 2 {
        return None;
    }
    let apps = device.launched().count();
    let noun = if apps == 1 { "app" } else { "apps" };
    let text = format!("Average launch time of {apps} {noun}, normalized to cold.");
    Section::of("Averages (Paralfetch, Figure 12)", vec![text], vec![table])
}

/// Normalized times of `apps` in these scenarios, with their average where it is asked for; `None` where there is none.
pub(super) fn grouped(
    title: &str,
    text: &str,
    apps: &[&App],
    scenarios: &[&str],
    with_average: bool,
) -> Option<Section> {
    let labels = scenarios.iter().map(|name| scenarios::label(name));
    let note = "Normalized, with 95 % intervals.";
    let table = Table::new("Numbers", note, head(labels)).by_app(
        apps,
        scenarios,
        |app, name| app.normalized(name).map(ratio_with_interval),
        |name| {
            let mean = average(apps, |app| app.normalized.get(*name).cloned());
            let mean = mean.filter(|_| with_average);
            mean.map(|mean| ratio_with_interval(mean.estimate()))
        },
    );
    Section::of(title, vec![text.to_owned()], vec![table])
}
