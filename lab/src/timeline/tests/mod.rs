//! Whole timelines from made-up recordings.

use super::*;
use crate::methods::LearnedSet;
use crate::methods::samples::app;
use paralfetch::model::DriveClass;
use paralfetch::model::Hooks;
use paralfetch::model::{Device, Ended, File, Learned, Profile};
use paralfetch::model::{LogEntry, Place as ProfilePlace, PrefetchEntry, Span};

mod any;

const DEV: u64 = 0x700;
const START_NS: u64 = 1_000_000_000;
const FILE: FileId = FileId {
    dev: DEV,
    ino: 12,
    generation: 5,
};

fn place(start: u64, pages: u64) -> Place {
    Place {
        file: FILE,
        start,
        pages,
    }
}

/// A learned set of one file, under another device number, whose log has these parts `(start, pages)`.
fn learned_set(parts: &[(u64, u64)]) -> LearnedSet {
    let log = parts.iter().map(|&(start, len)| LogEntry {
        span: span(start, len),
        device: 0,
        lba: 8000 + start * 8,
        time_us: 0,
    });
    let profile = Profile {
        app: app(),
        created: 0,
        learned: Learned::Exact,
        ended: Ended::Exit,
        hooks: Hooks::default(),
        history: Vec::new(),
        devices: vec![Device {
            dev: DEV + 1,
            name: "loop1".to_owned(),
            fs: "ext4".to_owned(),
            fs_uuid: [7; 16],
            class: DriveClass::CommandQueuing,
        }],
        files: vec![File {
            device: 0,
            ino: FILE.ino,
            generation: FILE.generation,
            size: 1 << 20,
            mtime_ns: 0,
            path: None,
        }],
        entries: Vec::new(),
        fault_around: Vec::new(),
        unused: Vec::new(),
        operations: Vec::new(),
        learned_at: Vec::new(),
        helpers: Vec::new(),
        completion: None,
        log_entries: parts.len() as u32,
        obsolete: 0,
    };
    LearnedSet {
        profile,
        log: log.collect(),
        unread: Vec::new(),
        duration: std::time::Duration::from_secs(1),
        window: None,
    }
}

fn span(start: u64, len: u64) -> Span {
    Span {
        place: ProfilePlace::Data { file: 0 },
        start,
        len,
    }
}

fn entry(start: u64, len: u64) -> PrefetchEntry {
    PrefetchEntry {
        span: span(start, len),
        time_us: 0,
    }
}

/// Events at microseconds since the start.
fn raw(events: &[(u64, What)]) -> Raw {
    let mut events: Vec<Event> = events
        .iter()
        .map(|&(time_us, what)| Event {
            time_ns: START_NS + time_us * 1000,
            what,
        })
        .collect();
    events.sort_by_key(|event| event.time_ns);
    Raw {
        start_ns: START_NS,
        drive: DEV,
        fs_uuid: [7; 16],
        events,
        names: [(FILE, "/usr/lib/libfoo.so".to_owned())].into(),
    }
}

fn issue(request: u64, by: By, pid: u32, start: u64, pages: u64) -> What {
    What::Issue {
        request,
        sector: 8000 + start * 8,
        bytes: pages * 4096,
        write: false,
        pid,
        by,
        place: Some(place(start, pages)),
    }
}

fn wait(pid: u32, used: Option<Place>) -> What {
    What::Out {
        pid,
        io_wait: true,
        place: used,
    }
}

fn facts(seconds: f64) -> Facts {
    Facts {
        device: "qlc-sata".to_owned(),
        app: "gimp".to_owned(),
        scenario: "infill".to_owned(),
        seconds,
        window: Some(0.0005),
        completion: None,
    }
}

fn reasons(timeline: &Timeline) -> Vec<(u64, u64, u64, Why)> {
    let misses = timeline.misses.iter();
    let reason = |miss: &Miss| (miss.time_us, miss.wait_us, miss.offset, miss.why);
    misses.map(reason).collect()
}

/// The app reads four parts; the prefetcher asked for one in time, and for one shortly before.
fn prefetched_launch() -> Raw {
    raw(&[
        (0, What::Added(By::Helper, place(0, 4))),
        (0, issue(1, By::Helper, 50, 0, 4)),
        (90, What::Done(1)),
        (100, What::Touched(place(0, 4))),
        (150, What::Added(By::Helper, place(10, 2))),
        (150, issue(2, By::Helper, 50, 10, 2)),
        (160, What::Touched(place(10, 1))),
        (160, wait(60, Some(place(10, 1)))),
        (200, What::Done(2)),
        (210, What::In(60)),
        (300, What::Added(By::Tree, place(20, 1))),
        (300, issue(3, By::Tree, 60, 20, 1)),
        (301, wait(60, None)),
        (380, What::Done(3)),
        (401, What::In(60)),
        (500, issue(1, By::Tree, 60, 90, 2)),
        (550, What::Done(1)),
    ])
}

#[test]
fn each_miss_has_its_reason() {
    let (set, entries) = (
        learned_set(&[(0, 4), (10, 2), (20, 1)]),
        [entry(0, 4), entry(10, 2), entry(20, 1)],
    );
    let timeline = analyse(&prefetched_launch(), &set, &entries, facts(0.001));
    let expected = [
        (160, 50, 10, Why::CameTooLate),
        (300, 100, 20, Why::NotReachedYet),
        (500, 0, 90, Why::NotInProfile),
    ];
    assert_eq!(reasons(&timeline), expected);
    assert_eq!(timeline.misses[0].what, "/usr/lib/libfoo.so");
    // The same, by what a prefetcher without entries was seen to add.
    let timeline = analyse(&prefetched_launch(), &set, &[], facts(0.001));
    let why: Vec<Why> = timeline.misses.iter().map(|miss| miss.why).collect();
    assert_eq!(
        why,
        [Why::CameTooLate, Why::NotInProfile, Why::NotInProfile]
    );
}

#[test]
fn a_read_that_was_prefetched_before_is_told_apart() {
    let raw = raw(&[
        (10, What::Added(By::Helper, place(0, 4))),
        (20, issue(1, By::Tree, 60, 2, 1)),
    ]);
    let timeline = analyse(&raw, &learned_set(&[(0, 4)]), &[entry(0, 4)], facts(0.001));
    assert_eq!(reasons(&timeline), [(20, 0, 2, Why::ReadAgain)]);
}

#[test]
fn without_a_prefetcher_it_is_nobodys_fault() {
    let raw = raw(&[
        (20, issue(1, By::Tree, 60, 2, 1)),
        // Others' reads and the tree's writes are no misses.
        (21, issue(2, By::Other, 9, 3, 1)),
        (
            22,
            What::Issue {
                request: 3,
                sector: 0,
                bytes: 4096,
                write: true,
                pid: 60,
                by: By::Tree,
                place: None,
            },
        ),
    ]);
    let timeline = analyse(&raw, &learned_set(&[(0, 4)]), &[], facts(0.001));
    assert_eq!(reasons(&timeline), [(20, 0, 2, Why::NobodyPrefetches)]);
}

#[test]
fn a_wait_is_for_what_the_task_used_last() {
    // Two requests end during the wait, the wrong one later.
    let raw = raw(&[
        (0, issue(1, By::Helper, 50, 0, 1)),
        (0, issue(2, By::Helper, 50, 5, 1)),
        (10, wait(60, Some(place(0, 1)))),
        (30, What::Done(1)),
        (35, What::Done(2)),
        (40, What::In(60)),
    ]);
    let timeline = analyse(&raw, &learned_set(&[(0, 6)]), &[entry(0, 6)], facts(0.001));
    assert_eq!(reasons(&timeline), [(10, 30, 0, Why::CameTooLate)]);
}

#[test]
fn series_and_sequences_are_as_recorded() {
    let set = learned_set(&[(0, 4), (10, 2), (20, 1)]);
    let entries = [entry(11, 1), entry(20, 1), entry(40, 2)];
    let timeline = analyse(&prefetched_launch(), &set, &entries, facts(0.001));
    assert_eq!(
        timeline.queue,
        [
            [0, 1],
            [90, 0],
            [150, 1],
            [200, 0],
            [300, 1],
            [380, 0],
            [500, 1],
            [550, 0]
        ]
    );
    assert_eq!(timeline.waiting, [[160, 210, 1], [301, 401, 1]]);
    assert_eq!(timeline.cpu, [[0, 160, 1], [210, 301, 1], [401, 1000, 1]]);
    assert_eq!(timeline.prefetch, [[0, 4], [150, 6]]);
    assert_eq!(timeline.app_position, [[100, 4], [160, 5], [300, 6]]);
    assert_eq!(timeline.total_pages, 7);
    assert_eq!(
        timeline.before,
        [[0, 8000, 4, 0], [1, 8080, 2, 0], [2, 8160, 1, 0]]
    );
    // The place of the last entry on the disk is not in the log.
    assert_eq!(timeline.after, [[0, 8088, 1, 0], [1, 8160, 1, 0]]);
    let summary = timeline.summary();
    assert!(summary.contains("app running 85 %"), "{summary}");
    assert!(summary.contains("only waiting for I/O 15 %"), "{summary}");
    assert!(
        summary.contains("drive busy 27 %, 1.0 requests"),
        "{summary}"
    );
}

#[test]
fn what_began_before_the_launch_stands_at_its_start() {
    let mut raw = raw(&[(100, What::Done(1)), (2000, issue(2, By::Tree, 60, 9, 1))]);
    for (before, what) in [
        (500, What::Added(By::Helper, place(0, 4))),
        (400, issue(1, By::Helper, 50, 0, 4)),
    ] {
        let time_ns = START_NS - before;
        raw.events.push(Event { time_ns, what });
    }
    raw.events.sort_by_key(|event| event.time_ns);
    let timeline = analyse(&raw, &learned_set(&[(0, 4)]), &[], facts(0.001));
    assert_eq!(timeline.prefetch, [[0, 4]]);
    assert_eq!(timeline.queue, [[0, 1], [100, 0]]);
    // And what came after its end is not part of it.
    assert_eq!(timeline.misses, []);
}

#[test]
fn the_file_has_the_agreed_shape() {
    let set = learned_set(&[(0, 4)]);
    let raw = raw(&[(20, issue(1, By::Tree, 60, 2, 1)), (30, What::Done(1))]);
    let timeline = analyse(&raw, &set, &[entry(0, 4)], facts(0.001));
    let json = serde_json::to_string(&timeline).unwrap();
    let expected = concat!(
        r#"{"device":"qlc-sata","app":"gimp","scenario":"infill","seconds":0.001,"#,
        r#""window":0.0005,"completion":null,"cpu":[],"waiting":[],"#,
        r#""idle":{"stretches_us":[],"total_us":20,"until_us":30,"fewest_reads":null},"#,
        r#""queue":[[20,1],[30,0]],"#,
        r#""prefetch":[],"app_position":[],"total_pages":4,"#,
        r#""misses":[{"time_us":20,"wait_us":0,"what":"/usr/lib/libfoo.so","offset":2,"#,
        r#""pages":1,"why":"not reached yet"}],"before":[[0,8000,4,0]],"after":[[0,8000,4,0]]}"#
    );
    assert_eq!(json, expected);
    let read: Timeline = serde_json::from_str(&json).unwrap();
    assert_eq!(read.misses, timeline.misses);
    assert_eq!(read.summary(), timeline.summary());
}
