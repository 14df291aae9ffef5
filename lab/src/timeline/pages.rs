//! Sets of pages, of many files.

use std::collections::{BTreeMap, HashMap};

use paralfetch::model::Profile;
use paralfetch::model::{Place as ProfilePlace, PrefetchEntry, SECTORS_PER_PAGE, Span};

use super::event::{FileId, Place, Raw};
use crate::methods::LearnedSet;

/// Pages with a value each.
#[derive(Clone, Debug)]
pub struct Pages<V>(HashMap<FileId, BTreeMap<u64, V>>);

impl<V: Copy> Pages<V> {
    /// None.
    pub fn new() -> Self {
        Pages(HashMap::new())
    }

    /// Number of pages.
    pub fn len(&self) -> u64 {
        self.0.values().map(|pages| pages.len() as u64).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(BTreeMap::is_empty)
    }

    /// Gives the pages a value, unless they have one.
    pub fn insert(&mut self, place: &Place, value: V) {
        let pages = self.0.entry(place.file).or_default();
        for page in place.start..place.end() {
            pages.entry(page).or_insert(value);
        }
    }

    /// Takes the pages of the place out, and returns how many there were.
    pub fn take(&mut self, place: &Place) -> u64 {
        let Some(pages) = self.0.get_mut(&place.file) else {
            return 0;
        };
        let found: Vec<u64> = pages
            .range(place.start..place.end())
            .map(|(page, _)| *page)
            .collect();
        for page in &found {
            pages.remove(page);
        }
        found.len() as u64
    }

    /// The values of those pages of the place that are in the set.
    pub fn values(&self, place: &Place) -> impl Iterator<Item = V> + '_ {
        let pages = self.0.get(&place.file);
        let range = place.start..place.end();
        pages
            .into_iter()
            .flat_map(move |pages| pages.range(range.clone()).map(|(_, value)| *value))
    }
}

/// Turns places of a profile into places as they are recorded.
pub struct Tables<'a> {
    profile: &'a Profile,
    raw: &'a Raw,
}

impl<'a> Tables<'a> {
    /// `raw` says under which number the drive was recorded. A profile knows its file system by UUID:
    /// an image's loop device has another number whenever it is attached.
    pub fn new(profile: &'a Profile, raw: &'a Raw) -> Self {
        Tables { profile, raw }
    }

    fn dev(&self, device: u16) -> Option<u64> {
        let device = self.profile.devices.get(usize::from(device))?;
        Some(if device.fs_uuid == self.raw.fs_uuid {
            self.raw.drive
        } else {
            device.dev
        })
    }

    /// `None` for an index outside of the profile's tables.
    pub fn place(&self, span: &Span) -> Option<Place> {
        let file = match span.place {
            ProfilePlace::Metadata { device } => FileId {
                dev: self.dev(device)?,
                ino: 0,
                generation: 0,
            },
            ProfilePlace::Data { file } => {
                let file = self.profile.files.get(file as usize)?;
                FileId {
                    dev: self.dev(file.device)?,
                    ino: file.ino,
                    generation: file.generation,
                }
            }
        };
        Some(Place {
            file,
            start: span.start,
            pages: span.len,
        })
    }

    /// Paths of the profile's files, as far as it knows them.
    pub fn paths(&self) -> BTreeMap<FileId, String> {
        let files = self.profile.files.iter().zip(0..);
        files
            .filter_map(|(file, index)| {
                let place = ProfilePlace::Data { file: index };
                let (start, len) = (0, 1);
                let place = self.place(&Span { place, start, len })?;
                let path = String::from_utf8_lossy(file.path.as_deref()?);
                Some((place.file, path.into_owned()))
            })
            .collect()
    }

    /// The pages of these spans.
    pub fn pages<'s>(&self, spans: impl IntoIterator<Item = &'s Span>) -> Pages<()> {
        let mut pages = Pages::new();
        for span in spans {
            if let Some(place) = self.place(span) {
                pages.insert(&place, ());
            }
        }
        pages
    }
}

/// The launch sequence as `[position, sector, pages, metadata]`.
pub fn sequence(set: &LearnedSet) -> Vec<[u64; 4]> {
    let log = set.log.iter().enumerate();
    log.map(|(position, entry)| row(position, entry.lba, &entry.span))
        .collect()
}

/// The schedule likewise: disk positions are those of the launch sequence.
pub fn schedule(set: &LearnedSet, entries: &[PrefetchEntry]) -> Vec<[u64; 4]> {
    // For each file, the parts of the launch sequence by their first page: number of pages, sector.
    let mut known: HashMap<ProfilePlace, BTreeMap<u64, (u64, u64)>> = HashMap::new();
    for entry in &set.log {
        let parts = known.entry(entry.span.place).or_default();
        parts.insert(entry.span.start, (entry.span.len, entry.lba));
    }
    let sector = |span: &Span| {
        if span.place.is_metadata() {
            return span.start.checked_mul(SECTORS_PER_PAGE);
        }
        let (first, (len, lba)) = known.get(&span.place)?.range(..=span.start).next_back()?;
        let into = span.start - first;
        (into < *len).then(|| lba + into * SECTORS_PER_PAGE)
    };
    let entries = entries.iter().enumerate();
    entries
        .filter_map(|(position, entry)| Some(row(position, sector(&entry.span)?, &entry.span)))
        .collect()
}

fn row(position: usize, sector: u64, span: &Span) -> [u64; 4] {
    let metadata = u64::from(span.place.is_metadata());
    [position as u64, sector, span.len, metadata]
}
