//! Programs that nobody named and that have no .desktop entry: those whose launches are large, slow and
//! repeatable are managed, too.
//!
//! The kernel side tells of processes that have read much when they exit. That may have been their launch
//! or hours of work, so the next launches of such a program are followed without doing anything, and only
//! what they read and wait for until they fall quiet counts.

use super::active::Active;
use super::catalogue::Candidate;
use super::core::Service;
use crate::kernel::{LaunchCounts, LaunchEvent};
use crate::policy::Plan;
use crate::service::config::Mode;
use crate::service::registry::{Added, Marks};

/// A program that may turn out to be an app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suspect {
    /// Launches that looked like those of a large app, in a row.
    pub alike: u64,
    /// Launches that did not.
    pub unlike: u64,
}

/// Programs that are followed at a time.
const MOST_SUSPECTS: usize = 64;

/// Launches unlike an app's after which a program is not followed any more.
const PATIENCE: u64 = 8;

/// Directories whose programs may become apps by themselves: where only the administrator installs.
const TRUSTED: [&str; 4] = ["/usr/", "/opt/", "/snap/", "/var/lib/flatpak/"];

impl Suspect {
    /// Takes a launch that read `bytes` and waited for `waiting_us`; true if that is enough. Warm launches
    /// read next to nothing, and say nothing.
    fn launched(
        &mut self,
        bytes: u64,
        waiting_us: u64,
        wanted: &crate::service::config::AutomaticConfig,
    ) -> bool {
        if bytes < WARM_BYTES {
            return false;
        }
        let large = bytes >> 20 >= wanted.min_read_mib && waiting_us / 1000 >= wanted.min_wait_ms;
        if large {
            self.alike += 1;
        } else {
            self.alike = 0;
            self.unlike += 1;
        }
        self.alike >= wanted.launches
    }
}

/// A launch that read less was warm.
const WARM_BYTES: u64 = 1 << 20;

impl Service<'_> {
    /// A process has exited that had read much.
    pub(super) fn on_large(&mut self, seen: &LaunchEvent, bytes: u64) {
        let Some(path) = seen.path.to_str() else {
            return;
        };
        let trusted = TRUSTED.iter().any(|directory| path.starts_with(directory));
        let known = self.registry.get(path).is_some()
            || self.catalogue.candidate(path).is_some()
            || self.state.large.contains_key(path);
        let wanted = self.config.mode == Mode::Automatic && trusted && !known;
        if !wanted || self.state.large.len() >= MOST_SUSPECTS {
            return;
        }
        tracing::debug!(path, bytes, "read much: its next launches are followed");
        self.state.large.insert(path.to_owned(), Suspect::default());
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let candidate = Candidate {
            title: name.clone(),
            added: Added::Discovered,
            marks: Marks {
                names: vec![name],
                argument: None,
            },
        };
        self.catalogue.add_candidate(path.to_owned(), candidate);
        self.watch_for_launches();
    }

    /// Whether the app is only being followed.
    pub(super) fn is_suspect(&self, id: &str) -> bool {
        self.registry.get(id).is_none() && self.state.large.contains_key(id)
    }

    /// A launch is over that may have been a suspect's.
    pub(super) fn suspect_ended(&mut self, active: &Active, counts: &LaunchCounts) {
        if active.plan != Plan::Leave || !self.is_suspect(&active.id) {
            return;
        }
        let wanted = self.config.automatic;
        let Some(suspect) = self.state.large.get_mut(&active.id) else {
            return;
        };
        let enough = suspect.launched(counts.bytes, counts.waiting_ns / 1000, &wanted);
        if enough {
            tracing::info!(
                app = active.id,
                "large and slow: managed from its next launch on"
            );
            self.state.large.remove(&active.id);
            if let Some(candidate) = self.catalogue.candidate(&active.id) {
                let record = candidate.record(&active.id);
                self.registry.insert(record);
            }
            self.watch_for_learning();
        } else if suspect.unlike > PATIENCE {
            // Another program has its chance; this one, too, should it read much once more.
            self.state.large.remove(&active.id);
            self.catalogue.remove_candidate(&active.id);
            self.watch_for_launches();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_must_be_large_and_slow_and_in_a_row() {
        let wanted = crate::service::config::AutomaticConfig::default();
        let large = wanted.min_read_mib << 20;
        let slow = wanted.min_wait_ms * 1000;
        let mut suspect = Suspect::default();
        assert!(!suspect.launched(large, slow, &wanted));
        assert!(!suspect.launched(0, 0, &wanted), "warm");
        assert!(!suspect.launched(large - 1, slow, &wanted));
        assert_eq!((suspect.alike, suspect.unlike), (0, 1));
        for _ in 1..wanted.launches {
            assert!(!suspect.launched(large, slow, &wanted));
        }
        assert!(suspect.launched(large, slow, &wanted));
        assert!(!suspect.launched(large, slow - 1000, &wanted));
    }
}
