//! Unprefixed launches with the service on, and the steps of its dynamic scheduling.

use std::collections::BTreeMap;

use super::super::app::App;
use super::super::summary::Device;
use super::{Section, head};
use crate::record::{Learned, Served, Tuned};
use crate::scenarios::Kind;
use crate::tables::Table;
use crate::tables::format::{near_one_with_interval, ratio_with_interval};

/// Launches of a round that the service usually learns; those from the next one on are what users get.
const LEARNED: usize = 2;

/// First to last launch of an app that the service has not seen before.
pub fn rounds(device: &Device) -> Option<Section> {
    let columns = device.of_kinds(&[Kind::Service]);
    let is_own = |app: &&App| columns.iter().any(|name| app.runs.contains_key(*name));
    let apps: Vec<&App> = device.apps.iter().filter(is_own).collect();
    let mut tables: Vec<Table> = by_default(&apps, &columns).into_iter().collect();
    tables.extend([times(device, &apps, &columns), kinds(&apps, &columns)]);
    tables.extend(tuning_gain(&apps, &columns));
    let text = "Started plainly and cold, one after the other, with a service that had not seen the app before.";
    Section::of(
        "Launches with the service on",
        vec![text.to_owned()],
        tables,
    )
}

/// What users get by default: the launches after those that are usually learned, by the best that the
/// exact method does, and by cold launches.
fn by_default(apps: &[&App], columns: &[&str]) -> Option<Table> {
    let later = columns.get(LEARNED..).filter(|later| !later.is_empty())?;
    let under = ["infill", "cold"];
    let numbers = match columns.len() {
        3 => "launch 3".to_owned(),
        last => format!("launches 3 to {last}"),
    };
    let note = format!(
        "The median of {numbers} of a round, by launches that are prefetched with the exact profile (+ infill) \
         and by cold launches, with 95 % intervals; less is better. Launches that were learned again are in it.",
    );
    let table = Table::new(
        "What users get by default",
        &note,
        head(["by + infill", "by cold"]),
    );
    let by = |app: &App, under: &&str| app.round_ratio(later, under);
    Some(table.of_statistics(apps, &under, by, near_one_with_interval))
}

/// How the columns of launches are headed: `launch 1`.
fn numbered(columns: &[&str]) -> Vec<String> {
    let number = |name: &&str| format!("launch {}", name.rsplit('-').next().unwrap_or(name));
    head(columns.iter().map(number))
}

fn times(device: &Device, apps: &[&App], columns: &[&str]) -> Table {
    let note = "By cold launches without the service, with 95 % intervals; less is better.";
    Table::new("Normalized launch time", note, numbered(columns)).by_app(
        apps,
        columns,
        |app, name| app.normalized(name).map(ratio_with_interval),
        |name| {
            device
                .average(name)
                .map(|average| ratio_with_interval(average.estimate))
        },
    )
}

fn kinds(apps: &[&App], columns: &[&str]) -> Table {
    let note =
        "By its own history, with the value of the parameter that dynamic scheduling raises.";
    let cell = |app: &App, name: &&str| {
        let launches = app.runs.get(*name).into_iter().flatten();
        let served: Vec<&Served> = launches.filter_map(|l| l.served.as_ref()).collect();
        (!served.is_empty()).then(|| what(&served))
    };
    let table = Table::new("What the service did", note, numbered(columns));
    table.by_app(apps, columns, cell, |_| None)
}

/// What the service did, with counts where launches differ: `prefetched, shift 64–96 KiB`.
fn what(served: &[&Served]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in served {
        *counts.entry(&one.kind).or_default() += 1;
    }
    let mut words: Vec<String> = match counts.len() {
        1 => counts.keys().map(|kind| (*kind).to_owned()).collect(),
        _ => counts
            .iter()
            .map(|(kind, count)| format!("{kind} × {count}"))
            .collect(),
    };
    let prefetched = served.iter().filter(|one| one.kind == "prefetched");
    let tunings = prefetched.filter_map(|one| one.tuning.as_ref());
    if let (Some(least), Some(most)) = (tunings.clone().min(), tunings.max()) {
        words.push(if least == most {
            least.to_string()
        } else {
            format!("{least} to {most}")
        });
    }
    words.join(", ")
}

/// What changes between the first launch that is usually prefetched and the last: dynamic scheduling.
fn tuning_gain(apps: &[&App], columns: &[&str]) -> Option<Table> {
    let (first, last) = (columns.get(LEARNED)?, columns.last()?);
    let table = Table::new(
        "Last launch by third",
        "What dynamic scheduling adds to the first schedule, with 95 % intervals; the paper saw 0.982 and \
         0.952 (Paralfetch §5.2 and §5.3).",
        ["app", "ratio"],
    );
    let by_first = |app: &App, _: &()| app.ratio(last, first);
    (first != last).then(|| table.of_statistics(apps, &[()], by_first, near_one_with_interval))
}

/// What the service made of the schedule that `dynamic` starts from.
pub fn tuned(learned: &[Learned]) -> Table {
    let mut table = Table::new(
        "Dynamic scheduling",
        "From the schedule of + infill, in cold launches one after the other, to that of + dynamic.",
        ["app", "launches", "schedules in force", "ended"],
    );
    for one in learned {
        let Some(tuned) = &one.tuned else { continue };
        table.push([
            one.app.clone(),
            tuned.launches.to_string(),
            path(tuned),
            end(tuned),
        ]);
    }
    table
}

/// The values that were in force, one after the other.
fn path(tuned: &Tuned) -> String {
    let words: Vec<String> = tuned
        .steps
        .iter()
        .enumerate()
        .map(|(at, step)| match (at, step.taken_back) {
            (0, _) => step.parameter.to_string(),
            (_, false) => format!("→ {}", step.parameter.value),
            (_, true) => format!("→ back to {}", step.parameter.value),
        })
        .collect();
    match words.len() {
        0 => "no free parameter: nothing was changed".to_owned(),
        1 => format!("{}: nothing was changed", words[0]),
        _ => words.join(" "),
    }
}

fn end(tuned: &Tuned) -> String {
    match tuned.ended.as_deref() {
        None => "not settled".to_owned(),
        Some("in-time") => "prefetching is in time".to_owned(),
        Some("slower") => "a step made launches slower".to_owned(),
        Some("no-gain") => "steps made launches no faster".to_owned(),
        Some("at-limit") => "at the end of its range".to_owned(),
        Some("nothing-free") => "no parameter is free".to_owned(),
        Some("relearn") => "it is to be learned anew".to_owned(),
        Some(other) => other.replace('-', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Parameter, TuningStep};

    fn shift(value: u64) -> Parameter {
        Parameter {
            name: "shift KiB".to_owned(),
            value,
        }
    }

    #[test]
    fn what_was_done_is_summed_up() {
        let served = |kind: &str, tuning: Option<u64>| Served {
            kind: kind.to_owned(),
            tuning: tuning.map(shift),
            ..Served::default()
        };
        let (a, b) = (
            served("prefetched", Some(64)),
            served("prefetched", Some(96)),
        );
        let (learned, watched) = (served("learned", None), served("watched", Some(64)));
        assert_eq!(what(&[&learned, &learned]), "learned");
        assert_eq!(what(&[&a, &a]), "prefetched, shift 64 KiB");
        assert_eq!(what(&[&a, &b]), "prefetched, shift 64 KiB to shift 96 KiB");
        assert_eq!(
            what(&[&a, &a, &watched]),
            "prefetched × 2, watched × 1, shift 64 KiB"
        );
    }

    #[test]
    fn a_way_is_told() {
        let tuned = |values: &[(u64, bool)]| Tuned {
            steps: values
                .iter()
                .map(|&(value, taken_back)| TuningStep {
                    parameter: shift(value),
                    taken_back,
                })
                .collect(),
            ..Tuned::default()
        };
        assert_eq!(
            path(&tuned(&[(64, false)])),
            "shift 64 KiB: nothing was changed"
        );
        assert_eq!(
            path(&tuned(&[(64, false), (80, false), (64, true)])),
            "shift 64 KiB → 80 → back to 64"
        );
        assert!(path(&tuned(&[])).starts_with("no free parameter"));
        assert_eq!(end(&tuned(&[])), "not settled");
    }
}
