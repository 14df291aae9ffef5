//! What follows for an app from what happened to it.

use super::core::Service;
use super::message::{Message, Outcome};
use super::reschedule::{now_s, reschedule};
use crate::fs::mounts::MountTable;
use crate::model::Params;
use crate::model::Profile;
use crate::policy::{Decision, DecisionReason, Observation, Off, Phase};
use crate::profile::Store;
use crate::service::cached_profile::CachedProfile;
use crate::service::registry::Record;

impl Service<'_> {
    /// Takes what happened to an app, and carries out what is decided.
    pub(super) fn decide(&mut self, id: &str, observation: &Observation<'_>) {
        let Some(record) = self.registry.get_mut(id) else {
            return;
        };
        let decision = record.managed.next(now_s(), observation);
        match decision {
            Decision::Keep => {}
            Decision::Reschedule(params) if self.config.prefetch.dynamic => {
                self.reschedule(id, params);
            }
            Decision::Reschedule(_) => {
                record.managed.next(now_s(), &Observation::NotRescheduled);
            }
            Decision::Refresh => self.refresh_profile(id),
            Decision::Relearn(reason) => {
                tracing::info!(
                    app = id,
                    reason = reason_word(reason),
                    "will be learned again"
                );
            }
            Decision::SwitchedOff(off) => {
                let why = off_words(off);
                tracing::info!(app = id, why, "switched off");
                self.ready.remove(id);
            }
        }
        self.watch_for_learning();
    }

    /// Has a profile scheduled anew.
    fn reschedule(&mut self, id: &str, params: Params) {
        let Some(ready) = self.ready.get(id) else {
            return;
        };
        let (packed, store, outbox) = (
            ready.packed.clone(),
            self.store.clone(),
            self.outbox.clone(),
        );
        let (id, app) = (id.to_owned(), ready.app.clone());
        self.worker.run(move |_| {
            let outcome = match crate::profile::decode(&packed) {
                Err(error) => Outcome::Failed(error.to_string()),
                Ok(profile) => {
                    let sequence = store.load_sequence(app.key()).ok().flatten();
                    let rescheduled = reschedule(profile, sequence, params);
                    Outcome::of(rescheduled, |profile| keep(&store, profile))
                }
            };
            outbox.send(Message::Rescheduled { id, outcome });
        });
    }

    /// A profile was scheduled anew, or not.
    pub(super) fn on_rescheduled(&mut self, id: &str, outcome: Outcome) {
        match outcome {
            Outcome::Done(ready) => {
                let params = ready.history.last().map(|revision| revision.params);
                tracing::info!(app = id, ?params, "scheduled anew");
                self.ready.insert(id.to_owned(), ready);
            }
            Outcome::NoEffect => self.decide(id, &Observation::NoEffect),
            Outcome::Failed(why) => {
                self.warn(format!("{id} cannot be scheduled anew: {why}"));
                self.decide(id, &Observation::NotRescheduled);
            }
        }
        self.save();
    }
}

/// Stores a profile and makes it ready.
pub(super) fn keep(store: &Store, profile: &Profile) -> Result<CachedProfile, String> {
    store.save(profile).map_err(|error| error.to_string())?;
    prepare(profile)
}

/// Makes a profile ready.
pub(super) fn prepare(profile: &Profile) -> Result<CachedProfile, String> {
    let mounts =
        MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
    CachedProfile::new(profile, &mounts).map_err(|error| error.to_string())
}

fn reason_word(reason: DecisionReason) -> &'static str {
    match reason {
        DecisionReason::Missed => "it reads too much itself",
        DecisionReason::Obsolete => "too many entries are obsolete",
        DecisionReason::NewExecutable => "its executable is another file",
        DecisionReason::NoProfile => "there is no profile of it",
        DecisionReason::Asked => "the user asked for it",
    }
}

/// Why an app is switched off, in words.
pub(super) fn off_words(off: Off) -> String {
    match off {
        Off::Asked => "the user said so".to_owned(),
        Off::NoGain {
            with_us,
            without_us,
        } => format!(
            "prefetching does not help: its cold launches wait {} ms for the drive with it, {} ms without",
            with_us / 1000,
            without_us / 1000
        ),
        Off::NothingToLearn => "its launches read nothing that could be learned".to_owned(),
    }
}

/// Whether the next launch of the app is to be learned.
pub(super) fn is_to_learn(record: &Record) -> bool {
    matches!(record.managed.phase(), Phase::Learning { .. })
}
