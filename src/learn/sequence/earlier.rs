//! What earlier launches of the same app tell that one launch cannot: which pages of a faultaround window are
//! needed, which pages other launches use, and which processes worked for the app.
//!
//! A launch that is learned live shows two kinds of pages. Those that it read or faulted on were used. The others
//! of a faultaround window may have been: the kernel maps up to 16 cached pages for one fault. Small libraries are
//! mapped at another address in each launch, so that their windows begin at other pages of the file. Launches are
//! combined by three rules:
//!
//! 1. A page that some launch used stays, until no launch has used it for long ([`Earlier::is_outdated`]).
//! 2. A page that was in windows alone stays as long as each launch that can tell has it in a window.
//! 3. A launch can tell of a file if it used at least half of what earlier launches used of it. One that failed
//!    early, or took another way through the app, proves nothing.
//! 4. A file of an old version, beside which an update has put the new one, leaves at once (`superseded`).

use std::collections::HashMap;
use std::ops::Range;

use super::accessed_file::FileFacts;
use crate::model::ranges::RangeSet;
use crate::model::{
    Access, By, HelperRead, InodeId, MOST_LEARNED_LAUNCHES, Place, PrefetchEntry, Profile, Source,
    Span,
};

/// Learned launches in a row that did not use a page before it leaves.
const LAUNCHES_UNUSED: usize = 3;

/// Seconds for which a page stays at least after a launch has used it: launches of one afternoon are more alike
/// than those of a month.
const UNUSED_FOR_S: u64 = 14 * 24 * 60 * 60;

/// Most reads of helpers that are kept until they recur.
const MOST_KEPT_READS: usize = 1 << 14;

/// What was learned of an app before, by present device numbers. The default is nothing.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    files: HashMap<InodeId, KnownPages>,
    /// Reads of helpers that are kept, whether they recur or not.
    kept: Vec<(InodeId, HelperRead)>,
    /// What the launch tree needed, in the order of first access.
    pub(super) sequence: Vec<(InodeId, PrefetchEntry)>,
    /// [`Profile::learned_at`].
    learned_at: Vec<u64>,
}

/// What is known of a file, or of a device's metadata.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownPages {
    /// Size and time of modification at that time; of files.
    version: Option<(u64, i64)>,
    /// Path of the file from the file system's own root, where it was known.
    path: Option<Vec<u8>>,
    /// All that the launches needed.
    pub needed: RangeSet,
    /// What of it was only in windows.
    pub fault_around: RangeSet,
    /// What of it was not used lately, and when it was; in the order of the file.
    unused: Vec<(Range<u64>, u64)>,
    /// What helpers accessed.
    helpers: RangeSet,
    /// What of it recurred.
    recurring: RangeSet,
}

impl KnownPages {
    /// Whether the file is as it was then; a device's metadata always are.
    pub fn is_of(&self, key: InodeId, facts: &FileFacts) -> bool {
        key.ino == 0 || self.version == Some((facts.size, facts.mtime_ns))
    }

    /// The file's path, if it is as it was then. A file that a launch does not open has none that the kernel knows.
    pub fn path_of(&self, key: InodeId, facts: &FileFacts) -> Option<Vec<u8>> {
        self.path.clone().filter(|_| self.is_of(key, facts))
    }

    /// Whether a launch that was learned is known to have used it. What joined without learning, since launches missed
    /// it, is not.
    pub fn is_certain(&self) -> bool {
        let mut ranges = self.needed.ranges();
        ranges.any(|range| !self.fault_around.missing(&range).is_empty())
    }

    /// Whether a launch that accessed these pages can tell which others are not needed.
    pub fn is_told_by(&self, accessed: &RangeSet) -> bool {
        let ranges = self.needed.ranges();
        let used = ranges.flat_map(|range| self.fault_around.missing(&range));
        let (mut all, mut again) = (0, 0);
        for range in used {
            all += range.end - range.start;
            again += pages_of(accessed.overlapping(&range));
        }
        accessed.len() > 0 && again * 2 >= all
    }

    /// The parts of a range that no launch is known to have used.
    pub fn not_used(&self, pages: &Range<u64>) -> Vec<Range<u64>> {
        let unknown = self.needed.missing(pages).into_iter();
        unknown
            .chain(self.fault_around.overlapping(pages))
            .collect()
    }

    /// Cuts a range where the times differ at which its pages were used last; `latest` where none is noted.
    fn by_last_use(&self, pages: &Range<u64>, latest: u64) -> Vec<(Range<u64>, u64)> {
        let mut parts = Vec::new();
        let mut next = pages.start;
        let first = self
            .unused
            .partition_point(|(unused, _)| unused.end <= pages.start);
        let noted = self.unused[first..].iter();
        for (unused, used_s) in noted.take_while(|(unused, _)| unused.start < pages.end) {
            parts.push((next..unused.start, latest));
            next = unused.end.min(pages.end);
            parts.push((unused.start.max(pages.start)..next, *used_s));
        }
        parts.push((next..pages.end, latest));
        parts.retain(|(part, _)| part.start < part.end);
        parts
    }
}

/// Number of pages in these ranges.
pub(super) fn pages_of(ranges: impl Iterator<Item = Range<u64>>) -> u64 {
    ranges.map(|range| range.end - range.start).sum()
}

impl Earlier {
    /// From the app's launch sequence, in the form of a profile. `live`: whether the launch to be resolved is
    /// learned live. The caches may then hold what helpers need, so that reads which do not recur prove nothing.
    /// `devices` are the present numbers (`st_dev`) of its devices; `None` for one that is not mounted, or not known among
    /// several.
    pub fn new(profile: &Profile, live: bool, devices: Vec<Option<u64>>) -> Self {
        // Which file it is, or which metadata.
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
                Some((file.inode(dev), Some(file)))
            }
        };
        let mut earlier = Earlier {
            learned_at: profile.learned_at.clone(),
            ..Earlier::default()
        };
        let mut files: HashMap<InodeId, KnownPages> = HashMap::new();
        let mut note = |span: &Span, note: &mut dyn FnMut(&mut KnownPages, Range<u64>)| {
            let (key, file) = identify(span.place)?;
            let known = files.entry(key).or_insert_with(|| KnownPages {
                version: file.map(|file| (file.size, file.mtime_ns)),
                path: file.and_then(|file| file.path.clone()),
                ..KnownPages::default()
            });
            note(known, span.pages());
            Some(key)
        };
        for read in &profile.helpers {
            let key = note(&read.entry.span, &mut |known, pages| {
                known.helpers.insert(pages.clone());
                if read.recurs {
                    known.recurring.insert(pages);
                }
            });
            earlier
                .kept
                .extend(key.filter(|_| live).map(|key| (key, *read)));
        }
        // The oldest are last.
        earlier.kept.truncate(MOST_KEPT_READS);
        for entry in &profile.entries {
            let mut own = Vec::new();
            let key = note(&entry.span, &mut |known, pages| {
                // Readahead read more than was touched.
                if !profile.learned.is_touched() && !entry.span.place.is_metadata() {
                    known.fault_around.insert(pages.clone());
                }
                own = known.recurring.missing(&pages);
                known.needed.insert(pages);
            });
            let Some(key) = key.filter(|_| live) else {
                continue;
            };
            let own = own.into_iter().map(|pages| PrefetchEntry {
                span: Span::new(entry.span.place, pages),
                ..*entry
            });
            earlier.sequence.extend(own.map(|entry| (key, entry)));
        }
        for span in &profile.fault_around {
            note(span, &mut |known, pages| {
                known.fault_around.insert(pages);
            });
        }
        for unused in &profile.unused {
            note(&unused.span, &mut |known, pages| {
                known.unused.push((pages, unused.used_s));
            });
        }
        for known in files.values_mut() {
            known.unused.sort_unstable_by_key(|(pages, _)| pages.start);
        }
        earlier.files = files;
        earlier
    }

    /// What launches needed of the files of which `is_meant` says so, in no order.
    pub fn needed_of(
        &self,
        is_meant: impl Fn(InodeId) -> bool,
    ) -> impl Iterator<Item = (InodeId, &RangeSet)> {
        let files = self.files.iter();
        files
            .filter(move |(key, _)| is_meant(**key))
            .map(|(key, known)| (*key, &known.needed))
    }

    /// What is known of a file, or of a device's metadata.
    pub(super) fn known(&self, key: InodeId) -> Option<&KnownPages> {
        self.files.get(&key)
    }

    /// What is known of a file that has not changed since.
    pub(super) fn pages(&self, key: InodeId, facts: &FileFacts) -> Option<&KnownPages> {
        self.known(key)
            .filter(|known| known.is_of(key, facts) && known.needed.len() > 0)
    }

    /// The parts of a range, and when a launch used each of them last, in seconds since the epoch.
    pub(super) fn by_last_use(
        &self,
        known: &KnownPages,
        pages: &Range<u64>,
    ) -> Vec<(Range<u64>, u64)> {
        known.by_last_use(pages, self.learned_at.last().copied().unwrap_or(0))
    }

    /// Whether pages that a launch used last at `used_s` are not needed any more, if the launch that is learned
    /// at `now_s` does not use them either. All in seconds since the epoch.
    pub(super) fn is_outdated(&self, used_s: u64, now_s: u64) -> bool {
        let since = self.learned_at.iter().filter(|&&at| at > used_s).count();
        since + 1 >= LAUNCHES_UNUSED && now_s.saturating_sub(used_s) > UNUSED_FOR_S
    }

    /// When the launches were that it was learned from, with the one that is learned at `now_s`.
    pub fn learned_at(&self, now_s: u64) -> Vec<u64> {
        let all = self.learned_at.iter().copied().chain([now_s]);
        let surplus = (self.learned_at.len() + 1).saturating_sub(MOST_LEARNED_LAUNCHES);
        all.skip(surplus).collect()
    }

    /// Whether all learned launches used this page of a file, as far as their traces tell. True if none was learned.
    pub fn have_used(&self, file: InodeId, page: u64) -> bool {
        let has_used = |known: &KnownPages| {
            let pages = page..page + 1;
            known.not_used(&pages).is_empty()
                && !known
                    .unused
                    .iter()
                    .any(|(unused, _)| unused.contains(&page))
        };
        self.files.is_empty() || self.files.get(&file).is_some_and(has_used)
    }

    /// What helpers accessed then of the file, or of the device's metadata.
    pub(super) fn helper_pages(&self, key: InodeId) -> Option<&RangeSet> {
        self.files.get(&key).map(|known| &known.helpers)
    }

    /// Pages of helpers that had recurred by then.
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
