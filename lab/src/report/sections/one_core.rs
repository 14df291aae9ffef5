//! Launches that share a processor with their prefetcher (Paralfetch §5.5).

use super::super::app::App;
use super::super::summary::Device;
use super::{Section, head, mean_of_all};
use crate::scenarios::ONE_CORE;
use crate::tables::Table;
use crate::tables::format::{ratio, seconds};
use crate::tables::stats::median;

/// What one processor makes of cold launches, and what a prefetcher with nothing to do adds to warm ones.
pub fn one_core(device: &Device) -> Option<Section> {
    let is_own = |app: &&App| app.runs.keys().any(|name| name.starts_with(ONE_CORE));
    let apps: Vec<&App> = device.apps.iter().filter(is_own).collect();
    let text = "The app and its prefetch thread share a processor, so that whatever the thread does is taken from the app. \
                The emulator of the drive and the display have the others.";
    let tables = vec![cold(&apps), warm(&apps)];
    Section::of(
        "One processor (Paralfetch §5.5)",
        vec![text.to_owned()],
        tables,
    )
}

/// What a column shows: a scenario's seconds, or a number of two scenarios.
type Column = (&'static str, Option<&'static str>);

fn cold(apps: &[&App]) -> Table {
    let columns: [Column; 4] = [
        ("cold", None),
        ("one-core-cold", None),
        ("infill", Some("cold")),
        ("one-core-infill", Some("one-core-cold")),
    ];
    let heads = [
        "cold s, all processors",
        "cold s, one processor",
        "prefetched by cold, all processors",
        "prefetched by cold, one processor",
    ];
    let note = "Medians; ratios are of launches of the same turn.";
    let by = |app: &App, over: &str, under: &str| Some(app.ratio(over, under)?.value());
    Table::new("Cold launches", note, head(heads)).by_app(
        apps,
        &columns,
        |app, &(name, under)| match under {
            None => app.middle(name).map(seconds),
            Some(under) => by(app, name, under).map(ratio),
        },
        |&(name, under)| mean_of_all(apps.iter().map(|app| by(app, name, under?))).map(ratio),
    )
}

fn warm(apps: &[&App]) -> Table {
    let columns: [Column; 4] = [
        ("warm", None),
        ("warm-infill", Some("warm")),
        ("one-core-warm", None),
        ("one-core-warm-infill", Some("one-core-warm")),
    ];
    let heads = [
        "warm s, all processors",
        "added ms, all processors",
        "warm s, one processor",
        "added ms, one processor",
    ];
    let note = "What a prefetcher that finds everything cached adds to a warm launch: the median of the differences to \
                the warm launch of the same turn.";
    let milliseconds = |value: f64| format!("{:+.1}", value * 1e3).replace('-', "−");
    Table::new("Warm launches", note, head(heads)).by_app(
        apps,
        &columns,
        |app, &(name, without)| match without {
            None => app.middle(name).map(seconds),
            Some(without) => added(app, name, without).map(milliseconds),
        },
        |&(name, without)| {
            mean_of_all(apps.iter().map(|app| added(app, name, without?))).map(milliseconds)
        },
    )
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

#[cfg(test)]
mod tests {
    use super::super::samples::{launch, launched};
    use super::*;

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
        let section = one_core(&launched(launches)).unwrap();
        let [cold, warm] = [0, 1].map(|table: usize| &section.tables[table].rows);
        assert_eq!(cold[0], ["a", "2.15", "4.00", "–", "0.75"]);
        assert_eq!(cold[2], ["average", "–", "–", "–", "0.75"]);
        assert_eq!(warm[1], ["b", "–", "–", "1.15", "+2.0"]);
        assert_eq!(warm[2][4], "+2.0");
    }

    #[test]
    fn other_sessions_have_no_such_section() {
        let launches = vec![launch("a", "cold", 0, 1.0), launch("a", "warm", 0, 1.0)];
        assert_eq!(one_core(&launched(launches)), None);
    }
}
