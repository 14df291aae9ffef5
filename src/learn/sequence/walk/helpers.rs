//! What processes accessed that were started since the launch began: needed if it recurs (FAST §4.1.2).

use std::collections::HashMap;
use std::ops::Range;

use super::{SequenceBuilder, span};
use crate::learn::sequence::accessed_file::AccessedFile;
use crate::learn::sequence::{Earlier, FileKey};
use crate::model::HelperRead;
use crate::model::ranges::RangeSet;
use crate::model::{Access, By};
use crate::model::{LogEntry, Place, PrefetchEntry, SECTORS_PER_PAGE};

/// Most log entries of newcomers that are kept: as many as a large app has of its own. On a system that
/// starts thousands of programs meanwhile, they are chance.
const MOST_OF_NEWCOMERS: usize = 1 << 14;

impl<'a> SequenceBuilder<'a> {
    /// Walks the accesses of newcomers, after those of the tree. What is in the set that `recurring`
    /// tells of their subject goes into the log.
    pub fn newcomers(
        &mut self,
        accesses: &[Access],
        numbers: &[usize],
        recurring: impl Fn(&'a Earlier, FileKey) -> Option<&'a RangeSet>,
    ) {
        // What a launch of its own would be made of, apart from the log.
        let log = std::mem::take(&mut self.log);
        let unread = std::mem::take(&mut self.unread);
        let mapped_along = std::mem::take(&mut self.mapped_along);
        let report = self.report.clone();
        for (access, &number) in accesses.iter().zip(numbers) {
            if access.by == By::Helper && self.log.len() < MOST_OF_NEWCOMERS {
                self.access(access, number);
            }
        }
        let found = std::mem::replace(&mut self.log, log);
        self.unread = unread;
        self.mapped_along = mapped_along;
        self.report = report;

        let subjects: HashMap<FileKey, &AccessedFile> = self
            .subjects
            .iter()
            .map(|subject| (subject.key, subject))
            .collect();
        let none = RangeSet::default();
        for entry in found {
            let place = entry.span.place;
            let key = self.key(&entry);
            let known = recurring(self.observed.earlier, key).unwrap_or(&none);
            let pages = entry.span.start..entry.span.end();
            for again in known.overlapping(&pages) {
                self.report.recurring_pages += again.end - again.start;
                let part = part(&entry, again.clone());
                self.newcomer(&part, true);
                self.log.push(part);
                let added = subjects.get(&key).map_or(&none, |subject| &subject.added);
                let cached = added.missing(&again).into_iter();
                self.unread.extend(cached.map(|pages| span(place, pages)));
            }
            for once in known.missing(&pages) {
                self.report.newcomer_pages += once.end - once.start;
                self.newcomer(&part(&entry, once), false);
            }
        }
    }

    fn newcomer(&mut self, entry: &LogEntry, recurs: bool) {
        self.newcomers.push(HelperRead {
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
