//! The managed apps: their records, their profiles, and what is decided from what happens to them.

use std::collections::HashMap;
use std::path::PathBuf;

use super::cached_profile::CachedProfile;
use super::catalogue::{LAUNCHER_ONLY, NO_EXECUTABLE, marks_of};
use super::clock::now_s;
use super::launch::LaunchPolicy;
use super::mailbox::Outbox;
use super::message::{Message, RescheduleResult};
use super::registry::{Added, Record, Registry};
use super::reschedule::{look_at_files, reschedule, take_replacements};
use super::start::ServiceError;
use super::worker::Jobs;
use crate::apps::Rules;
use crate::fs::mounts::MountTable;
use crate::learn::LearnedProfile;
use crate::model::{App, Params, Profile};
use crate::policy::{
    Decision, DecisionReason, Managed, Observation, Off, Phase, Plan, check_files,
};
use crate::profile::{Store, decode};

/// The managed apps.
pub struct ManagedApps {
    registry: Registry,
    /// By app.
    profiles: HashMap<String, CachedProfile>,
    store: Store,
    state_dir: PathBuf,
    /// Whether schedules may be tuned (`prefetch.dynamic`).
    tunes: bool,
    /// State of the random numbers that decide which launches go without prefetching.
    random: u64,
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
        registry: Registry,
        rules: &Rules,
        store: Store,
        state_dir: PathBuf,
        jobs: Jobs,
        outbox: Outbox<Message>,
    ) -> Result<(Self, Vec<String>), ServiceError> {
        let (profiles, warnings) = read_profiles(&store)?;
        let mut apps = ManagedApps {
            registry,
            profiles,
            store,
            state_dir,
            tunes: true,
            random: now_s() ^ u64::from(std::process::id()) << 32 | 1,
            jobs,
            outbox,
        };
        for (id, profile) in &apps.profiles {
            manage(&mut apps.registry, rules, id, profile);
        }
        apps.learn_lost_profiles();
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
        let random = self.next_random();
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
        let was = record.app.as_ref().map(|app| app.ino);
        let replaced = was.is_some_and(|was| {
            was != app.ino && was != NO_EXECUTABLE.1 && app.ino != NO_EXECUTABLE.1
        });
        record.app = Some(app.clone());
        if replaced {
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
        let (history, class) = (profile.history.clone(), profile.class);
        self.profiles.insert(id.to_owned(), profile);
        let observation = Observation::Learned {
            class,
            history: &history,
            waiting_us: cold_waits_us,
        };
        self.observe(id, &observation);
        let (id, store, outbox) = (id.to_owned(), self.store.clone(), self.outbox.clone());
        let sequence = learned.sequence();
        self.jobs.run(move |_| {
            let kept = store
                .save_sequence(&sequence)
                .and_then(|()| store.save(&learned.profile).map(drop));
            if let Err(error) = kept {
                let why = error.to_string();
                outbox.send(Message::NotKept { id, why });
            }
        });
    }

    /// A profile could not be stored, on a full disk, say. Its app is learned at each launch until it can be.
    pub fn not_kept(&mut self, id: &str) {
        self.observe(id, &Observation::NoProfile);
        self.save();
    }

    /// Has a profile scheduled anew.
    fn reschedule(&self, id: &str, params: Params) {
        let Some(profile) = self.profiles.get(id) else {
            return;
        };
        let (packed, store, outbox) = (
            profile.packed.clone(),
            self.store.clone(),
            self.outbox.clone(),
        );
        let (id, app) = (id.to_owned(), profile.app.clone());
        self.jobs.run(move |_| {
            let result = match decode(&packed) {
                Err(error) => RescheduleResult::Failed(error.to_string()),
                Ok(profile) => {
                    let sequence = store.load_sequence(app.key()).ok().flatten();
                    let rescheduled = reschedule(profile, sequence, params);
                    RescheduleResult::of(rescheduled, |profile| store_and_load(&store, profile))
                }
            };
            outbox.send(Message::Rescheduled { id, result });
        });
    }

    /// A profile was scheduled anew, or not.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn rescheduled(&mut self, id: &str, result: RescheduleResult) -> Result<(), String> {
        let result = match result {
            RescheduleResult::Done(profile) => {
                let params = profile.history.last().map(|revision| revision.params);
                tracing::info!(app = id, ?params, "scheduled anew");
                self.profiles.insert(id.to_owned(), *profile);
                Ok(())
            }
            RescheduleResult::NoEffect => {
                self.observe(id, &Observation::NoEffect);
                Ok(())
            }
            RescheduleResult::Failed(why) => {
                self.observe(id, &Observation::NotRescheduled);
                Err(format!("{id} cannot be scheduled anew: {why}"))
            }
        };
        self.save();
        result
    }

    /// Has the files of all profiles checked.
    pub fn refresh_profiles(&self) {
        for id in self.profiles.keys() {
            self.refresh_profile(id);
        }
    }

    /// Has the files of a profile checked: files that were replaced are found again by their paths, and entries
    /// of files that are gone, or that no launch has used for long, are dropped.
    fn refresh_profile(&self, id: &str) {
        let Some(profile) = self.profiles.get(id) else {
            return;
        };
        let launches_s = self
            .registry
            .get(id)
            .map(|record| record.last_s.clone())
            .unwrap_or_default();
        let (packed, store, outbox) = (
            profile.packed.clone(),
            self.store.clone(),
            self.outbox.clone(),
        );
        let id = id.to_owned();
        self.jobs.run(move |_| {
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
            let profile = match store_and_load(&store, &profile) {
                Ok(profile) => Some(Box::new(profile)),
                Err(why) => {
                    outbox.send(Message::Warning(why));
                    None
                }
            };
            outbox.send(Message::Checked {
                id,
                obsolete: checked.obsolete,
                entries,
                profile,
            });
        });
    }

    /// The files of a profile were checked, and obsolete entries were found.
    pub fn checked(
        &mut self,
        id: &str,
        obsolete: u64,
        entries: u64,
        profile: Option<Box<CachedProfile>>,
    ) {
        tracing::info!(
            app = id,
            obsolete,
            entries,
            "obsolete entries were replaced or removed"
        );
        if let Some(profile) = profile {
            self.profiles.insert(id.to_owned(), *profile);
        }
        self.observe(id, &Observation::Checked { obsolete, entries });
        self.save();
    }

    /// Has the profiles read again: the user may have learned an app by hand.
    pub fn load_again(&self) {
        let (store, outbox) = (self.store.clone(), self.outbox.clone());
        let known: Vec<String> = self.profiles.keys().cloned().collect();
        self.jobs.run(move |_| match read_profiles(&store) {
            Ok((found, warnings)) => {
                outbox.send(Message::Profiles { found, known });
                for warning in warnings {
                    outbox.send(Message::Warning(warning));
                }
            }
            Err(error) => {
                outbox.send(Message::Warning(error.to_string()));
            }
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
            // The user has forgotten it. Should it be launched again, it begins anew.
            self.profiles.remove(id);
            self.registry.remove(id);
        }
        for (id, profile) in found {
            let packed = profile.packed.clone();
            let (history, class) = (profile.history.clone(), profile.class);
            manage(&mut self.registry, rules, &id, &profile);
            let old = self.profiles.insert(id.clone(), profile);
            if old.is_some_and(|old| old.packed == packed) {
                continue;
            }
            let observation = Observation::Learned {
                class,
                history: &history,
                waiting_us: None,
            };
            self.observe(&id, &observation);
        }
        self.save();
    }

    /// Forgets an app, its profile and its launches.
    pub fn forget(&mut self, id: &str) {
        let profile = self.profiles.remove(id).map(|profile| profile.app);
        self.registry.remove(id);
        self.save();
        let (store, outbox) = (self.store.clone(), self.outbox.clone());
        let id = id.to_owned();
        self.jobs.run(move |records| {
            let removed = profile.map_or(Ok(false), |app| store.remove(app.key()));
            if let Err(error) = removed {
                outbox.send(Message::Warning(error.to_string()));
            }
            if let Err(error) = records.forget(&id) {
                outbox.send(Message::Warning(error.to_string()));
            }
        });
    }

    /// Has the registry written.
    pub fn save(&self) {
        let bytes = self.registry.encode();
        let path = self.registry.path().to_owned();
        let dir = self.state_dir.clone();
        let outbox = self.outbox.clone();
        self.jobs.run(move |_| {
            // Somebody may have removed the directory.
            let failed = match (Store::create(&dir), bytes) {
                (Err(error), _) => Some(error.to_string()),
                (Ok(_), Err(error)) => Some(error.to_string()),
                (Ok(_), Ok(bytes)) => Registry::write(&path, &bytes)
                    .err()
                    .map(|error| error.to_string()),
            };
            if let Some(why) = failed {
                outbox.send(Message::Warning(why));
            }
        });
    }

    /// Apps whose profiles are gone or cannot be used are learned again.
    fn learn_lost_profiles(&mut self) {
        let lost: Vec<String> = self
            .registry
            .iter()
            .filter(|record| {
                record.managed.tuning().is_some() && !self.profiles.contains_key(&record.id)
            })
            .map(|record| record.id.clone())
            .collect();
        for id in lost {
            if let Some(record) = self.registry.get_mut(&id) {
                record.managed.next(now_s(), &Observation::NoProfile);
            }
        }
    }

    /// A number without a pattern (xorshift64*): the launches that go without prefetching should follow no
    /// rhythm.
    fn next_random(&mut self) -> u64 {
        let mut x = self.random;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

/// Reads all profiles, by app; and says which cannot be used.
fn read_profiles(
    store: &Store,
) -> Result<(HashMap<String, CachedProfile>, Vec<String>), ServiceError> {
    let mounts = MountTable::read()?;
    let (mut profiles, mut warnings) = (HashMap::new(), Vec::new());
    for stored in store.list()? {
        let read = stored
            .profile
            .map_err(|error| error.to_string())
            .and_then(|profile| {
                CachedProfile::new(&profile, &mounts).map_err(|error| error.to_string())
            });
        match read {
            Ok(profile) => match String::from_utf8(profile.app.id()) {
                Ok(id) => drop(profiles.insert(id, profile)),
                Err(_) => warnings.push(format!(
                    "{}: the path of its app is no text, and it is left alone",
                    stored.file_name.display()
                )),
            },
            Err(why) => warnings.push(why),
        }
    }
    Ok((profiles, warnings))
}

/// Manages an app that the user has learned by hand.
fn manage(registry: &mut Registry, rules: &Rules, id: &str, profile: &CachedProfile) {
    if registry.get(id).is_some() {
        return;
    }
    let Some(marks) = marks_of(&profile.app, rules) else {
        tracing::info!(app = id, "{LAUNCHER_ONLY}");
        return;
    };
    let name = id.rsplit('/').next().unwrap_or(id).to_owned();
    let mut record = Record::new(id.to_owned(), name, Added::User, marks);
    record.managed = Managed::with_profile(profile.class, &profile.history);
    registry.insert(record);
}

/// Stores a profile and loads it into memory.
fn store_and_load(store: &Store, profile: &Profile) -> Result<CachedProfile, String> {
    store.save(profile).map_err(|error| error.to_string())?;
    load_profile(profile)
}

/// Loads a profile into memory.
///
/// # Errors
/// When the mount table cannot be read, or the profile breaks a rule of the format.
pub fn load_profile(profile: &Profile) -> Result<CachedProfile, String> {
    let mounts =
        MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
    CachedProfile::new(profile, &mounts).map_err(|error| error.to_string())
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

/// Whether the next launch of the app is to be learned.
pub fn is_to_learn(record: &Record) -> bool {
    matches!(record.managed.phase(), Phase::Learning { .. })
}
