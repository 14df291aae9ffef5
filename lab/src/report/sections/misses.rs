//! What prefetched launches still read themselves.

use super::super::summary::Device;
use super::Section;
use crate::record::Missed;
use crate::scenarios::{self, Kind};
use crate::tables::Table;
use crate::tables::format::{listed, or_nothing, tenths};

/// Misses of one more launch of each app, with their reasons.
pub fn misses(device: &Device) -> Option<Section> {
    let head = ["app", "requests", "of cold", "why, of what", "others"];
    let note = "Read requests of one more launch, prefetched by Paralfetch in full and watched; against \
                the median of cold launches. Others: requests of processes outside of the launch tree.";
    let mut table = Table::new("Misses by reason", note, head);
    let mut ratios = Vec::new();
    let of_sweeps = |missed: &&Missed| scenarios::kind(&missed.scenario) == Kind::Swept;
    for missed in device.missed.iter().filter(|missed| !of_sweeps(missed)) {
        let requests = requests(missed);
        let cold = device
            .apps
            .iter()
            .find(|app| app.name == missed.app)
            .and_then(|app| app.median_of("cold", |launch| Some(launch.app_requests as f64)));
        let ratio = cold.map(|cold| requests as f64 / cold);
        ratios.extend(ratio);
        let kinds: Vec<String> = missed
            .kinds
            .iter()
            .map(|kind| format!("{} {} ({})", kind.requests, kind.reason, kind.of))
            .collect();
        table.push([
            missed.app.clone(),
            requests.to_string(),
            or_nothing(ratio.map(tenths)),
            listed(&kinds.iter().map(String::as_str).collect::<Vec<_>>()),
            missed.others.to_string(),
        ]);
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    let text = if ratios.is_empty() {
        Vec::new()
    } else {
        vec![format!(
            "On average {} of the requests of a cold launch are missed, at worst {}. The completion \
             block is left out of schedules because launches are timed by it, and not counted.",
            tenths(mean),
            tenths(worst)
        )]
    };
    Section::of("What prefetched launches still read", text, vec![table])
}

fn requests(missed: &Missed) -> u64 {
    missed
        .kinds
        .iter()
        .filter(|kind| kind.reason != "left-out")
        .map(|kind| kind.requests)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::super::super::load::Results;
    use super::super::samples::{device, launch};
    use super::*;
    use crate::record::{Launch, MissKind};

    #[test]
    fn misses_are_shares_of_a_cold_launch_without_the_completion_block() {
        let kind = |reason: &str, requests| MissKind {
            reason: reason.to_owned(),
            of: "data".to_owned(),
            requests,
        };
        let cold = Launch {
            app_requests: 1000,
            ..launch("a", "cold", 0, 1.0)
        };
        let missed = Missed {
            device: "d".to_owned(),
            app: "a".to_owned(),
            kinds: vec![kind("late", 4), kind("left-out", 1)],
            ..Missed::default()
        };
        let results = Results {
            launches: vec![cold],
            missed: vec![missed],
            ..Results::default()
        };
        let section = misses(&device(results)).unwrap();
        assert!(section.text[0].contains("0.4 %"), "{:?}", section.text);
        assert_eq!(
            section.tables[0].rows[0][1..4],
            ["4", "0.4 %", "4 late (data) and 1 left-out (data)"]
        );
    }
}
