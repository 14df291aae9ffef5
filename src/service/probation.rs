//! Programs on probation: neither named by the user nor by a .desktop entry, they are managed once their
//! launches are large, slow and repeatable.
//!
//! The kernel side reports processes that had read much when they exited. That may have been their launch or
//! hours of work. So the next launches of such a program are followed, with nothing done for them, and only
//! what they read and wait for until they are quiet counts.

use std::collections::HashMap;

use crate::service::config::AutomaticConfig;

/// A program that may turn out to be an app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Suspect {
    /// Launches that looked like those of a large app, in a row.
    alike: u64,
    /// Launches that did not.
    unlike: u64,
}

/// Programs that are followed at a time.
const MOST_SUSPECTS: usize = 64;

/// Launches unlike an app's after which a program is followed no longer.
const PATIENCE: u64 = 8;

/// Directories whose programs may become apps by themselves: only the administrator installs there.
const TRUSTED: [&str; 4] = ["/usr/", "/opt/", "/snap/", "/var/lib/flatpak/"];

/// Bytes below which the reads of a launch call it warm.
const WARM_BYTES: u64 = 1 << 20;

/// What a launch has shown of a program on probation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbationVerdict {
    /// More launches are needed.
    Undecided,
    /// It is an app.
    App,
    /// It is not. It may be put on probation again when it reads much once more.
    NoApp,
}

/// The programs on probation, by path.
#[derive(Debug, Default)]
pub struct Probation(HashMap<String, Suspect>);

impl Probation {
    /// Puts a program on probation; false if it may not be.
    pub fn begin(&mut self, path: &str) -> bool {
        let trusted = TRUSTED.iter().any(|directory| path.starts_with(directory));
        if !trusted || self.0.len() >= MOST_SUSPECTS || self.0.contains_key(path) {
            return false;
        }
        self.0.insert(path.to_owned(), Suspect::default());
        true
    }

    /// Whether a program is on probation.
    pub fn includes(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// The programs on probation.
    pub fn ids(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Takes a launch that has read `bytes` and waited for `waiting_us`. A program is on probation no longer
    /// when the verdict is another than [`ProbationVerdict::Undecided`].
    pub fn launched(
        &mut self,
        id: &str,
        bytes: u64,
        waiting_us: u64,
        wanted: &AutomaticConfig,
    ) -> ProbationVerdict {
        let Some(suspect) = self.0.get_mut(id) else {
            return ProbationVerdict::Undecided;
        };
        let verdict = if suspect.launched(bytes, waiting_us, wanted) {
            ProbationVerdict::App
        } else if suspect.unlike > PATIENCE {
            ProbationVerdict::NoApp
        } else {
            return ProbationVerdict::Undecided;
        };
        self.0.remove(id);
        verdict
    }
}

impl Suspect {
    /// Takes a launch; true if it has shown enough. Warm launches read next to nothing and show nothing.
    fn launched(&mut self, bytes: u64, waiting_us: u64, wanted: &AutomaticConfig) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_must_be_large_and_slow_and_in_a_row() {
        let wanted = AutomaticConfig::default();
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

    #[test]
    fn a_program_unlike_an_app_is_dropped_and_others_have_room() {
        let wanted = AutomaticConfig::default();
        let mut probation = Probation::default();
        assert!(!probation.begin("/home/user/program"));
        assert!(probation.begin("/usr/bin/program") && !probation.begin("/usr/bin/program"));
        for _ in 0..PATIENCE {
            let verdict = probation.launched("/usr/bin/program", WARM_BYTES, 0, &wanted);
            assert_eq!(verdict, ProbationVerdict::Undecided);
        }
        let verdict = probation.launched("/usr/bin/program", WARM_BYTES, 0, &wanted);
        assert_eq!(verdict, ProbationVerdict::NoApp);
        assert!(!probation.includes("/usr/bin/program"));
        for program in 0..MOST_SUSPECTS {
            assert!(probation.begin(&format!("/usr/bin/{program}")));
        }
        assert!(!probation.begin("/usr/bin/one-too-many"));
    }
}
