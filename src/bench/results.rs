//! What a benchmark found: plain data, the same for the terminal and for exports.

use std::collections::BTreeMap;
use std::time::Duration;

use super::launcher::LaunchEnd;
use crate::model::median;

/// The state that a launch starts from, and whether it is prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
pub enum Scenario {
    /// Nothing cached.
    Cold,
    /// Nothing cached, with prefetching.
    Prefetch,
    /// Everything cached, without prefetching.
    Warm,
}

impl Scenario {
    /// As on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Cold => "cold",
            Scenario::Prefetch => "prefetch",
            Scenario::Warm => "warm",
        }
    }
}

/// One launch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Launch time in seconds, from before anything is done for it to its end.
    pub seconds: f64,
    /// Bytes that the launch tree itself read from drives.
    pub read_bytes: u64,
    /// Read requests that the launch tree itself made.
    pub read_requests: u64,
    /// Bytes that the prefetch thread read.
    pub prefetch_bytes: u64,
    /// Read requests that the prefetch thread made.
    pub prefetch_requests: u64,
    /// How late another program, which is asked before each file is opened, answers, if the prefetch ended for that.
    pub slow_opens: Option<Duration>,
}

/// The [`Sample`]s of all launches of a scenario, an item a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub seconds: Vec<f64>,
    pub read_bytes: Vec<u64>,
    pub read_requests: Vec<u64>,
    pub prefetch_bytes: Vec<u64>,
    pub prefetch_requests: Vec<u64>,
}

impl Series {
    /// Adds a launch.
    pub fn push(&mut self, sample: Sample) {
        self.seconds.push(sample.seconds);
        self.read_bytes.push(sample.read_bytes);
        self.read_requests.push(sample.read_requests);
        self.prefetch_bytes.push(sample.prefetch_bytes);
        self.prefetch_requests.push(sample.prefetch_requests);
    }

    /// Median launch time in seconds.
    pub fn median(&self) -> Option<f64> {
        median(&self.seconds)
    }
}

/// Median of counts.
pub fn median_count(counts: &[u64]) -> Option<f64> {
    median(&counts.iter().map(|count| *count as f64).collect::<Vec<_>>())
}

/// What a benchmark found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// The command.
    pub command: Vec<String>,
    /// What ended each launch.
    pub until: LaunchEnd,
    /// Launches, by name of the scenario.
    pub scenarios: BTreeMap<&'static str, Series>,
    /// (t_cold − t_prefetch) / (t_cold − t_warm), of medians; a fraction.
    pub gap_closed: Option<f64>,
    /// 1 − t_prefetch / t_cold, of medians; a fraction.
    pub reduction: Option<f64>,
    /// [`Sample::slow_opens`] of the last prefetched launch that had it.
    pub slow_opens: Option<Duration>,
    /// The readahead of the app's drive, in KiB, if the system tells.
    pub readahead_kib: Option<u64>,
}

impl Results {
    /// Adds a launch and brings the summary up to date.
    pub fn push(&mut self, scenario: Scenario, sample: Sample) {
        self.slow_opens = sample.slow_opens.or(self.slow_opens);
        self.scenarios
            .entry(scenario.name())
            .or_default()
            .push(sample);
        let median = |scenario: Scenario| self.scenarios.get(scenario.name())?.median();
        let (cold, prefetched) = (median(Scenario::Cold), median(Scenario::Prefetch));
        let warm = median(Scenario::Warm);
        if let (Some(cold), Some(prefetched)) = (cold, prefetched) {
            self.reduction = Some(1.0 - prefetched / cold);
            self.gap_closed = warm.and_then(|warm| gap_closed(cold, warm, prefetched));
        }
    }
}

/// `None` where there is no gap to close, because the warm launch is not faster than the cold one.
fn gap_closed(cold: f64, warm: f64, prefetched: f64) -> Option<f64> {
    (cold > warm).then(|| (cold - prefetched) / (cold - warm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_of_medians_and_series_have_an_item_a_run() {
        let mut results = Results::default();
        for (cold, prefetched, warm) in [(2.0, 1.0, 1.0), (9.0, 1.5, 1.0), (3.0, 1.5, 1.0)] {
            for (scenario, seconds) in [
                (Scenario::Cold, cold),
                (Scenario::Prefetch, prefetched),
                (Scenario::Warm, warm),
            ] {
                let sample = Sample {
                    seconds,
                    read_bytes: 4096,
                    read_requests: 1,
                    ..Sample::default()
                };
                results.push(scenario, sample);
            }
        }
        assert_eq!(results.reduction, Some(0.5));
        assert_eq!(results.gap_closed, Some(0.75));
        let cold = &results.scenarios["cold"];
        assert_eq!(cold.seconds, [2.0, 9.0, 3.0]);
        assert_eq!(cold.read_bytes, [4096; 3]);
        assert_eq!(cold.read_requests, [1; 3]);
    }

    #[test]
    fn the_gap_is_between_cold_and_warm() {
        assert_eq!(gap_closed(2.0, 1.0, 1.0), Some(1.0));
        assert_eq!(gap_closed(2.0, 1.0, 2.0), Some(0.0));
        assert_eq!(gap_closed(1.0, 1.0, 1.0), None);
    }
}
