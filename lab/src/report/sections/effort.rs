//! What launches cost the processors (FAST §5.2 and Paralfetch §5.5).

use super::super::app::App;
use super::super::summary::Device;
use super::Section;
use crate::record::Effort;
use crate::scenarios::{self, Kind};
use crate::tables::Table;
use crate::tables::format::{or_nothing, ratio, seconds};

/// Processor time and context switches of launches, by those of cold ones.
pub fn effort(device: &Device) -> Option<Section> {
    let apps: Vec<&App> = device
        .launched()
        .filter(|app| median(app, "cold", |effort| effort.switches as f64).is_some())
        .collect();
    let names = measured(device, &apps);
    if names.len() < 2 {
        return None;
    }
    let text = "From the start until the launch is over. A synchronous read costs the app two context switches; one that \
                was read ahead costs none. The drive's emulator is not counted.";
    Section::of(
        "Processor time and context switches (Paralfetch §5.5)",
        vec![text.to_owned()],
        vec![averages(&apps, &names), by_app(device, &apps)],
    )
}

/// The scenarios that were counted.
fn measured<'a>(device: &'a Device, apps: &[&App]) -> Vec<&'a str> {
    let kinds = [
        Kind::Baseline,
        Kind::Reference,
        Kind::Rival,
        Kind::Ours,
        Kind::Wrong,
    ];
    let mut names = device.of_kinds(&kinds);
    names.retain(|name| {
        let counted = |app: &&App| median(app, name, |effort| effort.switches as f64).is_some();
        !scenarios::is_prefetch_only(name) && apps.iter().any(counted)
    });
    names
}

fn median(app: &App, name: &str, of: impl Fn(&Effort) -> f64) -> Option<f64> {
    app.median_of(name, |launch| launch.effort.as_ref().map(&of))
}

/// Of the launch tree alone, and with the prefetcher.
const WAYS: [fn(&Effort) -> f64; 4] = [
    |effort| effort.app,
    |effort| effort.app + effort.prefetch,
    |effort| effort.switches as f64,
    |effort| (effort.switches + effort.prefetch_switches) as f64,
];

fn averages(apps: &[&App], names: &[&str]) -> Table {
    let note = "Means over apps of medians, each by that of the app's cold launches.";
    let head = [
        "scenario",
        "processor time of the app",
        "with the prefetcher",
        "context switches of the app",
        "with the prefetcher",
        "apps",
    ];
    let mut table = Table::new("By cold launches", note, head);
    for name in names {
        let ratios = |of: fn(&Effort) -> f64| -> Vec<f64> {
            let by_cold = |app: &&App| {
                let cold = median(app, "cold", of).filter(|cold| *cold > 0.0);
                Some(median(app, name, of)? / cold?)
            };
            apps.iter().filter_map(by_cold).collect()
        };
        let all = WAYS.map(ratios);
        let count = all[0].len();
        let mean = |ratios: &Vec<f64>| {
            let known = !ratios.is_empty();
            or_nothing(known.then(|| ratio(ratios.iter().sum::<f64>() / ratios.len() as f64)))
        };
        let cells = all.iter().map(mean).chain([count.to_string()]);
        table.push(std::iter::once(scenarios::label(name).to_owned()).chain(cells));
    }
    table
}

/// Cold, prefetched by ours, and warm.
fn by_app(device: &Device, apps: &[&App]) -> Table {
    let note =
        "Medians. User and system are in ticks of mostly 10 ms and include helpers over the bus.";
    let head = [
        "app",
        "scenario",
        "user s",
        "system s",
        "prefetcher s",
        "context switches",
        "prefetcher's",
    ];
    let mut table = Table::new("By app", note, head);
    for app in apps {
        for name in [Some("cold"), device.ours(), Some("warm")]
            .into_iter()
            .flatten()
        {
            let of = |of: fn(&Effort) -> f64| median(app, name, of);
            if of(|effort| effort.app).is_none() {
                continue;
            }
            let time = |value: Option<f64>| or_nothing(value.map(seconds));
            let count = |value: Option<f64>| or_nothing(value.map(|count| format!("{count:.0}")));
            table.push([
                app.name.clone(),
                scenarios::label(name).to_owned(),
                time(of(|effort| effort.user)),
                time(of(|effort| effort.system)),
                time(of(|effort| effort.prefetch)),
                count(of(|effort| effort.switches as f64)),
                count(of(|effort| effort.prefetch_switches as f64)),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::samples::{self, launched};
    use super::*;
    use crate::record::Launch;

    fn launch(app: &str, scenario: &str, effort: Option<(f64, u64, u64)>) -> Launch {
        Launch {
            effort: effort.map(|(app, switches, prefetch_switches)| Effort {
                user: app * 0.6,
                system: app * 0.4,
                app,
                switches,
                prefetch: if prefetch_switches > 0 { 0.1 } else { 0.0 },
                prefetch_switches,
            }),
            ..samples::launch(app, scenario, 0, 1.0)
        }
    }

    fn section(launches: Vec<Launch>) -> Option<Section> {
        effort(&launched(launches))
    }

    #[test]
    fn prefetchers_are_counted_apart_and_with_the_app() {
        let found = section(vec![
            launch("a", "cold", Some((2.0, 8000, 0))),
            launch("a", "infill", Some((1.0, 1000, 600))),
            launch("b", "cold", Some((1.0, 1000, 0))),
            launch("b", "infill", Some((0.9, 375, 100))),
        ])
        .unwrap();
        assert_eq!(
            found.tables[0].rows[0][1..],
            ["1.00", "1.00", "1.00", "1.00", "2"]
        );
        assert_eq!(
            found.tables[0].rows[1],
            ["+ infill", "0.70", "0.78", "0.25", "0.34", "2"]
        );
        assert_eq!(
            found.tables[1].rows[1],
            ["a", "+ infill", "0.600", "0.400", "0.100", "1000", "600"]
        );
    }

    #[test]
    fn records_from_before_it_was_counted_make_no_section() {
        assert_eq!(
            section(vec![launch("a", "cold", None), launch("a", "infill", None)]),
            None
        );
        let cold = Some((1.0, 1, 0));
        assert_eq!(
            section(vec![launch("a", "cold", cold)]),
            None,
            "nothing to compare"
        );
    }
}
