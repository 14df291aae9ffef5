//! Databases of earlier layouts.

use super::*;

/// The layout of before launches had users.
const LAYOUT_1: &str = "CREATE TABLE launches (
    id INTEGER PRIMARY KEY,
    time_s INTEGER NOT NULL CHECK (time_s >= 0),
    app TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('learned', 'prefetched', 'withheld', 'watched')),
    warmth TEXT CHECK (warmth IN ('cold', 'partly', 'warm')),
    duration_us INTEGER NOT NULL CHECK (duration_us >= 0),
    waiting_us INTEGER NOT NULL CHECK (waiting_us >= 0),
    read_bytes INTEGER NOT NULL CHECK (read_bytes >= 0),
    own_readaheads INTEGER NOT NULL CHECK (own_readaheads >= 0),
    switches INTEGER CHECK (switches >= 0),
    entries INTEGER CHECK (entries >= 0),
    until_first_us INTEGER CHECK (until_first_us >= 0),
    note TEXT
) STRICT;
CREATE INDEX launches_by_app ON launches (app);
CREATE INDEX launches_by_time ON launches (time_s);
PRAGMA user_version = 1;";

/// The layout of before background writes were recorded.
const LAYOUT_2: &str = "CREATE TABLE launches (
    id INTEGER PRIMARY KEY,
    time_s INTEGER NOT NULL CHECK (time_s >= 0),
    uid INTEGER NOT NULL CHECK (uid BETWEEN 0 AND 4294967295),
    app TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('learned', 'prefetched', 'withheld', 'watched')),
    warmth TEXT CHECK (warmth IN ('cold', 'partly', 'warm')),
    duration_us INTEGER NOT NULL CHECK (duration_us >= 0),
    waiting_us INTEGER NOT NULL CHECK (waiting_us >= 0),
    read_bytes INTEGER NOT NULL CHECK (read_bytes >= 0),
    own_readaheads INTEGER NOT NULL CHECK (own_readaheads >= 0),
    switches INTEGER CHECK (switches >= 0),
    entries INTEGER CHECK (entries >= 0),
    until_first_us INTEGER CHECK (until_first_us >= 0),
    note TEXT
) STRICT;
CREATE INDEX launches_by_app ON launches (app, uid);
CREATE INDEX launches_by_time ON launches (time_s);
CREATE INDEX launches_by_user ON launches (uid);
PRAGMA user_version = 2;";

/// The layout of before a launch's own reads were recorded.
const LAYOUT_3: &str = "CREATE TABLE launches (
    id INTEGER PRIMARY KEY,
    time_s INTEGER NOT NULL CHECK (time_s >= 0),
    uid INTEGER NOT NULL CHECK (uid BETWEEN 0 AND 4294967295),
    app TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('learned', 'prefetched', 'withheld', 'watched')),
    warmth TEXT CHECK (warmth IN ('cold', 'partly', 'warm')),
    duration_us INTEGER NOT NULL CHECK (duration_us >= 0),
    waiting_us INTEGER NOT NULL CHECK (waiting_us >= 0),
    read_bytes INTEGER NOT NULL CHECK (read_bytes >= 0),
    own_readaheads INTEGER NOT NULL CHECK (own_readaheads >= 0),
    switches INTEGER CHECK (switches >= 0),
    entries INTEGER CHECK (entries >= 0),
    until_first_us INTEGER CHECK (until_first_us >= 0),
    background_writes INTEGER NOT NULL CHECK (background_writes IN (0, 1)),
    writeback_held_us INTEGER NOT NULL CHECK (writeback_held_us >= 0),
    waited_for_writes_us INTEGER CHECK (waited_for_writes_us >= 0),
    note TEXT
) STRICT;
CREATE INDEX launches_by_app ON launches (app, uid);
CREATE INDEX launches_by_time ON launches (time_s);
CREATE INDEX launches_by_user ON launches (uid);
PRAGMA user_version = 3;";

/// A database of an earlier layout, with rows.
fn earlier(layout: &str, rows: &str) -> (tempfile::TempDir, PathBuf) {
    let (dir, path) = place();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA auto_vacuum = FULL").unwrap();
    db.execute_batch(layout).unwrap();
    db.execute_batch(rows).unwrap();
    (dir, path)
}

/// The launch of /b in the rows below, as far as all layouts have it.
fn of_b() -> LaunchRecord {
    LaunchRecord {
        time_s: 20,
        uid: USER,
        app: "/b".to_owned(),
        kind: Kind::Prefetched,
        warmth: Some(Warmth::Cold),
        duration_us: 1,
        waiting_us: 2,
        read_bytes: 3,
        own_readaheads: 4,
        switches: Some(5),
        entries: Some(6),
        until_first_us: Some(7),
        note: Some("n".to_owned()),
        ..LaunchRecord::default()
    }
}

#[test]
fn launches_of_before_writes_were_recorded_keep_all_that_they_had() {
    let (_dir, path) = earlier(
        LAYOUT_2,
        "INSERT INTO launches VALUES
            (7, 20, 1000, '/b', 'prefetched', 'cold', 1, 2, 3, 4, 5, 6, 7, 'n'),
            (9, 21, 0, '/a', 'watched', NULL, 1, 2, 3, 4, NULL, NULL, NULL, NULL)",
    );
    for round in 0..2 {
        let mut history = open(&path, LIMITS);
        let found = history.launches(Some(USER), Some("/b"), 9).expect("read");
        assert_eq!(found, [of_b()]);
        history.add(&[launch("/c", 30)]).expect("added");
        let all = history.launches(None, None, 9).expect("read");
        assert_eq!(
            all.len(),
            3 + round,
            "in the order in which they were added"
        );
        assert!(all[0].background_writes && !all.last().unwrap().background_writes);
    }
}

#[test]
fn launches_of_before_own_reads_were_recorded_keep_all_that_they_had() {
    let (_dir, path) = earlier(
        LAYOUT_3,
        "INSERT INTO launches VALUES
            (7, 20, 1000, '/b', 'prefetched', 'cold', 1, 2, 3, 4, 5, 6, 7, 1, 8, 9, 'n')",
    );
    for _ in 0..2 {
        let mut history = open(&path, LIMITS);
        let found = history.launches(Some(USER), Some("/b"), 9).expect("read");
        let expected = LaunchRecord {
            background_writes: true,
            writeback_held_us: 8,
            waited_for_writes_us: Some(9),
            ..of_b()
        };
        assert_eq!(found, [expected]);
        let new = launch("/c", 30);
        history.add(std::slice::from_ref(&new)).expect("added");
        let newest = history.launches(None, None, 1).expect("read");
        assert_eq!(newest, [new]);
    }
}

#[test]
fn launches_that_had_no_user_become_the_administrators() {
    let (_dir, path) = earlier(
        LAYOUT_1,
        "INSERT INTO launches VALUES (7, 20, '/b', 'prefetched', 'cold', 1, 2, 3, 4, 5, 6, 7, 'n');
        INSERT INTO launches VALUES (8, 21, '/a', 'watched', NULL, 1, 2, 3, 4, NULL, NULL, NULL, NULL)",
    );
    for _ in 0..2 {
        let history = open(&path, LIMITS);
        let found = history.launches(None, None, 9).expect("read");
        let expected = LaunchRecord {
            time_s: 20,
            uid: 0,
            app: "/b".to_owned(),
            kind: Kind::Prefetched,
            warmth: Some(Warmth::Cold),
            duration_us: 1,
            waiting_us: 2,
            read_bytes: 3,
            own_readaheads: 4,
            switches: Some(5),
            entries: Some(6),
            until_first_us: Some(7),
            background_writes: false,
            writeback_held_us: 0,
            waited_for_writes_us: None,
            own_reads: None,
            note: Some("n".to_owned()),
        };
        assert_eq!((found.len(), &found[1]), (2, &expected));
        assert_eq!((found[0].uid, found[0].time_s), (0, 21));
        assert!(history.launches(Some(USER), None, 9).unwrap().is_empty());
    }
}
