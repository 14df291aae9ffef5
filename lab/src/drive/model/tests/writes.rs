//! The write side: closed forms for small cases.

use super::claims::{Load, rate};
use super::*;
use crate::drive::profile::{Blocks, Buffer, Flash, Slc};

const PAGE: u64 = 16_384;
const SECOND: u64 = 1_000_000_000;

/// A drive of two channels whose times are round: 100 µs a read, 1 ms a program, 16.384 µs to transfer a
/// page, to the flash and over the link; nothing for commands.
fn plain(change: impl FnOnce(&mut Flash)) -> DriveProfile {
    let mut drive = profile("qlc-sata");
    let bus = drive.bus.as_mut().unwrap();
    bus.command_us = 0.0;
    bus.interface_mb_s = 1000.0;
    let flash = drive.flash.as_mut().unwrap();
    *flash = Flash {
        channels: 2,
        page_bytes: PAGE,
        read_us: 100.0,
        program_us: 1000.0,
        channel_mb_s: 1000.0,
        stripe_bytes: PAGE,
        write_us: 0.0,
        discard_us: 0.0,
        buffer: None,
        slc: None,
        blocks: None,
        map: None,
    };
    change(flash);
    drive
}

fn request(operation: Operation, offset: u64, length: u64, arrival: u64) -> Request {
    Request {
        operation,
        ..read(offset, length, arrival)
    }
}

const BUFFER: Buffer = Buffer {
    bytes: 4 * PAGE,
    answer_us: 7.0,
};

const SLC: Slc = Slc {
    bytes: 8 * PAGE,
    program_us: 200.0,
    idle_ms: 100.0,
};

#[test]
fn without_a_buffer_a_write_ends_with_its_program() {
    let drive = plain(|_| {});
    let ends = completions(
        &drive,
        &[write(0, PAGE, 0), write(0, PAGE, 0), read(0, PAGE, 1)],
    );
    // Over the link, to the flash, programmed; the second one on the other channel, a transfer later.
    assert_eq!(ends[0], 2 * 16_384 + 1_000_000);
    assert_eq!(ends[1], ends[0] + 16_384);
    // The read waits for the program of its channel.
    assert_eq!(ends[2], ends[0] + 100_000 + 2 * 16_384);
}

#[test]
fn a_buffered_write_is_answered_when_the_drive_has_it() {
    let drive = plain(|flash| flash.buffer = Some(BUFFER));
    let ends = completions(&drive, &[write(0, 4096, 0), write(1 << 20, 4096, SECOND)]);
    assert_eq!(ends[0], 4096 + 7000);
    assert_eq!(ends[1], SECOND + 4096 + 7000);
}

#[test]
fn a_full_buffer_waits_for_programs() {
    let drive = plain(|flash| flash.buffer = Some(BUFFER));
    let pages: Vec<Request> = (0..5).map(|page| write(page * PAGE, PAGE, 0)).collect();
    let ends = completions(&drive, &pages);
    let link = 16_384;
    for (page, end) in ends[..4].iter().enumerate() {
        assert_eq!(*end, (page as u64 + 1) * link + 7000);
    }
    // The fifth crosses the link when the first is programmed.
    assert_eq!(ends[4], 2 * link + 1_000_000 + link + 7000);
}

#[test]
fn a_flush_ends_with_the_last_program_of_the_buffer() {
    let drive = plain(|flash| flash.buffer = Some(BUFFER));
    let flush = |at| request(Operation::Flush, 0, 0, at);
    let ends = completions(
        &drive,
        &[write(0, 4096, 0), flush(20_000), flush(2 * SECOND)],
    );
    // A page that is not full is programmed as it is.
    assert_eq!(ends[1], 20_000 + 4096 + 1_000_000);
    assert_eq!(ends[2], 2 * SECOND, "nothing is left");
    // Nothing to do without a buffer.
    let ends = completions(&plain(|_| {}), &[write(0, 4096, 0), flush(20_000)]);
    assert_eq!(ends[1], 20_000);
}

#[test]
fn small_writes_share_pages_in_the_buffer() {
    let drive = plain(|flash| flash.buffer = Some(BUFFER));
    let load = Load::new(Operation::Write, 4, 4096, false);
    let pages = 2.0 / (1e-3 + 16.384e-6);
    let is = rate(&drive, load);
    assert!((is / (4.0 * pages) - 1.0).abs() < 0.01, "{is}");
    let is = rate(&plain(|_| {}), load);
    let pages = 2.0 / (1e-3 + 4.096e-6);
    assert!((is / pages - 1.0).abs() < 0.01, "{is}");
}

#[test]
fn the_cache_fills_and_is_emptied_when_nothing_is_asked() {
    let drive = plain(|flash| flash.slc = Some(SLC));
    let link = 16_384;
    let (fast, slow) = (2 * link + 200_000, 2 * link + 1_000_000);
    let alone = |pages: &[u64]| {
        let requests: Vec<Request> = pages.iter().map(|at| write(0, PAGE, *at)).collect();
        let ends = completions(&drive, &requests);
        let times: Vec<u64> = ends.iter().zip(pages).map(|(end, at)| end - at).collect();
        times
    };
    let every = |count: u64, from: u64| (0..count).map(move |n| from + n * 10_000_000);
    let ten: Vec<u64> = every(10, 0).collect();
    assert_eq!(alone(&ten), [vec![fast; 8], vec![slow; 2]].concat());
    // After 100 ms of idleness, two pages are moved in 1.1 ms: four in the time of two such moves and
    // what is begun of the third, which keeps the channels until it ends.
    let last = 90_000_000 + slow;
    let later = last + 100_000_000 + 2 * 1_100_000 + 1000;
    let mut times: Vec<u64> = ten.clone();
    times.extend(every(8, later));
    let after = alone(&times).split_off(10);
    assert_eq!(after[0], fast + 1_100_000 - 1000 - link);
    assert_eq!(after[1..], [vec![fast; 5], vec![slow; 2]].concat());
    // A long rest empties it.
    let mut times = ten;
    times.extend(every(10, 10 * SECOND));
    assert_eq!(alone(&times)[10..], [vec![fast; 8], vec![slow; 2]].concat());
}

#[test]
fn a_drive_that_is_only_read_never_moves_anything() {
    let with = plain(|flash| {
        flash.slc = Some(SLC);
        flash.buffer = Some(BUFFER);
    });
    let reads: Vec<Request> = (0..50)
        .map(|n| read(n * 3 * PAGE, PAGE, n * SECOND / 3))
        .collect();
    assert_eq!(
        completions(&with, &reads),
        completions(&plain(|_| {}), &reads)
    );
}

#[test]
fn erasures_and_moves_slow_an_overwritten_drive() {
    let blocks = |flash: &mut Flash| {
        flash.blocks = Some(Blocks {
            bytes: 1 << 20,
            erase_us: 3200.0,
            spare_percent: 10.0,
        });
    };
    let drive = plain(blocks);
    let page = 2.0 / (1e-3 + 16.384e-6);
    let writes = |sequential| {
        let load = Load::new(Operation::Write, 8, PAGE, sequential);
        Load {
            // The whole drive once, and what it has to spare.
            before: (CAPACITY / PAGE) as usize * 5 / 4,
            measured: 20_000,
            ..load
        }
    };
    // 64 pages a block: an erasure of each channel for every 32 of its pages.
    let erasing = 2.0 / (1e-3 + 16.384e-6 + 3.2e-3 / 32.0);
    let is = rate(&drive, writes(true));
    assert!((is / erasing - 1.0).abs() < 0.02, "{is}, not {erasing}");
    assert!(is < page);
    let is = rate(&drive, writes(false));
    assert!(is < erasing * 0.75, "{is}: random writes move live data");
    assert!(is > erasing / 12.0, "{is}: the cost of a page is bounded");
}

#[test]
fn a_discard_takes_its_time_and_frees_blocks() {
    let drive = plain(|flash| {
        flash.discard_us = 500.0;
        flash.blocks = Some(Blocks {
            bytes: 1 << 20,
            erase_us: 0.0,
            spare_percent: 1.0,
        });
    });
    let mut model = Model::new(&drive, CAPACITY).unwrap();
    model.occupy(0, CAPACITY);
    let mut at = 0;
    let mut time = |model: &mut Model, operation, offset, length| {
        at += SECOND;
        let ticket = model.arrive(request(operation, offset, length, at));
        match model.ask(ticket, at) {
            Timing::Complete(end) => end - at,
            Timing::AskAt(_) => panic!("flash knows"),
        }
    };
    let whole = 1_000_000 + 2 * 16_384;
    let mut full = 0;
    for page in 0..4096 {
        let place = page * 7919 % (CAPACITY / PAGE) * PAGE;
        full = full.max(time(&mut model, Operation::Write, place, PAGE));
    }
    assert!(full > 2 * whole, "{full}: a full drive moves what is live");
    assert_eq!(time(&mut model, Operation::Discard, 0, CAPACITY), 500_000);
    // The open block still has the surcharge of its collection.
    for page in 0..64 {
        time(&mut model, Operation::Write, page * PAGE, PAGE);
    }
    for page in 0..4096 {
        let place = page * 7919 % (CAPACITY / PAGE) * PAGE;
        assert_eq!(time(&mut model, Operation::Write, place, PAGE), whole);
    }
}
