//! What one launch does not show to be needed: what helpers accessed, processes outside of the launch tree that
//! were started during the launch; what older processes of the app's user added to the caches meanwhile; and files
//! that seem to be data ([`AccessedFile::is_data`]). It is needed if it recurs in another launch (FAST §4.1.2).

use std::collections::HashMap;
use std::mem::take;
use std::ops::Range;

use super::SequenceBuilder;
use crate::learn::sequence::Earlier;
use crate::learn::sequence::accessed_file::AccessedFile;
use crate::model::ranges::RangeSet;
use crate::model::{
    Access, By, HelperRead, InodeId, LogEntry, Place, PrefetchEntry, SECTORS_PER_PAGE, Source,
    Span, UnusedPages,
};

/// Most log entries of helpers that are kept: as many as a large app has of its own. On a system that starts
/// thousands of programs during the launch, they are chance.
const MOST_HELPER_ENTRIES: usize = 1 << 14;

/// Whose helpers.
#[derive(Clone, Copy)]
enum HelperLaunch {
    This,
    Earlier,
}

impl<'a> SequenceBuilder<'a> {
    /// Walks the accesses of helpers, after those of the tree. What helpers accessed before, too, goes into the log.
    pub fn walk_helpers(&mut self, accesses: &[Access], numbers: &[usize]) {
        self.walk_helpers_of(accesses, numbers, Earlier::helper_pages, HelperLaunch::This);
    }

    /// Walks the kept accesses of helpers of earlier launches. What has recurred goes into the log, until no launch has
    /// used it for long.
    pub fn walk_kept(&mut self, kept: &[Access], numbers: &[usize]) {
        self.walk_helpers_of(kept, numbers, Earlier::recurring, HelperLaunch::Earlier);
    }

    /// `recurring` gives the pages of a file that recur.
    fn walk_helpers_of(
        &mut self,
        accesses: &[Access],
        numbers: &[usize],
        recurring: impl Fn(&'a Earlier, InodeId) -> Option<&'a RangeSet>,
        of: HelperLaunch,
    ) {
        let by_key: HashMap<InodeId, &AccessedFile> =
            self.accessed.iter().map(|file| (file.key, file)).collect();
        let none = RangeSet::default();
        for entry in self.helper_log(accesses, numbers) {
            let key = self.key(&entry);
            let known = recurring(self.observed.earlier, key).unwrap_or(&none);
            let pages = entry.span.pages();
            let again = known.overlapping(&pages);
            let again: Vec<Range<u64>> = match of {
                HelperLaunch::This => again.collect(),
                HelperLaunch::Earlier => again
                    .flat_map(|pages| self.still_needed(key, entry.span.place, &pages))
                    .collect(),
            };
            for again in again {
                self.sequence.report.recurring_pages += again.end - again.start;
                let part = part(&entry, again.clone());
                self.note_helper(&part, true);
                self.sequence.log.push(part);
                let added = by_key.get(&key).map_or(&none, |file| &file.added);
                let cached = added.missing(&again).into_iter();
                let unread = cached.map(|pages| Span::new(entry.span.place, pages));
                self.sequence.unread.extend(unread);
            }
            for once in known.missing(&pages) {
                let report = &mut self.sequence.report;
                match by_key.get(&key) {
                    Some(file) if file.is_data() => report.data_pages += once.end - once.start,
                    _ => report.helper_pages += once.end - once.start,
                }
                self.note_helper(&part(&entry, once), false);
            }
        }
    }

    /// The parts of a range that recurred in earlier launches and are not outdated. Notes when they were used last.
    fn still_needed(&mut self, key: InodeId, place: Place, pages: &Range<u64>) -> Vec<Range<u64>> {
        let (earlier, now_s) = (self.observed.earlier, self.now_s());
        let known = earlier.known(key);
        let parts = known.map(|known| earlier.by_last_use(known, pages));
        let mut needed = Vec::new();
        for (pages, used_s) in parts.unwrap_or_default() {
            if earlier.is_outdated(used_s, now_s) {
                self.sequence.report.outdated_pages += pages.end - pages.start;
                continue;
            }
            let span = Span::new(place, pages.clone());
            self.sequence.unused.push(UnusedPages { span, used_s });
            needed.push(pages);
        }
        needed
    }

    /// The log of helpers alone: they are walked as if they were a launch of their own.
    fn helper_log(&mut self, accesses: &[Access], numbers: &[usize]) -> Vec<LogEntry> {
        let log = take(&mut self.sequence.log);
        let unread = take(&mut self.sequence.unread);
        let fault_around = take(&mut self.sequence.fault_around);
        let report = take(&mut self.sequence.report);
        for (access, &number) in accesses.iter().zip(numbers) {
            if self.sequence.log.len() == MOST_HELPER_ENTRIES {
                break;
            }
            match access.by {
                By::Helper => self.access(access, number),
                By::Tree if self.accessed[number].is_data() => self.access(access, number),
                // Uses by older processes are not seen: what they add stands for them, in live learning, too.
                By::Daemon => self.access(&as_read(access), number),
                By::Tree | By::Own | By::Other => {}
            }
        }
        self.sequence.unread = unread;
        self.sequence.fault_around = fault_around;
        self.sequence.report = report;
        std::mem::replace(&mut self.sequence.log, log)
    }

    fn note_helper(&mut self, entry: &LogEntry, recurs: bool) {
        let LogEntry { span, time_us, .. } = *entry;
        let entry = PrefetchEntry { span, time_us };
        self.sequence.helpers.push(HelperRead { entry, recurs });
    }

    fn key(&self, entry: &LogEntry) -> InodeId {
        let dev = self.sequence.devices[usize::from(entry.device)].dev;
        match entry.span.place {
            Place::Metadata { .. } => InodeId {
                dev,
                ..InodeId::default()
            },
            Place::Data { file } => self.sequence.files[file as usize].inode(dev),
        }
    }
}

/// An addition to the caches as a use of the pages.
fn as_read(access: &Access) -> Access {
    Access {
        source: Source::Read,
        ..*access
    }
}

/// Some pages of a log entry.
fn part(entry: &LogEntry, pages: Range<u64>) -> LogEntry {
    LogEntry {
        lba: entry.lba + (pages.start - entry.span.start) * SECTORS_PER_PAGE,
        span: Span::new(entry.span.place, pages),
        ..*entry
    }
}
