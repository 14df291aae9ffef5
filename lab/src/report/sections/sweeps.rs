//! Launch times over the values of one scheduling parameter (Paralfetch, Figures 4, 6, 7 and 8).

use super::super::app::App;
use super::super::format::{or_nothing, ratio, seconds, tenths};
use super::super::scenarios::{SWEEP, SWEEP_ALONE, unnumbered};
use super::super::stats::median;
use super::super::summary::Device;
use super::super::table::Table;
use super::{Line, LineRole, Lines, Picture, Section};
use crate::record::Missed;

/// A parameter as the report describes it.
struct Sweep {
    name: &'static str,
    title: &'static str,
    axis: &'static str,
    text: &'static str,
    /// Two values in KiB, of which the paper found the second to harm.
    harm: Option<(u64, u64)>,
}

const SWEEPS: [Sweep; 5] = [
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
    Sweep {
        name: "mobifetch-hole",
        title: "Launch time by hole of Mobifetch (Mobifetch §2)",
        axis: "largest hole, 4 KiB pages",
        text: "Holes of up to so many pages are read along in the set as read, whose order is otherwise left as it is.",
        harm: None,
    },
    Sweep {
        name: "mobifetch-distance",
        title: "Launch time by I/O distance of Mobifetch (Mobifetch §2)",
        axis: "I/O distance",
        text: "Entries of the set as read are merged, across holes too, if they are so many positions of the launch sequence \
               apart.",
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
    let lines = lines(&apps, sweep, &values);
    let mut text = vec![sweep.text.to_owned()];
    text.extend(harm(&lines, sweep));
    Some(Section {
        title: sweep.title.to_owned(),
        text,
        tables: vec![
            by_value(device, &apps, sweep, &lines),
            by_app(&apps, sweep, &values),
        ],
        picture: Some(Picture::Lines(lines)),
    })
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

/// The launches of each app and on average by cold ones, and the prefetcher alone by its time with the first value.
fn lines(apps: &[&App], sweep: &Sweep, values: &[u64]) -> Lines {
    let by_cold = |app: &App, value| {
        let of_cold = app.normalized(&launch(sweep, value));
        of_cold.map(|estimate| estimate.value)
    };
    let by_first = |app: &App, value| {
        let first = app.times(&alone(sweep, values[0]));
        let times = app.times(&alone(sweep, value));
        (!first.is_empty() && !times.is_empty()).then(|| median(&times) / median(&first))
    };
    let mut lines: Vec<Line> = (apps.iter().filter(|_| apps.len() > 1))
        .map(|app| Line {
            name: app.name.clone(),
            role: LineRole::App,
            points: values.iter().map(|&value| by_cold(app, value)).collect(),
        })
        .filter(|line| line.points.iter().any(Option::is_some))
        .collect();
    let average = |of: &dyn Fn(&App, u64) -> Option<f64>| -> Vec<Option<f64>> {
        let mean = |&value: &u64| mean(apps.iter().map(|app| of(app, value)));
        values.iter().map(mean).collect()
    };
    lines.push(Line {
        name: "prefetcher alone, by the first value".to_owned(),
        role: LineRole::Alone,
        points: average(&by_first),
    });
    lines.push(Line {
        name: "launches, by cold ones".to_owned(),
        role: LineRole::Launches,
        points: average(&by_cold),
    });
    Lines {
        axis: sweep.axis.to_owned(),
        values: values.to_vec(),
        lines,
    }
}

/// The mean if each of them is known: of other apps, it would be another mean.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// What the larger of two values costs launches on average.
fn harm(lines: &Lines, sweep: &Sweep) -> Option<String> {
    let (usual, large) = sweep.harm?;
    let launches = &lines.lines.last()?.points;
    let at = |value| {
        let index = lines.values.iter().position(|&own| own == value)?;
        launches[index]
    };
    Some(format!(
        "With {large} KiB, launches take {} of those with {usual} KiB.",
        ratio(at(large)? / at(usual)?)
    ))
}

fn by_value(device: &Device, apps: &[&App], sweep: &Sweep, lines: &Lines) -> Table {
    let note = "Means over apps. Own requests: read requests of the launch tree itself, by those of a cold launch. Late \
                metadata: blocks of metadata, of one more launch of each app, that the app came to before the prefetcher did.";
    let head = [
        lines.axis.as_str(),
        "launch by cold",
        "prefetcher alone by the first value",
        "own requests",
        "late metadata",
    ];
    let mut table = Table::new("By value", note, head);
    let points = |role| lines.lines.iter().find(|line| line.role == role);
    let point = |role, index: usize| points(role).and_then(|line| line.points[index]);
    for (index, &value) in lines.values.iter().enumerate() {
        let name = launch(sweep, value);
        let own = mean(apps.iter().map(|app| {
            let requests = |of: &str| app.median_of(of, |launch| Some(launch.app_requests as f64));
            Some(requests(&name)? / requests("cold").filter(|cold| *cold > 0.0)?)
        }));
        let late = mean(apps.iter().map(|app| {
            let is_own = |missed: &&Missed| missed.app == app.name && missed.scenario == name;
            device.missed.iter().find(is_own).map(late_metadata)
        }));
        table.push([
            value.to_string(),
            or_nothing(point(LineRole::Launches, index).map(ratio)),
            or_nothing(point(LineRole::Alone, index).map(ratio)),
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
    let head = ["app".to_owned(), "cold".to_owned()].into_iter();
    let head = head.chain(values.iter().map(u64::to_string));
    let note = format!("Seconds, medians, by {}.", sweep.axis);
    let mut table = Table::new("By app", &note, head);
    for app in apps {
        let names = std::iter::once("cold".to_owned());
        let names = names.chain(values.iter().map(|&value| launch(sweep, value)));
        let cell = |name: String| {
            let times = app.times(&name);
            or_nothing((!times.is_empty()).then(|| seconds(median(&times))))
        };
        table.push(std::iter::once(app.name.clone()).chain(names.map(cell)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::super::load::Results;
    use super::super::super::summary::devices;
    use super::*;
    use crate::record::{Launch, MissKind};

    fn results() -> Results {
        let launch = |app: &str, scenario: &str, seconds: f64| Launch {
            device: "d".to_owned(),
            app: app.to_owned(),
            scenario: scenario.to_owned(),
            window: Some(seconds),
            exit: scenario.starts_with("only-").then_some(seconds),
            app_requests: (seconds * 100.0).round() as u64,
            ..Launch::default()
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
        let sections = sweeps(&devices(&results())[0]);
        assert_eq!(sections.len(), 1, "one hole is no sweep");
        let rows = &sections[0].tables[0].rows;
        assert_eq!(rows[0], ["8", "0.60", "1.00", "60.0 %", "0.0"]);
        assert_eq!(rows[1], ["64", "0.50", "0.80", "50.0 %", "3.5"]);
        assert_eq!(rows[2][1..], ["0.75", "0.80", "75.0 %", "–"]);
        assert_eq!(
            sections[0].text[1],
            "With 256 KiB, launches take 1.50 of those with 64 KiB."
        );
        let Some(Picture::Lines(lines)) = &sections[0].picture else {
            panic!("no lines");
        };
        assert_eq!(lines.values, [8, 64, 256]);
        assert_eq!(lines.lines.len(), 4);
    }

    #[test]
    fn an_average_is_of_all_apps_or_none() {
        let mut results = results();
        results.launches.retain(|launch| {
            (launch.app.as_str(), launch.scenario.as_str()) != ("b", "sweep-shift-64")
        });
        let rows = &sweeps(&devices(&results)[0])[0].tables[0].rows;
        assert_eq!(rows[1][1], "–");
        assert_eq!(rows[2][1], "0.75");
    }
}
