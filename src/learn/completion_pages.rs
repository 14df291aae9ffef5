//! The pages of a launch sequence that launches are timed by.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use crate::model::ranges::RangeSet;
use crate::model::{
    Access, By, Device, File, InodeId, LogEntry, MOST_COMPLETION_PAGES, Place, Profile, Source,
    Span, pages_to_complete,
};

/// Pages that the kernel's default readahead may read before or after the one that was asked for: 128 KiB.
const READAHEAD_PAGES: u64 = 32;

/// How late a page is, in percent of the time of another one, to time launches beside it.
const LATE_PERCENT: u128 = 90;

/// The part of its pages by whose use a launch is complete, in percent. Browsers read on for seconds behind their windows, by
/// timers. Ten desktop apps had used so much after 0.7 to 1.3 of the time until their window, cold and prefetched alike.
const COMPLETE_PERCENT: u128 = 95;

/// When a launch that ended after `duration` had used most of the pages of its sequence.
pub fn used_most_after(log: &[LogEntry], duration: Duration) -> Duration {
    let in_time = log.iter().enumerate();
    let in_time = in_time.filter(|(_, entry)| began(entry) <= duration);
    let mut uses: Vec<(Duration, u64)> = in_time
        .map(|(index, entry)| (used(log, index, duration), entry.span.len))
        .collect();
    uses.sort_unstable();
    let all: u64 = uses.iter().map(|&(_, pages)| pages).sum();
    let mut so_far = 0;
    let most = uses.iter().find(|&&(_, pages)| {
        so_far += pages;
        u128::from(so_far) * 100 >= u128::from(all) * COMPLETE_PERCENT
    });
    most.map_or(duration, |&(used, _)| used)
}

fn began(entry: &LogEntry) -> Duration {
    Duration::from_micros(entry.time_us)
}

fn is_long(entry: &LogEntry) -> bool {
    entry.span.len > READAHEAD_PAGES
}

/// When the last page of an entry was used. Entries have the time of their beginning.
fn used(log: &[LogEntry], index: usize, duration: Duration) -> Duration {
    let entry = &log[index];
    match log.get(index + 1) {
        // The next read may come in the quiet that follows the launch.
        Some(next) if is_long(entry) => began(next).min(duration),
        None if is_long(entry) => duration,
        _ => began(entry),
    }
}

/// The pages by which the completion block (paper §4.2) is known in later launches, in the order of their use: each the last
/// page of a file in the launch, which was complete after `duration`, that no earlier read was near; those of the files that
/// were read last, about at the same time. The end of a long read counts as such a page: its beginning is far from it.
///
/// Every launch must read them last. With the default readahead, a page near an earlier read arrives with that read, long
/// before it is touched. Of what an app reads in the background, not each launch reads the same: pages that all learned
/// launches used, as `is_shared` says, come first.
///
/// Empty if the launch went on for longer than it took to the last of them, or until `data_until` read documents, which are
/// not in the log: by these pages, launches would be timed as far too short.
pub fn completion_pages(
    log: &[LogEntry],
    duration: Duration,
    data_until: Duration,
    is_shared: impl Fn(Span) -> bool,
) -> Vec<Span> {
    let all = far_pages(log, duration);
    let shared = all.iter().copied().filter(|&(page, _)| is_shared(page));
    let of_shared = latest(&shared.collect::<Vec<_>>(), duration, data_until);
    match of_shared.is_empty() {
        true => latest(&all, duration, data_until),
        false => of_shared,
    }
}

/// The pages that no earlier read was near, in the order of their use, with its time.
fn far_pages(log: &[LogEntry], duration: Duration) -> Vec<(Span, Duration)> {
    let mut read: HashMap<u32, RangeSet> = HashMap::new();
    let mut far = Vec::new();
    for (index, entry) in log.iter().enumerate() {
        let Place::Data { file } = entry.span.place else {
            continue;
        };
        if began(entry) > duration {
            break;
        }
        let Range { start, end } = entry.span.pages();
        let read = read.entry(file).or_default();
        let page = if is_long(entry) { end - 1 } else { start };
        let near = page.saturating_sub(READAHEAD_PAGES)..end + READAHEAD_PAGES;
        if read.overlapping(&near).next().is_none() {
            let page = Span::new(entry.span.place, page..page + 1);
            far.push((page, used(log, index, duration)));
        }
        read.insert(start..end);
    }
    far.sort_by_key(|&(_, used)| used);
    far
}

/// The last of these pages and those of other files that were used about as late.
fn latest(pages: &[(Span, Duration)], duration: Duration, data_until: Duration) -> Vec<Span> {
    let last = pages.last().map(|&(_, used)| used);
    let Some(last) = last.filter(|&used| used >= duration / 2 && used >= data_until) else {
        return Vec::new();
    };
    let mut places = HashSet::new();
    let late = pages.iter().rev().filter(|&&(_, used)| is_late(used, last));
    let of_files = late.filter(|(page, _)| places.insert(page.place));
    let mut found: Vec<Span> = of_files
        .take(MOST_COMPLETION_PAGES)
        .map(|&(page, _)| page)
        .collect();
    found.reverse();
    found
}

fn is_late(used: Duration, last: Duration) -> bool {
    used.as_nanos() * 100 >= last.as_nanos() * LATE_PERCENT
}

/// The pages of files that a launch tree used, as the kernel sees it in later launches: by their being read, faulted on or
/// mapped, and not by being brought into the cache.
#[derive(Debug, Default)]
pub struct UsedPages(HashMap<(u64, u64), RangeSet>);

impl UsedPages {
    /// The pages that a launch used.
    pub fn of(accesses: &[Access]) -> Self {
        let mut used = UsedPages::default();
        for access in accesses.iter().filter(|access| is_use(access)) {
            let pages = access.start..access.start.saturating_add(access.len);
            let file = used.0.entry((access.dev, access.ino)).or_default();
            file.insert(pages);
        }
        used
    }

    /// Whether this page is one of them.
    pub fn have(&self, file: InodeId, page: u64) -> bool {
        let used = self.0.get(&(file.dev, file.ino));
        used.is_some_and(|used| used.overlapping(&(page..page + 1)).next().is_some())
    }
}

fn is_use(access: &Access) -> bool {
    access.by == By::Tree && access.source != Source::Added
}

/// The file that a span lies in; `None` for metadata.
pub fn file_of(span: Span, devices: &[Device], files: &[File]) -> Option<InodeId> {
    let Place::Data { file } = span.place else {
        return None;
    };
    let file = files.get(file as usize)?;
    Some(file.inode(devices.get(usize::from(file.device))?.dev))
}

/// When the launch had used enough of these pages to be complete, CLOCK_MONOTONIC in nanoseconds. `None` if it had not.
pub fn completed_at(
    accesses: &[Access],
    devices: &[Device],
    files: &[File],
    pages: &[Span],
) -> Option<u64> {
    let first_use = |page: &Span| {
        let file = file_of(*page, devices, files)?;
        let is_first = |access: &&Access| {
            is_use(access)
                && (access.dev, access.ino) == (file.dev, file.ino)
                && (access.start..access.start.saturating_add(access.len)).contains(&page.start)
        };
        Some(accesses.iter().find(is_first)?.time_ns)
    };
    let mut uses: Vec<u64> = pages.iter().filter_map(first_use).collect();
    uses.sort_unstable();
    uses.get(pages_to_complete(pages.len()).checked_sub(1)?)
        .copied()
}

/// The completion pages of an earlier profile, in the tables of another one; `None` if it has none, or their files are not all
/// there.
pub fn in_tables(earlier: &Profile, devices: &[Device], files: &[File]) -> Option<Vec<Span>> {
    let here = |span: &Span| {
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
        Some(Span { place, ..*span })
    };
    let pages: Option<Vec<Span>> = earlier.completion.iter().map(here).collect();
    pages.filter(|pages| !pages.is_empty())
}

/// By which pages launches are timed from now on: by those that they were timed by so far, if they were used in this launch's
/// later half, or by those that were found in it. Times are since execve, of when the launch was complete by them.
///
/// Times by other pages cannot be compared with those so far, so that what is known of the gain is lost with the pages. A drive
/// or a processor that stalls between two of the last reads is no reason for that.
pub fn choose<Pages>(
    earlier: Option<(Pages, Duration)>,
    found: Option<(Pages, Duration)>,
) -> Option<Pages> {
    let until = found.as_ref().map(|&(_, until)| until);
    let earlier = earlier.filter(|&(_, used)| until.is_none_or(|until| used >= until / 2));
    earlier.or(found).map(|(pages, _)| pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_used_by_the_launch_tree_and_not_by_being_brought_into_the_cache() {
        let profile = crate::profile::generate::sample("/opt/app");
        let page = |start| Span::new(Place::Data { file: 0 }, start..start + 1);
        let file = file_of(page(7), &profile.devices, &profile.files).unwrap();
        let access = |time_ns, source, by, start, len| Access {
            time_ns,
            dev: file.dev,
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
        let complete = |accesses: &[Access], pages: &[Span]| {
            completed_at(accesses, &profile.devices, &profile.files, pages)
        };
        assert_eq!(complete(&accesses, &[page(7)]), Some(40));
        assert_eq!(complete(&accesses[..3], &[page(7)]), None);
        let mut other = access(40, Source::Fault, By::Tree, 7, 1);
        other.dev += 1;
        assert_eq!(complete(&[other], &[page(7)]), None);
        // Half of them, whichever come first.
        let four = [0, 7, 8, 99].map(page);
        assert_eq!(complete(&accesses, &four[..3]), Some(40));
        assert_eq!(complete(&accesses, &four), Some(40));
        assert_eq!(complete(&accesses[..3], &four), None);
        assert_eq!(complete(&accesses, &[]), None);
        let used = UsedPages::of(&accesses[..4]);
        assert_eq!(
            [6, 7, 8].map(|page| used.have(file, page)),
            [false, true, true]
        );
    }

    #[test]
    fn the_pages_that_launches_were_timed_by_stay_while_they_are_late_enough() {
        let timed = |pages, ms| Some((pages, Duration::from_millis(ms)));
        for (before, found, chosen) in [
            (timed('b', 50), timed('f', 100), Some('b')),
            (timed('b', 49), timed('f', 100), Some('f')),
            (None, timed('f', 100), Some('f')),
            (timed('b', 90), None, Some('b')),
            (None, None, None),
        ] {
            assert_eq!(choose(before, found), chosen);
        }
    }

    #[test]
    fn earlier_pages_are_found_in_other_tables_by_their_files() {
        let mut earlier = crate::profile::generate::sample("/opt/app");
        earlier.completion = vec![Span::new(Place::Data { file: 0 }, 7..8)];
        let known = earlier.files[0].clone();
        let another = File {
            generation: known.generation + 1,
            ..known.clone()
        };
        let found = |earlier: &Profile, files: &[File]| in_tables(earlier, &earlier.devices, files);
        let expected = vec![Span::new(Place::Data { file: 1 }, 7..8)];
        let files = [another.clone(), known];
        assert_eq!(found(&earlier, &files), Some(expected));
        assert_eq!(found(&earlier, &[another]), None);
        earlier.completion.clear();
        assert_eq!(found(&earlier, &files), None);
    }

    fn log(reads: &[(u32, u64, u64)]) -> Vec<LogEntry> {
        let entry = |(time_us, &(file, start, len)): (u64, &(u32, u64, u64))| LogEntry {
            span: Span::new(Place::Data { file }, start..start + len),
            device: 0,
            lba: 0,
            time_us,
        };
        (0..).zip(reads).map(entry).collect()
    }

    fn number(file: Span) -> u32 {
        match file.place {
            Place::Data { file } => file,
            Place::Metadata { .. } => u32::MAX,
        }
    }

    #[test]
    fn a_launch_is_timed_by_what_all_learned_launches_read_last_of_a_few_files() {
        // A hundred small files, a microsecond apart.
        let reads: Vec<_> = (0..100).map(|file| (file, 0, 1)).collect();
        let files = |is_shared: &dyn Fn(u32) -> bool| {
            let all = Duration::from_micros(99);
            let shared = |page| is_shared(number(page));
            let pages = completion_pages(&log(&reads), all, Duration::ZERO, shared);
            pages.into_iter().map(number).collect::<Vec<_>>()
        };
        assert_eq!(files(&|_| true), Vec::from_iter(92..100));
        assert_eq!(files(&|file| file % 4 == 0), [88, 92, 96]);
        assert_eq!(files(&|file| file == 60), [60]);
        // Nothing that is shared comes late enough.
        assert_eq!(files(&|file| file < 40), Vec::from_iter(92..100));
        // Of a file the last page alone.
        let again = [&reads[..], &[(99, 1000, 1)]].concat();
        let all = Duration::from_micros(100);
        let pages = completion_pages(&log(&again), all, Duration::ZERO, |_| true);
        assert_eq!(pages.last().map(|page| page.start), Some(1000));
        assert_eq!(
            Vec::from_iter(pages.into_iter().map(number)),
            Vec::from_iter(92..100)
        );
    }

    /// The file and page by which a launch is timed that makes these reads a microsecond apart (file, first
    /// page, number of pages), and ends after so many microseconds. It reads documents until `data_until_us`.
    fn completion_with_data(
        reads: &[(u32, u64, u64)],
        duration_us: u64,
        data_until_us: u64,
    ) -> Option<(u32, u64)> {
        let (duration, data_until) = (
            Duration::from_micros(duration_us),
            Duration::from_micros(data_until_us),
        );
        let span = *completion_pages(&log(reads), duration, data_until, |_| true).last()?;
        assert_eq!(span.len, 1);
        Some((number(span), span.start))
    }

    fn completion(reads: &[(u32, u64, u64)], duration_us: u64) -> Option<(u32, u64)> {
        completion_with_data(reads, duration_us, 0)
    }

    #[test]
    fn the_last_completion_page_is_the_last_read_of_the_launch_that_no_earlier_one_was_near() {
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
    fn a_long_read_at_the_end_of_a_launch_ends_with_it_whatever_is_read_later() {
        let mut log = log(&[(1, 0, 1), (2, 0, 1), (3, 0, 900), (4, 0, 1)]);
        for (entry, time_us) in log.iter_mut().zip([0, 95, 96, 1000]) {
            entry.time_us = time_us;
        }
        let pages = completion_pages(&log, Duration::from_micros(100), Duration::ZERO, |_| true);
        assert_eq!(Vec::from_iter(pages.into_iter().map(number)), [2, 3]);
    }

    #[test]
    fn a_launch_has_used_most_of_its_pages_before_what_timers_read() {
        let until = |reads: &[(u32, u64, u64)], duration| {
            used_most_after(&log(reads), Duration::from_micros(duration)).as_micros()
        };
        // Large and small reads, a microsecond apart.
        let reads = [(1, 0, 50), (2, 0, 30), (3, 0, 14), (4, 0, 1), (5, 0, 5)];
        assert_eq!(until(&reads, 9), 3);
        assert_eq!(until(&reads[..4], 9), 2);
        assert_eq!(until(&reads, 1), 1, "later reads are no part of it");
        assert_eq!(
            until(&[(1, 0, 9), (2, 0, 2000)], 900),
            900,
            "a long one goes on to the end"
        );
        assert_eq!(until(&[(1, 0, 9), (2, 0, 2000), (3, 0, 1)], 900), 2);
        assert_eq!(until(&[], 7), 7);
        let mut late = log(&[(1, 0, 32), (2, 0, 31), (3, 0, 3)]);
        late[2].time_us = 1_000_000;
        let until = used_most_after(&late, Duration::from_secs(2));
        assert_eq!(until.as_micros(), 1, "a timer's read");
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
