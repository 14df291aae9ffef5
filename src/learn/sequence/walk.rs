//! The walk over a launch's accesses, in time order.

mod earlier;
mod helpers;

use std::ops::Range;

use super::accessed_file::{self, AccessedFile};
use super::dependencies::Dependencies;
use super::metadata::{self, metadata_entry, push};
use super::report::ResolveReport;
use super::{Observed, Sequence};
use crate::fs::fiemap::{pieces, place_by_file};
use crate::model::ranges::RangeSet;
use crate::model::{Access, By, Device, File, LogEntry, PAGE_SIZE, Place, Source, Span};

/// The launch sequence while the accesses are walked.
pub struct SequenceBuilder<'a> {
    observed: &'a Observed<'a>,
    accessed: &'a [AccessedFile],
    /// For each accessed file.
    walked: Vec<WalkedFile>,
    /// Indexed as the file table.
    dependencies: Vec<&'a Dependencies>,
    /// Metadata that earlier launches needed and this one did not access, and when one last used them, in seconds
    /// since the epoch.
    kept_metadata: Vec<(LogEntry, u64)>,
    /// Before [`Self::finish`], pages that faults mapped are neither in order nor joined, and missing
    /// metadata are not inserted.
    sequence: Sequence,
}

/// What the walk has found of a file so far.
#[derive(Clone, Default)]
struct WalkedFile {
    /// Pages that accesses have covered.
    covered: RangeSet,
    /// Pages that tasks outside of the launch tree have added to the cache. They count as those that were cached
    /// before the launch: it may touch them without a read of its own.
    added_by_others: RangeSet,
    /// Index of the file in the file table, given when it is first needed.
    number: Option<u32>,
}

/// An access to a file, or to a device's metadata, that goes into the sequence.
#[derive(Clone, Copy)]
struct FileAccess<'a> {
    /// Index among the accessed files.
    number: usize,
    file: &'a AccessedFile,
    device: &'a Device,
    /// Since the launch began.
    time_us: u64,
}

impl<'a> SequenceBuilder<'a> {
    /// Before the first access. `accessed` are the files of all accesses.
    pub fn new(
        observed: &'a Observed<'a>,
        accessed: &'a [AccessedFile],
        report: ResolveReport,
    ) -> Self {
        SequenceBuilder {
            observed,
            accessed,
            walked: vec![WalkedFile::default(); accessed.len()],
            dependencies: Vec::new(),
            kept_metadata: Vec::new(),
            sequence: Sequence {
                report,
                ..Sequence::default()
            },
        }
    }

    /// Walks the accesses of the launch tree; `numbers` has the index of each access's file.
    pub fn walk_tree(&mut self, numbers: &[usize]) {
        for (access, &number) in self.observed.accesses.iter().zip(numbers) {
            if access.by == By::Tree && !self.accessed[number].is_data() {
                self.access(access, number);
                continue;
            }
            if access.by == By::Tree {
                let time_us = access.time_ns.saturating_sub(self.observed.start_ns) / 1000;
                self.sequence.data_until_us = self.sequence.data_until_us.max(time_us);
            }
            if access.source == Source::Added {
                let others = &mut self.walked[number].added_by_others;
                others.insert(accessed_file::pages(access));
            }
        }
    }

    fn access(&mut self, access: &Access, number: usize) {
        let file = &self.accessed[number];
        let Some(device) = &file.device else {
            return;
        };
        let at = FileAccess {
            number,
            file,
            device,
            time_us: access.time_ns.saturating_sub(self.observed.start_ns) / 1000,
        };
        let pages = accessed_file::pages(access);
        let end = file.facts.size.div_ceil(PAGE_SIZE);
        let touches = self.observed.touches;
        match access.source {
            source if !file.is_file() => {
                for fresh in self.walked[number].covered.insert(pages) {
                    self.log_metadata(at, fresh, source == Source::LookedUp);
                }
            }
            Source::Window => {
                let mapped = self.mapped_by_window(at, pages.start..pages.end.min(end));
                self.log_mapped_together(at, mapped);
            }
            Source::Added if touches => {}
            source => {
                for fresh in self.walked[number].covered.insert(pages) {
                    let past_end = fresh.end.saturating_sub(fresh.start.max(end));
                    self.sequence.report.past_end_pages += past_end;
                    self.log_data(at, fresh.start..fresh.end.min(end));
                }
                if touches
                    && source == Source::Fault
                    && let Some(folio) = file.added_folio(access.start)
                {
                    let mapped = folio.start..folio.end.min(end);
                    self.log_mapped_together(at, vec![mapped]);
                }
            }
        }
    }

    /// The pages that a fault on a cached page mapped, of which it touched one: those of its faultaround
    /// window that are cached now and were not added since the launch began, and those that others had
    /// added. (Pages that the launch added are in the sequence by their own accesses, if it asked for them.)
    fn mapped_by_window(&self, at: FileAccess<'_>, window: Range<u64>) -> Vec<Range<u64>> {
        let cached = at.file.facts.cached.overlapping(&window);
        // In live learning, pages added meanwhile may have been touched by this fault.
        let mut mapped: Vec<Range<u64>> = if self.observed.touches {
            cached.collect()
        } else {
            cached
                .flat_map(|cached| at.file.added.missing(&cached))
                .collect()
        };
        mapped.extend(self.walked[at.number].added_by_others.overlapping(&window));
        mapped
    }

    /// Logs pages that one fault mapped together, although it touched only one of them. Those that an earlier
    /// launch did not need are left out, unless it needed none of them.
    fn log_mapped_together(&mut self, at: FileAccess<'a>, mapped: Vec<Range<u64>>) {
        let covered = &mut self.walked[at.number].covered;
        let mapped = mapped.into_iter().flat_map(|pages| covered.insert(pages));
        let mut kept: RangeSet = mapped.collect();
        let known = self.observed.earlier.pages(at.file.key, &at.file.facts);
        if let Some(known) = known {
            let needed = |pages: Range<u64>| {
                let touched = at.file.touched.overlapping(&pages);
                let known = known.needed.overlapping(&pages);
                known.chain(touched).collect::<Vec<_>>()
            };
            let needed: RangeSet = kept.ranges().flat_map(needed).collect();
            if needed.len() > 0 {
                self.sequence.report.refined_pages += kept.len() - needed.len();
                kept = needed;
            }
        }
        for pages in kept.ranges() {
            self.sequence.report.window_pages += self.log_data(at, pages.clone());
            // A file without a number has no page with a place on the disk.
            if let Some(file) = self.walked[at.number].number {
                let untouched = at.file.touched.missing(&pages).into_iter();
                let unsure = untouched.flat_map(|pages| match known {
                    Some(known) => known.not_used(&pages),
                    None => vec![pages],
                });
                let spans = unsure.map(|pages| Span::new(Place::Data { file }, pages));
                self.sequence.fault_around.extend(spans);
            }
        }
    }

    /// Logs pages of a device's metadata that are new to the sequence.
    fn log_metadata(&mut self, at: FileAccess<'_>, pages: Range<u64>, is_looked_up: bool) {
        let Some(device) = self.sequence.device_number(at.device) else {
            return;
        };
        if is_looked_up {
            for cached in at.file.added.missing(&pages) {
                let span = Span::new(Place::Metadata { device }, cached);
                self.sequence.report.path_metadata += span.len;
                self.sequence.unread.push(span);
            }
        }
        push(
            &mut self.sequence.log,
            metadata_entry(device, pages, at.time_us),
        );
    }

    /// Logs pages of a file that are new to the sequence. Returns the number of those that have a
    /// place on the disk.
    fn log_data(&mut self, at: FileAccess<'a>, pages: Range<u64>) -> u64 {
        if pages.is_empty() {
            return 0;
        }
        let asked = pages.end - pages.start;
        let mut placed = 0;
        let placed_pages = match &at.file.facts.extents {
            Some(extents) => pieces(pages, extents),
            None => {
                let file = self.file_number(at);
                let placed = file.map(|file| place_by_file(file, pages));
                placed.into_iter().collect()
            }
        };
        for (pages, lba) in placed_pages {
            let Some(file) = self.file_number(at) else {
                break;
            };
            let place = Place::Data { file };
            let cached = at.file.added.missing(&pages).into_iter();
            let unread = cached.map(|pages| Span::new(place, pages));
            self.sequence.unread.extend(unread);
            let entry = LogEntry {
                span: Span::new(place, pages),
                device: self.sequence.files[file as usize].device,
                lba,
                time_us: at.time_us,
            };
            placed += entry.span.len;
            push(&mut self.sequence.log, entry);
        }
        self.sequence.report.unmapped_pages += asked - placed;
        placed
    }

    /// The file's index in the file table; `None` if the device table is full.
    fn file_number(&mut self, at: FileAccess<'a>) -> Option<u32> {
        let (file, facts) = (at.file, &at.file.facts);
        if self.walked[at.number].number.is_none() {
            let device = self.sequence.device_number(at.device)?;
            let known = self.observed.earlier.known(file.key);
            let known_path = known.and_then(|known| known.path_of(file.key, facts));
            // The accesses of 2^32 files would not fit into memory.
            self.walked[at.number].number = Some(self.sequence.files.len() as u32);
            self.sequence.files.push(File {
                device,
                ino: file.key.ino,
                generation: file.key.generation,
                size: facts.size,
                mtime_ns: facts.mtime_ns,
                path: facts.path.clone().or(known_path),
            });
            self.sequence.mapped_files += u64::from(file.mapped);
            self.dependencies.push(&facts.dependencies);
        }
        self.walked[at.number].number
    }

    /// The sequence, with missing metadata inserted.
    pub fn finish(self) -> Sequence {
        let mut sequence = self.sequence;
        // What helpers accessed was logged last and belongs in between.
        sequence.log.sort_by_key(|entry| entry.time_us);
        metadata::insert_missing(&mut sequence, &self.dependencies);
        earlier::insert_kept_metadata(&mut sequence, self.kept_metadata);
        // Spans that touch are joined.
        let spans = &mut sequence.fault_around;
        spans.sort_unstable();
        spans.dedup_by(|next, last| {
            let is_next = last.place == next.place && last.end() == next.start;
            if is_next {
                last.len += next.len;
            }
            is_next
        });
        sequence
    }
}
