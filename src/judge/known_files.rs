//! Why a page was missed, as far as the profile and its prefetch tell.

use std::collections::HashMap;

use super::misses::{FileNow, MissReason};
use crate::model::ranges::RangeSet;
use crate::model::{InodeId, Learned, OwnRead, PAGE_SIZE, Place, PrefetchReport, Profile, Skipped};

/// A profile, indexed by file and page, with what its prefetch skipped.
pub struct KnownFiles<'a> {
    profile: &'a Profile,
    prefetch: &'a PrefetchReport,
    /// Present device number → index in the device table.
    devices: HashMap<u64, u16>,
    files: HashMap<InodeId, u32>,
    /// By present device number and path.
    paths: HashMap<(u64, &'a [u8]), u32>,
    scheduled: HashMap<Place, RangeSet>,
    /// Pages that one earlier launch, or a helper of it, has read and the schedule lacks.
    missed: HashMap<Place, RangeSet>,
    /// Pages that were skipped because the file is gone or shorter.
    stale: HashMap<Place, RangeSet>,
    /// Pages that were skipped for another reason.
    skipped: HashMap<Place, RangeSet>,
}

impl<'a> KnownFiles<'a> {
    /// Indexes the profile's entries and those of them that the prefetch skipped.
    pub fn new(profile: &'a Profile, prefetch: &'a PrefetchReport) -> Self {
        // A prefetch that was refused has looked for none.
        let present = |device: u16| {
            let index = usize::from(device);
            let found = prefetch.devices.get(index).copied();
            found.unwrap_or(Some(profile.devices[index].dev))
        };
        let mut known = KnownFiles {
            profile,
            prefetch,
            devices: HashMap::new(),
            files: HashMap::new(),
            paths: HashMap::new(),
            scheduled: HashMap::new(),
            missed: HashMap::new(),
            stale: HashMap::new(),
            skipped: HashMap::new(),
        };
        for index in 0..profile.devices.len() as u16 {
            if let Some(dev) = present(index) {
                known.devices.insert(dev, index);
            }
        }
        for (index, file) in (0u32..).zip(&profile.files) {
            let Some(dev) = present(file.device) else {
                continue;
            };
            known.files.insert(file.inode(dev), index);
            if let Some(path) = &file.path {
                known.paths.insert((dev, path), index);
            }
        }
        for entry in &profile.entries {
            let pages = known.scheduled.entry(entry.span.place).or_default();
            pages.insert(entry.span.pages());
        }
        for read in profile.helpers.iter().filter(|read| !read.recurs) {
            let pages = known.missed.entry(read.entry.span.place).or_default();
            pages.insert(read.entry.span.pages());
        }
        for (span, reason) in &prefetch.skipped_spans {
            let skipped = match reason {
                Skipped::Gone | Skipped::Truncated => &mut known.stale,
                _ => &mut known.skipped,
            };
            let pages = skipped.entry(span.place).or_default();
            pages.insert(span.pages());
        }
        known
    }

    /// Whether the schedule has a page of this request: then the app came before the prefetch thread, or the thread
    /// skipped it.
    pub fn holds(&self, read: &OwnRead) -> bool {
        self.is_in(&self.scheduled, read)
    }

    /// Whether it is on record that an earlier launch has missed a page of this request.
    pub fn is_recorded_as_missed(&self, read: &OwnRead) -> bool {
        self.is_in(&self.missed, read)
    }

    /// Whether that is recorded at all: a profile that was made by hand is left as it is.
    pub fn records_misses(&self) -> bool {
        self.profile.learned == Learned::Live
    }

    fn is_in(&self, pages: &HashMap<Place, RangeSet>, read: &OwnRead) -> bool {
        let place = match read.inode {
            InodeId { dev, ino: 0, .. } => self.metadata_place(dev),
            inode => self.files.get(&inode).map(|&file| Place::Data { file }),
        };
        place
            .and_then(|place| pages.get(&place))
            .is_some_and(|pages| pages.overlapping(&read.pages).next().is_some())
    }

    /// Why a metadata page was missed.
    pub fn metadata(&self, dev: u64, page: u64) -> MissReason {
        self.metadata_place(dev)
            .and_then(|place| self.scheduled(place, page))
            .unwrap_or(MissReason::NotInProfile)
    }

    fn metadata_place(&self, dev: u64) -> Option<Place> {
        let device = self.device(dev)?;
        Some(Place::Metadata { device })
    }

    /// Index in the profile's table of the device with this present number.
    pub fn device(&self, dev: u64) -> Option<u16> {
        self.devices.get(&dev).copied()
    }

    /// Why a page of a file was missed.
    pub fn data(&self, key: InodeId, page: u64, now: &FileNow) -> MissReason {
        let learned = self.files.get(&key).copied();
        if let Some(reason) = learned.and_then(|file| self.scheduled(Place::Data { file }, page)) {
            return reason;
        }
        if now.is_written() {
            return MissReason::Written;
        }
        let changed = match learned {
            Some(file) => {
                let size = self.profile.files[file as usize].size;
                page >= size.div_ceil(PAGE_SIZE)
            }
            // The profile has another file at this path: this one has replaced it.
            None => now
                .path
                .as_deref()
                .is_some_and(|path| self.paths.contains_key(&(key.dev, path))),
        };
        if changed {
            MissReason::Stale
        } else {
            MissReason::NotInProfile
        }
    }

    /// Why a page was missed that is in the schedule; `None` if it is not.
    fn scheduled(&self, place: Place, page: u64) -> Option<MissReason> {
        if !holds(self.scheduled.get(&place), page) {
            return None;
        }
        if self.prefetch.refused.is_some() || self.prefetch.warm {
            return Some(MissReason::Skipped);
        }
        Some(if holds(self.stale.get(&place), page) {
            MissReason::Stale
        } else if holds(self.skipped.get(&place), page) {
            MissReason::Skipped
        } else {
            MissReason::Late
        })
    }
}

fn holds(pages: Option<&RangeSet>, page: u64) -> bool {
    pages.is_some_and(|pages| pages.missing(&(page..page + 1)).is_empty())
}
