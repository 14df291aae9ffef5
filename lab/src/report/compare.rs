//! What changed between two sets of results, and whether it is more than noise.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use super::load::{Results, load};
use super::summary::{Device, devices};
use crate::scenarios;
use crate::tables::Table;
use crate::tables::format::seconds;
use crate::tables::stats::{Statistic, median};

/// With fewer runs a side, all of one set being below all of the other happens by chance too often: 1 in
/// 10 comparisons of 3 with 3, 1 in 35 of 4 with 4 (either way round).
const FEWEST: usize = 4;

/// Compares the results in `a` with those in `b`, as text.
///
/// # Errors
/// One of them cannot be read.
pub fn compare(a: &Path, b: &Path) -> Result<String> {
    let (first, second) = (load(a)?, load(b)?);
    let mut text = format!("A: {}\nB: {}\n\n", a.display(), b.display());
    for (name, notes) in [("A", &first.notes), ("B", &second.notes)] {
        for note in notes {
            text.push_str(&format!("{name}: {note}\n\n"));
        }
    }
    text.push_str(&of(&first, &second));
    Ok(text)
}

/// Compares two sets: ratios of medians, B by A.
pub fn of(a: &Results, b: &Results) -> String {
    let (first, second) = (devices(a), devices(b));
    let all: BTreeSet<Key> = keys(&first).union(&keys(&second)).cloned().collect();
    let mut table = Table::new(
        "",
        "",
        [
            "device",
            "app",
            "scenario",
            "A, s",
            "B, s",
            "B/A",
            "95 % interval",
            "verdict",
        ],
    );
    let (mut only_a, mut only_b, mut disturbed) = (Vec::new(), Vec::new(), Vec::new());
    for key in all {
        match (times(&first, &key), times(&second, &key)) {
            (Some(old), Some(new)) => table.push(row(&key, old, new)),
            (Some(_), None) => only_a.push(key),
            (None, Some(_)) => only_b.push(key),
            (None, None) => disturbed.push(key),
        }
    }
    let mut text = if table.rows.is_empty() {
        "The two sets have no undisturbed launches in common.\n".to_owned()
    } else {
        table.to_text()
    };
    let lists = [
        ("Only in A", only_a),
        ("Only in B", only_b),
        ("Disturbed, and left out", disturbed),
    ];
    for (what, left) in lists {
        if !left.is_empty() {
            text.push_str(&format!("\n{what}:\n"));
            for (device, app, _, scenario) in left {
                text.push_str(&format!("  {device}, {app}, {scenario}\n"));
            }
        }
    }
    text
}

/// Device, app, rank of the scenario, scenario; in the order of the table.
type Key = (String, String, usize, String);

fn keys(devices: &[Device]) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for device in devices {
        for app in &device.apps {
            let timed = app.runs.keys().filter(|name| !app.times(name).is_empty());
            keys.extend(timed.chain(app.disturbed.keys()).map(|name| {
                (
                    device.name.clone(),
                    app.name.clone(),
                    scenarios::rank(name),
                    name.clone(),
                )
            }));
        }
    }
    keys
}

fn times(devices: &[Device], (device, app, _, scenario): &Key) -> Option<(Vec<f64>, &'static str)> {
    let device = devices.iter().find(|own| own.name == *device)?;
    let app = device.apps.iter().find(|own| own.name == *app)?;
    let times = app.times(scenario);
    (!times.is_empty()).then(|| (times, app.rule.description()))
}

fn row(key: &Key, old: (Vec<f64>, &str), new: (Vec<f64>, &str)) -> Vec<String> {
    let (device, app, _, scenario) = key;
    let mut row = vec![device.clone(), app.clone(), scenario.clone()];
    for times in [&old.0, &new.0] {
        row.push(seconds(median(times)));
    }
    if old.1 != new.1 && !scenarios::is_prefetch_only(scenario) {
        row.extend([
            "–".into(),
            "–".into(),
            format!("ends differ: {} and {}", old.1, new.1),
        ]);
        return row;
    }
    let Some(ratio) = Statistic::ratio_of_medians(new.0, old.0) else {
        return row;
    };
    let estimate = ratio.estimate();
    row.push(format!("{:.3}", estimate.value));
    let Some((low, high)) = estimate.interval else {
        row.extend(["–".into(), "too few runs to tell".into()]);
        return row;
    };
    row.push(format!("{low:.3}–{high:.3}"));
    row.push(if ratio.runs() < FEWEST {
        "too few runs to tell".to_owned()
    } else if high < 1.0 {
        format!("faster by {:.1} %", (1.0 - estimate.value) * 100.0)
    } else if low > 1.0 {
        format!("slower by {:.1} %", (estimate.value - 1.0) * 100.0)
    } else {
        "no more than noise".to_owned()
    });
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Launch;

    fn set(app: &str, scenario: &str, times: &[f64]) -> Results {
        let launch = |(turn, time): (usize, &f64)| Launch {
            device: "ufs".into(),
            app: app.into(),
            scenario: scenario.into(),
            turn: turn as u32,
            window: Some(*time),
            ..Launch::default()
        };
        Results {
            launches: times.iter().enumerate().map(launch).collect(),
            ..Results::default()
        }
    }

    #[test]
    fn a_clear_gain_is_faster_and_a_clear_loss_is_slower() {
        let slow = set("gimp", "cold", &[2.0, 2.1, 1.9, 2.05, 1.95]);
        let fast = set("gimp", "cold", &[1.0, 1.05, 0.95, 1.02, 0.98]);
        assert!(
            of(&slow, &fast).contains("faster by 50.0 %"),
            "{}",
            of(&slow, &fast)
        );
        assert!(of(&fast, &slow).contains("slower by 100.0 %"));
    }

    #[test]
    fn overlapping_sets_are_noise() {
        let a = set("gimp", "cold", &[1.0, 1.2, 0.9, 1.1, 1.05]);
        let b = set("gimp", "cold", &[1.1, 0.95, 1.15, 1.0, 0.9]);
        assert!(of(&a, &b).contains("no more than noise"));
        assert!(of(&a, &a).contains("no more than noise"));
    }

    #[test]
    fn few_runs_tell_nothing() {
        let text = of(
            &set("gimp", "cold", &[2.0, 2.0]),
            &set("gimp", "cold", &[1.0, 1.0]),
        );
        assert!(
            text.contains("too few runs to tell") && !text.contains("faster"),
            "{text}"
        );
        let text = of(
            &set("gimp", "cold", &[2.0]),
            &set("gimp", "cold", &[1.0; 9]),
        );
        assert!(text.contains("too few runs to tell"), "{text}");
    }

    #[test]
    fn what_is_in_one_set_only_is_listed() {
        let text = of(&set("gimp", "cold", &[1.0]), &set("vlc", "warm", &[1.0]));
        assert!(text.contains("no undisturbed launches in common"));
        assert!(text.contains("Only in A:\n  ufs, gimp, cold"), "{text}");
        assert!(text.contains("Only in B:\n  ufs, vlc, warm"), "{text}");
    }

    #[test]
    fn what_was_disturbed_each_time_is_listed() {
        let mut disturbed = set("gimp", "cold", &[1.0, 1.1]);
        for launch in &mut disturbed.launches {
            launch.disturbed = vec!["steal".into()];
        }
        let text = of(&disturbed, &disturbed);
        assert!(
            text.contains("Disturbed, and left out:\n  ufs, gimp, cold"),
            "{text}"
        );
        let text = of(&disturbed, &set("gimp", "cold", &[1.0]));
        assert!(text.contains("Only in B:\n  ufs, gimp, cold"), "{text}");
    }

    #[test]
    fn times_of_different_rules_are_not_compared() {
        let mut exits = set("gimp", "cold", &[1.0; 5]);
        for launch in &mut exits.launches {
            launch.exit = launch.window.take();
        }
        let text = of(&set("gimp", "cold", &[2.0; 5]), &exits);
        assert!(text.contains("ends differ: main window and exit"), "{text}");
    }
}
