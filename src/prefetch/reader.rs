//! Reading a schedule ahead, entry by entry.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::devices::OpenDevice;
use super::files::Files;
use super::headroom::Headroom;
use super::sys::readahead;
use crate::drive::Memory;
use crate::model::Profile;
use crate::model::{PAGE_SIZE, Place, PrefetchEntry, Span};
use crate::model::{PrefetchReport, Skipped};

/// Reads a schedule ahead in its order.
pub struct ScheduleReader<'a, L> {
    /// The profile's devices; `None` for those that are not mounted.
    pub devices: &'a [Option<OpenDevice>],
    /// The profile's files.
    pub files: Files<'a>,
    /// Makes the requests and counts them.
    pub requests: Requests<'a>,
    /// Watches that memory lasts for the rest of the schedule.
    pub headroom: Headroom<L>,
    /// What was read ahead and what was skipped, so far.
    pub report: PrefetchReport,
}

/// Makes the readahead(2) calls.
pub struct Requests<'a> {
    /// Pages that are not to be read.
    pub left_out: Option<Span>,
    /// Set by another thread to end the prefetch.
    pub stop: &'a AtomicBool,
    /// readahead(2) calls made.
    pub calls: u64,
    /// When the first call was made.
    pub first: Option<Instant>,
}

/// Why reading a schedule ended.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum ScheduleEnd {
    /// Every entry was read ahead or skipped.
    Complete,
    /// [`Requests::stop`] was set before that.
    Stopped,
    /// Memory became short before that, for this reason.
    MemoryShort(String),
}

/// The result of one request.
enum ReadResult {
    /// All of it was read ahead: this many pages.
    Done(u64),
    /// The file has become shorter: `done` pages were read ahead, `missing` pages are not there.
    Cut { done: u64, missing: u64 },
}

impl<L: FnMut() -> Memory> ScheduleReader<'_, L> {
    /// Reads the schedule ahead until it ends, `stop` is set or memory becomes short.
    pub fn read(&mut self, profile: &Profile) -> ScheduleEnd {
        let entries = &profile.entries;
        let mut next = 0;
        while next < entries.len() {
            if self.requests.is_stopped() {
                return ScheduleEnd::Stopped;
            }
            let first = next;
            let (span, count) = request(&entries[first..]);
            next += count;
            let result = self.entry(&span);
            self.count(&span, count as u64, result);
            if let Place::Data { file } = span.place {
                self.files.done(file, first);
            }
            if let Some(why) = self.headroom.read(span.bytes()) {
                return ScheduleEnd::MemoryShort(why);
            }
        }
        ScheduleEnd::Complete
    }

    fn count(&mut self, span: &Span, entries: u64, result: Result<ReadResult, Skipped>) {
        let (done, missing, reason) = match result {
            Ok(ReadResult::Done(done)) => (done, 0, None),
            Ok(ReadResult::Cut { done, missing }) => (done, missing, Some(Skipped::Truncated)),
            Err(reason) => (0, span.len, Some(reason)),
        };
        let read = if span.place.is_metadata() {
            &mut self.report.metadata
        } else {
            &mut self.report.data
        };
        read.pages += done;
        match reason {
            None => read.entries += entries,
            Some(reason) => {
                let skipped = self.report.skipped.entry(reason).or_default();
                skipped.entries += entries;
                skipped.pages += missing;
                let missed = Span {
                    start: span.end() - missing,
                    len: missing,
                    ..*span
                };
                self.report.skipped_spans.push((missed, reason));
            }
        }
    }

    fn entry(&mut self, span: &Span) -> Result<ReadResult, Skipped> {
        match span.place {
            Place::Metadata { device } => {
                let device = self.devices[usize::from(device)].as_ref();
                let device = device.ok_or(Skipped::DeviceGone)?;
                let node = device.node.as_ref().ok_or(Skipped::NoNode)?;
                let pages = self
                    .requests
                    .read(node.as_fd(), span, device.readahead_limit)?;
                Ok(ReadResult::Done(pages))
            }
            Place::Data { file } => {
                let device = self.devices[self.files.device(file)].as_ref();
                let device = device.ok_or(Skipped::DeviceGone)?;
                let (fd, pages) = self.files.get(file, device)?;
                if span.start >= pages {
                    return Err(Skipped::Truncated);
                }
                let inside = Span {
                    len: span.len.min(pages - span.start),
                    ..*span
                };
                let done = self.requests.read(fd, &inside, device.readahead_limit)?;
                Ok(match span.len - inside.len {
                    0 => ReadResult::Done(done),
                    missing => ReadResult::Cut { done, missing },
                })
            }
        }
    }
}

/// The first request of these entries and how many of them it covers: adjacent metadata entries
/// become one request, a data entry is a request of its own.
fn request(entries: &[PrefetchEntry]) -> (Span, usize) {
    let mut span = entries[0].span;
    let mut count = 1;
    if span.place.is_metadata() {
        for entry in &entries[1..] {
            if entry.span.place != span.place || entry.span.start != span.end() {
                break;
            }
            span.len += entry.span.len;
            count += 1;
        }
    }
    (span, count)
}

impl Requests<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reads a span ahead except [`Requests::left_out`]. Returns the number of pages asked for.
    fn read(&mut self, fd: BorrowedFd<'_>, span: &Span, limit: u64) -> Result<u64, Skipped> {
        // One readahead(2) call reads at most `limit` bytes and silently drops the rest.
        let chunk = limit / PAGE_SIZE;
        if chunk == 0 {
            return Err(Skipped::ReadaheadOff);
        }
        let mut done = 0;
        for part in without(*span, self.left_out) {
            let mut start = part.start;
            while start < part.end() && !self.is_stopped() {
                let len = chunk.min(part.end() - start);
                readahead(fd, start * PAGE_SIZE, len * PAGE_SIZE).map_err(|_| Skipped::Refused)?;
                self.calls += 1;
                self.first.get_or_insert_with(Instant::now);
                start += len;
                done += len;
            }
        }
        Ok(done)
    }
}

/// `span` without the pages of `hole`.
fn without(span: Span, hole: Option<Span>) -> impl Iterator<Item = Span> {
    let (from, to) = match hole {
        Some(hole) if hole.place == span.place => (
            hole.start.clamp(span.start, span.end()),
            hole.end().clamp(span.start, span.end()),
        ),
        _ => (span.end(), span.end()),
    };
    let part = move |start: u64, end: u64| Span {
        start,
        len: end - start,
        ..span
    };
    [part(span.start, from), part(to, span.end())]
        .into_iter()
        .filter(|part| part.len > 0)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::drive::MemoryLimits;
    use crate::profile::generate::sample;

    const ENTRIES: u64 = 4;

    /// Pages of each entry: so large that [`Headroom`] looks at memory after each.
    const ENTRY_PAGES: u64 = (8 << 20) / PAGE_SIZE;

    fn memory(available: u64) -> Memory {
        Memory {
            available: Some(available),
            pressure: None,
        }
    }

    /// Reads a schedule of metadata entries ahead; a small ordinary file stands for the block device.
    fn read_metadata(stop: bool, look: impl FnMut() -> Memory) -> (ScheduleEnd, PrefetchReport) {
        let directory = tempfile::tempdir().unwrap();
        let node = directory.path().join("node");
        std::fs::write(&node, [0; 4096]).unwrap();
        let device = OpenDevice {
            dev: 0,
            mount: File::open(directory.path()).unwrap().into(),
            node: Some(File::open(&node).unwrap().into()),
            readahead_limit: 1 << 20,
        };
        let mut profile = sample("/usr/bin/app");
        profile.entries = (0..ENTRIES)
            .map(|index| PrefetchEntry {
                span: Span {
                    place: Place::Metadata { device: 0 },
                    start: index * 2 * ENTRY_PAGES,
                    len: ENTRY_PAGES,
                },
                time_us: 0,
            })
            .collect();
        let bytes = ENTRIES * ENTRY_PAGES * PAGE_SIZE;
        let mut reader = ScheduleReader {
            devices: &[Some(device)],
            files: Files::new(&profile),
            requests: Requests {
                left_out: None,
                stop: &AtomicBool::new(stop),
                calls: 0,
                first: None,
            },
            headroom: Headroom::new(bytes, MemoryLimits::default(), look).unwrap(),
            report: PrefetchReport::default(),
        };
        let end = reader.read(&profile);
        (end, reader.report)
    }

    #[test]
    fn a_schedule_that_is_read_to_its_end_is_complete() {
        let (end, report) = read_metadata(false, || memory(1 << 40));
        assert_eq!(end, ScheduleEnd::Complete);
        assert_eq!(report.metadata.entries, ENTRIES);
        assert_eq!(report.metadata.pages, ENTRIES * ENTRY_PAGES);
    }

    #[test]
    fn a_stopped_schedule_reads_nothing_more() {
        let (end, report) = read_metadata(true, || memory(1 << 40));
        assert_eq!(end, ScheduleEnd::Stopped);
        assert_eq!(report, PrefetchReport::default());
    }

    #[test]
    fn a_schedule_ends_when_memory_becomes_short() {
        let mut looks = 0;
        let look = || {
            looks += 1;
            memory(if looks < 3 { 1 << 40 } else { 0 })
        };
        let (end, report) = read_metadata(false, look);
        assert!(matches!(end, ScheduleEnd::MemoryShort(_)), "{end:?}");
        assert_eq!(report.metadata.entries, 2);
    }

    #[test]
    fn adjacent_metadata_entries_are_one_request() {
        let entry = |place, start| PrefetchEntry {
            span: Span {
                place,
                start,
                len: 2,
            },
            time_us: 0,
        };
        let metadata = Place::Metadata { device: 0 };
        let other = Place::Metadata { device: 1 };
        let data = Place::Data { file: 0 };
        let entries = [entry(metadata, 4), entry(metadata, 6), entry(other, 8)];
        let (merged, count) = request(&entries);
        assert_eq!((merged.start, merged.len, count), (4, 4, 2));
        assert_eq!(request(&entries[1..]).1, 1, "another device");
        assert_eq!(
            request(&[entry(metadata, 4), entry(metadata, 7)]).1,
            1,
            "a hole"
        );
        assert_eq!(request(&[entry(data, 4), entry(data, 6)]).1, 1, "data");
    }

    fn span(start: u64, len: u64) -> Span {
        Span {
            place: Place::Data { file: 0 },
            start,
            len,
        }
    }

    #[test]
    fn a_request_leaves_out_the_given_span() {
        let cut = |hole| without(span(10, 5), hole).collect::<Vec<_>>();
        assert_eq!(cut(None), [span(10, 5)]);
        assert_eq!(cut(Some(span(12, 1))), [span(10, 2), span(13, 2)]);
        assert_eq!(cut(Some(span(10, 1))), [span(11, 4)]);
        assert_eq!(cut(Some(span(14, 9))), [span(10, 4)]);
        assert_eq!(cut(Some(span(2, 3))), [span(10, 5)]);
        assert_eq!(cut(Some(span(0, 99))), []);
        let elsewhere = Span {
            place: Place::Data { file: 1 },
            ..span(12, 1)
        };
        assert_eq!(cut(Some(elsewhere)), [span(10, 5)]);
    }
}
