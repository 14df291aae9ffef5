//! Resolving a launch after an earlier one, on a fake system.

use super::tests::{EXT4, FakeProbe, accesses, cached, fake, file, run, run_after};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::model::ranges::RangeSet;
use crate::model::{InodeId, Learned, Place, PrefetchEntry, Profile};
use crate::profile::generate::sample;

/// When the launches before were learned.
const LEARNED_S: u64 = 1_700_000_000;

/// What the launch after this one knows of it from its profile.
fn after(sequence: &Sequence, learned_at: &[u64], live: bool, dev: Option<u64>) -> Earlier {
    let entries = sequence.log.iter().map(|entry| PrefetchEntry {
        span: entry.span,
        time_us: entry.time_us,
    });
    let profile = Profile {
        devices: sequence.devices.clone(),
        files: sequence.files.clone(),
        entries: entries.collect(),
        fault_around: sequence.fault_around.clone(),
        unused: sequence.unused.clone(),
        learned_at: learned_at.to_vec(),
        learned: Learned::Live,
        helpers: sequence.helpers.clone(),
        ..sample("/bin/app")
    };
    let devices = vec![dev; profile.devices.len()];
    Earlier::new(&profile, live, devices)
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
        &after(&first, &[LEARNED_S], false, Some(EXT4)),
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
            &after(&first, &[LEARNED_S], touches, Some(EXT4)),
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
        &after(&first, &[LEARNED_S], false, Some(EXT4)),
        &trace,
        false,
        &mut files(),
    );
    // Now everything is cached, and no helper reads anything.
    let warm = accesses("read 11:0+2");
    let third = run_after(
        &after(&second, &[LEARNED_S], true, Some(EXT4)),
        &warm,
        true,
        &mut files(),
    );
    for entry in ["m:70+1@1", "m:12+1@2", "12:0+2@2"] {
        let log = third.log_text();
        assert!(log.contains(entry), "{entry}: {log}");
    }
    assert_eq!(by_helpers(&third), [(70, 1, true), (0, 2, true)]);
    assert!(third.unread.iter().any(|span| span.start == 70));
    // From an empty cache they would have shown.
    let cold = run_after(
        &after(&second, &[LEARNED_S], false, Some(EXT4)),
        &warm,
        false,
        &mut files(),
    );
    assert_eq!(by_helpers(&cold), []);
    assert!(cold.log.iter().all(|entry| entry.span.start != 70));
    // By present device numbers.
    assert_eq!(after(&first, &[LEARNED_S], true, None).kept(0), []);
    let elsewhere = after(&first, &[LEARNED_S], true, Some(EXT4 + 6)).kept(0);
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
    run_after(
        &after(&first, &[LEARNED_S], true, Some(EXT4)),
        &accesses(live),
        true,
        now,
    )
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
    // That the others are used is known from the launch before.
    assert_eq!(mapped, [32..48; 1]);
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

        let known = after(&first, &[LEARNED_S], touches, Some(EXT4));
        let again = launch(&known, &trace);
        assert!(
            again.log_text().ends_with("12:0+2000@1"),
            "{}",
            again.log_text()
        );
        let another = launch(&known, &with_data(source, 13, in_order));
        assert_eq!(another.log_text(), "m:11+1@0 11:0+1@0");
        // What came back stays, whatever is opened then.
        let known = after(&again, &[LEARNED_S], touches, Some(EXT4));
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

/// What was learned of an app by these launches, one after the other, each at a second of its own.
struct LaunchRow {
    known: Earlier,
    last: Sequence,
    probe: FakeProbe,
    now_s: u64,
    learned_at: Vec<u64>,
}

impl LaunchRow {
    fn new(probe: FakeProbe) -> Self {
        LaunchRow {
            known: Earlier::default(),
            last: Sequence::default(),
            probe,
            now_s: LEARNED_S,
            learned_at: Vec::new(),
        }
    }

    /// Learns the next launch live; returns the log without times.
    fn learn(&mut self, trace: &str) -> String {
        let observed = Observed {
            accesses: &accesses(trace),
            paths: &[],
            namespaces: &Namespaces::default(),
            start_ns: 5_000_000,
            started: SystemTime::UNIX_EPOCH + Duration::from_secs(self.now_s),
            touches: true,
            earlier: &self.known,
            uid: 0,
        };
        let probe = &mut self.probe;
        self.last = resolve_with(&observed, &mut |key, _, _| probe.look_at(key));
        self.learned_at = self.known.learned_at(self.now_s);
        self.known = after(&self.last, &self.learned_at, true, Some(EXT4));
        self.now_s += 1;
        let mut files: BTreeMap<u64, RangeSet> = BTreeMap::new();
        for entry in &self.last.log {
            if let Place::Data { file } = entry.span.place {
                let ino = self.last.files[file as usize].ino;
                files.entry(ino).or_default().insert(entry.span.pages());
            }
        }
        let pages = files.iter().flat_map(|(ino, pages)| {
            let text = move |pages: Range<u64>| {
                format!("{ino}:{}+{}", pages.start, pages.end - pages.start)
            };
            pages.ranges().map(text)
        });
        pages.collect::<Vec<_>>().join(" ")
    }

    fn unsure(&self) -> Vec<Range<u64>> {
        self.last.fault_around.iter().map(Span::pages).collect()
    }
}

#[test]
fn windows_that_shift_leave_what_they_have_in_common() {
    let mut launches = LaunchRow::new(fake([all_cached(11, 64), all_cached(12, 64)]));
    // The launch touches page 10; another file is mapped at the same addresses each time.
    let by_windows = |start| format!("fault 12:0+1, window 11:{start}+16, window 12:0+16");
    assert_eq!(launches.learn(&by_windows(0)), "11:0+16 12:0+16");
    assert_eq!(launches.learn(&by_windows(7)), "11:7+9 12:0+16");
    assert_eq!(launches.learn(&by_windows(9)), "11:9+7 12:0+16");
    assert_eq!(launches.unsure(), [1..16, 9..16]);
    // The same launch again tells nothing new.
    assert_eq!(launches.learn(&by_windows(9)), "11:9+7 12:0+16");
    assert_eq!(launches.last.unused, []);
    // Once it is seen to be used, it is needed, and later windows do not change that.
    assert_eq!(
        launches.learn("fault 11:10+1, window 11:10+16, window 12:0+16"),
        "11:10+6 12:0+16"
    );
    assert_eq!(launches.unsure(), [11..16, 1..16]);
    launches.learn(&by_windows(0));
    assert_eq!(launches.unsure(), [1..16, 11..16]);
}

#[test]
fn pages_that_a_launch_used_stay_until_none_has_used_them_for_long() {
    let mut launches = LaunchRow::new(fake([all_cached(11, 64), all_cached(12, 64)]));
    launches.learn("added 0:70+1, read 0:70+1, read 11:0+4, read 12:0+2");
    for _ in 0..5 {
        assert_eq!(
            launches.learn("read 11:2+4"),
            "11:0+6 12:0+2",
            "not for long"
        );
    }
    let unused: Vec<_> = launches
        .last
        .unused
        .iter()
        .map(|unused| unused.used_s)
        .collect();
    assert_eq!(unused, [LEARNED_S; 3], "the metadata, too");
    assert!(launches.last.log.iter().any(|entry| entry.span.start == 70));
    launches.now_s += 15 * 24 * 60 * 60;
    assert_eq!(launches.learn("read 11:2+4"), "11:2+4");
    assert_eq!(launches.last.report.outdated_pages, 2 + 2 + 1);
    assert!(launches.last.log.iter().all(|entry| entry.span.start != 70));
    // Three launches must have done without.
    launches.learn("read 12:0+2");
    launches.now_s += 15 * 24 * 60 * 60;
    assert_eq!(launches.learn("read 11:2+2"), "11:2+4 12:0+2");
    launches.learn("read 11:2+2");
    assert_eq!(launches.learn("read 11:2+2"), "11:2+2");
}

#[test]
fn a_launch_that_fails_early_tells_nothing_of_windows() {
    let mut launches = LaunchRow::new(fake([all_cached(11, 64), all_cached(12, 64)]));
    let whole = "fault 11:0+1, fault 11:40+1, fault 11:50+1, window 11:0+16, window 11:40+16, window 12:0+16";
    let learned = "11:0+16 11:40+16 12:0+16";
    assert_eq!(launches.learn(whole), learned);
    assert_eq!(launches.learn("fault 11:0+1, window 11:0+8"), learned);
    assert_eq!(launches.unsure(), [1..16, 41..50, 51..56, 0..16]);
    let other_way = "fault 11:0+1, fault 11:40+1, window 11:0+8, window 11:40+8, window 12:4+12";
    assert_eq!(launches.learn(other_way), "11:0+8 11:40+8 11:50+1 12:4+12");
}

#[test]
fn what_changed_is_learned_anew() {
    let mut launches = LaunchRow::new(fake([all_cached(11, 64), all_cached(12, 64)]));
    launches.learn("read 11:0+4, read 12:0+2");
    let (ino, mut facts) = all_cached(11, 64);
    facts.mtime_ns += 1;
    launches.probe = fake([(ino, facts)]);
    assert_eq!(
        launches.learn("read 11:9+1"),
        "11:9+1",
        "and a file that is gone leaves"
    );
    assert_eq!(
        launches.last.report.gone.files, 0,
        "this launch has not asked for it"
    );
}

#[test]
fn what_recurred_among_helpers_leaves_when_no_launch_has_used_it_for_long() {
    let mut launches = LaunchRow::new(fake([all_cached(11, 64), all_cached(12, 64)]));
    let with_helper = "read 11:0+4, helper read 12:0+8";
    assert_eq!(launches.learn(with_helper), "11:0+4");
    assert_eq!(launches.learn(with_helper), "11:0+4 12:0+8");
    for _ in 0..4 {
        let learned = launches.learn("read 11:0+4");
        assert_eq!(learned, "11:0+4 12:0+8", "not for long");
    }
    launches.now_s += 15 * 24 * 60 * 60;
    assert_eq!(launches.learn("read 11:0+4"), "11:0+4");
    assert!(launches.last.helpers.is_empty());
}

#[test]
fn what_helpers_do_that_the_launch_did_before_is_in_use() {
    let mut launches = LaunchRow::new(fake([all_cached(11, 64), all_cached(12, 64)]));
    launches.learn("read 11:0+4, read 12:0+8");
    for _ in 0..5 {
        launches.now_s += 15 * 24 * 60 * 60;
        let learned = launches.learn("read 11:0+4, helper read 12:0+6");
        assert!(learned.starts_with("11:0+4 12:0+"), "{learned}");
    }
    assert_eq!(launches.learn("read 11:0+4"), "11:0+4 12:0+6");
}

/// A file of a version of an app, which lies in a directory of its own.
fn of_version(ino: u64, version: u32, name: &str) -> (u64, FileFacts) {
    let (ino, mut facts) = all_cached(ino, 64);
    facts.path = Some(format!("/opt/app-{version}/{name}").into_bytes());
    (ino, facts)
}

#[test]
fn after_each_update_beside_the_old_version_the_new_one_alone_is_left() {
    let versions = 1..7;
    let files = versions.clone().flat_map(|version| {
        let ino = 10 * u64::from(version);
        [
            of_version(ino, version, "app"),
            of_version(ino + 1, version, "data/x"),
        ]
    });
    let (ino, mut library) = all_cached(5, 64);
    library.path = Some(b"/usr/lib/libc.so".to_vec());
    let mut launches = LaunchRow::new(fake(files.chain([(ino, library)])));
    for version in versions {
        let [app, data] = [10 * version, 10 * version + 1];
        let trace = format!("read 5:0+4, read {app}:0+4, read {data}:0+9");
        let expected = format!("5:0+4 {app}:0+4 {data}:0+9");
        for _ in 0..2 {
            assert_eq!(launches.learn(&trace), expected);
        }
    }
    assert_eq!(launches.last.report.outdated_pages, 0);
    // Version 2 comes back: it is as new as any.
    launches.learn("read 20:0+4");
    assert_eq!(
        launches.learn("read 20:0+4, read 21:1+1"),
        "5:0+4 20:0+4 21:1+1"
    );
}

/// The sequence page by page, with the times.
fn single_pages(sequence: &[(InodeId, PrefetchEntry)]) -> Vec<(u64, InodeId, Place, u64)> {
    let mut pages: Vec<_> = sequence
        .iter()
        .flat_map(|(inode, entry)| {
            let pages = entry.span.pages();
            pages.map(|page| (entry.time_us, *inode, entry.span.place, page))
        })
        .collect();
    pages.sort_by_key(|(time_us, inode, _, page)| (*time_us, inode.ino, *page));
    pages
}

proptest! {
    /// What a launch used stays for the next ones; equal launches change nothing; nothing comes from nowhere.
    #[test]
    fn launches_are_combined(
        used in vec(vec(0u64..64, 1..10), 1..6),
        windows in vec(vec((0u64..64, 2..16u64), 0..6), 6),
    ) {
        let mut launches = LaunchRow::new(fake([all_cached(11, 80)]));
        let mut needed = RangeSet::default();
        for (used, windows) in used.iter().zip(&windows) {
            let faults = used.iter().map(|page| format!("fault 11:{page}+1"));
            let windows = windows.iter().map(|(start, len)| format!("window 11:{start}+{len}"));
            let trace: Vec<String> = faults.chain(windows.clone()).collect();
            for page in used {
                needed.insert(*page..page + 1);
            }
            launches.learn(&trace.join(", "));
            let log = launches.last.log.iter().filter(|entry| !entry.span.place.is_metadata());
            let learned: RangeSet = log.map(|entry| entry.span.pages()).collect();
            for range in needed.ranges() {
                prop_assert_eq!(learned.missing(&range), []);
            }
            let unsure: RangeSet = launches.unsure().into_iter().collect();
            prop_assert_eq!(unsure.len() + needed.len(), learned.len());
            // It may take the second of equal launches to tell what the windows of others hold in vain.
            launches.learn(&trace.join(", "));
            let settled = launches.known.clone();
            launches.learn(&trace.join(", "));
            // Neighbours of one time may have become one entry.
            prop_assert_eq!(
                single_pages(&launches.known.sequence),
                single_pages(&settled.sequence)
            );
        }
    }
}
