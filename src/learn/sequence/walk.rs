//! The walk over a launch's accesses, in time order.

mod helpers;

use std::collections::HashMap;
use std::ops::Range;

use super::metadata::Dependencies;
use super::probe::{DeviceState, FileFacts, Probe};
use super::report::ResolveReport;
use super::{Observed, Sequence, log, metadata, split};
use crate::learn::sequence::accessed_file::{self, AccessedFile, FileDecision};
use crate::model::ranges::RangeSet;
use crate::model::{
    Access, By, Device, File, HelperRead, LogEntry, PAGE_SIZE, Place, Source, Span,
};

/// The launch sequence while the accesses are walked.
pub struct SequenceBuilder<'a> {
    observed: &'a Observed<'a>,
    accessed: &'a [AccessedFile],
    probe: &'a mut dyn Probe,
    report: ResolveReport,
    /// For each accessed file, the pages that earlier accesses have covered.
    covered: Vec<RangeSet>,
    /// For each accessed file, the pages that tasks outside of the launch tree have added to the cache so
    /// far. They count as those that were cached before the launch: it may touch them without a read of its
    /// own.
    added_by_others: Vec<RangeSet>,
    /// For each accessed file, its index in the file table, given when it is first needed.
    file_numbers: Vec<Option<u32>>,
    device_numbers: HashMap<u64, u16>,
    devices: Vec<Device>,
    files: Vec<File>,
    /// Indexed as the file table.
    mapped: Vec<bool>,
    /// Indexed as the file table.
    dependencies: Vec<Dependencies>,
    log: Vec<LogEntry>,
    /// Pages of the log that were cached before the launch.
    unread: Vec<Span>,
    /// As in [`Sequence`], but neither in order nor joined.
    fault_around: Vec<Span>,
    helpers: Vec<HelperRead>,
}

impl<'a> SequenceBuilder<'a> {
    /// Before the first access. `accessed` are the files of all accesses.
    pub fn new(
        observed: &'a Observed<'a>,
        accessed: &'a [AccessedFile],
        probe: &'a mut dyn Probe,
        report: ResolveReport,
    ) -> Self {
        SequenceBuilder {
            observed,
            accessed,
            probe,
            report,
            covered: vec![RangeSet::default(); accessed.len()],
            added_by_others: vec![RangeSet::default(); accessed.len()],
            file_numbers: vec![None; accessed.len()],
            device_numbers: HashMap::new(),
            devices: Vec::new(),
            files: Vec::new(),
            mapped: Vec::new(),
            dependencies: Vec::new(),
            log: Vec::new(),
            unread: Vec::new(),
            fault_around: Vec::new(),
            helpers: Vec::new(),
        }
    }

    /// Walks the accesses of the launch tree; `numbers` has the index of each access's file.
    pub fn walk_tree(&mut self, numbers: &[usize]) {
        for (access, &number) in self.observed.accesses.iter().zip(numbers) {
            if access.by == By::Tree {
                self.access(access, number);
            } else if access.source == Source::Added {
                self.added_by_others[number].insert(accessed_file::pages(access));
            }
        }
    }

    fn access(&mut self, access: &Access, number: usize) {
        let file = &self.accessed[number];
        let touches = self.observed.touches;
        let time_us = access.time_ns.saturating_sub(self.observed.start_ns) / 1000;
        let pages = accessed_file::pages(access);
        match &file.decision {
            FileDecision::LeftOut => {}
            FileDecision::Metadata => {
                for fresh in self.covered[number].insert(pages) {
                    if let Some(device) = self.device_number(access.dev) {
                        self.metadata(device, fresh, time_us, access.source, file);
                    }
                }
            }
            FileDecision::File(facts) if access.source == Source::Window => {
                let none = RangeSet::default();
                // In live learning, pages added meanwhile may have been touched by this fault.
                let added = if touches { &none } else { &file.added };
                let end = facts.size.div_ceil(PAGE_SIZE).min(pages.end);
                let window = pages.start..end.max(pages.start);
                let mut mapped = cached_before(&pages, facts, added);
                mapped.extend(self.added_by_others[number].overlapping(&window));
                self.log_mapped_together(mapped, time_us, file, facts, number);
            }
            FileDecision::File(_) if touches && access.source == Source::Added => {}
            FileDecision::File(facts) => {
                let end = facts.size.div_ceil(PAGE_SIZE);
                for fresh in self.covered[number].insert(pages) {
                    self.report.past_end_pages += fresh.end.saturating_sub(fresh.start.max(end));
                    self.data(
                        fresh.start..fresh.end.min(end),
                        time_us,
                        file,
                        facts,
                        number,
                    );
                }
                let is_touch = touches && access.source == Source::Fault;
                let folio = is_touch.then(|| file.added_folio(access.start));
                if let Some(folio) = folio.flatten() {
                    let mapped = folio.start..folio.end.min(end).max(folio.start);
                    self.log_mapped_together(vec![mapped], time_us, file, facts, number);
                }
            }
        }
    }

    /// Logs pages that one fault mapped together, although it touched only one of them. Those that an earlier
    /// launch did not need are left out, unless it needed none of them.
    fn log_mapped_together(
        &mut self,
        mapped: Vec<Range<u64>>,
        time_us: u64,
        file: &AccessedFile,
        facts: &FileFacts,
        number: usize,
    ) {
        let fresh: Vec<Range<u64>> = mapped
            .into_iter()
            .flat_map(|pages| self.covered[number].insert(pages))
            .collect();
        let mut needed = RangeSet::default();
        match self.observed.earlier.pages(file.key, facts) {
            Some(earlier) => {
                for pages in &fresh {
                    for set in [earlier, &file.touched] {
                        set.overlapping(pages).for_each(|part| {
                            needed.insert(part);
                        });
                    }
                }
            }
            None => fresh.iter().cloned().for_each(|pages| {
                needed.insert(pages);
            }),
        }
        let left_out: u64 = fresh
            .iter()
            .flat_map(|pages| needed.missing(pages))
            .map(|pages| pages.end - pages.start)
            .sum();
        let kept: Vec<Range<u64>> = if needed.len() == 0 {
            fresh
        } else {
            self.report.refined_pages += left_out;
            needed.ranges().collect()
        };
        for pages in kept {
            self.report.window_pages += self.data(pages.clone(), time_us, file, facts, number);
            // A file without a number has no page with a place on the disk.
            if let Some(index) = self.file_numbers[number] {
                let place = Place::Data { file: index };
                let untouched = file.touched.missing(&pages).into_iter();
                let untouched = untouched.map(|pages| span(place, pages));
                self.fault_around.extend(untouched);
            }
        }
    }

    /// Logs pages of a device's metadata that are new to the sequence.
    fn metadata(
        &mut self,
        device: u16,
        pages: Range<u64>,
        time_us: u64,
        source: Source,
        file: &AccessedFile,
    ) {
        if source == Source::LookedUp {
            for cached in file.added.missing(&pages) {
                let span = metadata::metadata_entry(device, cached, time_us).span;
                self.report.path_metadata += span.len;
                self.unread.push(span);
            }
        }
        let entry = metadata::metadata_entry(device, pages, time_us);
        log::push(&mut self.log, entry);
    }

    /// Logs pages of a file that are new to the sequence. Returns the number of those that have a
    /// place on the disk.
    fn data(
        &mut self,
        pages: Range<u64>,
        time_us: u64,
        file: &AccessedFile,
        facts: &FileFacts,
        number: usize,
    ) -> u64 {
        let key = file.key;
        if pages.is_empty() {
            return 0;
        }
        let asked = pages.end - pages.start;
        let mut mapped = 0;
        for piece in split::split(pages, &facts.extents) {
            let Some(device) = self.device_number(key.dev) else {
                break;
            };
            let index = self.file_number(number, device, file, facts);
            let place = Place::Data { file: index };
            let cached = file.added.missing(&piece.pages).into_iter();
            self.unread.extend(cached.map(|pages| span(place, pages)));
            let span = span(place, piece.pages);
            mapped += span.len;
            log::push(
                &mut self.log,
                LogEntry {
                    span,
                    device,
                    lba: piece.lba,
                    time_us,
                },
            );
        }
        self.report.unmapped_pages += asked - mapped;
        mapped
    }

    /// The device's index in the device table; `None` if the table is full.
    fn device_number(&mut self, dev: u64) -> Option<u16> {
        if let Some(&number) = self.device_numbers.get(&dev) {
            return Some(number);
        }
        let number = u16::try_from(self.devices.len()).ok()?;
        let DeviceState::Usable { device, .. } = self.probe.device(dev) else {
            return None;
        };
        self.devices.push(device);
        self.device_numbers.insert(dev, number);
        Some(number)
    }

    fn file_number(
        &mut self,
        number: usize,
        device: u16,
        file: &AccessedFile,
        facts: &FileFacts,
    ) -> u32 {
        let key = file.key;
        *self.file_numbers[number].get_or_insert_with(|| {
            self.files.push(File {
                device,
                ino: key.ino,
                generation: key.generation,
                size: facts.size,
                mtime_ns: facts.mtime_ns,
                path: facts.path.clone(),
            });
            self.mapped.push(file.mapped);
            self.dependencies.push(facts.dependencies.clone());
            // The accesses of 2^32 files would not fit into memory.
            (self.files.len() - 1) as u32
        })
    }

    /// The sequence, with missing metadata inserted.
    pub fn finish(mut self) -> Sequence {
        // What helpers accessed was logged last and belongs in between.
        self.log.sort_by_key(|entry| entry.time_us);
        let done = metadata::insert_missing(&self.log, &self.dependencies, self.devices.len());
        self.report.missing_metadata = done.inserted.iter().map(|span| span.len).sum();
        self.unread.extend(done.inserted);
        self.report.late_metadata = done.late;
        self.report.warnings = self.probe.warnings();
        Sequence {
            devices: self.devices,
            files: self.files,
            mapped: self.mapped,
            log: done.log,
            unread: self.unread,
            fault_around: joined(self.fault_around),
            helpers: self.helpers,
            report: self.report,
        }
    }
}

fn span(place: Place, pages: Range<u64>) -> Span {
    Span {
        place,
        start: pages.start,
        len: pages.end - pages.start,
    }
}

/// The spans in order, with those joined that touch.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match joined.last_mut() {
            Some(last) if last.place == span.place && last.end() == span.start => {
                last.len += span.len;
            }
            _ => joined.push(span),
        }
    }
    joined
}

/// The pages of a faultaround window that were cached before the launch: they are cached now and were not
/// added since. The fault mapped them all and touched one. (Pages that were added during the launch are in
/// the sequence by their own accesses, if the launch asked for them.)
fn cached_before(window: &Range<u64>, facts: &FileFacts, added: &RangeSet) -> Vec<Range<u64>> {
    let end = facts.size.div_ceil(PAGE_SIZE).min(window.end);
    let first = facts
        .cached
        .partition_point(|cached| cached.end <= window.start);
    facts.cached[first..]
        .iter()
        .take_while(|cached| cached.start < end)
        .flat_map(|cached| added.missing(&(cached.start.max(window.start)..cached.end.min(end))))
        .collect()
}
