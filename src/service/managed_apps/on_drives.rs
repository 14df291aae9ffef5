//! Profiles and the drives that were measured.

use std::sync::Arc;

use super::{ManagedApps, Occasion};
use crate::model::UserApp;
use crate::profile::decode;
use crate::service::cached_profile::CachedProfile;
use crate::service::drive_probes::ExpectedLaunch;
use crate::service::message::Message;
use crate::service::reschedule::{expected_launch, schedule_for_drives};

impl ManagedApps {
    /// Drives were measured: each profile is to be scheduled for what they can do once its app has been launched. All of
    /// them at once would keep a processor busy for a minute.
    pub fn drives_measured(&mut self) {
        self.unscheduled = self.profiles.keys().cloned().collect();
    }

    /// Has a profile scheduled for what its drives can do, if they were measured since it was made.
    pub fn schedule_for_drives(&mut self, key: &UserApp) {
        if !self.unscheduled.remove(key) {
            return;
        }
        self.change_profile(
            key,
            Occasion::Launch,
            |profile, sequence, store| {
                let scheduled = schedule_for_drives(profile, sequence, store.dir());
                let stored = scheduled.and_then(|scheduled| {
                    let store = |profile| CachedProfile::store(&profile, store);
                    scheduled.map(store).transpose()
                });
                stored.transpose()
            },
            |apps, key, stored| match stored {
                Ok(profile) => {
                    let what = "scheduled for what its drive can do";
                    tracing::info!(app = key.id, uid = key.uid, "{what}");
                    apps.profiles.insert(key, profile);
                    None
                }
                Err(why) => Some(format!("{key} is not scheduled for its drive: {why}")),
            },
        );
    }

    /// Has the worker find out how long a cold launch should have taken by the models of its drives.
    pub fn expect(&self, key: &UserApp, took_us: u64) {
        let profile = self.profiles.get(key);
        let Some(profile) = profile.filter(|_| !self.jobs.are_many()) else {
            return;
        };
        let (packed, store) = (Arc::clone(&profile.packed), self.store.clone());
        let outbox = self.outbox.clone();
        self.jobs.run(move |_| {
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
