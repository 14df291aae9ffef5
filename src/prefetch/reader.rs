//! Walking the schedule.

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

/// A walk over a schedule, under way.
pub struct ScheduleReader<'a, L> {
    /// The profile's devices, where they can be used.
    pub devices: &'a [Option<OpenDevice>],
    /// The profile's files.
    pub files: Files<'a>,
    /// How requests are made.
    pub requests: Requests<'a>,
    /// Whether there is memory for the rest.
    pub headroom: Headroom<L>,
    /// What was done.
    pub report: PrefetchReport,
}

/// Makes the requests.
pub struct Requests<'a> {
    /// Pages that are not to be read.
    pub left_out: Option<Span>,
    /// Set by others to end the walk.
    pub stop: &'a AtomicBool,
    /// readahead(2) calls made.
    pub calls: u64,
    /// When the first of them was made.
    pub first: Option<Instant>,
}

/// What came of an entry.
enum ReadResult {
    /// Read ahead: so many pages.
    Done(u64),
    /// So many pages read ahead, and so many that the file does not have any more.
    Cut { done: u64, missing: u64 },
}

impl<L: FnMut() -> Memory> ScheduleReader<'_, L> {
    /// Reads the schedule ahead, in order, until it ends, `stop` is set or memory becomes short.
    pub fn read(&mut self, profile: &Profile) {
        let entries = &profile.entries;
        let mut next = 0;
        while next < entries.len() {
            if self.stopped() {
                return;
            }
            let first = next;
            let mut span = entries[first].span;
            next += 1;
            // Metadata entries that scheduling has brought side by side are one request.
            if span.place.is_metadata() {
                let follows = |entry: &&PrefetchEntry, span: &Span| {
                    entry.span.place == span.place && entry.span.start == span.end()
                };
                while let Some(entry) = entries.get(next).filter(|entry| follows(entry, &span)) {
                    span.len += entry.span.len;
                    next += 1;
                }
            }
            let outcome = self.entry(&span);
            self.count(&span, (next - first) as u64, outcome);
            if let Place::Data { file } = span.place {
                self.files.done(file, first);
            }
            if let Some(why) = self.headroom.read(span.bytes()) {
                self.report.ran_short = Some(why);
                return;
            }
        }
    }

    fn stopped(&mut self) -> bool {
        let stopped = self.requests.stop.load(Ordering::Relaxed);
        self.report.cut_short |= stopped;
        stopped
    }

    fn count(&mut self, span: &Span, entries: u64, outcome: Result<ReadResult, Skipped>) {
        let (done, missing, reason) = match outcome {
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

impl Requests<'_> {
    /// Reads a span ahead but for the pages left out. Returns the number of pages asked for.
    fn read(&mut self, fd: BorrowedFd<'_>, span: &Span, limit: u64) -> Result<u64, Skipped> {
        // One readahead(2) call reads `limit` bytes at the most and silently drops the rest.
        let chunk = limit / PAGE_SIZE;
        if chunk == 0 {
            return Err(Skipped::ReadaheadOff);
        }
        let mut done = 0;
        for part in without(*span, self.left_out) {
            let mut start = part.start;
            while start < part.end() && !self.stop.load(Ordering::Relaxed) {
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
    use super::*;

    fn span(start: u64, len: u64) -> Span {
        Span {
            place: Place::Data { file: 0 },
            start,
            len,
        }
    }

    #[test]
    fn the_left_out_block_is_cut_out() {
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
