//! What the service says of itself.

use super::clock::now_s;

/// Warnings that are kept for `status`.
const WARNINGS: usize = 16;

/// Abilities, warnings and counters, for `status`.
pub struct Diagnostics {
    since_s: u64,
    launches_seen: u64,
    abilities: Vec<String>,
    /// The latest last.
    warnings: Vec<String>,
}

impl Diagnostics {
    /// Of a service that starts now and can do this.
    pub fn new(abilities: Vec<String>) -> Self {
        Diagnostics {
            since_s: now_s(),
            launches_seen: 0,
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

    /// Counts a launch.
    pub fn count_launch(&mut self) {
        self.launches_seen += 1;
    }

    /// Since when the service runs, in seconds since the epoch.
    pub fn since_s(&self) -> u64 {
        self.since_s
    }

    /// Launches since then.
    pub fn launches_seen(&self) -> u64 {
        self.launches_seen
    }

    /// What the service can do on this system.
    pub fn abilities(&self) -> &[String] {
        &self.abilities
    }

    /// What is wrong, the latest last.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
