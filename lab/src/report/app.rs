//! One app on one drive: its launches, and its times normalized to a cold start.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::Launch;
use crate::scenarios::{self, BOUND_AS_READ, BOUND_EXACT};
use crate::tables::stats::{Estimate, Statistic, gap_closed, median};

/// Apps that start faster than this when cold, in seconds, have nothing to gain (`uname`, FAST §5.2):
/// what prefetching costs them is shown, and they are left out of averages.
pub const TINY: f64 = 0.03;

/// How a launch's time is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Until the main window is mapped.
    Window,
    /// Until the app exits.
    Exit,
    /// Until the completion block arrives; for apps that do neither.
    Completion,
}

impl Rule {
    /// The time of a launch under this rule, in seconds.
    pub fn time(self, launch: &Launch) -> Option<f64> {
        let time = match self {
            _ if scenarios::is_prefetch_only(&launch.scenario) => launch.exit,
            Rule::Window => launch.window,
            Rule::Exit => launch.exit,
            Rule::Completion => launch.completion,
        };
        time.filter(|time| time.is_finite() && *time > 0.0)
    }

    /// In words.
    pub fn description(self) -> &'static str {
        match self {
            Rule::Window => "main window",
            Rule::Exit => "exit",
            Rule::Completion => "completion block",
        }
    }
}

/// One app on one drive.
#[derive(Clone, Debug)]
pub struct App {
    /// Name of the app; several that are launched at once are joined by `+`.
    pub name: String,
    /// How its launches' time is taken.
    pub rule: Rule,
    /// Undisturbed launches of each scenario.
    pub runs: BTreeMap<String, Vec<Launch>>,
    /// Disturbed launches of each scenario.
    pub disturbed: BTreeMap<String, Vec<Launch>>,
    /// Times normalized to the scenario's baseline, and the computed bounds.
    pub(super) normalized: BTreeMap<String, Statistic>,
    estimates: BTreeMap<String, Estimate>,
}

impl App {
    pub(super) fn new(name: &str, launches: &[&Launch]) -> Self {
        let shown = || {
            launches
                .iter()
                .filter(|l| !scenarios::is_prefetch_only(&l.scenario))
        };
        let rule = if shown().any(|launch| launch.window.is_some()) {
            Rule::Window
        } else if shown().any(|launch| launch.exit.is_some()) {
            Rule::Exit
        } else {
            Rule::Completion
        };
        let (mut runs, mut disturbed) = (BTreeMap::new(), BTreeMap::new());
        for launch in launches {
            let set = if launch.disturbed.is_empty() {
                &mut runs
            } else {
                &mut disturbed
            };
            let of_scenario: &mut Vec<Launch> = set.entry(launch.scenario.clone()).or_default();
            of_scenario.push((*launch).clone());
        }
        let mut app = Self {
            name: name.to_owned(),
            rule,
            runs,
            disturbed,
            normalized: BTreeMap::new(),
            estimates: BTreeMap::new(),
        };
        app.normalize();
        app
    }

    /// Time of one scenario by that of another; `None` where one was not measured.
    pub(super) fn ratio(&self, over: &str, under: &str) -> Option<Statistic> {
        ratio(&self.by_turn(over), &self.by_turn(under))
    }

    /// The median time of these launches of a round, by the time of a scenario; `None` where either was not
    /// measured.
    pub(super) fn round_ratio(&self, round: &[&str], under: &str) -> Option<Statistic> {
        let mut turns: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (turn, time) in round.iter().flat_map(|name| self.by_turn(name)) {
            turns.entry(turn).or_default().push(time);
        }
        let medians: Vec<(u32, f64)> = turns
            .into_iter()
            .map(|(turn, times)| (turn, median(&times)))
            .collect();
        ratio(&medians, &self.by_turn(under))
    }

    fn normalize(&mut self) {
        for scenario in self.runs.keys() {
            if let Some(ratio) = self.ratio(scenario, scenarios::baseline(scenario)) {
                self.normalized.insert(scenario.clone(), ratio);
            }
        }
        for (bound, only) in [(BOUND_AS_READ, "only-as-read"), (BOUND_EXACT, "only-exact")] {
            let parts = [only, "warm"].map(|name| self.normalized.get(name).cloned());
            if let [Some(ssd), Some(cpu)] = parts {
                let largest = Statistic::largest(vec![ssd, cpu]);
                self.normalized
                    .extend(largest.map(|largest| (bound.to_owned(), largest)));
            }
        }
        let estimate =
            |(name, statistic): (&String, &Statistic)| (name.clone(), statistic.estimate());
        self.estimates = self.normalized.iter().map(estimate).collect();
    }

    /// Turn and time in seconds of each undisturbed launch that has an end.
    pub fn by_turn(&self, scenario: &str) -> Vec<(u32, f64)> {
        let launches = self.runs.get(scenario).map_or(&[][..], Vec::as_slice);
        launches
            .iter()
            .filter_map(|l| Some((l.turn, self.rule.time(l)?)))
            .collect()
    }

    /// Times in seconds.
    pub fn times(&self, scenario: &str) -> Vec<f64> {
        self.by_turn(scenario)
            .into_iter()
            .map(|(_, time)| time)
            .collect()
    }

    /// Median time in seconds; `None` without an undisturbed launch that has an end.
    pub fn middle(&self, scenario: &str) -> Option<f64> {
        let times = self.times(scenario);
        (!times.is_empty()).then(|| median(&times))
    }

    /// Launch time normalized to the scenario's baseline, with its interval.
    pub fn normalized(&self, scenario: &str) -> Option<Estimate> {
        self.estimates.get(scenario).copied()
    }

    /// Share of the gap between cold and warm that the scenario closes.
    pub fn gap_closed(&self, scenario: &str) -> Option<f64> {
        gap_closed(self.normalized("warm")?, self.normalized(scenario)?.value)
    }

    /// Median of a quantity of a scenario's undisturbed launches.
    pub fn median_of(&self, scenario: &str, what: impl Fn(&Launch) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.runs.get(scenario)?.iter().filter_map(what).collect();
        (!values.is_empty()).then(|| median(&values))
    }

    /// Whether there is nothing to gain.
    pub fn is_tiny(&self) -> bool {
        let cold = self.times("cold");
        !cold.is_empty() && median(&cold) < TINY
    }
}

/// Median of the ratios of runs of one turn where all turns have their partner, otherwise the ratio of
/// the medians. Turns are interleaved, so that pairing cancels drift of the machine.
fn ratio(over: &[(u32, f64)], under: &[(u32, f64)]) -> Option<Statistic> {
    let partners: BTreeMap<u32, f64> = under.iter().copied().collect();
    let turns: BTreeSet<u32> = over.iter().map(|(turn, _)| *turn).collect();
    let pairs: Vec<(f64, f64)> = over
        .iter()
        .filter_map(|(turn, time)| Some((*time, *partners.get(turn)?)))
        .collect();
    if pairs.len() == over.len() && turns.len() == over.len() && partners.len() == under.len() {
        return Statistic::paired_ratio(&pairs);
    }
    let seconds = |runs: &[(u32, f64)]| runs.iter().map(|(_, time)| *time).collect();
    Statistic::ratio_of_medians(seconds(over), seconds(under))
}
