//! The page of a launch sequence that launches are timed by.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use crate::model::ranges::RangeSet;
use crate::model::{Access, By, Device, File, LogEntry, Place, Profile, Source, Span};

/// Pages that the kernel's default readahead may read before or after the one that was asked for: 128 KiB.
const READAHEAD_PAGES: u64 = 32;

/// A page by which the app was timed so far stays in use if the launch uses it after at least this share, in percent, of
/// the time to the page that would be found now: times before and after can be compared then.
const LATE_PERCENT: u64 = 90;

/// The page by which the completion block (paper §4.2) is known in later launches: the last page of file
/// data in the launch, which ended after `duration`, that no earlier read was near. The end of a long read counts as
/// such a page: its beginning is far from it.
///
/// Every launch must read it last. With the default readahead, a page near an earlier read arrives with
/// that read, long before it is touched.
///
/// `None` if the launch went on for longer than it took to that page, or until `data_until` read documents, which are
/// not in the log: by that page, launches would be timed as far too short.
pub fn completion_page(log: &[LogEntry], duration: Duration, data_until: Duration) -> Option<Span> {
    let mut read: HashMap<u32, RangeSet> = HashMap::new();
    let mut last = None;
    for (index, entry) in log.iter().enumerate() {
        let Place::Data { file } = entry.span.place else {
            continue;
        };
        if u128::from(entry.time_us) > duration.as_micros() {
            break;
        }
        let Range { start, end } = entry.span.pages();
        let read = read.entry(file).or_default();
        let is_long = end - start > READAHEAD_PAGES;
        let page = if is_long { end - 1 } else { start };
        let from = if is_long { page } else { start };
        let near = from.saturating_sub(READAHEAD_PAGES)..end + READAHEAD_PAGES;
        if read.overlapping(&near).next().is_none() {
            // Entries have the time of their beginning.
            let used = match log.get(index + 1) {
                Some(next) if is_long => Duration::from_micros(next.time_us),
                None if is_long => duration,
                _ => Duration::from_micros(entry.time_us),
            };
            last = Some((page, entry.span.place, used));
        }
        read.insert(start..end);
    }
    let (page, place, used) = last?;
    (used >= duration / 2 && used >= data_until).then(|| Span::new(place, page..page + 1))
}

/// When the launch first used this page of a file, CLOCK_MONOTONIC in nanoseconds, as the kernel sees it in later launches:
/// by its being read, faulted on or mapped, and not by being brought into the cache. `None` if it was not used.
pub fn first_use(
    accesses: &[Access],
    devices: &[Device],
    files: &[File],
    page: Span,
) -> Option<u64> {
    let Place::Data { file } = page.place else {
        return None;
    };
    let file = files.get(file as usize)?;
    let dev = devices.get(usize::from(file.device))?.dev;
    let is_use = |access: &&Access| {
        access.by == By::Tree
            && access.source != Source::Added
            && (access.dev, access.ino) == (dev, file.ino)
            && (access.start..access.start.saturating_add(access.len)).contains(&page.start)
    };
    accesses.iter().find(is_use).map(|access| access.time_ns)
}

/// The completion page of an earlier profile, in the tables of another one; `None` if it has none, or its file is not there.
pub fn in_tables(earlier: &Profile, devices: &[Device], files: &[File]) -> Option<Span> {
    let span = earlier.completion?;
    let Place::Data { file } = span.place else {
        return None;
    };
    let known = earlier.files.get(file as usize)?;
    let uuid = earlier.devices.get(usize::from(known.device))?.fs_uuid;
    let is_same = |file: &File| {
        let device = devices.get(usize::from(file.device));
        (file.ino, file.generation) == (known.ino, known.generation)
            && device.is_some_and(|device| device.fs_uuid == uuid)
    };
    let file = u32::try_from(files.iter().position(is_same)?).ok()?;
    let place = Place::Data { file };
    Some(Span { place, ..span })
}

/// Which of two pages launches are timed by from now on: the one that they were timed by so far, if it was used late
/// enough in this launch, or the one that was found in it. Times are since execve, of the first use.
pub fn choose(earlier: Option<(Span, Duration)>, found: Option<(Span, Duration)>) -> Option<Span> {
    let is_late = |used: Duration| {
        found.is_none_or(|(_, until)| {
            used.as_nanos() * 100 >= until.as_nanos() * u128::from(LATE_PERCENT)
        })
    };
    let earlier = earlier.filter(|&(_, used)| is_late(used));
    earlier.or(found).map(|(span, _)| span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_used_by_the_launch_tree_and_not_by_being_brought_into_the_cache() {
        let profile = crate::profile::generate::sample("/opt/app");
        let file = &profile.files[0];
        let dev = profile.devices[usize::from(file.device)].dev;
        let page = Span::new(Place::Data { file: 0 }, 7..8);
        let access = |time_ns, source, by, start, len| Access {
            time_ns,
            dev,
            ino: file.ino,
            generation: file.generation,
            start,
            len,
            source,
            by,
        };
        let accesses = [
            access(10, Source::Added, By::Tree, 0, 32),
            access(20, Source::Read, By::Helper, 0, 32),
            access(30, Source::Window, By::Tree, 8, 16),
            access(40, Source::Fault, By::Tree, 7, 1),
            access(50, Source::Read, By::Tree, 0, 32),
        ];
        let used = |accesses| first_use(accesses, &profile.devices, &profile.files, page);
        assert_eq!(used(&accesses[..]), Some(40));
        assert_eq!(used(&accesses[..3]), None);
        let mut other = access(40, Source::Fault, By::Tree, 7, 1);
        other.dev += 1;
        assert_eq!(used(&[other]), None);
    }

    #[test]
    fn the_page_that_launches_were_timed_by_stays_while_it_is_late_enough() {
        let page = |start: u64, ms| {
            (
                Span::new(Place::Data { file: 0 }, start..start + 1),
                Duration::from_millis(ms),
            )
        };
        let (before, found) = (page(1, 90), page(2, 100));
        assert_eq!(choose(Some(before), Some(found)), Some(before.0));
        assert_eq!(choose(Some(page(1, 89)), Some(found)), Some(found.0));
        assert_eq!(choose(None, Some(found)), Some(found.0));
        assert_eq!(choose(Some(before), None), Some(before.0));
        assert_eq!(choose(None, None), None);
    }

    #[test]
    fn an_earlier_page_is_found_in_other_tables_by_its_file() {
        let mut earlier = crate::profile::generate::sample("/opt/app");
        earlier.completion = Some(Span::new(Place::Data { file: 0 }, 7..8));
        let known = earlier.files[0].clone();
        let another = File {
            generation: known.generation + 1,
            ..known.clone()
        };
        let found = |files: &[File]| in_tables(&earlier, &earlier.devices, files);
        let expected = Span::new(Place::Data { file: 1 }, 7..8);
        assert_eq!(found(&[another.clone(), known]), Some(expected));
        assert_eq!(found(&[another]), None);
    }

    /// The file and page by which a launch is timed that makes these reads a microsecond apart (file, first
    /// page, number of pages), and ends after so many microseconds. It reads documents until `data_until_us`.
    fn completion_with_data(
        reads: &[(u32, u64, u64)],
        duration_us: u64,
        data_until_us: u64,
    ) -> Option<(u32, u64)> {
        let entry = |(time_us, &(file, start, len)): (u64, &(u32, u64, u64))| LogEntry {
            span: Span::new(Place::Data { file }, start..start + len),
            device: 0,
            lba: 0,
            time_us,
        };
        let log: Vec<LogEntry> = (0..).zip(reads).map(entry).collect();
        let (duration, data_until) = (
            Duration::from_micros(duration_us),
            Duration::from_micros(data_until_us),
        );
        let span = completion_page(&log, duration, data_until)?;
        assert_eq!(span.len, 1);
        match span.place {
            Place::Data { file } => Some((file, span.start)),
            Place::Metadata { .. } => None,
        }
    }

    fn completion(reads: &[(u32, u64, u64)], duration_us: u64) -> Option<(u32, u64)> {
        completion_with_data(reads, duration_us, 0)
    }

    #[test]
    fn the_completion_page_is_the_last_read_of_the_launch_that_no_earlier_one_was_near() {
        let reads = [(1, 0, 9), (2, 7, 5), (3, 0, 1)];
        assert_eq!(completion(&reads, 2), Some((3, 0)));
        assert_eq!(
            completion(&reads, 1),
            Some((2, 7)),
            "later reads are skipped"
        );
        assert_eq!(completion(&[], 2), None);
        let found = |last| completion(&[(0, 0, 1), (1, 100, 1), last], 2);
        for near in [(1, 101, 1), (1, 130, 2), (1, 69, 1), (1, 40, 35)] {
            assert_eq!(found(near), Some((1, 100)), "{near:?}");
        }
        for far in [(1, 133, 1), (1, 60, 2)] {
            assert_eq!(found(far), Some((1, far.1)), "{far:?}");
        }
    }

    #[test]
    fn a_page_times_a_launch_from_the_middle_of_it_on() {
        // Its second read comes after 1 µs.
        let reads = [(1, 0, 1), (2, 0, 1)];
        assert_eq!(completion(&reads, 2), Some((2, 0)), "half of the launch");
        assert_eq!(completion(&reads, 3), None, "a third");
    }

    #[test]
    fn the_end_of_a_long_read_times_a_launch_and_an_early_page_does_not() {
        // A film of 2000 pages is read last, in one piece or around another read.
        assert_eq!(completion(&[(1, 0, 1), (2, 0, 2000)], 600), Some((2, 1999)));
        let around = [(1, 0, 1), (2, 0, 900), (3, 0, 1), (2, 900, 1100)];
        assert_eq!(completion(&around, 600), Some((2, 1999)));
        // It is not in the log, since it is no part of the app.
        assert_eq!(completion(&[(1, 0, 1), (3, 0, 1)], 600), None);
        let with_film = |until| completion_with_data(&[(1, 0, 1), (3, 0, 1)], 2, until);
        assert_eq!((with_film(1), with_film(2)), (Some((3, 0)), None));
        // A long read at the beginning.
        assert_eq!(completion(&[(2, 0, 2000), (1, 0, 1)], 600), None);
        assert_eq!(completion(&[(2, 0, 2000), (1, 0, 1)], 2), Some((1, 0)));
    }
}
