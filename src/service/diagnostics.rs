//! What the service reports of itself in `status`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::clock::now_s;

/// Most warnings that are kept.
const WARNINGS: usize = 16;

/// How long a repeated warning stays out of the log: users can cause some of them as often as they like.
const REPEATED: Duration = Duration::from_secs(60);

/// Abilities, warnings and counters.
pub struct Diagnostics {
    /// When the service started, in seconds since the epoch.
    pub since_s: u64,
    /// Launches of managed apps since then, by user.
    pub launches_seen: BTreeMap<u32, u64>,
    /// What the service can do on this system.
    pub abilities: Vec<String>,
    /// What is wrong, the latest last, and when the log had it.
    warnings: Vec<(String, Instant)>,
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
        self.warn_at(warning, Instant::now());
    }

    /// Puts a warning into `status`, and into the log unless it was there less than [`REPEATED`] before `now`. Returns
    /// whether it is new there.
    fn warn_at(&mut self, warning: String, now: Instant) -> bool {
        let known = self
            .warnings
            .iter()
            .position(|(known, _)| *known == warning);
        let logged = known.map(|at| self.warnings.remove(at).1);
        let repeated = logged.filter(|logged| now.saturating_duration_since(*logged) < REPEATED);
        if repeated.is_none() {
            tracing::warn!("{warning}");
        }
        if self.warnings.len() == WARNINGS {
            self.warnings.remove(0);
        }
        self.warnings.push((warning, repeated.unwrap_or(now)));
        repeated.is_none()
    }

    /// What is wrong, the latest last.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings
            .iter()
            .map(|(warning, _)| warning.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_warning_is_logged_once_a_minute_and_kept_as_the_latest() {
        let mut diagnostics = Diagnostics::new(Vec::new());
        let begun = Instant::now();
        for (warning, after_s, is_logged) in [
            ("a", 0, true),
            ("b", 1, true),
            ("a", 2, false),
            ("a", 59, false),
            ("a", 60, true),
            ("a", 61, false),
        ] {
            let now = begun + Duration::from_secs(after_s);
            assert_eq!(
                diagnostics.warn_at(warning.to_owned(), now),
                is_logged,
                "{after_s}"
            );
        }
        assert_eq!(diagnostics.warnings(), ["b", "a"]);
    }
}
