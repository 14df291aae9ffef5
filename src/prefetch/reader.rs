//! Walking the schedule.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::devices::OpenDevice;
use super::files::Files;
use super::report::{Report, Skipped};
use super::sys::readahead;
use crate::profile::Profile;
use crate::schedule::{PAGE_SIZE, Place, PrefetchEntry, Span};

/// Reads the schedule ahead, in order, until it ends or `stop` is set.
pub fn read_schedule(
    profile: &Profile,
    devices: &[Option<OpenDevice>],
    files: &mut Files<'_>,
    left_out: Option<Span>,
    stop: &AtomicBool,
    started: Instant,
    report: &mut Report,
) {
    let entries = &profile.entries;
    let mut next = 0;
    while next < entries.len() {
        if stop.load(Ordering::Relaxed) {
            report.cut_short = true;
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
        for part in without(span, left_out) {
            let result = match part.place {
                Place::Metadata { device } => {
                    read_metadata(&part, devices[usize::from(device)].as_ref(), report)
                }
                Place::Data { file } => {
                    let device = devices[files.device(file)].as_ref();
                    read_data(&part, file, device, files, report)
                }
            };
            let count = match (result, part.place) {
                (Ok(()), Place::Metadata { .. }) => &mut report.metadata,
                (Ok(()), Place::Data { .. }) => &mut report.data,
                (Err(reason), _) => report.skipped.entry(reason).or_default(),
            };
            count.add(part.len);
            if report.calls > 0 && report.until_first.is_none() {
                report.until_first = Some(started.elapsed());
            }
        }
        if let Place::Data { file } = span.place {
            files.done(file, first);
        }
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

fn read_metadata(
    span: &Span,
    device: Option<&OpenDevice>,
    report: &mut Report,
) -> Result<(), Skipped> {
    let device = device.ok_or(Skipped::DeviceGone)?;
    let node = device.node.as_ref().ok_or(Skipped::NoNode)?;
    read_chunks(node.as_fd(), span, device.readahead_limit, report)
}

fn read_data(
    span: &Span,
    file: u32,
    device: Option<&OpenDevice>,
    files: &mut Files<'_>,
    report: &mut Report,
) -> Result<(), Skipped> {
    let device = device.ok_or(Skipped::DeviceGone)?;
    let (fd, pages) = files.get(file, device)?;
    if span.start >= pages {
        return Err(Skipped::Truncated);
    }
    let inside = Span {
        len: span.len.min(pages - span.start),
        ..*span
    };
    if inside.len < span.len {
        let cut = report.skipped.entry(Skipped::Truncated).or_default();
        cut.add(span.len - inside.len);
    }
    read_chunks(fd, &inside, device.readahead_limit, report)
}

/// One readahead(2) call reads `limit` bytes at the most and silently drops the rest.
fn read_chunks(
    fd: BorrowedFd<'_>,
    span: &Span,
    limit: u64,
    report: &mut Report,
) -> Result<(), Skipped> {
    let chunk = limit / PAGE_SIZE * PAGE_SIZE;
    if chunk == 0 {
        return Err(Skipped::ReadaheadOff);
    }
    let end = span.end() * PAGE_SIZE;
    let mut offset = span.start * PAGE_SIZE;
    while offset < end {
        let len = chunk.min(end - offset);
        readahead(fd, offset, len).map_err(|_| Skipped::Refused)?;
        report.calls += 1;
        offset += len;
    }
    Ok(())
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
