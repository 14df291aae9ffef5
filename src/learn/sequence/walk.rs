//! The walk over a launch's accesses, in the order of time.

mod helpers;

use std::collections::HashMap;
use std::ops::Range;

use super::metadata::Dependencies;
use super::probe::{DeviceState, Facts, Probe};
use super::report::ResolveReport;
use super::{Observed, Sequence, log, metadata, split};
use crate::learn::sequence::accessed_file::{self, AccessedFile, FileDecision};
use crate::model::ranges::RangeSet;
use crate::model::{Access, By, Source};
use crate::model::{Device, File, HelperRead};
use crate::model::{LogEntry, PAGE_SIZE, Place, Span};

/// The walk over the accesses, and what has come of it so far.
pub struct SequenceBuilder<'a> {
    observed: &'a Observed<'a>,
    subjects: &'a [AccessedFile],
    probe: &'a mut dyn Probe,
    report: ResolveReport,
    /// For each subject, pages that earlier accesses took.
    seen: Vec<RangeSet>,
    /// For each subject, pages that others have added to the cache so far, in the launch. To it they are
    /// as those that were cached before: it may have touched them without any read of its own.
    brought: Vec<RangeSet>,
    /// For each subject, its index in the file table, given when it is first needed.
    file_numbers: Vec<Option<u32>>,
    device_numbers: HashMap<u64, u16>,
    devices: Vec<Device>,
    files: Vec<File>,
    /// As the file table.
    mapped: Vec<bool>,
    /// As the file table.
    dependencies: Vec<Dependencies>,
    log: Vec<LogEntry>,
    /// Pages of the log that were cached before the launch.
    unread: Vec<Span>,
    /// As in [`Sequence`], but neither in order nor joined.
    mapped_along: Vec<Span>,
    newcomers: Vec<HelperRead>,
}

impl<'a> SequenceBuilder<'a> {
    /// At its start. `subjects` are those of the accesses.
    pub fn new(
        observed: &'a Observed<'a>,
        subjects: &'a [AccessedFile],
        probe: &'a mut dyn Probe,
        report: ResolveReport,
    ) -> Self {
        SequenceBuilder {
            observed,
            subjects,
            probe,
            report,
            seen: vec![RangeSet::default(); subjects.len()],
            brought: vec![RangeSet::default(); subjects.len()],
            file_numbers: vec![None; subjects.len()],
            device_numbers: HashMap::new(),
            devices: Vec::new(),
            files: Vec::new(),
            mapped: Vec::new(),
            dependencies: Vec::new(),
            log: Vec::new(),
            unread: Vec::new(),
            mapped_along: Vec::new(),
            newcomers: Vec::new(),
        }
    }

    /// Walks the accesses of the launch tree; `numbers` has the subject of each access.
    pub fn tree(&mut self, numbers: &[usize]) {
        for (access, &number) in self.observed.accesses.iter().zip(numbers) {
            if access.by == By::Tree {
                self.access(access, number);
            } else if access.source == Source::Added {
                self.brought[number].insert(accessed_file::pages(access));
            }
        }
    }

    fn access(&mut self, access: &Access, number: usize) {
        let subject = &self.subjects[number];
        let touches = self.observed.touches;
        let time_us = access.time_ns.saturating_sub(self.observed.start_ns) / 1000;
        let pages = accessed_file::pages(access);
        match &subject.outcome {
            FileDecision::LeftOut => {}
            FileDecision::Metadata => {
                for fresh in self.seen[number].insert(pages) {
                    if let Some(device) = self.device_number(access.dev) {
                        self.metadata(device, fresh, time_us, access.source, subject);
                    }
                }
            }
            FileDecision::File(facts) if access.source == Source::Window => {
                let none = RangeSet::default();
                // Where touches count, what was added meanwhile may have been touched by this fault.
                let added = if touches { &none } else { &subject.added };
                let end = facts.size.div_ceil(PAGE_SIZE).min(pages.end);
                let window = pages.start..end.max(pages.start);
                let mut mapped = cached_before(&pages, facts, added);
                mapped.extend(self.brought[number].overlapping(&window));
                self.along(mapped, time_us, subject, facts, number);
            }
            FileDecision::File(_) if touches && access.source == Source::Added => {}
            FileDecision::File(facts) => {
                let end = facts.size.div_ceil(PAGE_SIZE);
                for fresh in self.seen[number].insert(pages) {
                    self.report.past_end_pages += fresh.end.saturating_sub(fresh.start.max(end));
                    self.data(
                        fresh.start..fresh.end.min(end),
                        time_us,
                        subject,
                        facts,
                        number,
                    );
                }
                let is_touch = touches && access.source == Source::Fault;
                let folio = is_touch.then(|| subject.added_folio(access.start));
                if let Some(folio) = folio.flatten() {
                    let mapped = folio.start..folio.end.min(end).max(folio.start);
                    self.along(vec![mapped], time_us, subject, facts, number);
                }
            }
        }
    }

    /// Logs pages that one fault mapped together, and of which it touched one: those that an earlier
    /// launch did not need are left out, unless that leaves none.
    fn along(
        &mut self,
        mapped: Vec<Range<u64>>,
        time_us: u64,
        subject: &AccessedFile,
        facts: &Facts,
        number: usize,
    ) {
        let fresh: Vec<Range<u64>> = mapped
            .into_iter()
            .flat_map(|pages| self.seen[number].insert(pages))
            .collect();
        let mut needed = RangeSet::default();
        match self.observed.earlier.pages(subject.key, facts) {
            Some(earlier) => {
                for pages in &fresh {
                    for set in [earlier, &subject.touched] {
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
            self.report.window_pages += self.data(pages.clone(), time_us, subject, facts, number);
            // Without a number nothing of the file had a place on the disk.
            if let Some(file) = self.file_numbers[number] {
                let along = subject.touched.missing(&pages).into_iter();
                self.mapped_along
                    .extend(along.map(|pages| span(Place::Data { file }, pages)));
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
        subject: &AccessedFile,
    ) {
        if source == Source::LookedUp {
            for cached in subject.added.missing(&pages) {
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
        subject: &AccessedFile,
        facts: &Facts,
        number: usize,
    ) -> u64 {
        let key = subject.key;
        if pages.is_empty() {
            return 0;
        }
        let asked = pages.end - pages.start;
        let mut mapped = 0;
        for piece in split::split(pages, &facts.extents) {
            let Some(device) = self.device_number(key.dev) else {
                break;
            };
            let file = self.file_number(number, device, subject, facts);
            let place = Place::Data { file };
            let cached = subject.added.missing(&piece.pages).into_iter();
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
        subject: &AccessedFile,
        facts: &Facts,
    ) -> u32 {
        let key = subject.key;
        *self.file_numbers[number].get_or_insert_with(|| {
            self.files.push(File {
                device,
                ino: key.ino,
                generation: key.generation,
                size: facts.size,
                mtime_ns: facts.mtime_ns,
                path: facts.path.clone(),
            });
            self.mapped.push(subject.mapped);
            self.dependencies.push(facts.dependencies.clone());
            // The accesses of 2^32 files would not fit into memory.
            (self.files.len() - 1) as u32
        })
    }

    /// What has come of it.
    pub fn finish(mut self) -> Sequence {
        // What newcomers accessed comes last and belongs in between.
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
            fault_around: joined(self.mapped_along),
            helpers: self.newcomers,
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

/// The pages of a faultaround window that were cached from before the launch: cached now, and not
/// added to the cache since. The fault mapped them, and touched one of them. (Pages that were added
/// during the launch are in the sequence by their own accesses, if the launch asked for them.)
fn cached_before(window: &Range<u64>, facts: &Facts, added: &RangeSet) -> Vec<Range<u64>> {
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
