//! What the worker makes of stored profiles, and what it tells the event loop of that.

use std::sync::Arc;

use super::cached_profile::CachedProfile;
use super::reschedule::{Rescheduled, extend, refresh, reschedule, schedule_for_drives};
use crate::learn::{LearnedProfile, MissedReads, NotedReads, launch_sequence};
use crate::model::{Params, Profile};
use crate::profile::{Store, decode};

/// What the worker says about an app's profile.
pub enum ProfileNews {
    /// A job was done on it; `before` is the profile that the job began with, as [`CachedProfile::packed`].
    Changed {
        before: Arc<[u8]>,
        change: Box<ProfileChange>,
    },
    /// The profile was just learned and could not be stored, for this reason.
    NotStored(String),
    /// All jobs are done that waited when a step of tuning had no effect: the next step can be taken.
    NextStepDue,
}

/// What came of a job on an app's profile. What failed says why.
pub enum ProfileChange {
    /// The profile was to have other parameters.
    Rescheduled(Result<Rescheduled<CachedProfile>, String>),
    /// The profile was to be scheduled for what its drives cost; `None`: its schedule stays.
    ForDrives(Result<Option<CachedProfile>, String>),
    /// The files of the profile were checked.
    Refreshed {
        stored: Result<CachedProfile, String>,
        /// Entries that were replaced or removed.
        obsolete: u64,
        /// Entries that it had before.
        entries: u64,
    },
    /// The profile has taken in what a launch missed.
    Extended(Result<(CachedProfile, NotedReads), String>),
}

/// Stores a profile that was just learned, with its launch sequence.
///
/// # Errors
/// Why it cannot be stored.
pub fn store_learned(learned: &LearnedProfile, store: &Store) -> Result<(), String> {
    store
        .save_sequence(&launch_sequence(&learned.profile, &learned.log))
        .and_then(|()| store.save(&learned.profile))
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Runs `job` on a profile, as [`CachedProfile::packed`], and the launch sequence beside it, unless another profile is
/// in the store by now.
pub fn change_stored(
    packed: &[u8],
    store: &Store,
    job: impl FnOnce(Profile, Option<Profile>, &Store) -> Option<ProfileChange>,
) -> Option<ProfileChange> {
    // This program has packed it.
    let profile = decode(packed).ok()?;
    if let Ok(stored) = store.load(profile.app.key())
        && stored.is_none_or(|stored| !is_same(&stored, &profile))
    {
        return None;
    }
    let sequence = store.load_sequence(profile.app.key()).ok().flatten();
    job(profile, sequence, store)
}

/// Whether nothing but the number of stale files, which `run` notes, has changed.
fn is_same(stored: &Profile, profile: &Profile) -> bool {
    let obsolete = stored.obsolete;
    *stored
        == Profile {
            obsolete,
            ..profile.clone()
        }
}

/// Schedules a profile with other parameters.
pub fn rescheduled_and_stored(
    profile: Profile,
    sequence: Option<Profile>,
    params: Params,
    store: &Store,
) -> ProfileChange {
    let rescheduled = reschedule(profile, sequence, params);
    ProfileChange::Rescheduled(rescheduled.and_then(|rescheduled| match rescheduled {
        Rescheduled::Anew(new) => CachedProfile::store(&new, store).map(Rescheduled::Anew),
        Rescheduled::Same => Ok(Rescheduled::Same),
    }))
}

/// Schedules a profile for what its drives were measured to cost.
pub fn scheduled_for_drives(
    profile: Profile,
    sequence: Option<Profile>,
    store: &Store,
) -> ProfileChange {
    let scheduled = schedule_for_drives(profile, sequence, store.dir());
    ProfileChange::ForDrives(scheduled.and_then(|scheduled| {
        let store = |profile| CachedProfile::store(&profile, store);
        scheduled.map(store).transpose()
    }))
}

/// Checks the files of a profile; `None` if nothing has changed.
pub fn refreshed_and_stored(
    profile: Profile,
    sequence: Option<Profile>,
    store: &Store,
) -> Option<ProfileChange> {
    let entries = profile.entries.len() as u64;
    let refreshed = refresh(profile, sequence)?;
    let saved = refreshed.sequence.map(|kept| store.save_sequence(&kept));
    let saved = saved.transpose().map_err(|error| error.to_string());
    Some(ProfileChange::Refreshed {
        stored: saved.and_then(|_| CachedProfile::store(&refreshed.profile, store)),
        obsolete: refreshed.obsolete,
        entries,
    })
}

/// Takes what a launch missed into a profile; `None` if nothing has changed, or the profile would have more than `most`
/// bytes then.
pub fn extended_and_stored(
    profile: Profile,
    sequence: Option<Profile>,
    missed: &MissedReads,
    most: Option<u64>,
    store: &Store,
) -> Option<ProfileChange> {
    let extended = extend(profile, sequence, missed);
    let stored = extended.and_then(|extended| {
        let Some(extended) = extended else {
            return Ok(None);
        };
        let loaded = CachedProfile::load(&extended.profile)?;
        if most.is_some_and(|most| loaded.bytes > most) {
            return Ok(None);
        }
        store
            .save_sequence(&extended.sequence)
            .and_then(|()| store.save(&extended.profile))
            .map_err(|error| error.to_string())?;
        Ok(Some((loaded, extended.noted)))
    });
    stored.transpose().map(ProfileChange::Extended)
}
