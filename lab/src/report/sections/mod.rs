//! What a report shows, apart from how: sections with text, tables and what to draw.

mod checks;
mod company;
mod effort;
mod figures;
mod idle;
mod launches;
mod learned;
mod lessons;
mod misses;
mod one_core;
mod service;
mod sweeps;
mod together;
mod writes;
mod wrong;

use super::app::App;
use super::stats::{Estimate, Statistic};
use super::summary::Device;
use super::table::Table;
pub use idle::idle_stretches;
pub use writes::waits_for_writes;

/// A part of a device's report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// What to draw, where there is something.
    pub picture: Option<Picture>,
    /// Tables; those behind a picture hold its numbers.
    pub tables: Vec<Table>,
}

/// Something to draw.
#[derive(Clone, Debug, PartialEq)]
pub enum Picture {
    /// Bars for each app, as the papers draw launch times.
    Groups(Groups),
    /// One bar for each scenario: normalized, gap closed.
    Averages(Vec<Bar>),
    /// A line for each app over the values of a sweep.
    Lines(Lines),
}

/// Normalized times over the values of a parameter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// The parameter and its unit.
    pub axis: String,
    /// Its values, rising.
    pub values: Vec<u64>,
    /// From the least important on.
    pub lines: Vec<Line>,
}

/// The times of one app, or of all on average.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its name in the legend and on hover.
    pub name: String,
    /// How it is drawn.
    pub role: LineRole,
    /// For each of [`Lines::values`].
    pub points: Vec<Option<f64>>,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineRole {
    /// One app.
    #[default]
    App,
    /// The average of launches.
    Launches,
    /// The average of the prefetcher alone.
    Alone,
}

/// Grouped bars of normalized launch times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    /// Scenarios that are drawn as bars.
    pub bars: Vec<String>,
    /// Scenarios that are drawn as marks across a group.
    pub marks: Vec<String>,
    /// Name of each group with the times of its bars and of its marks.
    pub groups: Vec<Group>,
}

/// One app, or the average.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The app, or the average.
    pub name: String,
    /// For each of [`Groups::bars`].
    pub bars: Vec<Option<Estimate>>,
    /// For each of [`Groups::marks`].
    pub marks: Vec<Option<Estimate>>,
}

/// A scenario's average.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Name of the scenario.
    pub scenario: String,
    /// Normalized to cold.
    pub estimate: Estimate,
    /// Share of the gap between cold and warm.
    pub gap_closed: Option<f64>,
}

/// Title of the average's row and group.
pub const AVERAGE: &str = "average";

/// The sections of a drive, those of experiments that were not made left out.
pub fn of_device(device: &Device) -> Vec<Section> {
    let launches = [
        Some(checks::conditions(device)),
        launches::normalized(device),
        figures::increments(device),
        figures::fast(device),
        figures::averages(device),
    ];
    let conditions = [
        company::background(device),
        company::live(device),
        company::beside(device),
        company::writer(device),
        wrong::wrong(device),
        one_core::one_core(device),
        together::together(device),
        checks::tiny(device),
        launches::seconds(device),
        checks::requests(device),
        effort::effort(device),
        misses::misses(device),
        learned::learned(device),
        checks::ends(device),
        checks::disturbed(device),
    ];
    let rounds = service::rounds(device)
        .into_iter()
        .chain(sweeps::sweeps(device))
        .chain(lessons::lessons(device));
    let launches = launches.into_iter().flatten().chain(rounds);
    launches.chain(conditions.into_iter().flatten()).collect()
}

/// Averages of all scenarios that are normalized to cold.
pub fn average_bars(device: &Device, scenarios: &[&str]) -> Vec<Bar> {
    let bar = |scenario: &&str| {
        Some(Bar {
            scenario: (*scenario).to_owned(),
            estimate: device.average(scenario)?.estimate,
            gap_closed: device.average_gap_closed(scenario),
        })
    };
    scenarios.iter().filter_map(bar).collect()
}

/// Normalized times of `apps` in these scenarios, empty rows left out; with their average where
/// it is asked for and there are several apps.
fn groups(apps: &[&App], bars: &[&str], marks: &[&str], average: bool) -> Groups {
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut groups: Vec<Group> = apps
        .iter()
        .map(|app| Group {
            name: app.name.clone(),
            bars: bars.iter().map(|name| app.normalized(name)).collect(),
            marks: marks.iter().map(|name| app.normalized(name)).collect(),
        })
        .filter(|group| group.bars.iter().chain(&group.marks).any(Option::is_some))
        .collect();
    if average && groups.len() > 1 {
        // Bars and marks of one picture are means over the same apps, those drawn.
        let drawn = |app: &&&App| groups.iter().any(|group| group.name == app.name);
        let apps: Vec<&App> = apps.iter().filter(drawn).copied().collect();
        let mean = |name: &&str| {
            let parts = apps
                .iter()
                .filter_map(|app| app.normalized.get(*name).cloned())
                .collect();
            Statistic::mean(parts).map(|mean| mean.estimate())
        };
        groups.push(Group {
            name: AVERAGE.to_owned(),
            bars: bars.iter().map(mean).collect(),
            marks: marks.iter().map(mean).collect(),
        });
    }
    Groups {
        bars: own(bars),
        marks: own(marks),
        groups,
    }
}

/// The scenarios of `wanted` that the device has, in that order.
fn present<'a>(device: &Device, wanted: &[&'a str]) -> Vec<&'a str> {
    wanted
        .iter()
        .copied()
        .filter(|name| device.scenarios.iter().any(|own| own == name))
        .collect()
}
