//! What an earlier launch of the same app tells that one launch cannot: which pages of a faultaround window
//! are needed, and which processes worked for the app.

use std::collections::HashMap;

use super::probe::{FileFacts, FileKey};
use crate::model::ranges::RangeSet;
use crate::model::{Access, By, Device, HelperRead, Place, Profile, Source};

/// What was learned of an app before, by present device numbers. The default is nothing.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    files: HashMap<FileKey, KnownPages>,
    helpers: HashMap<FileKey, HelperPages>,
    /// Reads of helpers that are kept, whether they recur or not.
    kept: Vec<(FileKey, HelperRead)>,
}

/// A file as it was, and the pages of it that were scheduled.
#[derive(Clone, Debug)]
struct KnownPages {
    size: u64,
    mtime_ns: i64,
    pages: RangeSet,
}

/// What helpers accessed of a file, or of a device's metadata.
#[derive(Clone, Debug, Default)]
struct HelperPages {
    all: RangeSet,
    recurring: RangeSet,
}

impl Earlier {
    /// From the app's profile. `live`: whether the launch to be resolved is learned live. The caches may
    /// then hold what helpers need, so that reads which do not recur prove nothing. `number` gives a device's
    /// present number (`st_dev`); `None` if it is not mounted.
    pub fn new(profile: &Profile, live: bool, number: impl Fn(&Device) -> Option<u64>) -> Self {
        let devices: Vec<Option<u64>> = profile.devices.iter().map(number).collect();
        let key = |place: Place| match place {
            Place::Metadata { device } => Some(FileKey {
                dev: devices[usize::from(device)]?,
                ino: 0,
                generation: 0,
            }),
            Place::Data { file } => {
                let file = &profile.files[file as usize];
                Some(FileKey {
                    dev: devices[usize::from(file.device)]?,
                    ino: file.ino,
                    generation: file.generation,
                })
            }
        };
        let mut earlier = Earlier::default();
        for entry in &profile.entries {
            let place = entry.span.place;
            if let (Some(key), Place::Data { file }) = (key(place), place) {
                let file = &profile.files[file as usize];
                let known = earlier.files.entry(key).or_insert_with(|| KnownPages {
                    size: file.size,
                    mtime_ns: file.mtime_ns,
                    pages: RangeSet::default(),
                });
                known.pages.insert(entry.span.pages());
            }
        }
        for read in &profile.helpers {
            let span = &read.entry.span;
            let Some(key) = key(span.place) else {
                continue;
            };
            let pages = earlier.helpers.entry(key).or_default();
            pages.all.insert(span.pages());
            if read.recurs {
                pages.recurring.insert(span.pages());
            }
            if live {
                earlier.kept.push((key, *read));
            }
        }
        earlier
    }

    /// Pages of the file that were needed then; `None` if none were, or if the file has changed since.
    pub(super) fn pages(&self, key: FileKey, facts: &FileFacts) -> Option<&RangeSet> {
        let known = self.files.get(&key)?;
        (known.size == facts.size && known.mtime_ns == facts.mtime_ns).then_some(&known.pages)
    }

    /// What helpers accessed then of the file, or of the device's metadata.
    pub(super) fn helper_pages(&self, key: FileKey) -> Option<&RangeSet> {
        self.helpers.get(&key).map(|pages| &pages.all)
    }

    /// Those of them that had recurred by then.
    pub(super) fn recurring(&self, key: FileKey) -> Option<&RangeSet> {
        self.helpers.get(&key).map(|pages| &pages.recurring)
    }

    /// The kept reads of helpers, as accesses at their time after `start_ns` (CLOCK_MONOTONIC, nanoseconds).
    pub(super) fn kept(&self, start_ns: u64) -> Vec<Access> {
        let access = |(key, read): &(FileKey, HelperRead)| Access {
            time_ns: start_ns.saturating_add(read.entry.time_us.saturating_mul(1000)),
            dev: key.dev,
            ino: key.ino,
            generation: key.generation,
            start: read.entry.span.start,
            len: read.entry.span.len,
            source: Source::Read,
            by: By::Helper,
        };
        self.kept.iter().map(access).collect()
    }
}
