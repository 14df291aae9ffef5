//! Launch times: normalized, reduction, gap closed, seconds.

use super::super::app::App;
use super::super::summary::Device;
use super::{Section, head};
use crate::scenarios::{self, Kind};
use crate::tables::Table;
use crate::tables::format::{
    or_nothing, percent, ratio, ratio_with_interval, seconds as in_seconds,
};
use crate::tables::stats::{Estimate, median, quartiles};

/// Everything that is normalized to cold.
pub fn normalized(device: &Device) -> Option<Section> {
    let apps: Vec<&App> = device.launched().collect();
    let text =
        "Median of the ratio to the cold launch of the same turn; less is better, 1 is cold.";
    let kinds = [Kind::Reference, Kind::Rival, Kind::Ours, Kind::Unknown];
    let all = device.of_kinds(&kinds);
    let gained = device.of_kinds(&kinds[1..]);
    let table = |columns: &[&str], title, note: &str, show: &dyn Fn(Estimate) -> String| {
        Table::new(title, note, labels(columns)).by_app(
            &apps,
            columns,
            |app, name| app.normalized(name).map(show),
            |name| device.average(name).map(|mean| show(mean.estimate)),
        )
    };
    let fewer = partial(device, &all);
    let gap = "(t_cold − t) / (t_cold − t_warm); nothing where a warm launch is not faster than a \
               cold one by more than noise. The average is that of the averaged normalized times.";
    let tables = vec![
        table(&all, "Normalized launch time", &fewer, &|e| ratio(e.value)),
        table(
            &all,
            "95 % intervals",
            "Bootstrapped.",
            &ratio_with_interval,
        ),
        Table::new("Gap closed", gap, labels(&gained)).by_app(
            &apps,
            &gained,
            |app, name| app.gap_closed(name).map(percent),
            |name| device.average_gap_closed(name).map(percent),
        ),
        table(
            &gained,
            "Reduction of the launch time",
            "1 − t / t_cold.",
            &|e| percent(1.0 - e.value),
        ),
    ];
    Section::of("Normalized launch times", vec![text.to_owned()], tables)
}

fn labels(columns: &[&str]) -> Vec<String> {
    head(columns.iter().map(|name| scenarios::label(name)))
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
    Section::of("Launch times in seconds", Vec::new(), vec![table])
}
