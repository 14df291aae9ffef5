//! Resolving a launch after an earlier one, on a fake system.

use super::tests::{EXT4, FakeProbe, accesses, cached, fake, file, run, run_after};
use super::*;
use crate::model::{PrefetchEntry, Profile};
use crate::profile::generate::sample;

/// What the launch after this one knows of it from its profile.
fn after(sequence: &Sequence, live: bool, dev: Option<u64>) -> Earlier {
    let entries = sequence.log.iter().map(|entry| PrefetchEntry {
        span: entry.span,
        time_us: entry.time_us,
    });
    let profile = Profile {
        devices: sequence.devices.clone(),
        files: sequence.files.clone(),
        entries: entries.collect(),
        fault_around: sequence.fault_around.clone(),
        helpers: sequence.helpers.clone(),
        ..sample("/bin/app")
    };
    Earlier::new(&profile, live, |_| dev)
}

fn files() -> FakeProbe {
    fake([file(11, 8), file(12, 20)])
}

/// The tree reads file 11; a helper reads these pages of file 12 and a block of metadata.
fn with_helper(pages: &str) -> Vec<Access> {
    accesses(&format!(
        "added 11:0+1, helper added 0:70+1, helper added 12:{pages}, added 11:5+1"
    ))
}

fn by_helpers(sequence: &Sequence) -> Vec<(u64, u64, bool)> {
    let reads = sequence.helpers.iter();
    reads
        .map(|read| (read.entry.span.start, read.entry.span.len, read.recurs))
        .collect()
}

#[test]
fn reads_of_helpers_are_learned_once_they_recur() {
    let first = run(&with_helper("0+4"), files());
    assert_eq!(first.log_text(), "m:11+1@0 11:0+1@0 11:5+1@3");
    assert_eq!(by_helpers(&first), [(70, 1, false), (0, 4, false)]);
    assert_eq!(first.report.helper_pages, 5);
    let both = accesses("helper added 11:0+4, read 11:0+4");
    assert_eq!(by_helpers(&run(&both, files())), [], "they are the tree's");

    let trace = with_helper("2+4");
    let second = run_after(
        &after(&first, false, Some(EXT4)),
        &trace,
        false,
        &mut files(),
    );
    // The inode of the file that the helper read is needed, too.
    let expected = "m:11+1@0 11:0+1@0 m:70+1@1 m:12+1@2 12:2+2@2 11:5+1@3";
    assert_eq!(second.log_text(), expected);
    let expected = [(70, 1, true), (2, 2, true), (4, 2, false)];
    assert_eq!(by_helpers(&second), expected);
    assert_eq!(second.report.recurring_pages, 3);
}

#[test]
fn what_older_processes_of_the_user_add_is_learned_once_it_recurs() {
    for touches in [false, true] {
        let trace =
            accesses("read 11:0+1, daemon added 0:70+1, daemon added 12:0+4, other added 12:8+4");
        let first = run_after(&Earlier::default(), &trace, touches, &mut files());
        assert_eq!(first.log_text(), "m:11+1@0 11:0+1@0");
        assert_eq!(by_helpers(&first), [(70, 1, false), (0, 4, false)]);
        let trace = accesses("read 11:0+1, daemon added 12:2+8, helper read 12:1+1");
        let second = run_after(
            &after(&first, touches, Some(EXT4)),
            &trace,
            touches,
            &mut files(),
        );
        let log = second.log_text();
        assert!(log.contains("12:1+1") && log.contains("12:2+2"), "{log}");
        assert!(!log.contains("12:4"), "it was added once: {log}");
    }
}

#[test]
fn live_learning_keeps_earlier_reads_of_helpers() {
    let first = run(&with_helper("0+4"), files());
    let trace = with_helper("0+2");
    let second = run_after(
        &after(&first, false, Some(EXT4)),
        &trace,
        false,
        &mut files(),
    );
    // Now everything is cached, and no helper reads anything.
    let warm = accesses("read 11:0+2");
    let third = run_after(&after(&second, true, Some(EXT4)), &warm, true, &mut files());
    for entry in ["m:70+1@1", "m:12+1@2", "12:0+2@2"] {
        let log = third.log_text();
        assert!(log.contains(entry), "{entry}: {log}");
    }
    assert_eq!(by_helpers(&third), [(70, 1, true), (0, 2, true)]);
    assert!(third.unread.iter().any(|span| span.start == 70));
    // From an empty cache they would have shown.
    let cold = run_after(
        &after(&second, false, Some(EXT4)),
        &warm,
        false,
        &mut files(),
    );
    assert_eq!(by_helpers(&cold), []);
    assert!(cold.log.iter().all(|entry| entry.span.start != 70));
    // By present device numbers.
    assert_eq!(after(&first, true, None).kept(0), []);
    let elsewhere = after(&first, true, Some(EXT4 + 6)).kept(0);
    assert!(!elsewhere.is_empty() && elsewhere.iter().all(|access| access.dev == EXT4 + 6));
}

/// A file of which all pages are cached.
fn all_cached(ino: u64, pages: u64) -> (u64, FileFacts) {
    cached(file(ino, pages), std::slice::from_ref(&(0..pages)))
}

/// What a live launch after an exact one that used some pages gives.
fn live_after_exact(exact: &str, live: &str, now: &mut FakeProbe) -> Sequence {
    let mut then = fake([all_cached(11, 64)]);
    let first = run_after(&Earlier::default(), &accesses(exact), true, &mut then);
    assert_eq!(first.fault_around, []);
    run_after(&after(&first, true, Some(EXT4)), &accesses(live), true, now)
}

#[test]
fn pages_mapped_by_fault_around_and_not_needed_before_are_left_out() {
    let mut now = fake([all_cached(11, 64)]);
    // Page 5 is touched itself, beside being in a window. Of the last window nothing was needed before, and
    // something is now.
    let live = "window 11:0+16, fault 11:5+1, window 11:16+16, window 11:32+16";
    let second = live_after_exact("read 11:3+1, read 11:20+1", live, &mut now);
    let expected = "m:11+1@0 11:3+1@0 11:5+1@0 11:20+1@2 11:32+16@3";
    assert_eq!(second.log_text(), expected);
    assert_eq!(second.report.refined_pages, 14 + 15);
    let mapped: Vec<_> = second.fault_around.iter().map(Span::pages).collect();
    assert_eq!(mapped, [3..4, 20..21, 32..48]);
    // A file that changed or is new is not refined.
    let mut changed = all_cached(11, 64);
    changed.1.mtime_ns += 1;
    let mut now = fake([changed, all_cached(12, 64)]);
    let second = live_after_exact("read 11:3+1", "window 11:0+16, window 12:0+16", &mut now);
    let pages: u64 = second.fault_around.iter().map(|span| span.len).sum();
    assert_eq!((pages, second.report.refined_pages), (32, 0));
}

/// A launch that reads its own file 11 and then 2000 pages of another one, 16 at a time.
fn with_data(source: &str, ino: u64, place: impl Fn(u64) -> u64) -> Vec<Access> {
    let reads = (0..125).map(|read| format!("{source} {ino}:{}+16", place(read) * 16));
    let reads: Vec<String> = reads.collect();
    accesses(&format!("{source} 11:0+1, {}", reads.join(", ")))
}

#[test]
fn a_users_large_file_that_is_read_from_end_to_end_is_learned_once_that_recurs() {
    let users = |ino| file(ino, 4000);
    let mut roots = users(12);
    roots.1.is_roots = true;
    let in_order = |read| read;
    for touches in [false, true] {
        let source = if touches { "read" } else { "added" };
        let launch = |earlier: &Earlier, trace: &[Access]| {
            let mut system = fake([file(11, 1), users(12), users(13)]);
            run_after(earlier, trace, touches, &mut system)
        };
        let trace = with_data(source, 12, in_order);
        let first = launch(&Earlier::default(), &trace);
        assert_eq!(first.log_text(), "m:11+1@0 11:0+1@0");
        assert_eq!(first.report.data_pages, 2000);
        assert_eq!(
            (first.report.helper_pages, first.report.recurring_pages),
            (0, 0)
        );

        let known = after(&first, touches, Some(EXT4));
        let again = launch(&known, &trace);
        assert!(
            again.log_text().ends_with("12:0+2000@1"),
            "{}",
            again.log_text()
        );
        let another = launch(&known, &with_data(source, 13, in_order));
        assert_eq!(another.log_text(), "m:11+1@0 11:0+1@0");
        // What came back stays, whatever is opened then.
        let known = after(&again, touches, Some(EXT4));
        let third = launch(&known, &with_data(source, 13, in_order));
        assert_eq!(third.log_text().contains("12:0+2000"), touches);

        let mut system = fake([file(11, 1), roots.clone()]);
        let installed = run_after(&Earlier::default(), &trace, touches, &mut system);
        assert!(installed.log_text().ends_with("12:0+2000@1"));
        // As databases and libraries are read: in no order, here and there, or a small part.
        let shuffled = with_data(source, 12, |read| read * 37 % 125);
        let here_and_there = with_data(source, 12, |read| read * 2);
        let small = &trace[..64];
        for own in [&shuffled[..], &here_and_there, small] {
            let sequence = launch(&Earlier::default(), own);
            assert_eq!(sequence.report.data_pages, 0);
            assert!(
                sequence.log_text().contains(" 12:0+"),
                "{}",
                sequence.log_text()
            );
        }
    }
}
