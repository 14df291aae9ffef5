//! The model of preload (Esfahbod, *Preload: an adaptive prefetching daemon*, 2006), written anew from its description:
//! each pair of apps is a Markov chain in continuous time with four states: neither runs, the first, the second, both.
//! From how long the pair stays in a state and where it goes follows how likely an app that does not run is started in the
//! next period, and each pair's answer counts by the correlation of its apps. An app that no other says anything about
//! has no chance, and one that runs needs none.

use std::collections::BTreeMap;

use super::histories::AppUse;

/// How far ahead the model looks, in seconds: preload's cycle. With the horizon of the comparison it hits less.
const PERIOD_S: f64 = 20.0;

/// A pair's chain. A state is two bits: the first app runs, the second runs.
#[derive(Clone, Copy, Default)]
struct Chain {
    state: usize,
    since_s: u64,
    /// Seconds spent in each state, in stays that have ended.
    spent_s: [f64; 4],
    /// Changes from each state to each other.
    changes: [[u32; 4]; 4],
}

impl Chain {
    fn change(&mut self, to: usize, at_s: u64) {
        self.spent_s[self.state] += at_s.saturating_sub(self.since_s) as f64;
        self.changes[self.state][to] += 1;
        self.state = to;
        self.since_s = at_s;
    }

    /// Probability that the app with this bit, which does not run, is started within the period.
    fn starts(&self, bit: usize) -> f64 {
        let changes = &self.changes[self.state];
        let left: u32 = changes.iter().sum();
        if left == 0 {
            return 0.0;
        }
        let to_it: u32 = (0..4)
            .filter(|to| to & bit != 0)
            .map(|to| changes[to])
            .sum();
        let stay_s = self.spent_s[self.state] / f64::from(left);
        let leaves = 1.0 - (-PERIOD_S / stay_s.max(1.0)).exp();
        leaves * f64::from(to_it) / f64::from(left)
    }

    /// Pearson's correlation of the apps' running: 0 where one always or never runs.
    fn correlation(&self) -> f64 {
        let [_, first, second, both] = self.spent_s;
        let all: f64 = self.spent_s.iter().sum();
        let [a, b] = [first + both, second + both];
        let spread = (a * (all - a) * b * (all - b)).sqrt();
        match spread > 0.0 {
            true => (all * both - a * b) / spread,
            false => 0.0,
        }
    }
}

/// All pairs of the apps that were launched so far.
#[derive(Clone, Default)]
pub struct Pairs {
    /// How much of the history is in the chains.
    seen: usize,
    /// Apps that run, with when they are closed.
    running: BTreeMap<u32, u64>,
    known: Vec<u32>,
    /// By the smaller number and the larger.
    chains: BTreeMap<(u32, u32), Chain>,
}

impl Pairs {
    /// How likely each app is started next, as preload sees it at this time.
    pub fn scores(&mut self, past: &[AppUse], now_s: u64) -> BTreeMap<u32, f64> {
        for used in &past[self.seen..] {
            self.close_until(used.at_s);
            self.start(used);
        }
        self.seen = past.len();
        self.close_until(now_s);
        let known = self.known.iter();
        known.map(|&app| (app, self.score(app))).collect()
    }

    fn score(&self, app: u32) -> f64 {
        if self.running.contains_key(&app) {
            return 0.0;
        }
        let others = self.known.iter().filter(|&&other| other != app);
        let not_started: f64 = others
            .map(|&other| {
                let (key, bit) = key(app, other);
                let chain = self.chains.get(&key).copied().unwrap_or_default();
                1.0 - chain.correlation().abs() * chain.starts(bit)
            })
            .product();
        1.0 - not_started
    }

    fn start(&mut self, used: &AppUse) {
        if !self.known.contains(&used.app) {
            for &other in &self.known {
                let (key, bit) = key(used.app, other);
                let state = match self.running.contains_key(&other) {
                    true => 3 - bit,
                    false => 0,
                };
                let chain = Chain {
                    state,
                    since_s: used.at_s,
                    ..Chain::default()
                };
                self.chains.insert(key, chain);
            }
            self.known.push(used.app);
        }
        self.change(used.app, used.at_s);
        self.running.insert(used.app, used.until_s);
    }

    /// Closes the apps whose time has come, in order.
    fn close_until(&mut self, now_s: u64) {
        while let Some((&app, &until_s)) = self.running.iter().min_by_key(|(_, until_s)| **until_s)
        {
            if until_s > now_s {
                return;
            }
            self.running.remove(&app);
            self.change(app, until_s);
        }
    }

    /// An app was started or closed.
    fn change(&mut self, app: u32, at_s: u64) {
        for &other in self.known.iter().filter(|&&other| other != app) {
            let (key, bit) = key(app, other);
            if let Some(chain) = self.chains.get_mut(&key) {
                chain.change(chain.state ^ bit, at_s);
            }
        }
    }
}

/// The pair of an app and another, and the app's bit in it.
fn key(app: u32, other: u32) -> ((u32, u32), usize) {
    match app < other {
        true => ((app, other), 1),
        false => ((other, app), 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(app: u32, at_s: u64, until_s: u64) -> AppUse {
        AppUse { app, at_s, until_s }
    }

    /// Each time 1 runs, 2 is started soon after; 3 runs at times of its own.
    #[test]
    fn an_app_that_follows_one_that_runs_is_likelier() {
        let mut past: Vec<AppUse> = (0..5)
            .flat_map(|n| {
                let at_s = n * 10_000;
                [
                    used(1, at_s, at_s + 1000),
                    used(2, at_s + 10, at_s + 900),
                    used(3, at_s + 5000, at_s + 6000),
                ]
            })
            .collect();
        past.push(used(1, 50_000, 51_000));
        let scores = Pairs::default().scores(&past, 50_001);
        assert!(scores[&2] > scores[&3], "{scores:?}");
        assert_eq!(scores[&1], 0.0, "it runs");
        assert!(scores.values().all(|score| (0.0..=1.0).contains(score)));
    }

    #[test]
    fn a_history_that_grows_is_as_one_that_is_whole() {
        let past: Vec<AppUse> = (0..40)
            .map(|n| used(n as u32 * 7 % 5, n * 100, n * 100 + 130))
            .collect();
        let mut grown = Pairs::default();
        for end in 1..past.len() {
            grown.scores(&past[..end], past[end - 1].at_s);
        }
        assert_eq!(
            grown.scores(&past, 5000),
            Pairs::default().scores(&past, 5000)
        );
    }
}
