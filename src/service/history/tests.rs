mod bounds;
mod damaged;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::policy::Warmth;

const DAY_S: u64 = 24 * 60 * 60;
/// Some time in 2024.
const NOW_S: u64 = 20_000 * DAY_S;

const LIMITS: HistoryLimits = HistoryLimits {
    max_launches: 1000,
    max_days: 100,
};

fn launch(app: &str, time_s: u64) -> LaunchRecord {
    LaunchRecord {
        time_s,
        app: app.to_owned(),
        kind: Kind::Prefetched,
        warmth: Some(Warmth::Cold),
        duration_us: 1_000_000,
        waiting_us: 400_000,
        read_bytes: 80 << 20,
        own_readaheads: 12,
        switches: Some(30),
        entries: Some(2500),
        until_first_us: Some(150),
        note: Some("raised the shift to 80 KiB".to_owned()),
    }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    (dir, path)
}

fn open(path: &Path, limits: HistoryLimits) -> (History, OpenedHistory) {
    History::open(path, limits).expect("opened")
}

/// Times of all launches, oldest first.
fn times(history: &History) -> Vec<u64> {
    let launches = history.launches(None, usize::MAX).expect("read");
    launches.iter().rev().map(|launch| launch.time_s).collect()
}

/// A database with `count` launches.
fn filled(path: &Path, count: u64) -> History {
    let (mut history, found) = open(path, LIMITS);
    assert_eq!(found, OpenedHistory::Nothing);
    for index in 0..count {
        let app = format!("/usr/bin/app-{}", index % 7);
        history.add(&launch(&app, NOW_S + index)).expect("added");
    }
    history
}

#[test]
fn launches_are_returned_newest_first() {
    let (_dir, path) = place();
    let (mut history, found) = open(&path, LIMITS);
    assert_eq!(found, OpenedHistory::Nothing);
    let vim = LaunchRecord {
        kind: Kind::Watched,
        warmth: None,
        switches: None,
        entries: None,
        until_first_us: None,
        note: None,
        ..launch("/usr/bin/vim", NOW_S)
    };
    let zygote = launch("launcher:zygote/mail", NOW_S - 5);
    for launch in [&vim, &zygote, &vim] {
        history.add(launch).expect("added");
    }
    drop(history);
    let (history, found) = open(&path, LIMITS);
    assert_eq!(found, OpenedHistory::Database);
    let all = history.launches(None, 9).expect("read");
    assert_eq!(all, [vim.clone(), zygote.clone(), vim.clone()]);
    let one = history
        .launches(Some("launcher:zygote/mail"), 9)
        .expect("read");
    assert_eq!(one, [zygote]);
    let newest = history.launches(Some("/usr/bin/vim"), 1).expect("read");
    assert_eq!(newest, [vim]);
    assert_eq!(history.launches(Some("/usr/bin"), 9).expect("read"), []);
}

#[test]
fn the_database_is_created_in_one_transaction() {
    let (_dir, path) = place();
    drop(open(&path, LIMITS));
    // The file change counter (SQLite's file format, 1.3.7): each transaction adds one.
    let header = fs::read(&path).unwrap();
    assert_eq!(header[24..28], 1u32.to_be_bytes());
    let db = Connection::open(&path).unwrap();
    assert_eq!(schema::pragma(&db, "auto_vacuum").unwrap(), 2);
}

#[test]
fn all_kinds_and_any_numbers_are_kept() {
    let (_dir, path) = place();
    let (mut history, _) = open(&path, LIMITS);
    for kind in [
        Kind::Learned,
        Kind::Prefetched,
        Kind::Withheld,
        Kind::Watched,
    ] {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
        for warmth in [
            None,
            Some(Warmth::Cold),
            Some(Warmth::Partly),
            Some(Warmth::Warm),
        ] {
            let given = LaunchRecord {
                kind,
                warmth,
                note: Some("'); DROP TABLE launches; --\u{0}\u{1f980}".to_owned()),
                read_bytes: u64::MAX,
                switches: Some(u64::MAX),
                ..launch("\u{0}'\n", NOW_S)
            };
            history.add(&given).expect("added");
            let kept = LaunchRecord {
                read_bytes: i64::MAX as u64,
                switches: Some(i64::MAX as u64),
                ..given
            };
            assert_eq!(history.launches(None, 1).expect("read"), [kept]);
        }
    }
    assert_eq!(times(&history).len(), 16);
}

#[test]
fn long_notes_are_cut_and_long_names_refused() {
    let (_dir, path) = place();
    let (mut history, _) = open(&path, LIMITS);
    let note = Some("\u{e4}".repeat(MAX_NOTE_BYTES) + "end");
    history
        .add(&LaunchRecord {
            note,
            ..launch("/a", NOW_S)
        })
        .expect("added");
    let kept = history.launches(None, 1).expect("read").remove(0).note;
    assert_eq!(kept, Some("\u{e4}".repeat(MAX_NOTE_BYTES / 2)));
    history
        .add(&launch(&"x".repeat(MAX_APP_BYTES), NOW_S))
        .expect("added");
    let error = history
        .add(&launch(&"x".repeat(MAX_APP_BYTES + 1), NOW_S))
        .unwrap_err();
    assert!(error.to_string().contains("4096"), "{error}");
    assert_eq!(times(&history).len(), 2);
}

#[test]
fn summaries_compare_the_last_cold_launches_with_and_without() {
    let (_dir, path) = place();
    let (mut history, _) = open(&path, LIMITS);
    let mut add = |app: &str, kind, warmth, duration_us, waiting_us| {
        let figures = LaunchRecord {
            kind,
            warmth,
            duration_us,
            waiting_us,
            ..launch(app, NOW_S + duration_us)
        };
        history.add(&figures).expect("added");
    };
    let cold = Some(Warmth::Cold);
    // Too long ago to count.
    add("/a", Kind::Prefetched, cold, 900, 900);
    for index in 0..RECENT as u64 {
        add("/a", Kind::Prefetched, cold, 100 + index, 50);
    }
    add("/a", Kind::Prefetched, Some(Warmth::Partly), 1, 1);
    add("/a", Kind::Prefetched, None, 1, 1);
    add("/a", Kind::Watched, cold, 1, 1);
    add("/a", Kind::Learned, None, 9999, 9999);
    add("/a", Kind::Learned, cold, 400, 200);
    add("/a", Kind::Withheld, cold, 500, 300);
    add("/a", Kind::Withheld, cold, 436, 100);
    add("/b", Kind::Prefetched, cold, 7, 0);

    let a = history.summary("/a").expect("read").expect("known");
    let expected = HistorySummary {
        app: "/a".to_owned(),
        with: Some(Typical {
            launches: 20,
            duration_us: 109,
            waiting_us: 50,
        }),
        without: Some(Typical {
            launches: 3,
            duration_us: 436,
            waiting_us: 200,
        }),
        waiting_gain: Some(0.75),
    };
    assert_eq!(a, expected);
    let b = history.summary("/b").expect("read").expect("known");
    assert_eq!((b.waiting_gain, b.without), (None, None));
    assert_eq!(history.summaries().expect("read"), [a, b]);
    assert_eq!(history.summary("/c").expect("read"), None);
}

#[test]
fn the_gain_is_unknown_if_launches_without_prefetching_did_not_wait() {
    let (_dir, path) = place();
    let (mut history, _) = open(&path, LIMITS);
    for kind in [Kind::Prefetched, Kind::Withheld] {
        let given = LaunchRecord {
            kind,
            waiting_us: 0,
            ..launch("/a", NOW_S)
        };
        history.add(&given).expect("added");
    }
    let found = history.summary("/a").expect("read").expect("known");
    assert_eq!(found.waiting_gain, None);
}

#[test]
fn a_forgotten_app_leaves_no_bytes_in_the_file() {
    let (_dir, path) = place();
    let mut history = filled(&path, 70);
    assert_eq!(history.forget("/usr/bin/app-3").expect("forgotten"), 10);
    assert_eq!(history.forget("/usr/bin/app-3").expect("none left"), 0);
    assert_eq!(history.summary("/usr/bin/app-3").expect("read"), None);
    assert_eq!(history.summaries().expect("read").len(), 6);
    drop(history);
    let bytes = fs::read(&path).unwrap();
    let left = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
    assert!(!left(b"/usr/bin/app-3") && left(b"/usr/bin/app-4"));
}

#[test]
fn only_the_owner_has_access() {
    let (_dir, path) = place();
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let _history = filled(&path, 3);
    for name in [FILE_NAME, "history.sqlite-journal"] {
        let found = fs::metadata(path.with_file_name(name)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn files_that_are_not_regular_are_refused() {
    let (dir, path) = place();
    let refused = || {
        let error = History::open(&path, LIMITS).unwrap_err();
        assert!(matches!(error, HistoryError::NotAFile { .. }), "{error}");
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
    };
    fs::create_dir(&path).unwrap();
    refused();
    fs::remove_dir(&path).unwrap();
    fs::write(dir.path().join("elsewhere"), "").unwrap();
    symlink("elsewhere", &path).unwrap();
    refused();
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        // Its mode is no reason to refuse it.
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    refused();
    let missing = dir.path().join("missing").join(FILE_NAME);
    let error = History::open(&missing, LIMITS).unwrap_err().to_string();
    assert!(error.contains("missing/history.sqlite"), "{error}");
}
