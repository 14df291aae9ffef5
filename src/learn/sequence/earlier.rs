//! What an earlier launch of the same app tells that one launch cannot: which pages of a faultaround window
//! are needed, and which processes worked for the app.

use std::collections::HashMap;

use super::accessed_file::FileFacts;
use crate::model::ranges::RangeSet;
use crate::model::{Access, By, Device, HelperRead, InodeId, Place, Profile, Source};

/// What was learned of an app before, by present device numbers. The default is nothing.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    files: HashMap<InodeId, KnownPages>,
    /// Reads of helpers that are kept, whether they recur or not.
    kept: Vec<(InodeId, HelperRead)>,
}

/// What is known of a file, or of a device's metadata.
#[derive(Clone, Debug, Default)]
struct KnownPages {
    /// Size and time of modification at that time; of files.
    version: Option<(u64, i64)>,
    scheduled: RangeSet,
    /// What helpers accessed.
    helpers: RangeSet,
    /// What of it recurred.
    recurring: RangeSet,
}

impl Earlier {
    /// From the app's profile. `live`: whether the launch to be resolved is learned live. The caches may
    /// then hold what helpers need, so that reads which do not recur prove nothing. `number` gives a device's
    /// present number (`st_dev`); `None` if it is not mounted.
    pub fn new(profile: &Profile, live: bool, number: impl Fn(&Device) -> Option<u64>) -> Self {
        let devices: Vec<Option<u64>> = profile.devices.iter().map(number).collect();
        // Which file it is, or which metadata, and in which version.
        let identify = |place: Place| match place {
            Place::Metadata { device } => {
                let dev = devices[usize::from(device)]?;
                Some((
                    InodeId {
                        dev,
                        ..InodeId::default()
                    },
                    None,
                ))
            }
            Place::Data { file } => {
                let file = &profile.files[file as usize];
                let dev = devices[usize::from(file.device)]?;
                Some((file.inode(dev), Some((file.size, file.mtime_ns))))
            }
        };
        let mut earlier = Earlier::default();
        for span in profile.entries.iter().map(|entry| entry.span) {
            if let Some((key, version)) = identify(span.place) {
                let known = earlier.files.entry(key).or_default();
                known.version = version;
                known.scheduled.insert(span.pages());
            }
        }
        for read in &profile.helpers {
            let pages = read.entry.span.pages();
            let Some((key, _)) = identify(read.entry.span.place) else {
                continue;
            };
            let known = earlier.files.entry(key).or_default();
            known.helpers.insert(pages.clone());
            if read.recurs {
                known.recurring.insert(pages);
            }
            if live {
                earlier.kept.push((key, *read));
            }
        }
        earlier
    }

    /// Pages of the file that were needed then; `None` if none were, or if the file has changed since.
    pub(super) fn pages(&self, key: InodeId, facts: &FileFacts) -> Option<&RangeSet> {
        let known = self.files.get(&key)?;
        (known.version == Some((facts.size, facts.mtime_ns))).then_some(&known.scheduled)
    }

    /// What helpers accessed then of the file, or of the device's metadata.
    pub(super) fn helper_pages(&self, key: InodeId) -> Option<&RangeSet> {
        self.files.get(&key).map(|known| &known.helpers)
    }

    /// Those of them that had recurred by then.
    pub(super) fn recurring(&self, key: InodeId) -> Option<&RangeSet> {
        self.files.get(&key).map(|known| &known.recurring)
    }

    /// The kept reads of helpers, as accesses at their time after `start_ns` (CLOCK_MONOTONIC, nanoseconds).
    pub(super) fn kept(&self, start_ns: u64) -> Vec<Access> {
        let access = |(key, read): &(InodeId, HelperRead)| Access {
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
