//! What has to be in place for launches to be seen and learned.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;

use super::catalogue::{Candidate, marks};
use super::core::Service;
use super::deciding::is_to_learn;
use super::message::Message;
use super::priority::start_behind;
use crate::apps::{Key, Rules, desktop};
use crate::learn::LiveLearner;
use crate::service::config::Mode;
use crate::service::registry::Added;

/// Where commands are looked for: a service has no user's PATH.
pub const PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/games";

impl Service<'_> {
    /// Has the .desktop entries looked for, in automatic mode; without, there are no candidates.
    pub(super) fn find_candidates(&mut self) {
        self.watch.report_large_readers(match self.config.mode {
            Mode::Automatic => self.config.automatic.min_read_mib << 20,
            Mode::Manual => 0,
        });
        if self.config.mode == Mode::Manual {
            self.catalogue.set_candidates(BTreeMap::new());
            self.watch_for_launches();
            return;
        }
        let rules = self.catalogue.rules().clone();
        let outbox = self.outbox.clone();
        self.worker.run(move |_| {
            outbox.send(Message::Candidates(candidates(&rules)));
        });
    }

    /// The candidates were found; programs on trial stay.
    pub(super) fn on_candidates(&mut self, mut found: BTreeMap<String, Candidate>) {
        for id in self.state.large.keys() {
            if let Some(candidate) = self.catalogue.candidate(id) {
                found.entry(id.clone()).or_insert_with(|| candidate.clone());
            }
        }
        self.catalogue.set_candidates(found);
        self.watch_for_launches();
    }

    /// Tells the kernel side for which programs to look.
    pub(super) fn watch_for_launches(&mut self) {
        let (names, arguments) = self.catalogue.refresh(&self.registry);
        let refused = self.watch.set_names(names, arguments);
        if !refused.is_empty() {
            let names: Vec<_> = refused.iter().map(|name| name.to_string_lossy()).collect();
            self.warn(format!(
                "launches of these cannot be seen, their names are too long or too many: {}",
                names.join(", ")
            ));
        }
        // What changed may be the executables.
        self.holding.invalidate();
        self.watch_for_learning();
    }

    /// Holds the executables of apps whose next launch is to be learned, and no others, and has learning
    /// threads ready if there are any.
    pub(super) fn watch_for_learning(&mut self) {
        let to_learn: HashSet<String> = self
            .registry
            .iter()
            .filter(|record| is_to_learn(record))
            .map(|record| record.id.clone())
            .chain(
                self.catalogue
                    .candidate_ids()
                    .filter(|id| self.registry.get(id).is_none() && !self.is_suspect(id))
                    .map(str::to_owned),
            )
            .collect();
        let apps = to_learn.len();
        for warning in self.holding.set(to_learn) {
            self.warn(warning);
        }
        self.keep_learners(apps);
        if apps > 0 && self.learners.can_learn() {
            tracing::debug!(apps, "ready to learn");
        }
    }

    /// Has as many learning threads ready as so many apps need.
    pub(super) fn keep_learners(&mut self, apps: usize) {
        if !self.state.can_learn {
            return;
        }
        let outbox = self.outbox.clone();
        let kept = self.learners.keep(apps, |thread| {
            let tell = move |news| {
                outbox.send(Message::Learning(thread, news));
            };
            start_behind(|| LiveLearner::start(tell))
        });
        if let Err(error) = kept {
            self.warn(format!("no learning thread can be started: {error}"));
        }
    }
}

/// Apps with .desktop entries.
fn candidates(rules: &Rules) -> BTreeMap<String, Candidate> {
    let entries = desktop::entries(&desktop::system_directories(), rules, OsStr::new(PATH));
    for left_out in entries.left_out.iter().filter(|entry| entry.why.is_fault()) {
        tracing::debug!(entry = ?left_out.entry, "left out: {}", left_out.why);
    }
    entries
        .apps
        .iter()
        .filter(|app| app.identity.distinct)
        .filter_map(|app| {
            let id = match &app.identity.key {
                Key::Command(_) => return None,
                key => key.as_os_str().to_str()?.to_owned(),
            };
            let candidate = Candidate {
                title: app.name.clone(),
                added: Added::Desktop,
                marks: marks(&app.identity.key, &app.identity.program, &app.names),
            };
            Some((id, candidate))
        })
        .collect()
}
