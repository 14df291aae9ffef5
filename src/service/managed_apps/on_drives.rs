//! Profiles and the drives that were measured.

use std::path::PathBuf;
use std::sync::Arc;

use super::{ManagedApps, Occasion};
use crate::model::UserApp;
use crate::profile::decode;
use crate::service::cached_profile::CachedProfile;
use crate::service::drive_probes::ExpectedLaunch;
use crate::service::message::Message;
use crate::service::reschedule::{expected_launch, order_anew};

impl ManagedApps {
    /// Drives of these apps were measured: each profile is to be scheduled for what they can do once its app has been launched.
    /// All of them at once would keep a processor busy for a minute.
    pub fn drives_measured(&mut self, apps: &[UserApp]) {
        for key in apps {
            if let Some(record) = self.registry.records.get_mut(key) {
                record.managed.drive_measured();
            }
        }
        if !apps.is_empty() {
            self.save();
        }
    }

    /// Has a profile scheduled for what its drives can do, if they were measured since it was made.
    pub fn schedule_for_drives(&mut self, key: &UserApp) {
        let record = self.registry.records.get(key);
        if !record.is_some_and(|record| record.managed.is_order_due()) {
            return;
        }
        let models = self.models_for(key);
        self.schedule_anew(key, models, "scheduled for what its drive can do");
    }

    /// Has a profile scheduled in the order of accesses: launches in the order that a simulation has chosen are slower.
    pub(super) fn schedule_as_accessed(&mut self, key: &UserApp) {
        let what = "scheduled as it accesses its files: the order that was chosen is slower";
        self.schedule_anew(key, None, what);
    }

    /// Where the models of drives are, if the order of an app's reads may be chosen by them.
    pub fn models_for(&self, key: &UserApp) -> Option<PathBuf> {
        let record = self.registry.records.get(key);
        let may_choose = record.is_none_or(|record| record.managed.may_choose_order());
        may_choose.then(|| self.store.dir().to_owned())
    }

    /// Has a profile scheduled with the parameters in force, by the models in this directory or in the order of accesses.
    fn schedule_anew(&mut self, key: &UserApp, models: Option<PathBuf>, what: &'static str) {
        let is_chosen = models.is_some();
        self.change_profile(
            key,
            Occasion::Launch,
            move |profile, sequence, store| {
                let scheduled = order_anew(profile, sequence, models.as_deref());
                Some(scheduled.and_then(|scheduled| {
                    let store = |profile| CachedProfile::store(&profile, store);
                    scheduled.map(store).transpose()
                }))
            },
            move |apps, key, stored| match stored {
                Ok(profile) => {
                    // A drive may have been measured while this one was made.
                    if let Some(record) = apps.registry.records.get_mut(&key)
                        && record.managed.may_choose_order() == is_chosen
                    {
                        record.managed.order_is_made();
                    }
                    if let Some(profile) = profile {
                        tracing::info!(app = key.id, uid = key.uid, "{what}");
                        apps.profiles.insert(key, profile);
                    }
                    None
                }
                Err(why) => Some(format!("{key} is not scheduled anew: {why}")),
            },
        );
    }

    /// Has the worker find out how long a cold launch should have taken by the models of its drives.
    pub fn compare_with_models(&self, key: &UserApp, took_us: u64) {
        let profile = self.profiles.get(key);
        let Some(profile) = profile.filter(|_| !self.jobs.are_many()) else {
            return;
        };
        let (packed, store) = (Arc::clone(&profile.packed), self.store.clone());
        let outbox = self.outbox.clone();
        self.jobs.run(move || {
            // This program has packed it.
            let Ok(profile) = decode(&packed) else { return };
            let sequence = store.load_sequence(profile.app.key()).ok().flatten();
            let expected = expected_launch(&profile, sequence, store.dir());
            if let Some((expected_us, drives)) = expected {
                outbox.send(Message::Expected(ExpectedLaunch {
                    drives,
                    expected_us,
                    took_us: took_us as f64,
                }));
            }
        });
    }
}
