//! The report of a prefetch.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::model::{PAGE_SIZE, Span};

/// Why entries of the schedule were not prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skipped {
    /// The file is gone, or another one has its inode number.
    Gone,
    /// The file is shorter than when it was learned, and the entry lies past its end.
    Truncated,
    /// The file system is not mounted, or cannot be opened.
    DeviceGone,
    /// Another mounted file system has its UUID, and nothing tells which of the two was learned.
    Unclear,
    /// The block device's node cannot be opened, and metadata is read through it.
    NoNode,
    /// The device's readahead and largest request are 0, so that readahead(2) reads nothing.
    ReadaheadOff,
    /// The drive may be asleep, and no launch has begun that needs it.
    Asleep,
    /// The kernel refused.
    Refused,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Skipped::Gone => "file gone or replaced",
            Skipped::Truncated => "file truncated",
            Skipped::DeviceGone => "file system not mounted",
            Skipped::Unclear => "another mounted file system has its UUID",
            Skipped::NoNode => "block device cannot be opened",
            Skipped::ReadaheadOff => "device allows no readahead",
            Skipped::Asleep => "drive may be asleep",
            Skipped::Refused => "refused by the kernel",
        })
    }
}

/// A number of entries of the schedule and their pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryCount {
    /// Prefetch entries.
    pub entries: u64,
    /// 4 KiB pages.
    pub pages: u64,
}

impl EntryCount {
    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.pages * PAGE_SIZE
    }
}

/// The report of a prefetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefetchReport {
    /// Entries of the schedule.
    pub scheduled: u64,
    /// Metadata read ahead.
    pub metadata: EntryCount,
    /// File data read ahead.
    pub data: EntryCount,
    /// Operations carried out ([`crate::model::Operation`]), whatever they found.
    pub operations: u64,
    /// Threads that were given up in the middle of a step, because no answer came.
    pub given_up: u64,
    /// Entries left out, by reason.
    pub skipped: BTreeMap<Skipped, EntryCount>,
    /// The pages left out, in the order of the schedule, but for what several threads did at once.
    pub skipped_spans: Vec<(Span, Skipped)>,
    /// The numbers (`st_dev`) under which the profile's devices were found, in the order of its device
    /// table; `None` for those that were not.
    pub devices: Vec<Option<u64>>,
    /// Files of the profile that are gone, replaced or truncated.
    pub stale_files: u64,
    /// Files that were written to since they were learned; prefetched all the same.
    pub changed_files: u64,
    /// readahead(2) calls.
    pub calls: u64,
    /// The sampled parts of the schedule were all cached: nothing was prefetched.
    pub warm: bool,
    /// Why entries were left out as [`Skipped::Unclear`]: which file systems have one UUID, and what to do.
    pub unclear: Option<String>,
    /// Why nothing was prefetched, if the system's state did not allow it.
    pub refused: Option<String>,
    /// Why the rest of the schedule was left out, if memory became short in the middle.
    pub ran_short: Option<String>,
    /// How late another program, which is asked before each file is opened, answers, if the rest of the schedule was left
    /// out for that: opening files ahead would cost the launch more than reading them saves.
    pub slow_opens: Option<Duration>,
    /// The app ended before the schedule did.
    pub cut_short: bool,
    /// Bytes that drives read for the thread, without what was cached.
    pub read_bytes: u64,
    /// Why the rest of the schedule was left out before the launch, if others used drives.
    pub disturbed: Option<String>,
    /// From the start of the thread to its first readahead(2).
    pub until_first: Option<Duration>,
    /// From the start of the thread to its end.
    pub duration: Duration,
}

impl PrefetchReport {
    /// Why the prefetch had no effect, if so: it was refused, or no entry could be read ahead.
    pub fn prevented(&self) -> Option<String> {
        let done = self.metadata.entries + self.data.entries > 0 || self.warm;
        let refused = self.refused.as_ref();
        let refused = refused.or(self.unclear.as_ref().filter(|_| !done));
        match (refused, self.skipped.keys().next()) {
            (Some(why), _) => Some(why.clone()),
            (None, Some(reason)) if !done => Some(reason.to_string()),
            _ => None,
        }
    }

    /// Why the rest of the schedule was left out, if that is so.
    pub fn left_out(&self) -> Option<String> {
        let slow = |delay: Duration| {
            format!(
                "another program is asked before each file is opened, and took {:.1} ms to answer (paralfetch doctor names \
                 it)",
                delay.as_secs_f64() * 1e3
            )
        };
        self.ran_short.clone().or(self.slow_opens.map(slow))
    }

    /// One line of warning, if something is wrong that the user should know. Stale files are mentioned only
    /// with `stale_too`.
    pub fn warning(&self, stale_too: bool) -> Option<String> {
        let nothing_read = self.metadata.entries + self.data.entries == 0;
        let skipped = |reason: Skipped| {
            let count = self.skipped.get(&reason)?;
            let (entries, all) = (count.entries, self.scheduled);
            Some(format!(
                "{entries} of {all} entries were not prefetched: {reason}"
            ))
        };
        let left_out = self.left_out();
        let unclear = || {
            let why = self.unclear.as_ref()?;
            Some(skipped(Skipped::Unclear)? + ": " + why)
        };
        let warning = skipped(Skipped::DeviceGone)
            .or_else(unclear)
            .or_else(|| {
                left_out.map(|why| format!("prefetching was given up in the middle: {why}"))
            })
            .or_else(|| skipped(Skipped::NoNode))
            .or_else(|| {
                let off = skipped(Skipped::ReadaheadOff)?;
                Some(off + " (read_ahead_kb and max_sectors_kb are 0)")
            })
            .or_else(|| {
                let refused = skipped(Skipped::Refused).filter(|_| nothing_read)?;
                Some(refused + " (does CAP_DAC_READ_SEARCH lack? grep CapEff /proc/self/status)")
            });
        if warning.is_some() {
            return warning;
        }
        if stale_too && self.stale_files > 0 {
            return Some(format!(
                "{} files of the profile were replaced, removed or truncated since; \
                 learn the app again to prefetch their successors",
                self.stale_files
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_because_nothing_tells_file_systems_apart_is_said_with_what_to_do() {
        let count = EntryCount {
            entries: 3,
            pages: 9,
        };
        let mut report = PrefetchReport {
            scheduled: 5,
            skipped: BTreeMap::from([(Skipped::Unclear, count)]),
            unclear: Some("unmount one".to_owned()),
            ..PrefetchReport::default()
        };
        assert_eq!(count.bytes(), 9 * PAGE_SIZE);
        assert_eq!(report.prevented().as_deref(), Some("unmount one"));
        let warning = report.warning(false).unwrap();
        assert!(warning.starts_with("3 of 5 entries"), "{warning}");
        assert!(warning.ends_with("has its UUID: unmount one"), "{warning}");
        report.data = count;
        assert_eq!(report.prevented(), None);
    }

    #[test]
    fn a_prefetch_without_effect_says_what_the_first_reason_was() {
        let mut report = PrefetchReport {
            skipped: BTreeMap::from([(Skipped::Gone, EntryCount::default())]),
            ..PrefetchReport::default()
        };
        assert_eq!(report.prevented().unwrap(), Skipped::Gone.to_string());
        report.warm = true;
        assert_eq!(report.prevented(), None);
    }

    #[test]
    fn what_is_given_up_in_the_middle_is_said_with_the_reason() {
        let mut report = PrefetchReport::default();
        assert_eq!((report.left_out(), report.warning(true)), (None, None));
        report.slow_opens = Some(Duration::from_micros(1500));
        assert!(report.left_out().unwrap().contains(" 1.5 ms "));
        report.ran_short = Some("no memory".to_owned());
        assert_eq!(report.left_out().as_deref(), Some("no memory"));
        assert!(report.warning(true).unwrap().ends_with(": no memory"));
    }

    #[test]
    fn a_refusal_is_a_warning_only_if_nothing_was_read() {
        let one = EntryCount {
            entries: 1,
            pages: 1,
        };
        let none = EntryCount::default();
        for (metadata, data, warns) in [
            (none, none, true),
            (one, none, false),
            (none, one, false),
            (one, one, false),
        ] {
            let report = PrefetchReport {
                metadata,
                data,
                skipped: BTreeMap::from([(Skipped::Refused, one)]),
                ..PrefetchReport::default()
            };
            assert_eq!(report.warning(true).is_some(), warns, "{report:?}");
        }
    }

    #[test]
    fn stale_files_are_mentioned_where_that_is_asked_for() {
        for (stale_files, asked, is_said) in [(1, true, true), (0, true, false), (1, false, false)]
        {
            let report = PrefetchReport {
                stale_files,
                ..PrefetchReport::default()
            };
            assert_eq!(report.warning(asked).is_some(), is_said);
        }
    }
}
