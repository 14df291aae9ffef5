//! What the service reports of itself in `status`.

use std::collections::BTreeMap;

use super::clock::now_s;

/// Most warnings that are kept.
const WARNINGS: usize = 16;

/// Abilities, warnings and counters.
pub struct Diagnostics {
    /// When the service started, in seconds since the epoch.
    pub since_s: u64,
    /// Launches of managed apps since then, by user.
    pub launches_seen: BTreeMap<u32, u64>,
    /// What the service can do on this system.
    pub abilities: Vec<String>,
    /// What is wrong, the latest last.
    pub warnings: Vec<String>,
}

impl Diagnostics {
    /// Of a service that starts now.
    pub fn new(abilities: Vec<String>) -> Self {
        Diagnostics {
            since_s: now_s(),
            launches_seen: BTreeMap::new(),
            abilities,
            warnings: Vec::new(),
        }
    }

    /// Puts a warning into the log and into `status`.
    pub fn warn(&mut self, warning: String) {
        tracing::warn!("{warning}");
        self.warnings.retain(|known| *known != warning);
        if self.warnings.len() == WARNINGS {
            self.warnings.remove(0);
        }
        self.warnings.push(warning);
    }
}
