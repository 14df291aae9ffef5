//! The daily pass (slides A-2): entries of files that are gone, replaced or no longer used.

use std::time::Duration;

use super::core::Service;
use super::deciding::keep;
use super::message::Message;
use super::reschedule::{look_at_files, take_replacements};
use crate::policy::{Observation, check_files};
use crate::profile::decode;

/// From one pass to the next.
pub const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

impl Service<'_> {
    /// Looks through all profiles.
    pub(super) fn look_through_profiles(&mut self) {
        let ids: Vec<String> = self.ready.keys().cloned().collect();
        for id in ids {
            self.refresh_profile(&id);
        }
        self.find_candidates();
    }

    /// Looks through a profile: files that were replaced are found again by their paths, and what is gone
    /// or was not used for long is dropped.
    pub(super) fn refresh_profile(&mut self, id: &str) {
        let Some(ready) = self.ready.get(id) else {
            return;
        };
        let launches_s = self
            .registry
            .get(id)
            .map(|record| record.last_s.clone())
            .unwrap_or_default();
        let (packed, store, outbox) = (
            ready.packed.clone(),
            self.store.clone(),
            self.outbox.clone(),
        );
        let id = id.to_owned();
        self.worker.run(move |_| {
            let Ok(mut profile) = decode(&packed) else {
                return;
            };
            let entries = profile.entries.len() as u64;
            let checks = look_at_files(&profile);
            let checked = check_files(&profile.entries, &checks, profile.created, &launches_s);
            if checked.obsolete == 0 {
                return;
            }
            profile.entries = checked.entries;
            let taken = take_replacements(&mut profile, &checked.replaced);
            profile.obsolete = checked.replaced.len().saturating_sub(taken) as u32;
            let ready = match keep(&store, &profile) {
                Ok(ready) => Some(ready),
                Err(why) => {
                    outbox.send(Message::Warning(why));
                    None
                }
            };
            outbox.send(Message::Checked {
                id,
                obsolete: checked.obsolete,
                entries,
                ready,
            });
        });
    }

    /// A profile was looked through and changed.
    pub(super) fn on_checked(
        &mut self,
        id: &str,
        obsolete: u64,
        entries: u64,
        ready: Option<crate::service::cached_profile::CachedProfile>,
    ) {
        tracing::info!(
            app = id,
            obsolete,
            entries,
            "obsolete entries were dealt with"
        );
        if let Some(ready) = ready {
            self.ready.insert(id.to_owned(), ready);
        }
        self.decide(id, &Observation::Checked { obsolete, entries });
        self.save();
    }
}
