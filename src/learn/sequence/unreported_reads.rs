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
    use crate::learn::sequence::tests::accesses;

    /// Start and length of each read afterwards; file 7 has one addition for each page.
    fn reads(trace: &str) -> Vec<(u64, u64)> {
        let mut trace = accesses(trace);
        extend_reads(&mut trace);
        let reads = trace.iter().filter(|access| access.source == Source::Read);
        reads.map(|read| (read.start, read.len)).collect()
    }

    fn added(pages: Range<u64>) -> String {
        let pages: Vec<String> = pages.map(|page| format!("added 7:{page}+1")).collect();
        pages.join(", ")
    }

    #[test]
    fn a_read_is_extended_to_the_start_of_an_unused_run() {
        assert_eq!(reads(&(added(0..16) + ", read 7:3+13")), [(0, 16)]);
        // Only once: later reads of the same run are reported.
        let trace = added(4..16) + ", read 7:5+2, read 7:12+4";
        assert_eq!(reads(&trace), [(4, 3), (12, 4)]);
    }

    #[test]
    fn a_read_is_not_extended_over_pages_of_another_use() {
        let trace = added(0..32) + ", read 7:0+4, read 7:10+2";
        assert_eq!(reads(&trace), [(0, 4), (10, 2)]);
        let trace = added(0..32) + ", fault 7:0+1, read 7:10+2";
        assert_eq!(reads(&trace), [(10, 2)]);
        // A run of its own, pages that others added, and another file.
        let trace = added(0..4) + ", read 7:0+4, " + &added(4..8) + ", read 7:4+4";
        assert_eq!(reads(&trace), [(0, 4), (4, 4)]);
        let of_others = added(0..16).replace("added", "other added");
        assert_eq!(reads(&(of_others + ", read 7:3+13")), [(3, 13)]);
        assert_eq!(reads(&(added(0..16) + ", read 8:3+13")), [(3, 13)]);
    }
}
