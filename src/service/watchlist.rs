//! The programs whose launches matter: apps that are managed, apps with .desktop entries, and programs on
//! probation.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};

use super::catalogue::{Candidate, Catalogue, FoundApp, Gone, marks};
use super::config::AutomaticConfig;
use super::managed_apps::is_to_learn;
use super::probation::{Probation, ProbationVerdict};
use super::registry::{Added, Marks, Record, Registry};
use crate::apps::{Rules, desktop};
use crate::kernel::{LaunchEvent, WatchedName};
use crate::model::LaunchCounts;

/// Where commands are looked for: a service has no user's PATH.
pub const PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/games";

/// The programs whose launches matter.
pub struct Watchlist {
    catalogue: Catalogue,
    probation: Probation,
}

impl Watchlist {
    /// With nothing on it.
    pub fn new(catalogue: Catalogue) -> Self {
        Watchlist {
            catalogue,
            probation: Probation::default(),
        }
    }

    /// The launcher rules.
    pub fn rules(&self) -> &Rules {
        self.catalogue.rules()
    }

    /// The app that a call of execve would start, as far as its path tells. Looks at no file.
    pub fn called(&self, event: &LaunchEvent) -> Option<FoundApp> {
        self.catalogue.called(event)
    }

    /// The app that was executed. If its process has ended already, only its path can tell.
    pub fn executed(&self, event: &LaunchEvent) -> Option<FoundApp> {
        match self.catalogue.executed(event) {
            Ok(found) => found,
            Err(Gone) => self.catalogue.gone(event),
        }
    }

    /// The app of this id, about to be executed by a process.
    pub fn of_process(&self, id: &str, pid: i32) -> Option<FoundApp> {
        self.catalogue.of_process(id, pid)
    }

    /// Whether the app is managed from its first launch on; then its record.
    pub fn new_record(&self, id: &str) -> Option<Record> {
        let candidate = self.catalogue.candidate(id)?;
        Some(candidate.record(id))
    }

    /// Whether the program is on probation.
    pub fn is_on_probation(&self, id: &str) -> bool {
        self.probation.includes(id)
    }

    /// Takes the apps with .desktop entries in the place of those before; programs on probation stay.
    pub fn set_candidates(&mut self, mut candidates: BTreeMap<String, Candidate>) {
        for id in self.probation.ids() {
            if let Some(candidate) = self.catalogue.candidate(id) {
                let kept = candidate.clone();
                candidates.entry(id.clone()).or_insert(kept);
            }
        }
        self.catalogue.set_candidates(candidates);
    }

    /// In manual mode, no app is managed that the user has not named.
    pub fn clear_candidates(&mut self) {
        self.catalogue.set_candidates(BTreeMap::new());
    }

    /// Looks again where the executables are, and says what the kernel side is to look for: names, and
    /// arguments of launchers.
    pub fn refresh(
        &mut self,
        registry: &Registry,
    ) -> (HashMap<OsString, WatchedName>, Vec<OsString>) {
        self.catalogue.refresh(registry)
    }

    /// The apps whose next launch is to be learned.
    pub fn to_learn(&self, registry: &Registry) -> HashSet<String> {
        let managed = registry
            .iter()
            .filter(|record| is_to_learn(record))
            .map(|record| record.id.clone());
        let new = self
            .catalogue
            .candidate_ids()
            .filter(|id| registry.get(id).is_none() && !self.probation.includes(id))
            .map(str::to_owned);
        managed.chain(new).collect()
    }

    /// A process of this program had read much when it exited. True if the program is on probation now.
    pub fn has_read_much(&mut self, path: &str) -> bool {
        if self.catalogue.candidate(path).is_some() || !self.probation.begin(path) {
            return false;
        }
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
        true
    }

    /// Weighs a launch of a program on probation.
    pub fn weigh(
        &mut self,
        id: &str,
        counts: &LaunchCounts,
        wanted: &AutomaticConfig,
    ) -> ProbationVerdict {
        let waiting_us = counts.waiting_ns / 1000;
        let verdict = self
            .probation
            .launched(id, counts.bytes, waiting_us, wanted);
        if verdict == ProbationVerdict::NoApp {
            self.catalogue.remove_candidate(id);
        }
        verdict
    }
}

/// The apps with .desktop entries. Reads many files.
pub fn desktop_apps(rules: &Rules) -> BTreeMap<String, Candidate> {
    let entries = desktop::entries(&desktop::system_directories(), rules, OsStr::new(PATH));
    for left_out in entries.left_out.iter().filter(|entry| entry.why.is_fault()) {
        tracing::debug!(entry = ?left_out.entry, "left out: {}", left_out.why);
    }
    entries
        .apps
        .iter()
        .filter_map(|app| {
            let id = app.identity.key.as_os_str().to_str()?.to_owned();
            let candidate = Candidate {
                title: app.name.clone(),
                added: Added::Desktop,
                marks: marks(&app.identity, &app.names),
            };
            Some((id, candidate))
        })
        .collect()
}
