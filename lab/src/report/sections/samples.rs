//! Launches on a drive, for tests of sections.

use super::super::load::Results;
use super::super::summary::{Device, devices};
use crate::record::Launch;
use crate::scenarios::is_prefetch_only;

/// A launch of a turn that took so many seconds.
pub fn launch(app: &str, scenario: &str, turn: u32, seconds: f64) -> Launch {
    let alone = is_prefetch_only(scenario);
    Launch {
        device: "d".to_owned(),
        app: app.to_owned(),
        scenario: scenario.to_owned(),
        turn,
        window: (!alone).then_some(seconds),
        exit: alone.then_some(seconds),
        ..Launch::default()
    }
}

/// The drive of these results.
pub fn device(results: Results) -> Device {
    devices(&results).remove(0)
}

/// The drive on which these launches were made.
pub fn launched(launches: Vec<Launch>) -> Device {
    device(Results {
        launches,
        ..Results::default()
    })
}
