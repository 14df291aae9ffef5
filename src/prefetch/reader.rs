//! Reading a schedule ahead, entry by entry.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::devices::OpenDevice;
use super::files::Files;
use super::sys::{is_cached, readahead, wait_for};
use crate::model::{PAGE_SIZE, Place, PrefetchEntry, PrefetchReport, Profile, Skipped, Span};

/// Reads a schedule ahead in its order, by one thread or several, of which each takes the next request.
pub struct ScheduleReader<'a, R> {
    /// The entries to read.
    pub entries: &'a [PrefetchEntry],
    /// The profile's devices; or why what is on them is skipped.
    pub devices: &'a [Result<OpenDevice, Skipped>],
    /// The profile's files.
    pub files: Files<'a>,
    /// Makes the requests and counts them.
    pub requests: Requests<'a>,
    /// How far all threads are together.
    progress: Mutex<ReadProgress<R>>,
}

/// How far a schedule has been read.
struct ReadProgress<R> {
    /// The entry that no thread has taken yet.
    next: usize,
    /// Told how many bytes of the schedule were read, says why the rest is not to be.
    room: R,
    /// What was read ahead and what was skipped, so far.
    report: PrefetchReport,
    /// Why no more is read, if that is so before all was.
    cut_short: Option<ScheduleEnd>,
}

/// Makes the readahead(2) calls.
pub struct Requests<'a> {
    /// Pages that are not to be read.
    pub left_out: Option<Span>,
    /// Whether each request waits for the one before, so that a launch that begins finds one request of ours in the
    /// drive at most; and whether what is cached is not asked for.
    pub one_by_one: bool,
    /// Set by another thread to end the prefetch.
    pub stop: &'a AtomicBool,
    /// readahead(2) calls made.
    pub calls: AtomicU64,
    /// When the first call was made.
    pub first: OnceLock<Instant>,
}

/// Why reading a schedule ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum ScheduleEnd {
    /// Every entry was read ahead or skipped.
    Complete,
    /// [`Requests::stop`] was set before that.
    Stopped,
    /// Memory became short before that, for this reason.
    MemoryShort(String),
    /// Others use drives, and no launch waits for the schedule.
    Disturbed(String),
    /// Another program has to be asked before each file is opened, and answers after so long.
    OpensDelayed(Duration),
}

/// How many pages were asked for, and how many are missing because the file has become shorter; or why none were asked for.
type ReadPages = Result<(u64, u64), Skipped>;

/// A request that a thread has taken.
struct TakenRequest {
    span: Span,
    /// The first entry that it covers, and how many it does.
    first: usize,
    entries: usize,
}

impl<'a, R: FnMut(u64) -> Option<ScheduleEnd>> ScheduleReader<'a, R> {
    /// Before the first request.
    pub fn new(
        profile: &'a Profile,
        devices: &'a [Result<OpenDevice, Skipped>],
        requests: Requests<'a>,
        room: R,
    ) -> Self {
        ScheduleReader {
            entries: &profile.entries,
            devices,
            files: Files::new(profile, devices),
            requests,
            progress: Mutex::new(ReadProgress {
                next: 0,
                room,
                report: PrefetchReport::default(),
                cut_short: None,
            }),
        }
    }

    /// Reads the schedule ahead until it ends, `stop` is set or there is no room any more. Each thread that calls it takes a
    /// part of the requests.
    pub fn read(&self) {
        let mut done = None;
        while let Some(request) = self.next(done) {
            let result = self.entry(&request.span);
            if let Place::Data { file } = request.span.place {
                self.files.done(file, request.first);
            }
            done = Some((request, result));
        }
    }

    /// How the reading has ended, or stands. What threads that have not come back were reading is not counted.
    pub fn end(&self) -> (ScheduleEnd, PrefetchReport) {
        let progress = self.progress();
        let cut_short = progress.cut_short.clone();
        let end = cut_short.unwrap_or(ScheduleEnd::Complete);
        (end, progress.report.clone())
    }

    /// Whether no more is to be read, although not all was.
    pub fn is_cut_short(&self) -> bool {
        self.requests.is_stopped() || self.progress().cut_short.is_some()
    }

    /// Has all threads end after the request that they are making.
    pub fn give_up(&self) {
        self.progress().next = self.entries.len();
    }

    /// How many entries the threads have taken.
    pub fn taken(&self) -> usize {
        self.progress().next
    }

    fn progress(&self) -> MutexGuard<'_, ReadProgress<R>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what a thread has done, and takes the next request for it.
    fn next(&self, done: Option<(TakenRequest, ReadPages)>) -> Option<TakenRequest> {
        let mut progress = self.progress();
        if let Some((request, result)) = done {
            count(&mut progress.report, &request, result);
            if let Some(end) = (progress.room)(request.span.bytes()) {
                progress.cut_short.get_or_insert(end);
            }
        }
        if progress.cut_short.is_some() || progress.next == self.entries.len() {
            return None;
        }
        let cut_short = if self.requests.is_stopped() {
            Some(ScheduleEnd::Stopped)
        } else {
            self.files.delay().map(ScheduleEnd::OpensDelayed)
        };
        if cut_short.is_some() {
            progress.cut_short = cut_short;
            return None;
        }
        let first = progress.next;
        let (span, entries) = request(&self.entries[first..]);
        progress.next += entries;
        Some(TakenRequest {
            span,
            first,
            entries,
        })
    }

    /// Reads a span ahead.
    fn entry(&self, span: &Span) -> ReadPages {
        let device = match span.place {
            Place::Metadata { device } => usize::from(device),
            Place::Data { file } => self.files.device(file),
        };
        let device = self.devices[device].as_ref().map_err(|reason| *reason)?;
        let file;
        let (fd, end) = match span.place {
            Place::Metadata { .. } => {
                let node = device.node.as_ref().ok_or(Skipped::NoNode)?;
                (node.as_fd(), span.end())
            }
            Place::Data { file: number } => {
                file = self.files.get(number, device);
                file.opened()?
            }
        };
        if span.start >= end {
            return Err(Skipped::Truncated);
        }
        let inside = Span {
            len: span.len.min(end - span.start),
            ..*span
        };
        let done = self.requests.read(fd, &inside, device.readahead_limit)?;
        Ok((done, span.len - inside.len))
    }
}

/// Takes the result of [`ScheduleReader::entry`] into the report.
fn count(report: &mut PrefetchReport, request: &TakenRequest, result: ReadPages) {
    let (span, entries) = (request.span, request.entries as u64);
    let (done, missing, reason) = match result {
        Ok((done, 0)) => (done, 0, None),
        Ok((done, missing)) => (done, missing, Some(Skipped::Truncated)),
        Err(reason) => (0, span.len, Some(reason)),
    };
    let read = if span.place.is_metadata() {
        &mut report.metadata
    } else {
        &mut report.data
    };
    read.pages += done;
    let Some(reason) = reason else {
        read.entries += entries;
        return;
    };
    let skipped = report.skipped.entry(reason).or_default();
    skipped.entries += entries;
    skipped.pages += missing;
    let missed = Span {
        start: span.end() - missing,
        len: missing,
        ..span
    };
    report.skipped_spans.push((missed, reason));
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

impl<'a> Requests<'a> {
    /// None yet.
    pub fn new(left_out: Option<Span>, stop: &'a AtomicBool) -> Self {
        Requests {
            left_out,
            one_by_one: false,
            stop,
            calls: AtomicU64::new(0),
            first: OnceLock::new(),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reads a span ahead except [`Requests::left_out`]. Returns the number of pages asked for.
    fn read(&self, fd: BorrowedFd<'_>, span: &Span, limit: u64) -> Result<u64, Skipped> {
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
                self.request(fd, start * PAGE_SIZE, len * PAGE_SIZE)
                    .map_err(|_| Skipped::Refused)?;
                start += len;
                done += len;
            }
        }
        Ok(done)
    }

    /// Makes one request, unless it is one of those that are made one by one and its pages are cached.
    fn request(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
        // Before Linux 6.5 nobody knows; then the request reads nothing, and nothing is waited for.
        if self.one_by_one && is_cached(fd, offset, len).unwrap_or(false) {
            return Ok(());
        }
        readahead(fd, offset, len)?;
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.first.get_or_init(Instant::now);
        match self.one_by_one {
            true => wait_for(fd, offset + len - PAGE_SIZE),
            false => Ok(()),
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::super::headroom::Headroom;
    use super::*;
    use crate::drive::{Memory, MemoryLimits};
    use crate::fs::mounts::MountTable;
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

    /// The device of a file system that is always mounted.
    fn proc_dev() -> u64 {
        rustix::fs::stat("/proc").unwrap().st_dev
    }

    /// Reads a schedule of metadata entries ahead; a small ordinary file stands for the block device.
    fn read_metadata(stop: bool, look: impl FnMut() -> Memory) -> (ScheduleEnd, PrefetchReport) {
        let bytes = ENTRIES * ENTRY_PAGES * PAGE_SIZE;
        let mut headroom = Headroom::new(bytes, MemoryLimits::default(), look).unwrap();
        let room = |bytes| headroom.read(bytes).map(ScheduleEnd::MemoryShort);
        let (end, report, _) = read_in(stop, false, room);
        (end, report)
    }

    /// Reads entries as [`read_metadata`] in this room, perhaps one request by one; returns how many calls were made, too.
    fn read_in(
        stop: bool,
        one_by_one: bool,
        room: impl FnMut(u64) -> Option<ScheduleEnd>,
    ) -> (ScheduleEnd, PrefetchReport, u64) {
        let directory = tempfile::tempdir().unwrap();
        let node = directory.path().join("node");
        std::fs::write(&node, [0; 4096]).unwrap();
        let device = OpenDevice {
            dev: 0,
            below: 0,
            mount: MountTable::read().unwrap().open_root(proc_dev()).unwrap(),
            node: Some(File::open(&node).unwrap().into()),
            image: None,
            is_outdated: false,
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
        let stop = AtomicBool::new(stop);
        let devices = [Ok(device)];
        let requests = Requests {
            one_by_one,
            ..Requests::new(None, &stop)
        };
        let reader = ScheduleReader::new(&profile, &devices, requests, room);
        reader.read();
        let calls = reader.requests.calls.load(Ordering::Relaxed);
        let (end, report) = reader.end();
        (end, report, calls)
    }

    #[test]
    fn what_is_read_one_by_one_is_asked_for_until_the_room_ends() {
        let mut left = 2;
        let room = |_| {
            left -= 1;
            (left == 0).then(|| ScheduleEnd::Disturbed("others".to_owned()))
        };
        let (end, report, calls) = read_in(false, true, room);
        assert_eq!(end, ScheduleEnd::Disturbed("others".to_owned()));
        assert_eq!(report.metadata.entries, 2);
        // 1 MiB a call.
        assert_eq!(calls, (2 * ENTRY_PAGES * PAGE_SIZE) >> 20);
    }

    #[test]
    fn a_schedule_is_read_until_its_end_a_stop_or_a_shortage_of_memory() {
        let (end, report) = read_metadata(false, || memory(1 << 40));
        assert_eq!(end, ScheduleEnd::Complete);
        assert_eq!(report.metadata.entries, ENTRIES);
        assert_eq!(report.metadata.pages, ENTRIES * ENTRY_PAGES);

        let (end, report) = read_metadata(true, || memory(1 << 40));
        assert_eq!(end, ScheduleEnd::Stopped);
        assert_eq!(report, PrefetchReport::default());

        let mut looks = 0;
        let look = || {
            looks += 1;
            memory(if looks < 3 { 1 << 40 } else { 0 })
        };
        let (end, report) = read_metadata(false, look);
        assert!(matches!(end, ScheduleEnd::MemoryShort(_)), "{end:?}");
        assert_eq!(report.metadata.entries, 2);
    }

    const DATA: Place = Place::Data { file: 0 };

    fn span(place: Place, start: u64, len: u64) -> Span {
        Span { place, start, len }
    }

    #[test]
    fn adjacent_metadata_entries_are_one_request() {
        let [metadata, other] = [0, 1].map(|device| Place::Metadata { device });
        // The place and first page of two entries of two pages each.
        for (first, second, count) in [
            ((metadata, 4), (metadata, 6), 2),
            ((metadata, 4), (metadata, 7), 1),
            ((metadata, 6), (other, 8), 1),
            ((DATA, 4), (DATA, 6), 1),
        ] {
            let entries = [first, second].map(|(place, start)| PrefetchEntry {
                span: span(place, start, 2),
                time_us: 0,
            });
            let expected = span(first.0, first.1, 2 * count as u64);
            assert_eq!(request(&entries), (expected, count));
        }
    }

    #[test]
    fn a_request_leaves_out_the_given_span() {
        let elsewhere = Place::Data { file: 1 };
        for (hole, parts) in [
            (None, &[(10, 5)][..]),
            (Some(span(DATA, 12, 1)), &[(10, 2), (13, 2)]),
            (Some(span(DATA, 10, 1)), &[(11, 4)]),
            (Some(span(DATA, 14, 9)), &[(10, 4)]),
            (Some(span(DATA, 2, 3)), &[(10, 5)]),
            (Some(span(DATA, 0, 99)), &[]),
            (Some(span(elsewhere, 12, 1)), &[(10, 5)]),
        ] {
            let found = without(span(DATA, 10, 5), hole).map(|part| (part.start, part.len));
            assert_eq!(found.collect::<Vec<_>>(), parts, "{hole:?}");
        }
    }
}
