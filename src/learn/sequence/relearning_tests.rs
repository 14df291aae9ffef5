//! Resolving a launch after an earlier one, on a fake system.

use super::tests::{EXT4, accesses, fake, file, run, run_after, short};
use super::*;
use crate::model::PrefetchEntry;
use crate::model::Profile;
use crate::model::{By, Source};
use crate::profile::generate::sample;

use Source::{Added, Fault, Read, Window};

/// The profile of a launch, as far as the next one looks at it.
fn profile_of(sequence: &Sequence) -> Profile {
    let entries = sequence.log.iter().map(|entry| PrefetchEntry {
        span: entry.span,
        time_us: entry.time_us,
    });
    Profile {
        devices: sequence.devices.clone(),
        files: sequence.files.clone(),
        entries: entries.collect(),
        fault_around: sequence.fault_around.clone(),
        helpers: sequence.helpers.clone(),
        ..sample("/bin/app")
    }
}

fn after(sequence: &Sequence, live: bool) -> Earlier {
    Earlier::new(&profile_of(sequence), live, |device| Some(device.dev))
}

/// The tree reads file 11; a helper reads the given pages of file 12 and a block of metadata.
fn with_helper(pages: &[(u64, u64)]) -> Vec<Access> {
    let mut list = vec![(11, 0, 1, Added), (0, 70, 1, Added)];
    list.extend(pages.iter().map(|&(start, len)| (12, start, len, Added)));
    list.push((11, 5, 1, Added));
    let mut trace = accesses(&list);
    for access in &mut trace {
        if access.ino != 11 {
            access.by = By::Helper;
        }
    }
    trace
}

fn by_helpers(sequence: &Sequence) -> Vec<(u64, u64, bool)> {
    let reads = sequence.helpers.iter();
    reads
        .map(|read| (read.entry.span.start, read.entry.span.len, read.recurs))
        .collect()
}

#[test]
fn reads_of_helpers_are_learned_once_they_recur() {
    let files = || fake([(11, file(11, 8)), (12, file(12, 20))]);
    let first = run(&with_helper(&[(0, 4)]), files());
    assert_eq!(short(&first), [(0, 11, 1, 0), (11, 0, 1, 0), (11, 5, 1, 3)]);
    assert_eq!(by_helpers(&first), [(70, 1, false), (0, 4, false)]);
    assert_eq!(first.report.helper_pages, 5);

    let trace = with_helper(&[(2, 4)]);
    let second = run_after(&after(&first, false), &trace, false, &mut files());
    assert_eq!(
        short(&second),
        [
            (0, 11, 1, 0),
            (11, 0, 1, 0),
            (0, 70, 1, 1),
            // The inode of the file that the helper read is needed, too.
            (0, 12, 1, 2),
            (12, 2, 2, 2),
            (11, 5, 1, 3)
        ]
    );
    assert_eq!(
        by_helpers(&second),
        [(70, 1, true), (2, 2, true), (4, 2, false)]
    );
    assert_eq!(second.report.recurring_pages, 3);
}

#[test]
fn live_learning_keeps_earlier_reads_of_helpers() {
    let files = || fake([(11, file(11, 8)), (12, file(12, 20))]);
    let first = run(&with_helper(&[(0, 4)]), files());
    let trace = with_helper(&[(0, 2)]);
    let second = run_after(&after(&first, false), &trace, false, &mut files());
    // Now everything is cached, and no helper reads anything.
    let warm = accesses(&[(11, 0, 2, Read)]);
    let third = run_after(&after(&second, true), &warm, true, &mut files());
    let of_helpers = [(0, 70, 1, 1), (0, 12, 1, 2), (12, 0, 2, 2)];
    for entry in of_helpers {
        assert!(
            short(&third).contains(&entry),
            "{entry:?}: {:?}",
            short(&third)
        );
    }
    assert_eq!(by_helpers(&third), [(70, 1, true), (0, 2, true)]);
    assert!(third.unread.iter().any(|span| span.start == 70));
    // From an empty cache they would have shown.
    let cold = run_after(&after(&second, false), &warm, false, &mut files());
    assert_eq!(by_helpers(&cold), []);
    assert!(cold.log.iter().all(|entry| entry.span.start != 70));
}

#[test]
fn a_page_of_the_tree_is_not_a_helpers() {
    let mut trace = accesses(&[(11, 0, 4, Added), (11, 0, 4, Read)]);
    trace[0].by = By::Helper;
    let sequence = run(&trace, fake([(11, file(11, 8))]));
    assert_eq!(short(&sequence), [(0, 11, 1, 1), (11, 0, 4, 1)]);
    assert_eq!(by_helpers(&sequence), []);
}

/// All of the file is cached.
fn cached(pages: u64) -> FileFacts {
    let mut facts = file(11, pages);
    facts.cached.push(0..pages);
    facts
}

#[test]
fn pages_mapped_by_fault_around_and_not_needed_before_are_left_out() {
    let exact = accesses(&[(11, 3, 1, Read), (11, 20, 1, Read)]);
    let first = run_after(
        &Earlier::default(),
        &exact,
        true,
        &mut fake([(11, cached(64))]),
    );
    assert_eq!(first.fault_around, []);

    let live = accesses(&[
        (11, 0, 16, Window),
        // Touched itself, also in the window after.
        (11, 5, 1, Fault),
        (11, 16, 16, Window),
        // Nothing in here was needed before: something is now.
        (11, 32, 16, Window),
    ]);
    let second = run_after(
        &after(&first, true),
        &live,
        true,
        &mut fake([(11, cached(64))]),
    );
    assert_eq!(
        short(&second),
        [
            (0, 11, 1, 0),
            (11, 3, 1, 0),
            (11, 5, 1, 0),
            (11, 20, 1, 2),
            (11, 32, 16, 3)
        ]
    );
    assert_eq!(second.report.refined_pages, 14 + 15);
    let along: Vec<(u64, u64)> = second
        .fault_around
        .iter()
        .map(|s| (s.start, s.len))
        .collect();
    assert_eq!(along, [(3, 1), (20, 1), (32, 16)]);
}

#[test]
fn a_file_that_changed_or_is_new_is_not_refined() {
    let exact = accesses(&[(11, 3, 1, Read)]);
    let first = run_after(
        &Earlier::default(),
        &exact,
        true,
        &mut fake([(11, cached(16))]),
    );
    let live = accesses(&[(11, 0, 16, Window), (12, 0, 16, Window)]);
    let mut changed = cached(16);
    changed.mtime_ns += 1;
    let mut system = fake([(11, changed), (12, cached(16))]);
    let second = run_after(&after(&first, true), &live, true, &mut system);
    let pages: u64 = second.fault_around.iter().map(|span| span.len).sum();
    assert_eq!((pages, second.report.refined_pages), (32, 0));
}

#[test]
fn an_unmounted_device_tells_nothing() {
    let first = run(&with_helper(&[(0, 4)]), fake([(12, file(12, 20))]));
    let nowhere = Earlier::new(&profile_of(&first), true, |_| None);
    assert_eq!(nowhere.kept(0), []);
    let elsewhere = Earlier::new(&profile_of(&first), true, |_| Some(EXT4 + 6));
    assert!(
        elsewhere
            .kept(0)
            .iter()
            .all(|access| access.dev == EXT4 + 6)
    );
}
