//! Launch times over the values of one scheduling parameter (Paralfetch, Figures 4, 6, 7 and 8).

use super::super::app::App;
use super::super::summary::Device;
use super::{Section, head, mean_of_all};
use crate::record::Missed;
use crate::scenarios::{SWEEP, SWEEP_ALONE, unnumbered};
use crate::tables::Table;
use crate::tables::format::{or_nothing, ratio, seconds, tenths};

/// A parameter as the report describes it.
struct Sweep {
    name: &'static str,
    title: &'static str,
    axis: &'static str,
    text: &'static str,
    /// Two values in KiB, of which the paper found the second to harm.
    harm: Option<(u64, u64)>,
}

const SWEEPS: [Sweep; 3] = [
    Sweep {
        name: "shift",
        title: "Launch time by metadata shift (Paralfetch, Figures 6 and 8)",
        axis: "metadata shift, KiB",
        text: "Metadata go so many KiB ahead of the data before which they were read. A large shift fills the queue; too \
               large a one delays what the app reads itself.",
        harm: Some((64, 256)),
    },
    Sweep {
        name: "distance",
        title: "Launch time by I/O distance (Paralfetch, Figures 4 and 7)",
        axis: "I/O distance",
        text: "Neighbours on the drive become one request if they are so many positions of the launch sequence apart. A large \
               distance makes fewer requests; the app waits for those that have become large.",
        harm: None,
    },
    Sweep {
        name: "hole",
        title: "Launch time by hole",
        axis: "largest hole, 4 KiB pages",
        text: "Holes of up to so many pages that nobody needs are read along.",
        harm: None,
    },
];

/// A section for each parameter that was swept.
pub fn sweeps(device: &Device) -> Vec<Section> {
    SWEEPS
        .iter()
        .filter_map(|sweep| section(device, sweep))
        .collect()
}

fn section(device: &Device, sweep: &Sweep) -> Option<Section> {
    let values = values(device, sweep);
    let apps: Vec<&App> = device.launched().collect();
    if values.len() < 2 || apps.is_empty() {
        return None;
    }
    let mut text = vec![sweep.text.to_owned()];
    text.extend(harm(&apps, sweep));
    let tables = vec![
        by_value(device, &apps, sweep, &values),
        by_app(&apps, sweep, &values),
    ];
    Section::of(sweep.title, text, tables)
}

/// The values that were measured, rising.
fn values(device: &Device, sweep: &Sweep) -> Vec<u64> {
    let of = |name: &String| {
        let (scenario, value) = name.rsplit_once('-')?;
        let own = [SWEEP, SWEEP_ALONE].map(|prefix| format!("{prefix}{}", sweep.name));
        let is_own = unnumbered(name) == scenario && own.iter().any(|own| own == scenario);
        is_own.then(|| value.parse().ok())?
    };
    let mut values: Vec<u64> = device.scenarios.iter().filter_map(of).collect();
    values.sort_unstable();
    values.dedup();
    values
}

fn launch(sweep: &Sweep, value: u64) -> String {
    format!("{SWEEP}{}-{value}", sweep.name)
}

fn alone(sweep: &Sweep, value: u64) -> String {
    format!("{SWEEP_ALONE}{}-{value}", sweep.name)
}

/// The mean over apps of launches by cold ones.
fn by_cold(apps: &[&App], name: &str) -> Option<f64> {
    mean_of_all(apps.iter().map(|app| Some(app.normalized(name)?.value)))
}

/// What the larger of two values costs launches on average.
fn harm(apps: &[&App], sweep: &Sweep) -> Option<String> {
    let (usual, large) = sweep.harm?;
    let at = |value| by_cold(apps, &launch(sweep, value));
    let ratio = ratio(at(large)? / at(usual)?);
    Some(format!(
        "With {large} KiB, launches take {ratio} of those with {usual} KiB."
    ))
}

fn by_value(device: &Device, apps: &[&App], sweep: &Sweep, values: &[u64]) -> Table {
    let note = "Means over apps. Own requests: read requests of the launch tree itself, by those of a cold launch. Late \
                metadata: blocks of metadata, of one more launch of each app, that the app came to before the prefetcher did.";
    let head = [
        sweep.axis,
        "launch by cold",
        "prefetcher alone by the first value",
        "own requests",
        "late metadata",
    ];
    let mut table = Table::new("By value", note, head);
    for &value in values {
        let name = launch(sweep, value);
        let alone = mean_of_all(apps.iter().map(|app| {
            Some(app.middle(&alone(sweep, value))? / app.middle(&alone(sweep, values[0]))?)
        }));
        let own = mean_of_all(apps.iter().map(|app| {
            let requests = |of: &str| app.median_of(of, |launch| Some(launch.app_requests as f64));
            Some(requests(&name)? / requests("cold").filter(|cold| *cold > 0.0)?)
        }));
        let late = mean_of_all(apps.iter().map(|app| {
            let is_own = |missed: &&Missed| missed.app == app.name && missed.scenario == name;
            device.missed.iter().find(is_own).map(late_metadata)
        }));
        table.push([
            value.to_string(),
            or_nothing(by_cold(apps, &name).map(ratio)),
            or_nothing(alone.map(ratio)),
            or_nothing(own.map(tenths)),
            or_nothing(late.map(|late| format!("{late:.1}"))),
        ]);
    }
    table
}

/// Requests for metadata that came too late.
fn late_metadata(missed: &Missed) -> f64 {
    let late = missed.kinds.iter();
    let late = late.filter(|kind| kind.reason == "late" && kind.of != "data");
    late.map(|kind| kind.requests).sum::<u64>() as f64
}

/// Launch times of each app in seconds.
fn by_app(apps: &[&App], sweep: &Sweep, values: &[u64]) -> Table {
    let heads = values.iter().map(u64::to_string);
    let note = format!("Seconds, medians, by {}.", sweep.axis);
    let table = Table::new(
        "By app",
        &note,
        head(std::iter::once("cold".to_owned()).chain(heads)),
    );
    let launches = values.iter().map(|&value| launch(sweep, value));
    let names: Vec<String> = std::iter::once("cold".to_owned()).chain(launches).collect();
    let cell = |app: &App, name: &String| app.middle(name).map(seconds);
    table.by_app(apps, &names, cell, |_| None)
}

#[cfg(test)]
mod tests {
    use super::super::super::load::Results;
    use super::super::samples::{self, device};
    use super::*;
    use crate::record::{Launch, MissKind};

    fn results() -> Results {
        let launch = |app: &str, scenario: &str, seconds: f64| Launch {
            app_requests: (seconds * 100.0).round() as u64,
            ..samples::launch(app, scenario, 0, seconds)
        };
        let app = |app: &str, factor: f64| {
            [
                ("cold", 2.0),
                ("sweep-shift-64", 1.0),
                ("sweep-shift-256", 1.5),
                ("sweep-shift-8", 1.2),
                ("only-sweep-shift-8", 0.5),
                ("only-sweep-shift-64", 0.4),
                ("only-sweep-shift-256", 0.4),
                ("sweep-hole-2", 1.0),
            ]
            .map(|(scenario, seconds)| launch(app, scenario, seconds * factor))
        };
        let kind = |reason: &str, of: &str, requests| MissKind {
            reason: reason.to_owned(),
            of: of.to_owned(),
            requests,
        };
        let missed = |app: &str, late| Missed {
            device: "d".to_owned(),
            app: app.to_owned(),
            scenario: "sweep-shift-64".to_owned(),
            kinds: vec![kind("late", "inode table", late), kind("late", "data", 9)],
            ..Missed::default()
        };
        let in_time = |app: &str| Missed {
            scenario: "sweep-shift-8".to_owned(),
            kinds: Vec::new(),
            ..missed(app, 0)
        };
        Results {
            launches: [app("a", 1.0), app("b", 3.0)].concat(),
            missed: vec![missed("a", 3), missed("b", 4), in_time("a"), in_time("b")],
            ..Results::default()
        }
    }

    #[test]
    fn values_are_in_their_order_and_need_a_second_one() {
        let sections = sweeps(&device(results()));
        assert_eq!(sections.len(), 1, "one hole is no sweep");
        let rows = &sections[0].tables[0].rows;
        assert_eq!(rows[0], ["8", "0.60", "1.00", "60.0 %", "0.0"]);
        assert_eq!(rows[1], ["64", "0.50", "0.80", "50.0 %", "3.5"]);
        assert_eq!(rows[2][1..], ["0.75", "0.80", "75.0 %", "–"]);
        assert_eq!(
            sections[0].text[1],
            "With 256 KiB, launches take 1.50 of those with 64 KiB."
        );
    }

    #[test]
    fn an_average_is_of_all_apps_or_none() {
        let mut results = results();
        results.launches.retain(|launch| {
            (launch.app.as_str(), launch.scenario.as_str()) != ("b", "sweep-shift-64")
        });
        let rows = sweeps(&device(results)).remove(0).tables.remove(0).rows;
        assert_eq!(rows[1][1], "–");
        assert_eq!(rows[2][1], "0.75");
    }
}
