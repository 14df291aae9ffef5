//! Pre-scheduling: from the launch sequence to the order and size of prefetch requests.
//!
//! Pure functions over plain data. A [`LogEntry`] is one recorded read, in access order; the result
//! is a list of [`PrefetchEntry`], in the order in which the prefetch thread executes them.
//! [`formula`] says what a drive's numbers ask for: the launch sequence, for which the order of work is merge → shift (paper
//! §3.2 and §4.2; infill from Mobifetch §2), or one sweep over the disk.
//! [`reorder`] and [`resequence`] undo it, for a schedule that is made anew with other parameters (dynamic
//! scheduling, paper §3.3).

pub mod formula;
mod merge;
mod reschedule;
mod shift;
mod sweep;

#[cfg(test)]
mod generate;

use std::collections::BTreeMap;

use crate::model::{DeviceParams, Infill, LogEntry, Params, PrefetchEntry, ReadOrder};

pub use reschedule::{Located, Resequenced, reorder, resequence};
pub use shift::metadata_shift;

/// The device that most pages of a launch sequence are on, by its index in the device table: its drive decides how the
/// launch is scheduled. `None` if the sequence is empty.
pub fn main_device(log: &[LogEntry]) -> Option<usize> {
    most_pages(
        log.iter()
            .map(|entry| (usize::from(entry.device), entry.span.len)),
    )
}

/// The device with most pages, of numbers of pages and their devices.
pub fn most_pages(pages: impl Iterator<Item = (usize, u64)>) -> Option<usize> {
    let mut of_devices = BTreeMap::new();
    for (device, pages) in pages {
        *of_devices.entry(device).or_default() += pages;
    }
    let most = of_devices
        .into_iter()
        .max_by_key(|&(_, pages): &(_, u64)| pages);
    most.map(|(device, _)| device)
}

/// All of pre-scheduling: range merge, infill merge if `params` say so, metadata shift; or a sweep, if they say that.
///
/// `log` is a launch sequence in access order that names no page twice; the result is what the
/// prefetch thread executes, in its order. Both merges count I/O distances in positions of `log`.
pub fn schedule(log: &[LogEntry], params: &Params) -> Vec<PrefetchEntry> {
    schedule_for(log, &DeviceParams::uniform(*params))
}

/// Pre-scheduling for drives of several classes, each with its own parameters. They merge by I/O distances that count the
/// positions of all devices. Metadata of a class pass data of that class: drives have queues of their own, and
/// another drive's metadata keep none of them filled. A sweep, where the main drive asks for one, is over all drives.
pub fn schedule_for(log: &[LogEntry], params: &DeviceParams) -> Vec<PrefetchEntry> {
    let main = params.main();
    if main.order == ReadOrder::Disk {
        return sweep::sweep(log, main.infill.map_or(0, |infill| infill.hole_pages));
    }
    let passes = |class| {
        let params = params.of(class);
        let range = Infill {
            distance: params.merge_distance,
            hole_pages: 0,
        };
        [Some(range), params.infill]
    };
    let merged = merge::merge(log, |device| passes(params.class(device)));
    let class = |entry: &LogEntry| params.class(entry.device);
    shift::shift(&merged, |entry| entry.span, class, params)
        .into_iter()
        .map(|entry| PrefetchEntry {
            span: entry.span,
            time_us: entry.time_us,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DriveClass, Place, Span};

    #[test]
    fn the_main_device_is_the_one_that_most_pages_are_on() {
        let main = |pages: &[(usize, u64)]| most_pages(pages.iter().copied());
        assert_eq!(main(&[]), None);
        assert_eq!(main(&[(0, 3), (1, 2)]), Some(0));
        // Neither the first, the last, nor the one with the largest read.
        assert_eq!(main(&[(1, 3), (0, 4), (1, 2), (2, 1)]), Some(1));
    }

    fn entry(device: u16, len: u64) -> LogEntry {
        LogEntry {
            span: Span::new(Place::Data { file: 0 }, 0..len),
            device,
            lba: 0,
            time_us: 0,
        }
    }

    #[test]
    fn only_a_drive_that_asks_for_it_is_read_in_the_order_of_its_blocks() {
        let at = |start: u64, lba| LogEntry {
            span: Span::new(Place::Data { file: 0 }, start..start + 1),
            lba,
            ..entry(0, 1)
        };
        // The second one is far away, in the file and on the drive.
        let log = [at(5000, 9000), at(0, 100)];
        for (class, first) in [
            (DriveClass::CommandQueuing, 5000),
            (DriveClass::Rotational, 0),
        ] {
            let params = Params::for_device(class, false);
            let made = schedule(&log, &params);
            assert_eq!(made[0].span.start, first, "{class:?}");
        }
    }

    #[test]
    fn a_launch_sequence_counts_by_its_pages() {
        assert_eq!(main_device(&[]), None);
        assert_eq!(
            main_device(&[entry(0, 1), entry(2, 9), entry(0, 1)]),
            Some(2)
        );
        assert_eq!(
            main_device(&[entry(0, 9), entry(2, 1), entry(2, 1)]),
            Some(0)
        );
    }
}
