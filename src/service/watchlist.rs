//! The programs whose launches matter: managed apps, which the registry has, and candidates, which may become
//! managed.
//!
//! A program with a .desktop entry is managed from its first launch on. Another one is put on probation when
//! the kernel reports that one of its processes had read much when it exited. That may have been its launch or
//! hours of work. So its next launches are followed, with nothing done for them, and what they read and wait
//! for until they are quiet decides.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};

use super::catalogue::Catalogue;
use super::config::AutomaticConfig;
use super::marks::Marks;
use super::registry::{Added, Record, Registry};
use crate::apps::{Rules, desktop};
use crate::kernel::WatchedName;
use crate::model::LaunchCounts;

/// Where commands are looked for: a service has no user's PATH.
pub const PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/games";

/// Most programs that are on probation at a time.
const MOST_ON_PROBATION: usize = 64;

/// Launches unlike an app's after which a program is followed no longer.
const PATIENCE: u64 = 8;

/// Bytes below which the reads of a launch call it warm.
const WARM_BYTES: u64 = 1 << 20;

/// The launches of a program on probation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Probation {
    /// Launches that looked like those of a large app, in a row.
    alike: u64,
    /// Launches that did not.
    unlike: u64,
}

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

/// The programs whose launches matter.
pub struct Watchlist {
    /// What recognises them.
    pub catalogue: Catalogue,
    /// The records of programs once they are managed, by id.
    candidates: BTreeMap<String, Record>,
    /// The candidates that are on probation.
    probation: BTreeMap<String, Probation>,
}

impl Watchlist {
    /// A list without candidates.
    pub fn new(catalogue: Catalogue) -> Self {
        Watchlist {
            catalogue,
            candidates: BTreeMap::new(),
            probation: BTreeMap::new(),
        }
    }

    /// The record of a candidate that is to be managed from now on.
    pub fn new_record(&self, id: &str) -> Option<Record> {
        self.candidates.get(id).cloned()
    }

    /// Whether the program is on probation.
    pub fn is_on_probation(&self, id: &str) -> bool {
        self.probation.contains_key(id)
    }

    /// Replaces the apps with .desktop entries. Programs on probation stay.
    pub fn set_desktop_apps(&mut self, found: Vec<Record>) {
        self.candidates
            .retain(|id, _| self.probation.contains_key(id));
        for record in found {
            self.probation.remove(&record.id);
            self.candidates.insert(record.id.clone(), record);
        }
    }

    /// Removes all candidates: in manual mode, no app is managed that the user has not named.
    pub fn clear_candidates(&mut self) {
        self.candidates.clear();
        self.probation.clear();
    }

    /// Looks up where the executables are, and returns what the kernel is to watch for: names, and arguments
    /// of launchers.
    pub fn refresh(
        &mut self,
        registry: &Registry,
    ) -> (HashMap<OsString, WatchedName>, Vec<OsString>) {
        let managed = &registry.records;
        let new = self
            .candidates
            .values()
            .filter(|new| !managed.contains_key(&new.id));
        self.catalogue.refresh(managed.values().chain(new))
    }

    /// The apps whose next launch is to be learned.
    pub fn to_learn(&self, registry: &Registry) -> HashSet<String> {
        let records = &registry.records;
        let managed = records.values().filter(|record| record.is_to_learn());
        let is_new = |id: &&String| !self.is_on_probation(id) && !records.contains_key(*id);
        let new = self.candidates.keys().filter(is_new);
        managed
            .map(|record| &record.id)
            .chain(new)
            .cloned()
            .collect()
    }

    /// Whether a program may be put on probation: it is no candidate yet, and there are not too many.
    pub fn has_room_for(&self, path: &str) -> bool {
        self.probation.len() < MOST_ON_PROBATION && !self.candidates.contains_key(path)
    }

    /// Puts a program on probation, of which a process had read much when it exited and which may become an app
    /// ([`super::discovery`]). False if there is no room.
    pub fn begin_probation(&mut self, path: &str) -> bool {
        if !self.has_room_for(path) {
            return false;
        }
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let marks = Marks {
            names: vec![name.clone()],
            argument: None,
        };
        let record = Record::new(path.to_owned(), name, Added::Discovered, marks);
        self.candidates.insert(path.to_owned(), record);
        self.probation.insert(path.to_owned(), Probation::default());
        true
    }

    /// Weighs a launch of a program on probation.
    pub fn weigh(
        &mut self,
        id: &str,
        counts: &LaunchCounts,
        wanted: &AutomaticConfig,
    ) -> ProbationVerdict {
        // Warm launches read next to nothing and show nothing.
        let shows = counts.waits_counted && counts.bytes >= WARM_BYTES;
        let Some(probation) = self.probation.get_mut(id).filter(|_| shows) else {
            return ProbationVerdict::Undecided;
        };
        let waiting_ms = counts.waiting_ns / 1_000_000;
        if counts.bytes >> 20 >= wanted.min_read_mib && waiting_ms >= wanted.min_wait_ms {
            probation.alike += 1;
        } else {
            probation.alike = 0;
            probation.unlike += 1;
        }
        if probation.alike >= wanted.launches {
            self.probation.remove(id);
            ProbationVerdict::App
        } else if probation.unlike > PATIENCE {
            self.probation.remove(id);
            self.candidates.remove(id);
            ProbationVerdict::NoApp
        } else {
            ProbationVerdict::Undecided
        }
    }
}

/// The apps with .desktop entries. Reads many files.
pub fn desktop_apps(rules: &Rules) -> Vec<Record> {
    let entries = desktop::entries(&desktop::system_directories(), rules, OsStr::new(PATH));
    let record = |entry: desktop::MenuEntry| match entry.app {
        Ok(app) => Record::of_installed(&app.identity, app.name, &app.names, Added::Desktop),
        Err(why) => {
            tracing::debug!(entry = ?entry.file, "left out: {why}");
            None
        }
    };
    entries.into_iter().filter_map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::ProbationVerdict::{App, NoApp, Undecided};
    use super::*;
    use crate::service::roots::Roots;

    fn watchlist() -> Watchlist {
        let roots = Roots::new((1, 2), 7);
        Watchlist::new(Catalogue::new(Rules::builtin(), roots))
    }

    #[test]
    fn launches_of_an_app_are_large_and_slow_and_in_a_row() {
        let wanted = AutomaticConfig::default();
        let (large, slow) = (wanted.min_read_mib << 20, wanted.min_wait_ms);
        let mut watchlist = watchlist();
        let mut launch = |id: &str, bytes: u64, waiting_ms: u64| {
            let counts = LaunchCounts {
                bytes,
                waiting_ns: waiting_ms * 1_000_000,
                waits_counted: true,
                ..LaunchCounts::default()
            };
            watchlist.begin_probation(id);
            watchlist.weigh(id, &counts, &wanted)
        };
        let app = "/usr/bin/app";
        for (bytes, waiting_ms) in [(large, slow), (0, 0), (large, slow - 1), (large - 1, slow)] {
            assert_eq!(launch(app, bytes, waiting_ms), Undecided);
        }
        for _ in 1..wanted.launches {
            assert_eq!(launch(app, large, slow), Undecided);
        }
        assert_eq!(launch(app, large, slow), App);
        for _ in 0..PATIENCE {
            assert_eq!(launch("/usr/bin/tool", WARM_BYTES, 0), Undecided);
            assert_eq!(launch("/usr/bin/tool", WARM_BYTES - 1, 0), Undecided);
        }
        assert_eq!(launch("/usr/bin/tool", WARM_BYTES, 0), NoApp);
        assert!(watchlist.candidates.contains_key(app) && watchlist.probation.is_empty());
        assert!(!watchlist.candidates.contains_key("/usr/bin/tool"));
    }

    #[test]
    fn few_programs_are_on_probation() {
        let mut watchlist = watchlist();
        for program in 0..MOST_ON_PROBATION {
            assert!(watchlist.begin_probation(&format!("/usr/bin/{program}")));
        }
        assert!(!watchlist.begin_probation("/usr/bin/one-too-many"));
        watchlist.candidates.remove("/usr/bin/1");
        watchlist.probation.remove("/usr/bin/1");
        assert!(!watchlist.begin_probation("/usr/bin/2"), "it is already");
        assert!(watchlist.begin_probation("/usr/bin/1"));
    }

    #[test]
    fn a_discovered_app_outlives_new_desktop_entries_while_it_is_on_probation() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(dir.path()).unwrap();
        let mut watchlist = watchlist();
        watchlist.begin_probation("/usr/bin/a");
        let desktop =
            |id: &str| Record::new(id.into(), "App".into(), Added::Desktop, Marks::default());
        watchlist.set_desktop_apps(vec![desktop("/usr/bin/b")]);
        watchlist.set_desktop_apps(vec![desktop("/usr/bin/c")]);
        assert!(watchlist.is_on_probation("/usr/bin/a"));
        let to_learn = watchlist.to_learn(&registry);
        assert_eq!(to_learn, HashSet::from(["/usr/bin/c".to_owned()]));
    }
}
