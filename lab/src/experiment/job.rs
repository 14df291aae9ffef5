//! What a session asks one process to do: all launches of one app, or of several at once. A process of
//! its own for each, so that the app gets a clean environment and a failure ends nothing else.

use paralfetch::model::{DriveClass, DriveCosts};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

use crate::apps::App;

/// The work of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Name of the drive's profile.
    pub device: String,
    /// The drive's kernel name, such as `loop3`.
    pub drive: String,
    /// What kind of drive it is: a loop device cannot say so.
    pub class: DriveClass,
    /// What its reads cost as the product measures it, if a scenario needs it.
    pub costs: Option<DriveCosts>,
    /// Process that emulates the drive.
    pub emulator: Option<u32>,
    /// Where the image is mounted.
    pub root: PathBuf,
    /// Where results go.
    pub out: PathBuf,
    /// The apps: one, or several to be launched at once.
    pub apps: Vec<App>,
    /// What runs in the background while learning for the `background-…` scenarios.
    pub background: Option<App>,
    /// Scenarios, as [`crate::scenarios::Scenario::parse_list`] reads them.
    pub scenarios: String,
    /// How often to learn the app in the same way; 0: it is launched instead.
    pub lessons: u32,
    /// Turns.
    pub runs: u32,
    /// Launches of each round with the service on.
    pub launches: u32,
    /// Whether to judge misses.
    pub misses: bool,
    /// Longest launch, in seconds.
    pub timeout: u64,
}

impl Job {
    /// How the app, or the apps together, are called in the records.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.apps.iter().map(|app| app.name.as_str()).collect();
        names.join("+")
    }
}
