//! Pages under names that hold from one learning run to the next, and what two runs have in common.

use std::collections::{HashMap, HashSet};

use paralfetch::model::Profile;
use paralfetch::model::{LogEntry, Place, SECTORS_PER_PAGE, Span};

use super::learned::LearnedSet;

/// The block that launches are timed by (Paralfetch §4.2 and §5.1), under a name that holds in every
/// learned set of its app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// UUID of the file system; its device number may differ from one attachment to the next.
    pub fs_uuid: [u8; 16],
    /// Inode number.
    pub ino: u64,
    /// Inode generation.
    pub generation: u32,
    /// The page, in 4 KiB pages from the start of the file.
    pub page: u64,
}

impl Completion {
    /// The completion block of a profile, if it has one; always a page of a file.
    pub fn of(profile: &Profile) -> Option<Completion> {
        let span = profile.completion.last()?;
        let Place::Data { file } = span.place else {
            return None;
        };
        let file = profile.files.get(file as usize)?;
        let device = profile.devices.get(usize::from(file.device))?;
        Some(Completion {
            fs_uuid: device.fs_uuid,
            ino: file.ino,
            generation: file.generation,
            page: span.start,
        })
    }

    /// The page by a profile's own tables; `None` if its file is not in them.
    pub fn span_in(&self, profile: &Profile) -> Option<Span> {
        let file = profile.files.iter().position(|file| {
            (file.ino, file.generation) == (self.ino, self.generation)
                && profile
                    .devices
                    .get(usize::from(file.device))
                    .is_some_and(|device| device.fs_uuid == self.fs_uuid)
        })?;
        Some(Span {
            place: Place::Data {
                file: u32::try_from(file).ok()?,
            },
            start: self.page,
            len: 1,
        })
    }
}

/// The application launch sequence that FAST extracts from two cold launches (§4.1.2): the requests
/// that both made, in the order of the first; places are by the first set's tables. Only what the
/// drive read counts. Compared page by page, for where one request ends and the next begins is up to
/// the kernel's readahead.
pub fn common_sequence(first: &LearnedSet, second: &LearnedSet) -> Vec<LogEntry> {
    let places = same_places(&second.profile, &first.profile);
    let of_second: HashSet<(Place, u64)> = read_pages(second)
        .into_iter()
        .filter_map(|(place, page)| Some((*places.get(&place)?, page)))
        .collect();
    let of_first = read_pages(first);
    let mut common = Vec::new();
    for entry in &first.log {
        let wanted = |page: u64| {
            let page = (entry.span.place, page);
            of_first.contains(&page) && of_second.contains(&page)
        };
        common.extend(cut(entry, wanted));
    }
    common
}

/// For each place by the tables of `from`, the same by those of `to`, where they have it.
fn same_places(from: &Profile, to: &Profile) -> HashMap<Place, Place> {
    let mut places = HashMap::new();
    let mut devices = HashMap::new();
    for (old, number) in from.devices.iter().zip(0u16..) {
        let same = to.devices.iter().zip(0u16..);
        let mut same = same.filter(|(device, _)| device.fs_uuid == old.fs_uuid);
        if let Some((_, device)) = same.next() {
            devices.insert(number, device);
            places.insert(
                Place::Metadata { device: number },
                Place::Metadata { device },
            );
        }
    }
    let files: HashMap<(u16, u64, u32), u32> = to
        .files
        .iter()
        .zip(0u32..)
        .map(|(file, number)| ((file.device, file.ino, file.generation), number))
        .collect();
    for (file, number) in from.files.iter().zip(0u32..) {
        let Some(&device) = devices.get(&file.device) else {
            continue;
        };
        if let Some(&same) = files.get(&(device, file.ino, file.generation)) {
            places.insert(Place::Data { file: number }, Place::Data { file: same });
        }
    }
    places
}

/// The pages that the drive read in the learned launch.
pub fn read_pages(set: &LearnedSet) -> HashSet<(Place, u64)> {
    let pages = |span: &Span| {
        let place = span.place;
        (span.start..span.end()).map(move |page| (place, page))
    };
    let mut read: HashSet<(Place, u64)> = set
        .log
        .iter()
        .flat_map(|entry| pages(&entry.span))
        .collect();
    for page in set.unread.iter().flat_map(pages) {
        read.remove(&page);
    }
    read
}

/// The parts of a log entry whose pages are wanted.
fn cut(entry: &LogEntry, wanted: impl Fn(u64) -> bool) -> Vec<LogEntry> {
    let mut parts: Vec<LogEntry> = Vec::new();
    for page in (entry.span.start..entry.span.end()).filter(|&page| wanted(page)) {
        match parts.last_mut() {
            Some(part) if part.span.end() == page => part.span.len += 1,
            _ => parts.push(LogEntry {
                span: Span {
                    start: page,
                    len: 1,
                    ..entry.span
                },
                lba: entry.lba + (page - entry.span.start) * SECTORS_PER_PAGE,
                ..*entry
            }),
        }
    }
    parts
}
