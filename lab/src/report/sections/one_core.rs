//! Launches that share a processor with their prefetcher (Paralfetch §5.5).

use super::super::app::App;
use super::super::format::{or_nothing, ratio, seconds};
use super::super::stats::median;
use super::super::summary::Device;
use super::super::table::Table;
use super::{AVERAGE, Section};

/// What one processor makes of cold launches, and what a prefetcher with nothing to do adds to warm ones.
pub fn one_core(device: &Device) -> Option<Section> {
    let apps: Vec<&App> = device
        .apps
        .iter()
        .filter(|app| app.runs.keys().any(|name| name.starts_with("one-core-")))
        .collect();
    if apps.is_empty() {
        return None;
    }
    Some(Section {
        title: "One processor (Paralfetch §5.5)".to_owned(),
        text: vec![
            "The app and its prefetch thread share a processor, so that whatever the thread does is taken from the app. \
             The emulator of the drive and the display have the others."
                .to_owned(),
        ],
        picture: None,
        tables: vec![cold(&apps), warm(&apps)],
    })
}

const ALL: &str = "all processors";
const ONE: &str = "one processor";

fn cold(apps: &[&App]) -> Table {
    let head = [
        "app".to_owned(),
        format!("cold s, {ALL}"),
        format!("cold s, {ONE}"),
        format!("prefetched by cold, {ALL}"),
        format!("prefetched by cold, {ONE}"),
    ];
    let note = "Medians; ratios are of launches of the same turn.";
    let mut table = Table::new("Cold launches", note, head);
    let ratios = [("infill", "cold"), ("one-core-infill", "one-core-cold")];
    let of = |app: &App| ratios.map(|(over, under)| Some(app.ratio(over, under)?.value()));
    for app in apps {
        let middle = |name: &str| {
            let times = app.times(name);
            or_nothing((!times.is_empty()).then(|| seconds(median(&times))))
        };
        let times = ["cold", "one-core-cold"].map(middle);
        let ratios = of(app).map(|value| or_nothing(value.map(ratio)));
        table.push(std::iter::once(app.name.clone()).chain(times).chain(ratios));
    }
    if apps.len() > 1 {
        let means = [0, 1].map(|index| mean(apps.iter().map(|app| of(app)[index])).map(ratio));
        let none = || [None, None].map(or_nothing);
        let cells = none().into_iter().chain(means.map(or_nothing));
        table.push(std::iter::once(AVERAGE.to_owned()).chain(cells));
    }
    table
}

fn warm(apps: &[&App]) -> Table {
    let head = [
        "app".to_owned(),
        format!("warm s, {ALL}"),
        format!("added ms, {ALL}"),
        format!("warm s, {ONE}"),
        format!("added ms, {ONE}"),
    ];
    let note = "What a prefetcher that finds everything cached adds to a warm launch: the median of the differences to \
                the warm launch of the same turn.";
    let mut table = Table::new("Warm launches", note, head);
    let pairs = [
        ("warm-infill", "warm"),
        ("one-core-warm-infill", "one-core-warm"),
    ];
    let milliseconds = |value: f64| format!("{:+.1}", value * 1e3).replace('-', "−");
    for app in apps {
        let cells = pairs.iter().flat_map(|(with, without)| {
            let times = app.times(without);
            let middle = (!times.is_empty()).then(|| seconds(median(&times)));
            [middle, added(app, with, without).map(milliseconds)].map(or_nothing)
        });
        table.push(std::iter::once(app.name.clone()).chain(cells));
    }
    if apps.len() > 1 {
        let cells = pairs.iter().flat_map(|(with, without)| {
            let mean = mean(apps.iter().map(|app| added(app, with, without)));
            [None, mean.map(milliseconds)].map(or_nothing)
        });
        table.push(std::iter::once(AVERAGE.to_owned()).chain(cells));
    }
    table
}

/// The median of the differences of launches of one turn, in seconds.
fn added(app: &App, with: &str, without: &str) -> Option<f64> {
    let without = app.by_turn(without);
    let differences: Vec<f64> = app
        .by_turn(with)
        .into_iter()
        .filter_map(|(turn, time)| {
            let same = without.iter().find(|(other, _)| *other == turn);
            same.map(|(_, base)| time - base)
        })
        .collect();
    (!differences.is_empty()).then(|| median(&differences))
}

/// The mean over apps if each of them has a value: of others it would be another mean.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::super::super::load::Results;
    use super::super::super::summary::devices;
    use super::*;
    use crate::record::Launch;

    fn launch(app: &str, scenario: &str, turn: u32, seconds: f64) -> Launch {
        Launch {
            device: "d".to_owned(),
            app: app.to_owned(),
            scenario: scenario.to_owned(),
            turn,
            window: Some(seconds),
            ..Launch::default()
        }
    }

    #[test]
    fn what_is_added_is_of_the_same_turn() {
        let mut launches = Vec::new();
        for app in ["a", "b"] {
            // The second turn is slower as a whole.
            for (turn, drift) in [(0, 0.0), (1, 0.3)] {
                launches.extend([
                    launch(app, "cold", turn, 2.0 + drift),
                    launch(app, "one-core-cold", turn, 4.0),
                    launch(app, "one-core-infill", turn, 3.0),
                    launch(app, "one-core-warm", turn, 1.0 + drift),
                    launch(app, "one-core-warm-infill", turn, 1.002 + drift),
                ]);
            }
        }
        let results = Results {
            launches,
            ..Results::default()
        };
        let section = one_core(&devices(&results)[0]).unwrap();
        let [cold, warm] = [0, 1].map(|table: usize| &section.tables[table].rows);
        assert_eq!(cold[0], ["a", "2.15", "4.00", "–", "0.75"]);
        assert_eq!(cold[2], ["average", "–", "–", "–", "0.75"]);
        assert_eq!(warm[1], ["b", "–", "–", "1.15", "+2.0"]);
        assert_eq!(warm[2][4], "+2.0");
    }

    #[test]
    fn other_sessions_have_no_such_section() {
        let results = Results {
            launches: vec![launch("a", "cold", 0, 1.0), launch("a", "warm", 0, 1.0)],
            ..Results::default()
        };
        assert_eq!(one_core(&devices(&results)[0]), None);
    }
}
