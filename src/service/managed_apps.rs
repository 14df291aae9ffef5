//! The managed apps: their records, their profiles, and what is decided from what happens to them.

use std::collections::HashMap;
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::sync::Arc;

use super::cached_profile::{CachedProfile, CachedProfiles, KnownProfiles};
use super::clock::{booted_s, now_s};
use super::config::Config;
use super::history::{Kind, LaunchRecord};
use super::launch::LaunchPolicy;
use super::login;
use super::mailbox::Outbox;
use super::marks::Marks;
use super::message::Message;
use super::profile_jobs::{
    ProfileChange, ProfileNews, change_stored, extended_and_stored, refreshed_and_stored,
    rescheduled_and_stored, scheduled_for_drives, store_learned,
};
use super::profile_room::{KeptProfile, without_room};
use super::registry::{Added, EVERY_USER, Record, Registry};
use super::reschedule::Rescheduled;
use super::told_gains::ToldGains;
use super::worker::Jobs;
use crate::apps::{Rules, desktop};
use crate::drive::Sysfs;
use crate::fs::blockdev;
use crate::fs::mounts::MountTable;
use crate::learn::{LearnedProfile, LoadSequence, MissedReads, NotedReads};
use crate::model::{App, MissedRequests, Params, PrefetchReport, Profile, UserApp};
use crate::policy::{
    ColdLaunch, Decision, DecisionReason, LaunchFigures, Managed, NoGainFacts, NoGainReason,
    Observation, Off, Plan, TuningRules, why_no_gain,
};
use crate::profile::{Store, decode};

/// What the log says of a launcher that has a profile or was managed.
const LAUNCHER_ONLY: &str =
    "starts many apps and is not managed itself: learn the apps that it starts";

/// The managed apps.
pub struct ManagedApps {
    pub registry: Registry,
    pub profiles: CachedProfiles,
    /// Profiles that were learned elsewhere, of [`EVERY_USER`]: for launches of apps of which a user has none yet.
    seeds: CachedProfiles,
    /// Whether schedules may be tuned (`prefetch.dynamic`).
    tunes: bool,
    /// In which steps schedules are tuned, and how far.
    rules: TuningRules,
    /// How many launches of an app are learned in a row, at most (`prefetch.max_learned_launches`).
    most_learned: u32,
    /// Bytes that the profiles of one user's apps may take, besides those that the administrator has named
    /// (`automatic.max_profiles_mib`).
    most_bytes: u64,
    /// Whether an app may have changed since that was last looked at, to be reported on the bus.
    may_have_changed: bool,
    told: ToldGains,
    store: Store,
    jobs: Jobs,
    outbox: Outbox,
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
        jobs: Jobs,
        outbox: Outbox,
    ) -> Result<(Self, Vec<String>), Box<dyn Error>> {
        let mounts = MountTable::read()?;
        let (profiles, warnings) = CachedProfile::load_all(&store, &mounts)?;
        // The administrator may have declared one a launcher since.
        registry.records.retain(|key, record| {
            let app = App {
                path: key.id.clone().into_bytes(),
                ..App::default()
            };
            let stays = record.marks.argument.is_some() || !rules.is_launcher(&app);
            if !stays {
                tracing::info!(app = key.id, uid = key.uid, "{LAUNCHER_ONLY}");
            }
            stays
        });
        for (key, profile) in &profiles {
            if !registry.records.contains_key(key) {
                let record = record_of(key, profile, rules, &mounts);
                record
                    .into_iter()
                    .for_each(|record| registry.insert(record));
            }
        }
        let lacks_profile = |record: &&Record| {
            record.managed.tuning().is_some() && !profiles.contains_key(&record.key)
        };
        let lost = registry.records.values().filter(lacks_profile);
        let lost: Vec<UserApp> = lost.map(|record| record.key.clone()).collect();
        let told = ToldGains::known(registry.records.values().filter_map(|record| {
            Some((
                record.key.clone(),
                record.managed.typical_times().saved_us()?,
            ))
        }));
        let mut apps = ManagedApps {
            registry,
            profiles,
            seeds: CachedProfiles::new(),
            tunes: true,
            rules: TuningRules::default(),
            most_learned: 1,
            most_bytes: u64::MAX,
            may_have_changed: false,
            told,
            store,
            jobs,
            outbox,
        };
        for key in lost {
            apps.observe(&key, &Observation::NoProfile);
        }
        Ok((apps, warnings))
    }

    /// Takes the settings for apps from the configuration.
    pub fn configure(&mut self, config: &Config) {
        self.tunes = config.prefetch.dynamic;
        self.rules = TuningRules::from(&config.tuning);
        self.most_learned = config.prefetch.max_learned_launches as u32;
        self.most_bytes = config.automatic.max_profiles_mib << 20;
    }

    /// Manages another app.
    pub fn manage(&mut self, record: Record) {
        self.registry.insert(record);
        self.may_have_changed = true;
    }

    /// Replaces the profiles that were learned elsewhere.
    pub fn set_seeds(&mut self, seeds: CachedProfiles) {
        self.seeds = seeds;
        self.may_have_changed = true;
    }

    /// Whether an app may have changed since the last call.
    pub fn may_have_changed(&mut self) -> bool {
        mem::take(&mut self.may_have_changed)
    }

    /// Notes whether it was clear where the app's file systems are. A prefetch that was refused has not looked.
    pub fn note_unclear(&mut self, key: &UserApp, report: &PrefetchReport) {
        let profile = self.profiles.get_mut(key);
        if let Some(profile) = profile.filter(|_| report.refused.is_none())
            && profile.unclear != report.unclear
        {
            profile.unclear.clone_from(&report.unclear);
            self.may_have_changed = true;
        }
    }

    /// The profile that a launch of the app is prefetched by: the user's, or one that was learned elsewhere.
    pub fn profile(&self, key: &UserApp) -> Option<&CachedProfile> {
        let seed = || self.seeds.get(&UserApp::new(EVERY_USER, key.id.as_str()));
        self.profiles.get(key).or_else(seed)
    }

    /// The most that one of an app's last prefetched launches read, in bytes; 0 if none is known.
    pub fn usual_bytes(&self, key: &UserApp) -> u64 {
        let record = self.registry.records.get(key);
        record.map_or(0, |record| record.managed.usual_bytes())
    }

    /// Plans a launch that begins now. `withholds`: whether prefetching may be withheld, to compare.
    pub fn plan(&mut self, key: &UserApp, withholds: bool) -> LaunchPolicy {
        // Another key each time: launches from which prefetching is withheld should follow no rhythm.
        let random = RandomState::new().hash_one(key);
        let record = self.registry.records.get_mut(key);
        let planned = record.map_or(Plan::Leave, |record| record.managed.plan(now_s(), random));
        let has_profile = self.profiles.contains_key(key);
        let plan = match planned {
            Plan::Prefetch | Plan::Withhold if !has_profile => {
                self.observe(key, &Observation::NoProfile);
                Plan::Learn
            }
            Plan::Withhold if !withholds => Plan::Prefetch,
            plan => plan,
        };
        LaunchPolicy {
            plan,
            has_profile: self.profile(key).is_some(),
            // The kernel's part: the caller knows.
            is_recorded: false,
        }
    }

    /// Reads the launch sequence of an app, with which the launch that is learned next is combined: a file is read, so
    /// that the event loop should have another thread do it. `None` as long as no launch was learned from its beginning on.
    pub fn load_sequence(&self, key: &UserApp) -> Option<LoadSequence> {
        let record = self.registry.records.get(key)?;
        let profile = self.profiles.get(key);
        let profile = profile.filter(|_| !record.managed.is_learned_in_part())?;
        let (app, packed) = (profile.app.clone(), Arc::clone(&profile.packed));
        let store = self.store.clone();
        Some(Box::new(move || {
            let stored = store.load_latest_sequence(app.key()).ok().flatten();
            stored.or_else(|| decode(&packed).ok())
        }))
    }

    /// Enters a launch whose app runs now. False if the app is not managed.
    pub fn launched(&mut self, key: &UserApp, app: &App, plan: Plan) -> bool {
        let Some(record) = self.registry.records.get_mut(key) else {
            return false;
        };
        let now = now_s();
        record.launched(now);
        record.prefetched += u64::from(plan == Plan::Prefetch);
        let before = record.app.replace(app.clone());
        if before.is_some_and(|before| app.has_other_file_than(&before)) {
            record.managed.next(now, &Observation::NewExecutable);
        }
        true
    }

    /// A launch of the app begins: how many bytes were read for it before that.
    pub fn found_before(&mut self, key: &UserApp) -> u64 {
        let record = self.registry.records.get_mut(key);
        record.map_or(0, |record| record.read_before.launched(now_s(), booted_s()))
    }

    /// What an anticipated launch has saved, in microseconds: what cold launches without prefetching typically take, less
    /// what this one took. `None` for others, and where that is not known.
    pub fn saved_before(&self, key: &UserApp, launch: &LaunchRecord) -> Option<u64> {
        let record = self.registry.records.get(key)?;
        let without_us = record.managed.typical_times().without_us?;
        let took_us = launch.duration_us?;
        (launch.kind == Kind::Anticipated).then(|| without_us.saturating_sub(took_us))
    }

    /// Takes a launch of an app that is over, and carries out what its policy decides.
    pub fn observe_launch(&mut self, key: &UserApp, figures: &LaunchFigures) {
        let profile = self.profiles.get(key);
        if let Some(history) = profile.map(|profile| profile.history.clone()) {
            let observation = Observation::Launched {
                history: &history,
                figures,
                rules: self.rules,
            };
            self.observe(key, &observation);
        }
    }

    /// Takes what happened to an app, and carries out what its policy decides.
    pub fn observe(&mut self, key: &UserApp, observation: &Observation<'_>) {
        let Some(record) = self.registry.records.get_mut(key) else {
            return;
        };
        self.may_have_changed = true;
        match record.managed.next(now_s(), observation) {
            Decision::Keep => {}
            Decision::Reschedule(params) if self.tunes => self.reschedule(key, params),
            Decision::Reschedule(_) => {
                record.managed.next(now_s(), &Observation::NotRescheduled);
            }
            Decision::Refresh => self.refresh_profile(key, Occasion::Launch),
            Decision::Relearn(reason) => {
                let reason = reason_text(reason);
                tracing::info!(app = key.id, uid = key.uid, reason, "will be learned again");
            }
            Decision::SwitchedOff(_) => self.switched_off(key),
        }
    }

    /// Finds out why an app was switched off, as far as can be told, and says it.
    fn switched_off(&mut self, key: &UserApp) {
        let profile = self.profiles.remove(key);
        let Some(record) = self.registry.records.get_mut(key) else {
            return;
        };
        let facts = NoGainFacts {
            readahead_kib: profile.and_then(|profile| {
                let mounts = MountTable::read().ok()?;
                Sysfs::default().read_ahead_kib(blockdev::below(profile.app.dev, &mounts))
            }),
            ..record.managed.no_gain_facts()
        };
        if let Some(off) = record.managed.explain_no_gain(why_no_gain(&facts)) {
            let why = off_reason(off);
            tracing::info!(app = key.id, uid = key.uid, why, "switched off");
        }
    }

    /// Logs the time saved at a cold launch of an app when it becomes known or has changed much since it was told.
    pub fn tell_gain(&mut self, key: &UserApp) {
        let record = self.registry.records.get(key);
        let saved_us = record.and_then(|record| record.managed.typical_times().saved_us());
        if let Some(now_us) = self.told.news(key, saved_us) {
            let saved_s = format!("{:.2}", now_us as f64 / 1e6);
            tracing::info!(
                app = key.id,
                uid = key.uid,
                saved_s,
                "time saved at each cold launch"
            );
        }
    }

    /// Uses a profile that was just learned, and has it stored, unless the app was forgotten meanwhile. `cold`: what the launch showed, if it was as cold as
    /// one from which prefetching is withheld.
    pub fn keep(
        &mut self,
        key: &UserApp,
        profile: CachedProfile,
        learned: LearnedProfile,
        cold: Option<ColdLaunch>,
        is_whole: bool,
    ) {
        if !self.registry.records.contains_key(key) {
            return;
        }
        self.use_learned(key, profile, cold, is_whole);
        let is_taken = self.in_background(key, Occasion::Launch, move |store| {
            let failed = store_learned(&learned, store).err();
            failed.map(ProfileNews::NotStored)
        });
        if !is_taken {
            self.observe(key, &Observation::NoProfile);
        }
    }

    fn use_learned(
        &mut self,
        key: &UserApp,
        profile: CachedProfile,
        cold: Option<ColdLaunch>,
        is_whole: bool,
    ) {
        let (class, history) = (profile.class, profile.history.clone());
        let (pages, completion) = (profile.learned_live, profile.completion.clone());
        let before = self.profiles.insert(key.clone(), profile);
        if before.is_some_and(|before| before.completion != completion)
            && let Some(record) = self.registry.records.get_mut(key)
        {
            record.managed.timed_anew();
        }
        let learned = Observation::Learned {
            class,
            history: &history,
            cold,
            pages,
            is_whole,
            most: self.most_learned,
        };
        self.observe(key, &learned);
        self.make_room(key.uid);
    }

    /// Removes profiles of a user's apps if they take too much. The apps are learned again when they are launched.
    fn make_room(&mut self, uid: u32) {
        let records = &self.registry.records;
        let kept = self.profiles.iter().filter_map(|(key, profile)| {
            let record = records.get(key)?;
            let counts = key.uid == uid && record.added != Added::User;
            counts.then(|| KeptProfile {
                last_s: record.last_s.last().copied().unwrap_or(0),
                bytes: profile.packed.len() as u64,
                key: key.clone(),
            })
        });
        for key in without_room(kept.collect(), self.most_bytes) {
            tracing::info!(
                app = key.id,
                uid = key.uid,
                "its profile makes room for others (automatic.max_profiles_mib)"
            );
            let removed = self.profiles.remove(&key).map(|profile| profile.app);
            self.observe(&key, &Observation::NoProfile);
            let (store, outbox) = (self.store.clone(), self.outbox.clone());
            self.jobs.run(move || {
                let removed = removed.map(|app| store.remove(app.key()));
                if let Some(Err(error)) = removed {
                    outbox.send(Message::Warning(error.to_string()));
                }
            });
        }
    }

    /// Has a profile scheduled anew.
    fn reschedule(&mut self, key: &UserApp, params: Params) {
        let job = move |profile, sequence, store: &Store| {
            Some(rescheduled_and_stored(profile, sequence, params, store))
        };
        let is_taken = self.change_profile(key, Occasion::Launch, job);
        if !is_taken && let Some(record) = self.registry.records.get_mut(key) {
            record.managed.next(now_s(), &Observation::NotRescheduled);
        }
    }

    /// The schedule would not change. The next step is taken once the worker has done what waits: another job of the same
    /// launch may change the profile, and what begins with the one before is dropped.
    fn try_next_step(&self, key: UserApp) {
        let outbox = self.outbox.clone();
        self.jobs.run_uncounted(move || {
            let news = ProfileNews::NextStepDue;
            outbox.send(Message::Profile { app: key, news });
        });
    }

    /// Drives of these apps were measured: each profile is to be scheduled for what they cost once its app has been launched.
    /// All of them at once would keep a processor busy.
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

    /// Has a profile scheduled for what its drives cost, if they were measured since it was made.
    pub fn schedule_for_drives(&mut self, key: &UserApp) {
        let record = self.registry.records.get(key);
        if !record.is_some_and(|record| record.managed.is_schedule_due()) {
            return;
        }
        self.change_profile(key, Occasion::Launch, |profile, sequence, store| {
            Some(scheduled_for_drives(profile, sequence, store))
        });
    }

    /// Has the files of all profiles checked.
    pub fn refresh_profiles(&mut self) {
        for key in self.profiles.keys() {
            self.refresh_profile(key, Occasion::DailyCheck);
        }
        self.registry.checked(now_s());
        self.save();
    }

    /// Has the files of a profile checked: files that were replaced are found again by their paths, and entries
    /// of files that are gone are dropped.
    fn refresh_profile(&self, key: &UserApp, occasion: Occasion) {
        self.change_profile(key, occasion, refreshed_and_stored);
    }

    /// Has a profile take in what a prefetched launch missed, unless it would have more than `most` bytes then.
    pub fn take_in(&self, key: &UserApp, missed: MissedReads, most: Option<u64>) {
        let job = move |profile, sequence, store: &Store| {
            extended_and_stored(profile, sequence, &missed, most, store)
        };
        self.change_profile(key, Occasion::Launch, job);
    }

    /// Takes what the worker says about an app's profile. Returns a warning if something is wrong.
    pub fn take_news(&mut self, app: &UserApp, news: ProfileNews) -> Option<String> {
        match news {
            ProfileNews::Changed { before, change } => {
                // Another may have been learned since, by hand or from a launch, or the app forgotten.
                let profile = self.profiles.get(app);
                if !profile.is_some_and(|profile| Arc::ptr_eq(&profile.packed, &before)) {
                    return None;
                }
                let warning = self.take_change(app, *change);
                self.save();
                warning
            }
            ProfileNews::NotStored(why) => {
                // The disk is full, say: the app is learned at each launch until its profile can be stored.
                self.observe(app, &Observation::NoProfile);
                self.save();
                Some(why)
            }
            ProfileNews::NextStepDue => {
                self.observe(app, &Observation::NoEffect(self.rules));
                None
            }
        }
    }

    /// Takes what came of a job on an app's profile that is still in force.
    fn take_change(&mut self, app: &UserApp, change: ProfileChange) -> Option<String> {
        match change {
            ProfileChange::Rescheduled(Ok(Rescheduled::Anew(profile))) => {
                let params = profile.history.last().map(|revision| revision.params);
                tracing::info!(app = app.id, uid = app.uid, ?params, "scheduled anew");
                self.profiles.insert(app.clone(), profile);
                None
            }
            ProfileChange::Rescheduled(Ok(Rescheduled::Same)) => {
                self.try_next_step(app.clone());
                None
            }
            ProfileChange::Rescheduled(Err(why)) => {
                self.observe(app, &Observation::NotRescheduled);
                Some(format!("{app} cannot be scheduled anew: {why}"))
            }
            ProfileChange::ForDrives(Ok(profile)) => {
                let record = self.registry.records.get_mut(app)?;
                record.managed.schedule_is_made();
                if let Some(profile) = profile {
                    let what = "scheduled for what its drive was measured to cost";
                    tracing::info!(app = app.id, uid = app.uid, "{what}");
                    record
                        .managed
                        .scheduled_for(profile.class, &profile.history);
                    self.profiles.insert(app.clone(), profile);
                }
                None
            }
            ProfileChange::ForDrives(Err(why)) => {
                Some(format!("{app} is not scheduled anew: {why}"))
            }
            ProfileChange::Refreshed {
                stored: Ok(profile),
                obsolete,
                entries,
            } => {
                let what = "obsolete entries were replaced or removed";
                tracing::info!(app = app.id, uid = app.uid, obsolete, entries, "{what}");
                self.profiles.insert(app.clone(), profile);
                self.observe(app, &Observation::Checked { obsolete, entries });
                None
            }
            ProfileChange::Refreshed {
                stored: Err(why), ..
            } => Some(why),
            ProfileChange::Extended(Ok((profile, noted))) => {
                self.profiles.insert(app.clone(), profile);
                self.make_room(app.uid);
                let NotedReads { joined, kept } = noted;
                let what = "what the launch missed was noted";
                tracing::debug!(app = app.id, uid = app.uid, joined, kept, "{what}");
                None
            }
            ProfileChange::Extended(Err(why)) => {
                Some(format!("{app}: what it misses is not noted: {why}"))
            }
        }
    }

    /// Has the profiles read again: the administrator may have learned an app by hand.
    pub fn load_again(&self, rules: &Rules) {
        let (store, outbox) = (self.store.clone(), self.outbox.clone());
        let rules = rules.clone();
        let packed =
            |(key, profile): (&UserApp, &CachedProfile)| (key.clone(), Arc::clone(&profile.packed));
        let known: KnownProfiles = self.profiles.iter().map(packed).collect();
        self.jobs.run(move || {
            let read = || -> Result<_, Box<dyn Error>> {
                let mounts = MountTable::read()?;
                let (found, warnings) = CachedProfile::load_all(&store, &mounts)?;
                // Links on the way to an executable are looked up, which may lie anywhere.
                let new = found.iter().filter(|(key, _)| !known.contains_key(*key));
                let new = new.filter_map(|(key, it)| record_of(key, it, &rules, &mounts));
                let new = new.collect();
                Ok((found, new, warnings))
            };
            match read() {
                Ok((found, new, warnings)) => {
                    outbox.send(Message::Profiles { found, new, known });
                    for warning in warnings {
                        outbox.send(Message::Warning(warning));
                    }
                }
                Err(error) => drop(outbox.send(Message::Warning(error.to_string()))),
            }
        });
    }

    /// The profiles were read again; `known` were in force when that was asked for. Apps that were learned, scheduled
    /// anew or forgotten since are left as they are: what was read of them is older. `new` are the records of those that
    /// had no profile.
    pub fn loaded_again(&mut self, found: CachedProfiles, new: Vec<Record>, known: &KnownProfiles) {
        let mut new: HashMap<UserApp, Record> = new
            .into_iter()
            .map(|record| (record.key.clone(), record))
            .collect();
        for key in known.keys().filter(|key| !found.contains_key(*key)) {
            if self.is_as_known(key, known) {
                // The administrator has removed it. If the app is launched again, it begins anew.
                self.profiles.remove(key);
                self.registry.records.remove(key);
            }
        }
        for (key, mut profile) in found {
            if !self.is_as_known(&key, known) {
                continue;
            }
            if let Some(record) = new.remove(&key)
                && !self.registry.records.contains_key(&key)
            {
                self.registry.insert(record);
            }
            let old = self.profiles.get(&key).map(|old| &old.packed);
            if let Some(old) = old.filter(|old| **old == profile.packed) {
                // Jobs that began with it are not late.
                profile.packed = Arc::clone(old);
                self.profiles.insert(key, profile);
                continue;
            }
            let by_hand = is_by_hand(&profile);
            if let Some(record) = self.registry.records.get_mut(&key).filter(|_| by_hand) {
                record.added = Added::User;
            }
            self.use_learned(&key, profile, None, true);
        }
        self.save();
    }

    /// Whether the app's profile is still the one that was in force then, or there still is none.
    fn is_as_known(&self, key: &UserApp, known: &KnownProfiles) -> bool {
        match (self.profiles.get(key), known.get(key)) {
            (Some(profile), Some(packed)) => Arc::ptr_eq(&profile.packed, packed),
            (None, None) => true,
            _ => false,
        }
    }

    /// Forgets an app of a user, its profile and its launches.
    pub fn forget(&mut self, key: &UserApp) {
        let profile = self.profiles.remove(key).map(|profile| profile.app);
        let record = self.registry.records.remove(key);
        self.told.forget(key);
        // The profile of an app that is switched off is in the store alone.
        let app = profile.or_else(|| record?.app).unwrap_or_else(|| App {
            uid: key.uid,
            path: key.id.clone().into_bytes(),
            ..App::default()
        });
        self.save();
        let (store, outbox) = (self.store.clone(), self.outbox.clone());
        // Behind jobs that store its profile.
        self.jobs.run(move || {
            if let Err(error) = store.remove(app.key()) {
                outbox.send(Message::Warning(error.to_string()));
            }
        });
        let (key, outbox) = (key.clone(), self.outbox.clone());
        self.jobs.run_on_written(move |records| {
            if let Err(error) = records.forget(&key) {
                outbox.send(Message::Warning(error.to_string()));
            }
        });
    }

    /// Has the registry written.
    pub fn save(&mut self) {
        self.may_have_changed = true;
        self.jobs.save(self.registry.clone());
    }

    /// Has the worker make something of an app's profile and the launch sequence beside it, if it is still the one in
    /// the store. False if it has too much to do, or there is no profile.
    fn change_profile(
        &self,
        key: &UserApp,
        occasion: Occasion,
        job: impl FnOnce(Profile, Option<Profile>, &Store) -> Option<ProfileChange> + Send + 'static,
    ) -> bool {
        let Some(profile) = self.profiles.get(key) else {
            return false;
        };
        let before = Arc::clone(&profile.packed);
        self.in_background(key, occasion, move |store| {
            let change = change_stored(&before, store, job)?;
            Some(ProfileNews::Changed {
                before,
                change: Box::new(change),
            })
        })
    }

    /// Has the worker do a job on an app's stored profile, and tell what came of it, if anything did
    /// ([`ManagedApps::take_news`]). False if it has too much to do already, on a drive that does not answer, say.
    fn in_background(
        &self,
        key: &UserApp,
        occasion: Occasion,
        job: impl FnOnce(&Store) -> Option<ProfileNews> + Send + 'static,
    ) -> bool {
        let (store, outbox) = (self.store.clone(), self.outbox.clone());
        if occasion == Occasion::Launch && self.jobs.are_many() {
            let why = "profiles stay as they are: too much waits for a drive that does not answer";
            outbox.send(Message::Warning(why.to_owned()));
            return false;
        }
        let app = key.clone();
        let work = move || {
            if let Some(news) = job(&store) {
                outbox.send(Message::Profile { app, news });
            }
        };
        match occasion {
            Occasion::Launch => self.jobs.run(work),
            Occasion::DailyCheck => self.jobs.run_uncounted(work),
        }
        true
    }
}

/// When a profile is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// After a launch, as often as users launch apps.
    Launch,
    /// Once a day, as often as there are profiles.
    DailyCheck,
}

/// Whether the administrator has learned the app by hand. What was learned live, the service itself may have learned:
/// that names no app, since it would lift the limits of a user's.
fn is_by_hand(profile: &CachedProfile) -> bool {
    profile.learned_live.is_none()
}

/// The record of an app that has a profile in the store: it was learned by hand, or the registry was lost. `None` for a
/// launcher. Looks links up.
fn record_of(
    key: &UserApp,
    profile: &CachedProfile,
    rules: &Rules,
    mounts: &MountTable,
) -> Option<Record> {
    let Some(marks) = Marks::of_profile(&profile.app, rules, mounts) else {
        tracing::info!(app = key.id, uid = key.uid, "{LAUNCHER_ONLY}");
        return None;
    };
    let name = key.id.rsplit('/').next().unwrap_or(&key.id).to_owned();
    let added = match is_by_hand(profile) {
        true => Added::User,
        false => Added::Owner,
    };
    let mut record = match login::is_login(key) {
        true => login::record(key.uid),
        false => Record::new(key.clone(), name, added, marks),
    };
    record.managed = Managed::with_profile(profile.class, &profile.history);
    Some(record)
}

/// Why an app is learned again, for people.
pub fn reason_text(reason: DecisionReason) -> String {
    let text = match reason {
        DecisionReason::Missed(missed) => return missed_text(&missed),
        DecisionReason::Obsolete => "too many entries are obsolete",
        DecisionReason::NewExecutable => "its executable is another file",
        DecisionReason::NoProfile => "there is no profile of it",
        DecisionReason::Asked => "the user asked for it",
        DecisionReason::Periodic => "to find out what it still uses",
    };
    text.to_owned()
}

fn missed_text(missed: &MissedRequests) -> String {
    let kinds = [
        (missed.recurring, "as in an earlier launch"),
        (missed.other_drive, "from a drive that its profile lacks"),
        (missed.once, "for the first time"),
        (missed.written, "of files that it has written"),
        (missed.unreadable, "that cannot be learned"),
    ];
    let kinds = kinds.iter().filter(|(requests, _)| *requests > 0);
    let kinds: Vec<_> = kinds
        .map(|(requests, kind)| format!("{requests} {kind}"))
        .collect();
    format!(
        "it reads too much itself that its profile lacks (requests: {})",
        kinds.join(", ")
    )
}

/// Why an app is switched off, for people.
pub fn off_reason(off: Off) -> String {
    match off {
        Off::Asked => "the user said so".to_owned(),
        Off::NoGain {
            with_us,
            without_us,
            why,
        } => {
            let times = format!(
                "not faster here: its cold launches take {} ms with prefetching, {} ms without",
                with_us / 1000,
                without_us / 1000
            );
            let why = why.map_or_else(String::new, |why| format!("; {}", no_gain_reason(why)));
            times + &why
        }
        Off::SlowOpens { delay_us } => format!(
            "not faster here: another program is asked before each file is opened, and takes {:.1} ms to answer \
             (paralfetch doctor names it); once that is over: paralfetch relearn",
            delay_us as f64 / 1e3
        ),
        Off::NothingToLearn => "nothing could be learned from its launches".to_owned(),
        Off::StartsOthers => desktop::STARTS_OTHERS.to_owned(),
    }
}

/// Why there is nothing to gain, for people.
fn no_gain_reason(reason: NoGainReason) -> String {
    match reason {
        NoGainReason::FastDrive { request_us } => {
            format!("its drive serves a request in {request_us} us, about as fast as memory")
        }
        NoGainReason::HardlyWaits { waiting_us } => format!(
            "without it they wait for the drive for {} ms",
            waiting_us / 1000
        ),
        NoGainReason::LargeReadahead { kib } => format!(
            "the readahead of its drive is {kib} KiB, so that the kernel itself reads most of what they need in time"
        ),
    }
}

#[cfg(test)]
mod tests;
