//! What an earlier launch of the same app says about what one launch leaves open: which pages of a
//! faultaround window are needed, and which processes worked for the app.

use std::collections::HashMap;

use super::probe::{Facts, FileKey};
use crate::model;
use crate::model::ranges::RangeSet;
use crate::model::{Access, By, Source};
use crate::model::{HelperRead, Profile};
use crate::model::{Place, Span};

/// What was learned of an app before, under today's device numbers. The default is nothing.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    files: HashMap<FileKey, KnownPages>,
    newcomers: HashMap<FileKey, SeenBefore>,
    /// What is to be kept of the newcomers, whether they come again or not.
    kept: Vec<(FileKey, HelperRead)>,
}

/// A file as it was, and the pages of it that were scheduled.
#[derive(Clone, Debug)]
struct KnownPages {
    size: u64,
    mtime_ns: i64,
    pages: RangeSet,
}

/// What newcomers accessed of a file, or of a device's metadata.
#[derive(Clone, Debug, Default)]
struct SeenBefore {
    all: RangeSet,
    recurring: RangeSet,
}

impl Earlier {
    /// What the app's profile says. `live`: whether the launch that it is held against is learned live.
    /// The caches may then hold what newcomers need, so that it proves nothing if they do not come
    /// again. `number` gives a device's number (`st_dev`) as it is now; `None` if it is not mounted.
    pub fn new(
        profile: &Profile,
        live: bool,
        number: impl Fn(&model::Device) -> Option<u64>,
    ) -> Self {
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
            let Span { place, start, .. } = entry.span;
            if let (Some(key), Place::Data { file }) = (key(place), place) {
                let file = &profile.files[file as usize];
                let known = earlier.files.entry(key).or_insert_with(|| KnownPages {
                    size: file.size,
                    mtime_ns: file.mtime_ns,
                    pages: RangeSet::default(),
                });
                known.pages.insert(start..entry.span.end());
            }
        }
        for read in &profile.helpers {
            let span = &read.entry.span;
            let Some(key) = key(span.place) else {
                continue;
            };
            let seen = earlier.newcomers.entry(key).or_default();
            seen.all.insert(span.start..span.end());
            if read.recurs {
                seen.recurring.insert(span.start..span.end());
            }
            if live {
                earlier.kept.push((key, *read));
            }
        }
        earlier
    }

    /// Pages of the file that were needed then; `None` if the file was not, or is another by now.
    pub(super) fn pages(&self, key: FileKey, facts: &Facts) -> Option<&RangeSet> {
        let known = self.files.get(&key)?;
        (known.size == facts.size && known.mtime_ns == facts.mtime_ns).then_some(&known.pages)
    }

    /// What newcomers accessed then of the file, or of the device's metadata.
    pub(super) fn by_newcomers(&self, key: FileKey) -> Option<&RangeSet> {
        self.newcomers.get(&key).map(|seen| &seen.all)
    }

    /// What of that had recurred by then.
    pub(super) fn recurring(&self, key: FileKey) -> Option<&RangeSet> {
        self.newcomers.get(&key).map(|seen| &seen.recurring)
    }

    /// What is kept of the newcomers as if they had come again, at their time after `start_ns`
    /// (CLOCK_MONOTONIC, nanoseconds).
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
