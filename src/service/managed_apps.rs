//! The managed apps: their records, their profiles, and what is decided from what happens to them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;

use super::cached_profile::CachedProfile;
use super::clock::now_s;
use super::launch::LaunchPolicy;
use super::mailbox::Outbox;
use super::marks::Marks;
use super::message::Message;
use super::records::Records;
use super::registry::{Added, Record, Registry};
use super::reschedule::{refresh, reschedule};
use super::start::ServiceError;
use super::worker::Jobs;
use crate::apps::Rules;
use crate::learn::LearnedProfile;
use crate::model::{App, Params};
use crate::policy::{Decision, DecisionReason, Managed, Observation, Off, Plan};
use crate::profile::{Store, decode};

/// What the log says of a launcher that has a profile or was managed.
const LAUNCHER_ONLY: &str =
    "starts many apps and is not managed itself: learn the apps that it starts";

/// The managed apps.
pub struct ManagedApps {
    registry: Registry,
    /// By app.
    profiles: HashMap<String, CachedProfile>,
    store: Store,
    state_dir: PathBuf,
    /// Whether schedules may be tuned (`prefetch.dynamic`).
    tunes: bool,
    jobs: Jobs,
    outbox: Outbox<Message>,
}

impl ManagedApps {
    /// Reads all profiles of the store. Apps whose profile is lost are learned again; apps that the user has
    /// learned by hand are managed. Says which profiles cannot be used.
    ///
    /// # Errors
    /// When the store or the mount table cannot be read.
    pub fn load(
        mut registry: Registry,
        rules: &Rules,
        store: Store,
        state_dir: PathBuf,
        jobs: Jobs,
        outbox: Outbox<Message>,
    ) -> Result<(Self, Vec<String>), ServiceError> {
        for id in registry.remove_launchers(rules) {
            tracing::info!(app = id, "{LAUNCHER_ONLY}");
        }
        let (profiles, warnings) = CachedProfile::load_all(&store)?;
        for (id, profile) in &profiles {
            manage(&mut registry, rules, id, profile);
        }
        let lacks_profile = |record: &&Record| {
            record.managed.tuning().is_some() && !profiles.contains_key(&record.id)
        };
        let lost = registry.iter().filter(lacks_profile);
        let lost: Vec<String> = lost.map(|record| record.id.clone()).collect();
        let mut apps = ManagedApps {
            registry,
            profiles,
            store,
            state_dir,
            tunes: true,
            jobs,
            outbox,
        };
        for id in lost {
            apps.observe(&id, &Observation::NoProfile);
        }
        Ok((apps, warnings))
    }

    /// Whether schedules may be tuned (`prefetch.dynamic`).
    pub fn set_tuning(&mut self, tunes: bool) {
        self.tunes = tunes;
    }

    /// The records, to be read.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The records, to add an app that the user names.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// The record of an app.
    pub fn get(&self, id: &str) -> Option<&Record> {
        self.registry.get(id)
    }

    /// The profile of an app.
    pub fn profile(&self, id: &str) -> Option<&CachedProfile> {
        self.profiles.get(id)
    }

    /// All profiles.
    pub fn profiles(&self) -> impl Iterator<Item = &CachedProfile> {
        self.profiles.values()
    }

    /// Manages an app from now on.
    pub fn insert(&mut self, record: Record) {
        self.registry.insert(record);
    }

    /// Plans a launch that begins now. `withholds`: whether prefetching may be withheld, to compare.
    pub fn plan(&mut self, id: &str, withholds: bool) -> LaunchPolicy {
        // Another key each time: launches from which prefetching is withheld should follow no rhythm.
        let random = RandomState::new().hash_one(id);
        let planned = self
            .registry
            .get_mut(id)
            .map_or(Plan::Leave, |record| record.managed.plan(now_s(), random));
        let has_profile = self.profiles.contains_key(id);
        let plan = match planned {
            Plan::Prefetch | Plan::Withhold if !has_profile => {
                self.observe(id, &Observation::NoProfile);
                Plan::Learn
            }
            Plan::Withhold if !withholds => Plan::Prefetch,
            plan => plan,
        };
        LaunchPolicy { plan, has_profile }
    }

    /// Enters a launch whose app runs now. False if the app is not managed.
    pub fn launched(&mut self, id: &str, app: &App, plan: Plan) -> bool {
        let Some(record) = self.registry.get_mut(id) else {
            return false;
        };
        let now = now_s();
        record.launched(now);
        record.prefetched += u64::from(plan == Plan::Prefetch);
        // Another inode at the same path: a package was updated. The device's number says nothing, since a
        // drive may have another one each time that it is plugged in.
        let before = record.app.replace(app.clone()).map_or(0, |app| app.ino);
        if before != app.ino && before != 0 && app.ino != 0 {
            record.managed.next(now, &Observation::NewExecutable);
        }
        true
    }

    /// Takes what happened to an app, and carries out what its policy decides.
    pub fn observe(&mut self, id: &str, observation: &Observation<'_>) {
        let Some(record) = self.registry.get_mut(id) else {
            return;
        };
        match record.managed.next(now_s(), observation) {
            Decision::Keep => {}
            Decision::Reschedule(params) if self.tunes => self.reschedule(id, params),
            Decision::Reschedule(_) => {
                record.managed.next(now_s(), &Observation::NotRescheduled);
            }
            Decision::Refresh => self.refresh_profile(id),
            Decision::Relearn(reason) => {
                let reason = reason_text(reason);
                tracing::info!(app = id, reason, "will be learned again");
            }
            Decision::SwitchedOff(off) => {
                let why = off_reason(off);
                tracing::info!(app = id, why, "switched off");
                self.profiles.remove(id);
            }
        }
    }

    /// Uses a profile that was just learned, and has it stored. `cold_waits_us`: how long the launch waited for
    /// the drive, in microseconds, if it was as cold as one from which prefetching is withheld.
    pub fn keep(
        &mut self,
        id: &str,
        profile: CachedProfile,
        learned: LearnedProfile,
        cold_waits_us: Option<u64>,
    ) {
        self.use_learned(id, profile, cold_waits_us);
        let id = id.to_owned();
        self.in_background(
            move |store, _| {
                store
                    .save_sequence(&learned.sequence())
                    .and_then(|()| store.save(&learned.profile))
                    .err()
            },
            move |apps, why| {
                // The disk is full, say: the app is learned at each launch until its profile can be stored.
                apps.observe(&id, &Observation::NoProfile);
                apps.save();
                Some(why.to_string())
            },
        );
    }

    fn use_learned(&mut self, id: &str, profile: CachedProfile, cold_waits_us: Option<u64>) {
        let (class, history) = (profile.class, profile.history.clone());
        self.profiles.insert(id.to_owned(), profile);
        let learned = Observation::Learned {
            class,
            history: &history,
            waiting_us: cold_waits_us,
        };
        self.observe(id, &learned);
    }

    /// Has a profile scheduled anew.
    fn reschedule(&self, id: &str, params: Params) {
        let Some(profile) = self.profiles.get(id) else {
            return;
        };
        let (id, app, packed) = (id.to_owned(), profile.app.clone(), profile.packed.clone());
        let before = packed.clone();
        self.in_background(
            move |store, _| {
                let schedule_anew = || {
                    let profile = decode(&packed).map_err(|error| error.to_string())?;
                    let sequence = store.load_sequence(app.key()).ok().flatten();
                    let Some(rescheduled) = reschedule(profile, sequence, params)? else {
                        return Ok(None);
                    };
                    CachedProfile::replace(&rescheduled, store).map(Some)
                };
                Some(schedule_anew())
            },
            move |apps, rescheduled| {
                if !apps.is_in_force(&id, &before) {
                    return None;
                }
                let mut warning = None;
                match rescheduled {
                    Ok(Some(profile)) => {
                        let params = profile.history.last().map(|revision| revision.params);
                        tracing::info!(app = id, ?params, "scheduled anew");
                        apps.profiles.insert(id, profile);
                    }
                    Ok(None) => apps.observe(&id, &Observation::NoEffect),
                    Err(why) => {
                        apps.observe(&id, &Observation::NotRescheduled);
                        warning = Some(format!("{id} cannot be scheduled anew: {why}"));
                    }
                }
                apps.save();
                warning
            },
        );
    }

    /// Whether the app's profile is still the one that a job of the worker began with. Another may have been
    /// learned since, or the app forgotten: what the job made of the old one is of no use then.
    fn is_in_force(&self, id: &str, packed: &Arc<[u8]>) -> bool {
        let profile = self.profiles.get(id);
        profile.is_some_and(|profile| Arc::ptr_eq(&profile.packed, packed))
    }

    /// Has the files of all profiles checked.
    pub fn refresh_profiles(&mut self) {
        for id in self.profiles.keys() {
            self.refresh_profile(id);
        }
        self.registry.checked(now_s());
        self.save();
    }

    /// Has the files of a profile checked: files that were replaced are found again by their paths, and entries
    /// of files that are gone are dropped.
    fn refresh_profile(&self, id: &str) {
        let Some(profile) = self.profiles.get(id) else {
            return;
        };
        let (id, entries, packed) = (id.to_owned(), profile.entries, profile.packed.clone());
        let before = packed.clone();
        self.in_background(
            move |store, _| {
                let profile = decode(&packed).ok()?;
                let sequence = store.load_sequence(profile.app.key()).ok().flatten();
                let refreshed = refresh(profile, sequence)?;
                let stored = CachedProfile::replace(&refreshed.profile, store);
                let kept = stored.and_then(|profile| match &refreshed.sequence {
                    Some(sequence) => store
                        .save_sequence(sequence)
                        .map(|()| profile)
                        .map_err(|error| error.to_string()),
                    None => Ok(profile),
                });
                Some((kept, refreshed.obsolete))
            },
            move |apps, (profile, obsolete)| {
                if !apps.is_in_force(&id, &before) {
                    return None;
                }
                tracing::info!(
                    app = id,
                    obsolete,
                    entries,
                    "obsolete entries were replaced or removed"
                );
                let stored = profile.map(|profile| apps.profiles.insert(id.clone(), profile));
                apps.observe(&id, &Observation::Checked { obsolete, entries });
                apps.save();
                stored.err()
            },
        );
    }

    /// Has the profiles read again: the user may have learned an app by hand.
    pub fn load_again(&self) {
        let (store, outbox) = (self.store.clone(), self.outbox.clone());
        let known = self.profiles.keys().cloned().collect();
        self.jobs
            .run(move |_| match CachedProfile::load_all(&store) {
                Ok((found, warnings)) => {
                    outbox.send(Message::Profiles { found, known });
                    for warning in warnings {
                        outbox.send(Message::Warning(warning));
                    }
                }
                Err(error) => drop(outbox.send(Message::Warning(error.to_string()))),
            });
    }

    /// The profiles were read again; `known` are the apps that had one before.
    pub fn loaded_again(
        &mut self,
        rules: &Rules,
        found: HashMap<String, CachedProfile>,
        known: &[String],
    ) {
        for id in known.iter().filter(|id| !found.contains_key(*id)) {
            // The user has forgotten it. If it is launched again, it begins anew.
            self.profiles.remove(id);
            self.registry.remove(id);
        }
        for (id, profile) in found {
            manage(&mut self.registry, rules, &id, &profile);
            let old = self.profiles.get(&id);
            match old.is_some_and(|old| old.packed == profile.packed) {
                true => drop(self.profiles.insert(id, profile)),
                false => self.use_learned(&id, profile, None),
            }
        }
        self.save();
    }

    /// Forgets an app, its profile and its launches.
    pub fn forget(&mut self, id: &str) {
        let profile = self.profiles.remove(id).map(|profile| profile.app);
        self.registry.remove(id);
        self.save();
        let id = id.to_owned();
        self.in_background(
            move |store, records| {
                let removed = profile.map_or(Ok(false), |app| store.remove(app.key()));
                let forgotten = records.forget(&id);
                let removed = removed.err().map(|error| error.to_string());
                let kept = forgotten.err().map(|error| error.to_string());
                let whys: Vec<String> = removed.into_iter().chain(kept).collect();
                (!whys.is_empty()).then(|| whys.join("; "))
            },
            |_, why| Some(why),
        );
    }

    /// Has the registry written.
    pub fn save(&self) {
        let (registry, directory) = (self.registry.clone(), self.state_dir.clone());
        self.in_background(
            move |_, _| {
                // Another process may have removed the directory.
                let created = Store::create(&directory).map_err(|error| error.to_string());
                created
                    .and_then(|_| registry.save().map_err(|error| error.to_string()))
                    .err()
            },
            |_, why| Some(why),
        );
    }

    /// Has the worker do a job on the stored profiles and the history. The event loop then takes what came of
    /// it, if anything did, by `apply`, which returns a warning if something is wrong.
    fn in_background<T>(
        &self,
        job: impl FnOnce(&Store, &mut Records) -> Option<T> + Send + 'static,
        apply: impl FnOnce(&mut ManagedApps, T) -> Option<String> + Send + 'static,
    ) where
        T: Send + 'static,
    {
        let (store, outbox) = (self.store.clone(), self.outbox.clone());
        self.jobs.run(move |records| {
            if let Some(result) = job(&store, records) {
                outbox.send(Message::Apps(Box::new(|apps| apply(apps, result))));
            }
        });
    }
}

/// Manages an app that the user has learned by hand.
fn manage(registry: &mut Registry, rules: &Rules, id: &str, profile: &CachedProfile) {
    if registry.get(id).is_some() {
        return;
    }
    let Some(marks) = Marks::of_profile(&profile.app, rules) else {
        tracing::info!(app = id, "{LAUNCHER_ONLY}");
        return;
    };
    let name = id.rsplit('/').next().unwrap_or(id).to_owned();
    let mut record = Record::new(id.to_owned(), name, Added::User, marks);
    record.managed = Managed::with_profile(profile.class, &profile.history);
    registry.insert(record);
}

fn reason_text(reason: DecisionReason) -> &'static str {
    match reason {
        DecisionReason::Missed => "it reads too much itself",
        DecisionReason::Obsolete => "too many entries are obsolete",
        DecisionReason::NewExecutable => "its executable is another file",
        DecisionReason::NoProfile => "there is no profile of it",
        DecisionReason::Asked => "the user asked for it",
    }
}

/// Why an app is switched off, for people.
pub fn off_reason(off: Off) -> String {
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::profile::generate::sample;
    use crate::service::config::HistoryConfig;
    use crate::service::mailbox::{Inbox, mailbox};
    use crate::service::worker::Worker;

    const ID: &str = "/opt/app";

    /// The apps of a state directory that holds a profile of [`ID`], and what their worker sends.
    fn one_app(dir: &std::path::Path) -> (ManagedApps, Inbox<Message>, Worker) {
        let store = Store::create(dir).unwrap();
        store.save(&sample(ID)).unwrap();
        let (outbox, inbox) = mailbox().unwrap();
        let worker = Worker::start(Records::open(dir, &HistoryConfig::default()).0).unwrap();
        let (registry, _) = Registry::load(dir).unwrap();
        let (rules, jobs) = (Rules::none(), worker.jobs().clone());
        let loaded = ManagedApps::load(registry, &rules, store, dir.into(), jobs, outbox);
        (loaded.unwrap().0, inbox, worker)
    }

    /// Waits until the worker has done its jobs, and takes what came of them.
    fn take_results(apps: &mut ManagedApps, inbox: &Inbox<Message>) {
        let (done, all_done) = channel();
        apps.jobs.run(move |_| done.send(()).unwrap());
        all_done.recv().unwrap();
        for message in inbox.take() {
            if let Message::Apps(apply) = message {
                apply(apps);
            }
        }
    }

    fn params_in_force(apps: &ManagedApps) -> Option<u64> {
        let revision = apps.profile(ID)?.history.last();
        Some(revision.unwrap().params.shift_bytes)
    }

    #[test]
    fn what_was_made_of_an_old_profile_does_not_replace_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let (mut apps, inbox, _worker) = one_app(dir.path());
        let in_force = params_in_force(&apps).unwrap();
        let params = Params {
            shift_bytes: 2 * in_force,
            ..apps.profile(ID).unwrap().history[0].params
        };

        apps.reschedule(ID, params);
        take_results(&mut apps, &inbox);
        assert_eq!(params_in_force(&apps), Some(2 * in_force));

        // The app is learned while the worker still schedules the profile of before.
        let mut learned = sample(ID);
        learned.created += 1;
        let params = Params {
            shift_bytes: 3 * in_force,
            ..params
        };
        apps.reschedule(ID, params);
        apps.use_learned(ID, CachedProfile::load(&learned).unwrap(), None);
        take_results(&mut apps, &inbox);
        assert_eq!(params_in_force(&apps), Some(in_force));

        // Nor does it bring an app back that was forgotten.
        apps.reschedule(ID, params);
        apps.forget(ID);
        take_results(&mut apps, &inbox);
        assert_eq!(params_in_force(&apps), None);
        assert!(apps.store.load(sample(ID).app.key()).unwrap().is_none());
    }

    #[test]
    fn a_stored_profile_that_was_learned_since_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let (mut apps, inbox, _worker) = one_app(dir.path());
        let mut learned = sample(ID);
        learned.created += 1;
        apps.store.save(&learned).unwrap();
        let history = &apps.profile(ID).unwrap().history;
        apps.reschedule(
            ID,
            Params {
                shift_bytes: 0,
                ..history[0].params
            },
        );
        take_results(&mut apps, &inbox);
        let stored = apps.store.load(learned.app.key()).unwrap();
        assert_eq!(stored, Some(learned));
    }
}
