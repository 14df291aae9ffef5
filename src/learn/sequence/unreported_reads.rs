//! Reads of cached pages that the kernel's tracepoint does not report.
//!
//! `filemap_get_pages` (mm/filemap.c) reports a read when it has the pages. If it finds some pages and then
//! one that is still being read, it waits for that one and returns the pages before it unreported; its next
//! report begins after them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::learn::sequence::accessed_file;
use crate::model::{Access, By, Source};

/// Pages of a file that readahead added in sequence and no use of which was reported. Used pages are removed,
/// so that a hostile launch cannot make every access search all of them again.
#[derive(Default)]
struct Runs {
    /// Ends by starts.
    ends: BTreeMap<u64, u64>,
    /// Start of the run that was extended last.
    last: u64,
}

impl Runs {
    fn add(&mut self, pages: Range<u64>) {
        match self.ends.get_mut(&self.last) {
            Some(end) if *end == pages.start => *end = pages.end,
            _ => {
                self.last = pages.start;
                self.ends.insert(pages.start, pages.end);
            }
        }
    }

    /// The start of the run that contains this page.
    fn start_of(&self, page: u64) -> Option<u64> {
        let (&start, &end) = self.ends.range(..=page).next_back()?;
        (page < end).then_some(start)
    }

    fn forget(&mut self, used: Range<u64>) {
        while let Some((&start, &end)) = self.ends.range(..used.end).next_back()
            && end > used.start
        {
            self.ends.remove(&start);
        }
    }
}

/// Extends each read backwards to the start of the readahead run in which it begins, if no use of that run
/// was reported before: readahead begins with the page that was asked for. `accesses` are in time order.
pub fn extend_reads(accesses: &mut [Access]) {
    let mut files: HashMap<(u64, u64, By), Runs> = HashMap::new();
    for access in accesses.iter_mut().filter(|access| !access.is_metadata()) {
        let runs = files
            .entry((access.dev, access.ino, access.by))
            .or_default();
        if access.source == Source::Added {
            runs.add(accessed_file::pages(access));
            continue;
        }
        if access.source == Source::Read
            && let Some(start) = runs.start_of(access.start)
        {
            access.len += access.start - start;
            access.start = start;
        }
        runs.forget(accessed_file::pages(access));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(source: Source, ino: u64, start: u64, len: u64) -> Access {
        Access {
            time_ns: 0,
            dev: 1,
            ino,
            generation: 0,
            start,
            len,
            source,
            by: By::Tree,
        }
    }

    /// The reads afterwards: start and length.
    fn reads(mut accesses: Vec<Access>) -> Vec<(u64, u64)> {
        extend_reads(&mut accesses);
        let reads = accesses
            .iter()
            .filter(|access| access.source == Source::Read);
        reads.map(|read| (read.start, read.len)).collect()
    }

    fn added(pages: Range<u64>) -> Vec<Access> {
        pages
            .map(|page| access(Source::Added, 7, page, 1))
            .collect()
    }

    #[test]
    fn a_read_is_extended_to_the_start_of_an_unused_run() {
        let read = |start, len| access(Source::Read, 7, start, len);
        let accesses = [added(0..16), vec![read(3, 13)]].concat();
        assert_eq!(reads(accesses), [(0, 16)]);
        // Only once: later reads of the same run are reported.
        let accesses = [added(4..16), vec![read(5, 2), read(12, 4)]].concat();
        assert_eq!(reads(accesses), [(4, 3), (12, 4)]);
    }

    #[test]
    fn a_read_is_not_extended_over_pages_of_another_use() {
        let read = |start, len| access(Source::Read, 7, start, len);
        let accesses = [added(0..32), vec![read(0, 4), read(10, 2)]].concat();
        assert_eq!(reads(accesses), [(0, 4), (10, 2)]);
        let accesses = [
            added(0..32),
            vec![access(Source::Fault, 7, 0, 1), read(10, 2)],
        ]
        .concat();
        assert_eq!(reads(accesses), [(10, 2)]);
        // A run of its own, and pages that others added.
        let accesses = [added(0..4), vec![read(0, 4)], added(4..8), vec![read(4, 4)]].concat();
        assert_eq!(reads(accesses), [(0, 4), (4, 4)]);
        let mut accesses = [added(0..16), vec![read(3, 13)]].concat();
        for access in &mut accesses[..16] {
            access.by = By::Own;
        }
        assert_eq!(reads(accesses), [(3, 13)]);
        let accesses = [added(0..16), vec![access(Source::Read, 8, 3, 13)]].concat();
        assert_eq!(reads(accesses), [(3, 13)]);
    }
}
