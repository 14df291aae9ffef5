//! A profile in memory: packed, except for what the first requests need.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use crate::drive::Sysfs;
use crate::fs::mounts::MountTable;
use crate::fs::present::{present_devices, unclear};
use crate::kernel::WatchedPage;
use crate::learn::LearnedProfile;
use crate::model::{
    App, DataPages, Device, DriveClass, Learned, PAGE_SIZE, Place, Profile, Revision, Span, UserApp,
};
use crate::policy::estimate_cold_requests;
use crate::prefetch::HeadStart;
use crate::profile::{Store, encode};
use crate::schedule::most_pages;

/// A profile that can be prefetched at once.
#[derive(Clone)]
pub struct CachedProfile {
    /// The `.pf` file's bytes. The prefetch thread unpacks them in a millisecond, while the head start keeps
    /// the drive busy. Unpacked, fifty profiles would take ten times the memory.
    pub packed: Arc<[u8]>,
    /// The first requests.
    pub head_start: Option<HeadStart>,
    /// The completion pages, if their file systems are there.
    pub completion: Vec<WatchedPage>,
    /// Why what is on some of its file systems was left out when that was last looked at, in one line: nothing tells which
    /// of those mounted they are.
    pub unclear: Option<String>,
    /// Whose profile it is.
    pub app: App,
    /// Scheduling parameters, oldest first.
    pub history: Vec<Revision>,
    /// Class of the drive that most of it is read from.
    pub class: DriveClass,
    /// Prefetch entries.
    pub entries: u64,
    /// Bytes of the schedule.
    pub bytes: u64,
    /// Whether it was learned elsewhere.
    pub is_imported: bool,
    /// Pages of file data, if it was learned live.
    pub learned_live: Option<DataPages>,
    /// Read requests of a cold launch without prefetching, about.
    pub cold_requests: u64,
}

/// Profiles by app.
pub type CachedProfiles = HashMap<UserApp, CachedProfile>;

/// The profiles that were in force when a job began, by app: as [`CachedProfile::packed`].
pub type KnownProfiles = HashMap<UserApp, Arc<[u8]>>;

/// A profile that a recorder has made.
pub struct RecordedProfile {
    pub learned: LearnedProfile,
    /// The profile, ready to be prefetched.
    pub cached: CachedProfile,
}

impl CachedProfile {
    /// Reads all profiles of a store, by app, and says which cannot be used.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load_all(
        store: &Store,
        mounts: &MountTable,
    ) -> Result<(CachedProfiles, Vec<String>), Box<dyn Error>> {
        let (mut profiles, mut warnings) = (HashMap::new(), Vec::new());
        for stored in store.list()? {
            let profile = stored.profile.map_err(|error| error.to_string());
            match profile.and_then(|profile| Self::new(&profile, mounts)) {
                Ok(profile) => match profile.app.user_app() {
                    Some(key) => drop(profiles.insert(key, profile)),
                    None => warnings.push(format!(
                        "{}: the path of its app is no text, and it is left alone",
                        stored.file_name.display()
                    )),
                },
                Err(why) => warnings.push(why),
            }
        }
        Ok((profiles, warnings))
    }

    /// Stores a profile and loads it into memory.
    ///
    /// # Errors
    /// As [`Store::save`] and [`CachedProfile::load`].
    pub fn store(profile: &Profile, store: &Store) -> Result<Self, String> {
        store.save(profile).map_err(|error| error.to_string())?;
        Self::load(profile)
    }

    /// Loads a profile into memory.
    ///
    /// # Errors
    /// When the mount table cannot be read, or the profile breaks a rule of the format.
    pub fn load(profile: &Profile) -> Result<Self, String> {
        let mounts =
            MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
        Self::new(profile, &mounts)
    }

    fn new(profile: &Profile, mounts: &MountTable) -> Result<Self, String> {
        let sysfs = Sysfs::default();
        let present = present_devices(profile, mounts);
        let head_start = HeadStart::prepare(profile, &present, mounts, &sysfs);
        let page_bytes = rustix::param::page_size() as u64;
        let watched = |span: &Span| match span.place {
            Place::Data { file } => {
                let file = profile.files.get(file as usize)?;
                Some(WatchedPage {
                    dev: present.get(usize::from(file.device))?.dev()?,
                    ino: file.ino,
                    index: span.start * PAGE_SIZE / page_bytes,
                })
            }
            Place::Metadata { .. } => None,
        };
        // Of fewer, another half would end the launch.
        let completion: Option<Vec<_>> = profile.completion.iter().map(watched).collect();
        let completion = completion.unwrap_or_default();
        Ok(CachedProfile {
            packed: encode(profile).map_err(|error| error.to_string())?.into(),
            head_start,
            completion,
            unclear: unclear(&present, mounts),
            app: profile.app.clone(),
            history: profile.history.clone(),
            class: main_class(profile),
            entries: profile.entries.len() as u64,
            is_imported: profile.learned == Learned::Imported,
            learned_live: (profile.learned == Learned::Live).then(|| profile.data_pages()),
            cold_requests: estimate_cold_requests(&profile.entries),
            bytes: profile.entries.iter().map(|entry| entry.span.bytes()).sum(),
        })
    }
}

/// Class of the drive that most of the schedule is read from.
pub fn main_class(profile: &Profile) -> DriveClass {
    main_device(profile).map_or(DriveClass::CommandQueuing, |device| device.class)
}

/// The device that most of the schedule is read from.
fn main_device(profile: &Profile) -> Option<&Device> {
    let pages = profile.entries.iter().map(|entry| {
        let device = entry.span.place.device(&profile.files);
        (usize::from(device), entry.span.len)
    });
    most_pages(pages).map(|device| &profile.devices[device])
}
