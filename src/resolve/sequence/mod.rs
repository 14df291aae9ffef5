//! The launch sequence: the reads of a launch in the order of first access, each page once, with the
//! metadata that they depend on.
//!
//! Accesses are grouped by file (`subjects`), and each file is looked at once ([`Probe`]). Then the
//! accesses are walked in time order: what was accessed before is taken off, the rest is cut where
//! the disk does (`split`), and neighbours are joined (`log`). Last, missing metadata are
//! inserted (`metadata`).

mod log;
mod metadata;
mod probe;
mod report;
mod requirements;
mod split;
mod subjects;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;
use std::time::SystemTime;

pub use metadata::Dependencies;
pub use probe::{DeviceState, Facts, FileKey, FileState, Probe};
pub use report::{Count, LeftOut, Report};
pub use requirements::{Requests, Requirements};

use self::subjects::{Outcome, Subject};
use super::lookups;
use super::mounts::MountTable;
use super::probe::LiveProbe;
use super::ranges::RangeSet;
use crate::device::Class;
use crate::profile::{Device, File};
use crate::schedule::{LogEntry, PAGE_SIZE, Place, Span};
use crate::trace::{Access, By, PathUse, Source};

/// A launch sequence with the tables that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Devices, in the order of their first log entry.
    pub devices: Vec<Device>,
    /// Files, in the order of their first log entry.
    pub files: Vec<File>,
    /// For each file, whether the launch reached it through page faults: whether it was mapped. Always
    /// false where the kernel does not tell of faults ([`crate::trace::Trace::hooks`]).
    pub mapped: Vec<bool>,
    /// The log entries, in access order. No page occurs twice.
    pub log: Vec<LogEntry>,
    /// Pages of the log that the drive did not read in the launch: file pages that were cached before
    /// it, then missing metadata that were inserted.
    pub unread: Vec<Span>,
    /// What was left out, and why.
    pub report: Report,
}

/// What was seen of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Accesses to pages, in time order.
    pub accesses: &'a [Access],
    /// Paths that were looked up, in time order.
    pub paths: &'a [PathUse],
    /// Start of the launch on the trace's clock, CLOCK_MONOTONIC in nanoseconds.
    pub start_ns: u64,
    /// Start of the launch on the file systems' clock.
    pub started: SystemTime,
    /// Whether the sequence is to hold the file pages that the launch used (live learning), rather
    /// than those that were read from the drive and those that were cached before.
    pub touches: bool,
}

/// Makes the launch sequence of what was seen by asking the system about each file and device. `class`
/// tells a device's class by its number (`st_dev`).
///
/// Never fails: what cannot be resolved is left out and reported. Dirty data should have been written
/// back (`sync`) since files were last changed, or their blocks may have no place on the disk yet.
pub fn resolve(seen: &Observed<'_>, mounts: &MountTable, class: &dyn Fn(u64) -> Class) -> Sequence {
    let mut probe = LiveProbe::new(mounts, class, seen.started);
    let (looked_up, counts) =
        lookups::accesses(seen.paths, mounts, own_mount_namespace(), &mut probe);
    let mut accesses = [seen.accesses, &looked_up].concat();
    // What was read for a look-up comes before the look-up is reported; the sort keeps it so.
    accesses.sort_by_key(|access| access.time_ns);
    let mut sequence = resolve_with(&accesses, seen.start_ns, seen.touches, &mut probe);
    sequence.report.paths = counts;
    sequence
}

/// Number of this process's mount namespace; 0, which none has, if /proc does not tell.
fn own_mount_namespace() -> u32 {
    std::fs::metadata("/proc/self/ns/mnt").map_or(0, |found| {
        std::os::unix::fs::MetadataExt::ino(&found) as u32
    })
}

/// The launch sequence of accesses in time order, by the answers of `probe`; the rest is as in
/// [`Observed`].
pub fn resolve_with(
    accesses: &[Access],
    start_ns: u64,
    touches: bool,
    probe: &mut dyn Probe,
) -> Sequence {
    let mut report = Report::default();
    let (mut subjects, of_access) = subjects::group(accesses);
    for subject in &mut subjects {
        subject.decide(probe, &mut report);
    }
    let mut walk = Walk {
        touches,
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
    };
    for (access, &number) in accesses.iter().zip(&of_access) {
        if access.by == By::Tree {
            let time_us = access.time_ns.saturating_sub(start_ns) / 1000;
            walk.access(access, time_us, &subjects[number], number);
        } else if access.source == Source::Added {
            walk.brought[number].insert(subjects::pages(access));
        }
    }
    walk.finish()
}

/// The walk over the accesses, and what has come of it so far.
struct Walk<'a> {
    touches: bool,
    probe: &'a mut dyn Probe,
    report: Report,
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
}

impl Walk<'_> {
    fn access(&mut self, access: &Access, time_us: u64, subject: &Subject, number: usize) {
        let pages = subjects::pages(access);
        match &subject.outcome {
            Outcome::LeftOut => {}
            Outcome::Metadata => {
                for fresh in self.seen[number].insert(pages) {
                    if let Some(device) = self.device_number(access.dev) {
                        self.metadata(device, fresh, time_us, access.source, subject);
                    }
                }
            }
            Outcome::File(facts) if access.source == Source::Window => {
                let none = RangeSet::default();
                // Where touches count, what was added meanwhile may have been touched by this fault.
                let added = if self.touches { &none } else { &subject.added };
                let end = facts.size.div_ceil(PAGE_SIZE).min(pages.end);
                let window = pages.start..end.max(pages.start);
                let mut mapped = cached_before(&pages, facts, added);
                mapped.extend(self.brought[number].overlapping(&window));
                for pages in mapped {
                    for fresh in self.seen[number].insert(pages) {
                        self.report.window_pages +=
                            self.data(fresh, time_us, subject, facts, number);
                    }
                }
            }
            Outcome::File(_) if self.touches && access.source == Source::Added => {}
            Outcome::File(facts) => {
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
                let is_touch = self.touches && access.source == Source::Fault;
                let folio = is_touch.then(|| subject.added_folio(access.start));
                if let Some(folio) = folio.flatten() {
                    let mapped = folio.start..folio.end.min(end).max(folio.start);
                    for fresh in self.seen[number].insert(mapped) {
                        self.report.window_pages +=
                            self.data(fresh, time_us, subject, facts, number);
                    }
                }
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
        subject: &Subject,
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
        subject: &Subject,
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
            let part = |pages: Range<u64>| Span {
                place: Place::Data { file },
                start: pages.start,
                len: pages.end - pages.start,
            };
            let cached = subject.added.missing(&piece.pages).into_iter();
            self.unread.extend(cached.map(part));
            let span = part(piece.pages);
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

    fn file_number(&mut self, number: usize, device: u16, subject: &Subject, facts: &Facts) -> u32 {
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

    fn finish(mut self) -> Sequence {
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
            report: self.report,
        }
    }
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
