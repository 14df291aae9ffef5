use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::model::{Device, DriveClass, Infill, PAGE_SIZE, Params, ReadOrder};
use crate::schedule::generate::{check_merged, launch, prefetch};
use crate::schedule::{schedule, schedule_for};

/// Where the pages lie that the launch needed.
fn locate(log: &[LogEntry]) -> impl Fn(u32, Range<u64>) -> Vec<Located> {
    let mut places: HashMap<(u32, u64), (u16, u64)> = HashMap::new();
    for entry in log {
        if let Place::Data { file } = entry.span.place {
            for page in entry.span.start..entry.span.end() {
                let into = (page - entry.span.start) * SECTORS_PER_PAGE;
                places.insert((file, page), (entry.device, entry.lba + into));
            }
        }
    }
    move |file, pages| {
        let mut pieces: Vec<Located> = Vec::new();
        for page in pages {
            let Some(&(device, lba)) = places.get(&(file, page)) else {
                continue;
            };
            match pieces.last_mut() {
                Some(last)
                    if last.pages.end == page
                        && last.lba + (page - last.pages.start) * SECTORS_PER_PAGE == lba =>
                {
                    last.pages.end += 1;
                }
                _ => pieces.push(Located {
                    device,
                    pages: page..page + 1,
                    lba,
                }),
            }
        }
        pieces
    }
}

fn data(start: u64, len: u64) -> PrefetchEntry {
    PrefetchEntry {
        span: Span {
            place: Place::Data { file: 3 },
            start,
            len,
        },
        time_us: 7,
    }
}

#[test]
fn data_are_cut_where_the_disk_does_and_what_has_no_place_is_left_out() {
    let piece = |pages: Range<u64>, lba| Located {
        device: 1,
        pages,
        lba,
    };
    // It reaches beyond both ends, has a hole, overlaps itself, and names pages that were not asked for.
    let pieces = [
        piece(0..12, 80),
        piece(14..16, 800),
        piece(15..17, 1600),
        piece(90..91, 8),
    ];
    let found = resequence(&[data(10, 8)], |file, pages| {
        assert_eq!((file, pages), (3, 10..18));
        pieces.to_vec()
    });
    let log = |start, len, lba| LogEntry {
        span: data(start, len).span,
        device: 1,
        lba,
        time_us: 7,
    };
    assert_eq!(
        found.log,
        [log(10, 2, 160), log(14, 2, 800), log(16, 1, 1608)]
    );
    assert_eq!(found.unplaced, [data(12, 2).span, data(17, 1).span]);
}

#[test]
fn a_file_that_is_gone_leaves_nothing_in_the_log() {
    let found = resequence(&[data(0, 4)], |_, _| Vec::new());
    assert_eq!(found.log, []);
    assert_eq!(found.unplaced, [data(0, 4).span]);
}

#[test]
fn metadata_lie_where_they_say_and_keep_their_place_among_equal_times() {
    let metadata = |start| PrefetchEntry {
        span: Span {
            place: Place::Metadata { device: 2 },
            start,
            len: 1,
        },
        time_us: 7,
    };
    let found = resequence(&[metadata(9), data(0, 1), metadata(5)], |_, pages| {
        vec![Located {
            device: 2,
            pages,
            lba: 64,
        }]
    });
    let lbas: Vec<u64> = found.log.iter().map(|entry| entry.lba).collect();
    assert_eq!(lbas, [72, 64, 40]);
}

fn params(merge_distance: u64, shift_pages: u64, infill: Option<Infill>) -> Params {
    Params {
        merge_distance,
        shift_bytes: shift_pages * PAGE_SIZE,
        infill,
        order: ReadOrder::Access,
    }
}

fn device(class: DriveClass) -> Device {
    Device {
        dev: 1,
        name: String::new(),
        fs: String::new(),
        fs_uuid: [0; 16],
        class,
    }
}

/// A file of the table, of which the device alone matters.
fn file_of(log: &[LogEntry], file: u32) -> File {
    let place = Place::Data { file };
    let entry = log.iter().find(|entry| entry.span.place == place);
    File {
        device: entry.map_or(0, |entry| entry.device),
        ino: u64::from(file),
        generation: 0,
        size: 0,
        mtime_ns: 0,
        path: None,
    }
}

fn infill() -> impl Strategy<Value = Option<Infill>> {
    prop::option::of(
        (0..6u64, 0..64u64).prop_map(|(hole_pages, distance)| Infill {
            hole_pages,
            distance,
        }),
    )
}

proptest! {
    /// Whatever shift a schedule has, another one can be given to it as if it had been made so.
    #[test]
    fn a_shift_can_be_exchanged(
        launch in launch(),
        merge_distance in 0..24u64,
        infill in infill(),
        [before, after] in [0..24u64, 0..24u64],
        other in prop::sample::select(vec![DriveClass::CommandQueuing, DriveClass::NoCommandQueuing]),
    ) {
        let devices = [DriveClass::CommandQueuing, other].map(device);
        let of = |shift| DeviceParams::new(
            &devices,
            DriveClass::CommandQueuing,
            params(merge_distance, shift, infill),
        );
        let files: Vec<File> = (0..launch.sizes.len() as u32).map(|file| file_of(&launch.log, file)).collect();
        let old = schedule_for(&launch.log, &of(before));
        let new = of(after);
        prop_assert_eq!(reorder(&old, &files, &new), schedule_for(&launch.log, &new));
    }

    /// A kept launch sequence comes back exactly, so that any parameters can be tried and taken back.
    #[test]
    fn a_kept_sequence_comes_back(launch in launch()) {
        let found = resequence(&prefetch(&launch.log), locate(&launch.log));
        prop_assert_eq!(found.unplaced, []);
        prop_assert_eq!(found.log, launch.log);
    }

    /// A sequence made from a schedule still schedules every page once, and none that is not needed.
    #[test]
    fn a_schedule_can_be_merged_further(
        launch in launch(),
        merge_distance in 0..24u64,
        shift_pages in 0..24u64,
        further in 0..24u64,
    ) {
        let old = params(merge_distance, shift_pages, None);
        let entries = schedule(&launch.log, &old);
        let found = resequence(&entries, locate(&launch.log));
        prop_assert_eq!(&found.unplaced, &[]);
        let new = Params { merge_distance: merge_distance + further, ..old };
        let again = schedule(&found.log, &new);
        prop_assert!(again.len() <= entries.len());
        // I/O distances are only bounded by those of the shorter sequence.
        check_merged(&launch, &again, u64::MAX, 0)?;
    }

    /// Nothing is lost and nothing asked for is invented, whatever is said of the disk.
    #[test]
    fn each_page_is_in_the_log_or_unplaced(
        launch in launch(),
        pieces in prop::collection::vec((0..24u64, 0..8u64, 0..u64::MAX), 0..6),
    ) {
        let entries = prefetch(&launch.log);
        let pieces: Vec<Located> = pieces
            .into_iter()
            .map(|(start, len, lba)| Located { device: 0, pages: start..start + len, lba })
            .collect();
        let found = resequence(&entries, |_, _| pieces.clone());
        let pages = |spans: Vec<Span>| {
            let mut pages: Vec<_> = spans
                .iter()
                .flat_map(|span| (span.start..span.end()).map(|page| (span.place, page)))
                .collect();
            pages.sort_unstable();
            pages
        };
        let placed = found.log.iter().map(|entry| entry.span);
        let all = placed.chain(found.unplaced.iter().copied()).collect();
        prop_assert_eq!(pages(all), pages(entries.iter().map(|entry| entry.span).collect()));
    }
}
