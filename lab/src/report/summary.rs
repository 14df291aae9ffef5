//! Results grouped by drive, and the averages that tables share.

use std::collections::{BTreeMap, BTreeSet};

use super::app::App;
use super::load::Results;
use crate::record::{Launch, Learned, Lessons, Missed, Session};
use crate::scenarios::{self, Kind};
use crate::tables::stats::{Estimate, Statistic, gap_closed};

/// An average over apps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Average {
    /// Mean of the normalized times.
    pub estimate: Estimate,
    /// Apps that it is the mean of.
    pub apps: usize,
}

/// The records that have a key, and of several with the same one the last: what was learned again took
/// the place of what was there.
fn latest<'a, T: Clone, K: PartialEq>(
    records: &'a [T],
    key: impl Fn(&'a T) -> Option<K>,
) -> Vec<T> {
    let mut kept: Vec<&'a T> = Vec::new();
    for record in records.iter().filter(|record| key(record).is_some()) {
        match kept.iter_mut().find(|known| key(known) == key(record)) {
            Some(known) => *known = record,
            None => kept.push(record),
        }
    }
    kept.into_iter().cloned().collect()
}

/// Everything measured on one drive.
#[derive(Clone, Debug)]
pub struct Device {
    /// Name of the drive's profile.
    pub name: String,
    /// Sessions, in order.
    pub sessions: Vec<Session>,
    /// Learning runs, in order.
    pub learned: Vec<Learned>,
    /// Apps that were learned several times, in order.
    pub lessons: Vec<Lessons>,
    /// Judged launches, in order.
    pub missed: Vec<Missed>,
    /// Apps, in the order of their first launch.
    pub apps: Vec<App>,
    /// Scenarios that were measured or computed, in the order of reports.
    pub scenarios: Vec<String>,
    averages: BTreeMap<String, Average>,
}

impl Device {
    fn new(name: &str, results: &Results) -> Self {
        let launches: Vec<&Launch> = results
            .launches
            .iter()
            .filter(|l| l.device == name)
            .collect();
        let mut apps: Vec<App> = Vec::new();
        for launch in &launches {
            if !apps.iter().any(|app| app.name == launch.app) {
                let own: Vec<&Launch> = launches
                    .iter()
                    .copied()
                    .filter(|l| l.app == launch.app)
                    .collect();
                apps.push(App::new(&launch.app, &own));
            }
        }
        let names: BTreeSet<&String> = apps
            .iter()
            .flat_map(|app| app.runs.keys().chain(app.normalized.keys()))
            .collect();
        let mut scenarios: Vec<String> = names.into_iter().cloned().collect();
        scenarios.sort_by_key(|name| {
            let of_sweep = scenarios::unnumbered(name).to_owned();
            (scenarios::rank(name), of_sweep, scenarios::number(name))
        });
        let mut device = Self {
            name: name.to_owned(),
            sessions: results
                .sessions
                .iter()
                .filter(|s| s.device == name)
                .cloned()
                .collect(),
            learned: latest(&results.learned, |l| {
                (l.device == name).then_some((&l.app, &l.how))
            }),
            lessons: latest(&results.lessons, |l| {
                (l.device == name).then_some((&l.app, &l.how))
            }),
            missed: latest(&results.missed, |m| {
                (m.device == name).then_some((&m.app, &m.scenario))
            }),
            apps,
            scenarios,
            averages: BTreeMap::new(),
        };
        for scenario in device.scenarios.clone() {
            let parts: Vec<Statistic> = device
                .launched()
                .filter_map(|app| app.normalized.get(&scenario).cloned())
                .collect();
            let apps = parts.len();
            if let Some(mean) = Statistic::mean(parts) {
                device.averages.insert(
                    scenario,
                    Average {
                        estimate: mean.estimate(),
                        apps,
                    },
                );
            }
        }
        device
    }

    /// Apps that averages are made of: with cold launches, and with something to gain.
    pub fn launched(&self) -> impl Iterator<Item = &App> {
        self.apps
            .iter()
            .filter(|app| !app.times("cold").is_empty() && !app.is_tiny())
    }

    /// Mean of a scenario's normalized times over apps.
    pub fn average(&self, scenario: &str) -> Option<Average> {
        self.averages.get(scenario).copied()
    }

    /// Gap closed, of the averages of normalized times; prefetching without a launch closes none.
    pub fn average_gap_closed(&self, scenario: &str) -> Option<f64> {
        if scenarios::is_prefetch_only(scenario) {
            return None;
        }
        gap_closed(
            self.average("warm")?.estimate,
            self.average(scenario)?.estimate.value,
        )
    }

    /// Scenarios of these kinds that were measured or computed, in the order of reports.
    pub fn of_kinds(&self, kinds: &[Kind]) -> Vec<&str> {
        let all = self.scenarios.iter().map(String::as_str);
        all.filter(|name| kinds.contains(&scenarios::kind(name)))
            .collect()
    }

    /// Paralfetch with the most optimisations that was measured.
    pub fn ours(&self) -> Option<&str> {
        self.of_kinds(&[Kind::Ours]).last().copied()
    }
}

/// Groups results by drive, in the order of their first appearance.
pub fn devices(results: &Results) -> Vec<Device> {
    let mut names: Vec<&str> = Vec::new();
    let sessions = results
        .sessions
        .iter()
        .map(|session| session.device.as_str());
    let learned = results
        .learned
        .iter()
        .map(|learned| learned.device.as_str());
    let lessons = results
        .lessons
        .iter()
        .map(|lessons| lessons.device.as_str());
    for name in sessions
        .chain(learned)
        .chain(lessons)
        .chain(results.launches.iter().map(|l| l.device.as_str()))
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
        .into_iter()
        .map(|name| Device::new(name, results))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::app::Rule;
    use super::*;
    use crate::scenarios::{BOUND_AS_READ, BOUND_EXACT};

    fn launch(scenario: &str, turn: u32, window: f64) -> Launch {
        Launch {
            device: "d".into(),
            app: "a".into(),
            scenario: scenario.into(),
            turn,
            window: Some(window),
            exit: scenarios::is_prefetch_only(scenario).then_some(window),
            ..Launch::default()
        }
    }

    fn device(launches: Vec<Launch>) -> Device {
        devices(&Results {
            launches,
            ..Results::default()
        })
        .remove(0)
    }

    #[test]
    fn ratios_are_of_one_turn() {
        let device = device(vec![
            launch("cold", 0, 1.0),
            launch("cold", 1, 2.0),
            launch("warm", 0, 0.5),
            launch("warm", 1, 1.0),
        ]);
        assert_eq!(device.apps[0].normalized("warm").unwrap().value, 0.5);
        assert_eq!(
            device.apps[0].normalized("warm").unwrap().interval,
            Some((0.5, 0.5))
        );
        assert_eq!(device.apps[0].normalized("cold").unwrap().value, 1.0);
    }

    #[test]
    fn runs_without_a_partner_are_compared_by_medians() {
        let device = device(vec![
            launch("cold", 0, 2.0),
            launch("warm", 0, 1.0),
            launch("warm", 1, 0.5),
        ]);
        assert_eq!(device.apps[0].normalized("warm").unwrap().value, 0.375);
    }

    #[test]
    fn disturbed_runs_are_left_out_and_kept_apart() {
        let disturbed = Launch {
            disturbed: vec!["steal".into()],
            ..launch("cold", 1, 99.0)
        };
        let device = device(vec![launch("cold", 0, 2.0), disturbed]);
        assert_eq!(device.apps[0].times("cold"), [2.0]);
        assert_eq!(device.apps[0].disturbed["cold"].len(), 1);
    }

    #[test]
    fn the_bound_is_the_larger_of_drive_and_processor() {
        let device = device(vec![
            launch("cold", 0, 2.0),
            launch("warm", 0, 0.5),
            launch("only-as-read", 0, 0.8),
            launch("only-exact", 0, 0.4),
        ]);
        let app = &device.apps[0];
        assert_eq!(app.normalized(BOUND_AS_READ).unwrap().value, 0.4);
        assert_eq!(app.normalized(BOUND_EXACT).unwrap().value, 0.25);
        assert!((app.gap_closed(BOUND_AS_READ).unwrap() - 0.8).abs() < 1e-9);
        assert!(device.scenarios.iter().any(|name| name == BOUND_EXACT));
    }

    #[test]
    fn apps_that_exit_and_times_that_are_no_times() {
        let exit = |time| Launch {
            window: None,
            exit: Some(time),
            ..launch("cold", 0, 1.0)
        };
        let device = device(vec![exit(0.4), exit(f64::NAN), exit(0.0)]);
        assert_eq!(device.apps[0].rule, Rule::Exit);
        assert_eq!(device.apps[0].times("cold"), [0.4]);
    }

    #[test]
    fn tiny_programs_are_no_part_of_averages() {
        let mut tiny = launch("cold", 0, 0.004);
        tiny.app = "uname".into();
        let device = device(vec![tiny, launch("cold", 0, 1.0), launch("warm", 0, 0.5)]);
        assert_eq!(device.average("cold").unwrap().apps, 1);
        assert_eq!(device.average_gap_closed("warm"), Some(1.0));
    }
}
