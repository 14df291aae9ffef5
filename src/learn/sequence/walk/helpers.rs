//! What helpers accessed, processes outside of the launch tree that were started during the launch. It is
//! needed if it recurs in another launch (FAST §4.1.2).

use std::collections::HashMap;
use std::ops::Range;

use super::{SequenceBuilder, span};
use crate::learn::sequence::accessed_file::AccessedFile;
use crate::learn::sequence::{Earlier, FileKey};
use crate::model::ranges::RangeSet;
use crate::model::{Access, By, HelperRead, LogEntry, Place, PrefetchEntry, SECTORS_PER_PAGE};

/// Most log entries of helpers that are kept: as many as a large app has of its own. On a system that starts
/// thousands of programs during the launch, they are chance.
const MOST_HELPER_ENTRIES: usize = 1 << 14;

impl<'a> SequenceBuilder<'a> {
    /// Walks the accesses of helpers, after those of the tree. `recurring` gives the pages of a file that
    /// recur: those go into the log.
    pub fn walk_helpers(
        &mut self,
        accesses: &[Access],
        numbers: &[usize],
        recurring: impl Fn(&'a Earlier, FileKey) -> Option<&'a RangeSet>,
    ) {
        // Walked as if they were a launch of their own; only the log of it is used.
        let log = std::mem::take(&mut self.log);
        let unread = std::mem::take(&mut self.unread);
        let fault_around = std::mem::take(&mut self.fault_around);
        let report = self.report.clone();
        for (access, &number) in accesses.iter().zip(numbers) {
            if access.by == By::Helper && self.log.len() < MOST_HELPER_ENTRIES {
                self.access(access, number);
            }
        }
        let found = std::mem::replace(&mut self.log, log);
        self.unread = unread;
        self.fault_around = fault_around;
        self.report = report;

        let by_key: HashMap<FileKey, &AccessedFile> =
            self.accessed.iter().map(|file| (file.key, file)).collect();
        let none = RangeSet::default();
        for entry in found {
            let place = entry.span.place;
            let key = self.key(&entry);
            let known = recurring(self.observed.earlier, key).unwrap_or(&none);
            let pages = entry.span.start..entry.span.end();
            for again in known.overlapping(&pages) {
                self.report.recurring_pages += again.end - again.start;
                let part = part(&entry, again.clone());
                self.note_helper(&part, true);
                self.log.push(part);
                let added = by_key.get(&key).map_or(&none, |file| &file.added);
                let cached = added.missing(&again).into_iter();
                self.unread.extend(cached.map(|pages| span(place, pages)));
            }
            for once in known.missing(&pages) {
                self.report.helper_pages += once.end - once.start;
                self.note_helper(&part(&entry, once), false);
            }
        }
    }

    fn note_helper(&mut self, entry: &LogEntry, recurs: bool) {
        self.helpers.push(HelperRead {
            entry: PrefetchEntry {
                span: entry.span,
                time_us: entry.time_us,
            },
            recurs,
        });
    }

    fn key(&self, entry: &LogEntry) -> FileKey {
        let dev = self.devices[usize::from(entry.device)].dev;
        match entry.span.place {
            Place::Metadata { .. } => FileKey {
                dev,
                ino: 0,
                generation: 0,
            },
            Place::Data { file } => {
                let file = &self.files[file as usize];
                FileKey {
                    dev,
                    ino: file.ino,
                    generation: file.generation,
                }
            }
        }
    }
}

/// Some pages of a log entry.
fn part(entry: &LogEntry, pages: Range<u64>) -> LogEntry {
    LogEntry {
        lba: entry.lba + (pages.start - entry.span.start) * SECTORS_PER_PAGE,
        span: span(entry.span.place, pages),
        ..*entry
    }
}
