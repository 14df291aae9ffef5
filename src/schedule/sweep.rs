//! One sweep over the disk, for drives with heads (A-5 of the paper's slides): first the metadata in the order of the disk, so
//! that no file waits for its inode, then the data in that order. Each needed page is read once, and small holes between
//! needed pages are read along.

use super::merge::{MergedRun, file_ranks, walk};
use crate::model::{Infill, LogEntry, PrefetchEntry};

/// The sweep of a launch sequence that names no page twice. Holes of up to `hole_pages` unneeded 4 KiB pages are read along.
pub(super) fn sweep(log: &[LogEntry], hole_pages: u64) -> Vec<PrefetchEntry> {
    let ranks = file_ranks(log);
    let mut order: Vec<usize> = (0..log.len()).collect();
    let is_data = |index: usize| !log[index].span.place.is_metadata();
    order.sort_unstable_by_key(|&index| (is_data(index), log[index].device, log[index].lba, index));
    let pass = Infill {
        hole_pages,
        distance: Infill::ANY_DISTANCE,
    };
    let runs = order
        .into_iter()
        .map(|index| MergedRun::new(log[index], index as u64, ranks[index]));
    walk(runs.collect(), |_| Some(pass))
        .into_iter()
        .map(|run| PrefetchEntry {
            span: run.entry.span,
            time_us: run.entry.time_us,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::generate::{check_merged, data, launch, metadata};
    use super::*;
    use crate::model::Span;

    fn spans(log: &[LogEntry], hole_pages: u64) -> Vec<Span> {
        let schedule = sweep(log, hole_pages);
        schedule.iter().map(|entry| entry.span).collect()
    }

    #[test]
    fn metadata_and_then_data_go_in_the_order_of_the_disk() {
        let log = [
            metadata(90, 1),
            data(0, 0, 1, 500),
            metadata(20, 1),
            data(1, 0, 2, 100),
            data(0, 3, 1, 503),
        ];
        let expected = [
            metadata(20, 1),
            metadata(90, 1),
            data(1, 0, 2, 100),
            data(0, 0, 4, 500),
        ];
        assert_eq!(spans(&log, 2), expected.map(|entry| entry.span));
        // A hole that is too large stays.
        assert_eq!(spans(&log, 1).len(), 5);
    }

    proptest! {
        #[test]
        fn a_sweep_reads_each_page_once_and_nothing_but_small_holes_besides(launch in launch(), hole in 0..8u64) {
            check_merged(&launch, &sweep(&launch.log, hole), u64::MAX, hole)?;
        }

        #[test]
        fn a_sweep_is_sorted_by_the_disk_with_metadata_in_front(launch in launch(), hole in 0..8u64) {
            let place = |entry: &PrefetchEntry| {
                let of = |log: &&LogEntry| log.span.place == entry.span.place
                    && log.span.start == entry.span.start;
                let first = launch.log.iter().find(of).expect("an entry begins with a needed page");
                (!entry.span.place.is_metadata(), first.device, first.lba)
            };
            let places: Vec<_> = sweep(&launch.log, hole).iter().map(place).collect();
            prop_assert!(places.is_sorted());
        }
    }
}
