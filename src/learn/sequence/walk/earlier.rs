//! What earlier launches of the app needed and this one did not access.

use super::{FileAccess, SequenceBuilder};
use crate::learn::sequence::Sequence;
use crate::learn::sequence::earlier::{KnownPages, pages_of};
use crate::learn::sequence::metadata::metadata_entry;
use crate::model::ranges::RangeSet;
use crate::model::{InodeId, LogEntry, Place, PrefetchEntry, Span, UnusedPages};

use std::ops::Range;
use std::time::UNIX_EPOCH;

impl<'a> SequenceBuilder<'a> {
    /// When the launch began, in seconds since the epoch.
    pub(super) fn now_s(&self) -> u64 {
        let started = self.observed.started.duration_since(UNIX_EPOCH);
        started.map_or(0, |since| since.as_secs())
    }

    /// Keeps what the rules of [`super::super::Earlier`] keep, after the accesses of the tree were walked. `numbers`
    /// has the index of the file of each entry of the earlier sequence.
    pub fn keep_earlier(&mut self, numbers: &[usize]) {
        let earlier = self.observed.earlier;
        // Whether the launch can tell which pages of a file are not needed, by its own accesses alone.
        let tells: Vec<bool> = self
            .accessed
            .iter()
            .zip(&self.walked)
            .map(|(file, walked)| {
                let known = earlier.known(file.key);
                known.is_some_and(|known| known.is_told_by(&walked.covered))
            })
            .collect();
        for ((key, entry), &number) in earlier.sequence.iter().zip(numbers) {
            if let Some(known) = earlier.known(*key) {
                self.keep(known, *key, entry, number, tells[number]);
            }
        }
    }

    /// Keeps an entry, or parts of it. `tells`: whether the launch would have had pages of the file in a window if
    /// they were needed.
    fn keep(
        &mut self,
        known: &KnownPages,
        key: InodeId,
        entry: &PrefetchEntry,
        number: usize,
        tells: bool,
    ) {
        let file = &self.accessed[number];
        let Some(device) = file.device.as_ref() else {
            return;
        };
        if !known.is_of(key, &file.facts) {
            return;
        }
        let at = FileAccess {
            number,
            file,
            device,
            time_us: entry.time_us,
        };
        let now_s = self.now_s();
        for pages in self.walked[number].covered.missing(&entry.span.pages()) {
            let unsure: Vec<Range<u64>> = known.fault_around.overlapping(&pages).collect();
            let used = known.fault_around.missing(&pages);
            if tells {
                self.sequence.report.refined_pages += pages_of(unsure.iter().cloned());
            } else {
                self.keep_pages(at, unsure, true, known, now_s);
            }
            self.keep_pages(at, used, false, known, now_s);
        }
    }

    fn keep_pages(
        &mut self,
        at: FileAccess<'a>,
        ranges: Vec<Range<u64>>,
        unsure: bool,
        known: &KnownPages,
        now_s: u64,
    ) {
        let earlier = self.observed.earlier;
        let mut parts = Vec::new();
        for (pages, used_s) in ranges
            .iter()
            .flat_map(|pages| earlier.by_last_use(known, pages))
        {
            // Helpers have used it in this launch.
            let helpers = &at.file.helpers;
            parts.extend(helpers.overlapping(&pages).map(|pages| (pages, now_s)));
            let others = helpers.missing(&pages).into_iter();
            parts.extend(others.map(|pages| (pages, used_s)));
        }
        parts.sort_by_key(|(pages, _)| pages.start);
        for (pages, used_s) in parts {
            if earlier.is_outdated(used_s, now_s) {
                self.sequence.report.outdated_pages += pages.end - pages.start;
                continue;
            }
            self.walked[at.number].covered.insert(pages.clone());
            if !at.file.is_file() {
                if let Some(device) = self.sequence.device_number(at.device) {
                    let entry = metadata_entry(device, pages, at.time_us);
                    self.kept_metadata.push((entry, used_s));
                }
                continue;
            }
            self.log_data(at, pages.clone());
            // Without a place on the disk, it is not in the log.
            let Some(file) = self.walked[at.number].number else {
                continue;
            };
            let span = Span::new(Place::Data { file }, pages);
            self.sequence.report.kept_pages += span.len;
            self.sequence.unused.push(UnusedPages { span, used_s });
            self.sequence.fault_around.extend(unsure.then_some(span));
        }
    }
}

/// Inserts metadata that are kept, but for those that were inserted already because data depend on them: those come
/// with their data, whenever that is in this launch.
pub fn insert_kept_metadata(sequence: &mut Sequence, kept: Vec<(LogEntry, u64)>) {
    let mut present = vec![RangeSet::default(); sequence.devices.len()];
    for entry in sequence
        .log
        .iter()
        .filter(|entry| entry.span.place.is_metadata())
    {
        present[usize::from(entry.device)].insert(entry.span.pages());
    }
    let mut log = Vec::new();
    for (entry, used_s) in kept {
        for pages in present[usize::from(entry.device)].insert(entry.span.pages()) {
            let inserted = metadata_entry(entry.device, pages, entry.time_us);
            let span = inserted.span;
            sequence.report.kept_pages += span.len;
            sequence.unread.push(span);
            sequence.unused.push(UnusedPages { span, used_s });
            log.push(inserted);
        }
    }
    // Metadata go before data of the same time.
    log.append(&mut sequence.log);
    log.sort_by_key(|entry| entry.time_us);
    sequence.log = log;
}
