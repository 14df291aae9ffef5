use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;

use super::*;
use crate::policy::Warmth;

/// Some time in 2024.
const NOW_S: u64 = 20_000 * DAY_S;

const USER: u32 = 1000;

const LIMITS: HistoryConfig = HistoryConfig {
    max_launches: 1000,
    max_days: 100,
};

fn launch(app: &str, time_s: u64) -> LaunchRecord {
    LaunchRecord {
        uid: USER,
        time_s,
        app: app.to_owned(),
        kind: Kind::Prefetched,
        warmth: Some(Warmth::Cold),
        duration_us: Some(1_000_000),
        waiting_us: Some(400_000),
        read_bytes: 80 << 20,
        own_readaheads: 12,
        switches: Some(30),
        entries: Some(2500),
        until_first_us: Some(150),
        saved_us: Some(700_000),
        background_writes: true,
        own_reads: Some(vec![reads_of("/usr/lib/libgimp.so"), FileReads::default()]),
        note: Some("raised the shift to 80 KiB".to_owned()),
    }
}

fn reads_of(path: &str) -> FileReads {
    FileReads {
        kind: ReadKind::Data,
        path: path.to_owned(),
        reads: 3,
        bytes: 48 << 10,
        not_in_profile_bytes: 16 << 10,
    }
}

/// In memory where that is a file system: these tests write thousands of transactions, each of them through to the drive.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = dir.unwrap();
    let path = dir.path().join(FILE_NAME);
    (dir, path)
}

fn open(path: &Path, limits: HistoryConfig) -> History {
    let (history, warning) = History::open(path, limits).expect("opened");
    assert_eq!(warning, None);
    history
}

/// Times of all launches, oldest first.
fn times(history: &History) -> Vec<u64> {
    let launches = history.launches(None, None, usize::MAX).expect("read");
    launches.iter().rev().map(|launch| launch.time_s).collect()
}

/// A database with `count` launches.
fn filled(path: &Path, count: u64) -> History {
    let mut history = open(path, LIMITS);
    for index in 0..count {
        let app = format!("/usr/bin/app-{}", index % 7);
        history.add(&[launch(&app, NOW_S + index)]).expect("added");
    }
    history
}

#[test]
fn launches_are_kept_as_they_are_and_returned_newest_first() {
    let (_dir, path) = place();
    let mut history = open(&path, LIMITS);
    let bare = LaunchRecord {
        time_s: NOW_S,
        app: "/usr/bin/vim".to_owned(),
        ..LaunchRecord::default()
    };
    let odd = LaunchRecord {
        kind: Kind::Learned,
        warmth: Some(Warmth::Partly),
        ..launch("launcher:zygote/\u{0}'\n", NOW_S - 5)
    };
    let large = LaunchRecord {
        kind: Kind::Withheld,
        warmth: Some(Warmth::Warm),
        read_bytes: i64::MAX as u64,
        switches: Some(i64::MAX as u64),
        ..launch("/usr/bin/vim", NOW_S)
    };
    // Larger numbers become the largest of SQLite.
    let larger = LaunchRecord {
        read_bytes: u64::MAX,
        switches: Some(u64::MAX),
        ..large.clone()
    };
    for launch in [&bare, &odd, &larger] {
        history.add(std::slice::from_ref(launch)).expect("added");
    }
    drop(history);
    let history = open(&path, LIMITS);
    for (app, limit, expected) in [
        (None, 9, vec![&large, &odd, &bare]),
        (Some(odd.app.as_str()), 9, vec![&odd]),
        (Some("/usr/bin/vim"), 1, vec![&large]),
        (Some("/usr/bin"), 9, vec![]),
    ] {
        let found = history.launches(None, app, limit).expect("read");
        assert!(found.iter().eq(expected), "{app:?}: {found:?}");
    }
}

#[test]
fn a_launchs_own_reads_are_bounded_in_number_and_length() {
    let (_dir, path) = place();
    let mut history = open(&path, LIMITS);
    let with = |own_reads| LaunchRecord {
        own_reads,
        ..launch("/a", NOW_S)
    };
    let ends = format!("{}/\"odd\u{0}\\name\n", "\u{e4}".repeat(20));
    let long = "/x".repeat(MAX_READ_PATH) + &ends;
    let many = vec![reads_of(&long); MOST_READ_FILES + 3];
    for own_reads in [Some(many), Some(Vec::new()), None] {
        history.add(&[with(own_reads)]).expect("added");
    }
    let found = history.launches(None, None, 9).expect("read");
    assert_eq!(found[..2], [with(None), with(Some(Vec::new()))]);
    let kept = found[2].own_reads.as_ref().unwrap();
    assert_eq!(kept.len(), MOST_READ_FILES);
    let cut = &kept[0].path;
    assert!(cut.len() <= MAX_READ_PATH && cut.len() > MAX_READ_PATH - 4);
    assert!(cut.starts_with('\u{2026}') && cut.ends_with(&ends), "{cut}");
    let row = |cut: &str| FileReads {
        path: cut.to_owned(),
        ..reads_of("")
    };
    assert_eq!(kept[4], row(cut));
}

#[test]
fn own_reads_that_are_no_list_are_a_damage() {
    let (_dir, path) = place();
    let mut history = open(&path, LIMITS);
    history.add(&[launch("/a", NOW_S)]).expect("added");
    for text in ["x", "{}", "[7]", "[{\"reads\":-1}]"] {
        let set = "UPDATE launches SET own_reads = ?1";
        Connection::open(&path)
            .unwrap()
            .execute(set, [text])
            .unwrap();
        let found = history.launches(None, None, 9);
        assert!(matches!(found, Err(HistoryError::Damaged { .. })), "{text}");
    }
}

#[test]
fn the_database_is_created_in_one_transaction() {
    let (_dir, path) = place();
    drop(open(&path, LIMITS));
    // The file change counter (SQLite's file format, 1.3.7): each transaction adds one.
    let header = fs::read(&path).unwrap();
    assert_eq!(header[24..28], 1u32.to_be_bytes());
}

#[test]
fn long_notes_are_cut_and_long_names_refused() {
    let (_dir, path) = place();
    let mut history = open(&path, LIMITS);
    let given = LaunchRecord {
        note: Some("x".to_owned() + &"\u{e4}".repeat(MAX_NOTE)),
        ..launch(&"x".repeat(MAX_APP_BYTES), NOW_S)
    };
    history.add(std::slice::from_ref(&given)).expect("added");
    let kept = LaunchRecord {
        // Within a character: that one goes, too.
        note: Some("x".to_owned() + &"\u{e4}".repeat((MAX_NOTE - 1) / 2)),
        ..given
    };
    assert_eq!(history.launches(None, None, 9).expect("read"), [kept]);
    let long = launch(&"x".repeat(MAX_APP_BYTES + 1), NOW_S);
    let error = history
        .add(std::slice::from_ref(&long))
        .unwrap_err()
        .to_string();
    assert!(error.contains("4096"), "{error}");
    assert_eq!(times(&history).len(), 1);
}

#[test]
fn summaries_compare_the_last_cold_launches_with_and_without() {
    let (_dir, path) = place();
    let mut history = open(&path, LIMITS);
    let cold = Some(Warmth::Cold);
    // Too long ago to count.
    let mut given = vec![("/a", Kind::Prefetched, cold, 900, 900)];
    given.extend((0..RECENT as u64).map(|index| ("/a", Kind::Prefetched, cold, 100 + index, 50)));
    given.extend([
        ("/a", Kind::Prefetched, Some(Warmth::Partly), 1, 1),
        ("/a", Kind::Prefetched, None, 1, 1),
        ("/a", Kind::Watched, cold, 1, 1),
        ("/a", Kind::Learned, None, 9999, 9999),
        ("/a", Kind::Learned, cold, 400, 200),
        ("/a", Kind::Withheld, cold, 500, 300),
        ("/a", Kind::Withheld, cold, 436, 100),
        ("/b", Kind::Prefetched, cold, 7, 0),
        // Launches without prefetching that did not wait: no share of that can be saved.
        ("/c", Kind::Prefetched, cold, 7, 0),
        ("/c", Kind::Withheld, cold, 7, 0),
    ]);
    let mut add = |app, kind, warmth, duration_us, waiting_us, is_prefetched: bool| {
        let launch = LaunchRecord {
            kind,
            warmth,
            duration_us: Some(duration_us),
            waiting_us: Some(waiting_us),
            entries: is_prefetched.then_some(2500),
            until_first_us: is_prefetched.then_some(150),
            ..launch(app, NOW_S)
        };
        history.add(std::slice::from_ref(&launch)).expect("added");
    };
    for (app, kind, warmth, duration_us, waiting_us) in given {
        let is_prefetched = kind == Kind::Prefetched;
        add(app, kind, warmth, duration_us, waiting_us, is_prefetched);
    }
    // Learned again, beside a prefetch.
    for app in ["/a", "/b"] {
        add(app, Kind::Learned, cold, 100, 1, true);
        add(app, Kind::Learned, cold, 100, 1, true);
    }
    for (app, with, without) in [
        ("/a", Some((109, 50)), Some((436, 200))),
        ("/b", Some((7, 0)), None),
        ("/c", Some((7, 0)), Some((7, 0))),
        ("/d", None, None),
    ] {
        let found = history.summary(&UserApp::new(USER, app)).expect("read");
        let times = |typical: Typical| {
            let waited = typical.waiting_us.unwrap();
            (typical.duration_us.unwrap(), waited)
        };
        assert_eq!(
            (found.with.map(times), found.without.map(times)),
            (with, without)
        );
    }
    let prefetched = |uid| history.prefetched_cold(uid).unwrap();
    let expected = [("/a", 21), ("/b", 1), ("/c", 1)];
    let expected = expected.map(|(app, launches)| (UserApp::new(USER, app), launches));
    assert_eq!(prefetched(None), expected);
    assert_eq!(prefetched(Some(USER)), expected);
    assert_eq!(prefetched(Some(0)), []);
    // What they took, and how long they waited, is not known of all launches.
    let unknown = LaunchRecord {
        duration_us: None,
        waiting_us: None,
        ..launch("/e", NOW_S)
    };
    history.add(&[unknown.clone(), unknown]).expect("added");
    let found = history.summary(&UserApp::new(USER, "/e")).expect("read");
    let times = |typical: Typical| (typical.duration_us, typical.waiting_us);
    assert_eq!(found.with.map(times), Some((None, None)));
}

#[test]
fn a_forgotten_app_leaves_no_bytes_in_the_file() {
    let (_dir, path) = place();
    let mut history = filled(&path, 70);
    let app = |uid| UserApp::new(uid, "/usr/bin/app-3");
    history.forget(&app(USER + 1)).expect("none of his");
    assert_eq!(times(&history).len(), 70);
    history.forget(&app(USER)).expect("forgotten");
    history.forget(&app(USER)).expect("none left");
    assert_eq!(times(&history).len(), 60);
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
    for file in [&path, &path.with_file_name("history.sqlite-journal")] {
        let mode = fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file:?}");
    }
}

#[test]
fn files_that_are_not_regular_are_refused() {
    let (dir, path) = place();
    let expected = format!(
        "the history {} is not a regular file: remove it",
        path.display()
    );
    let refused = || {
        let error = History::open(&path, LIMITS).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    fs::create_dir(&path).unwrap();
    refused();
    fs::remove_dir(&path).unwrap();
    fs::write(dir.path().join("elsewhere"), "").unwrap();
    symlink("elsewhere", &path).unwrap();
    refused();
    fs::remove_file(&path).unwrap();
    // Its mode is no reason to refuse it.
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
    refused();
    let missing = dir.path().join("missing").join(FILE_NAME);
    let error = History::open(&missing, LIMITS).unwrap_err().to_string();
    assert!(error.contains("missing/history.sqlite"), "{error}");
}

#[test]
fn the_file_shrinks_when_less_is_to_be_remembered() {
    let (_dir, path) = place();
    drop(filled(&path, 1000));
    let before = fs::metadata(&path).unwrap().len();
    let limits = HistoryConfig {
        max_launches: 100,
        ..LIMITS
    };
    let mut history = open(&path, limits);
    history.add(&[launch("/a", NOW_S)]).expect("added");
    assert_eq!(times(&history).len(), 100);
    let after = fs::metadata(&path).unwrap().len();
    assert!(after * 4 < before, "{after} of {before}");
}

#[test]
fn a_clock_that_is_wrong_for_a_while_does_not_empty_the_history() {
    let (_dir, path) = place();
    let mut history = filled(&path, 100);
    let left = 100 - 3 * OLD_AT_ONCE as usize;
    for (count, time_s, kept) in [
        // Three launches with a clock years ahead take a few of the oldest each.
        (3, NOW_S + 10_000 * DAY_S, left + 3),
        // With one behind they take nothing, and those that they leave go first.
        (3, 0, left + 6),
        (1, NOW_S + 1000, left + 4),
    ] {
        for _ in 0..count {
            history.add(&[launch("/a", time_s)]).expect("added");
        }
        assert_eq!(times(&history).len(), kept, "{time_s}");
    }
    assert!(times(&history).iter().all(|&time| time >= NOW_S));
}

#[test]
fn long_names_cost_launches_and_no_more_space() {
    let (_dir, path) = place();
    let mut history = open(&path, LIMITS);
    let name = "n".repeat(MAX_APP_BYTES - 4);
    for index in 0..1000 {
        let app = format!("{index:04}{name}");
        history.add(&[launch(&app, NOW_S + index)]).expect("added");
    }
    let len = fs::metadata(&path).unwrap().len();
    assert!(len <= most_bytes(LIMITS).unsigned_abs(), "{len}");
    let kept = times(&history);
    assert!((100..1000).contains(&kept.len()), "{}", kept.len());
    // The newest are there.
    let first = NOW_S + 1000 - kept.len() as u64;
    assert!(kept.into_iter().eq(first..NOW_S + 1000));
}

/// Asserts that the file at `path` is taken for a damaged one and a new history takes its place. Returns the warning.
fn moved_aside(path: &Path) -> String {
    let before = fs::read(path).unwrap();
    let (mut history, warning) = History::open(path, LIMITS).expect("opened");
    let moved_to = path.with_file_name("history.sqlite.damaged");
    assert_eq!(fs::read(&moved_to).unwrap(), before);
    assert!(times(&history).is_empty());
    history
        .add(&[launch("/usr/bin/new", NOW_S)])
        .expect("added");
    drop(history);
    assert_eq!(times(&open(path, LIMITS)), [NOW_S]);
    let warning = warning.expect("a warning");
    assert!(warning.contains(moved_to.to_str().unwrap()), "{warning}");
    warning
}

#[test]
fn damaged_and_foreign_files_are_moved_aside() {
    let (_dir, path) = place();
    drop(filled(&path, 300));
    let sound = fs::read(&path).unwrap();
    let mut garbage = sound.clone();
    garbage[8192..12288].fill(0x5a);
    let mut no_text = sound.clone();
    let word = b"'learned'";
    let at = no_text.windows(word.len()).position(|part| part == word);
    no_text[at.unwrap() + 1] = 0xff;
    let text = "no database at all, but long enough to be one".repeat(200);
    for (bytes, why) in [
        (&sound[..sound.len() / 2], ""),
        (&sound[..50], ""),
        (&garbage[..], ""),
        (&no_text[..], ""),
        (text.as_bytes(), "not a database"),
    ] {
        fs::write(&path, bytes).unwrap();
        let found = moved_aside(&path);
        assert!(found.contains(why), "{found}");
    }
    for (bytes, change) in [
        (&sound[..], "PRAGMA user_version = 8"),
        (&sound[..], "PRAGMA user_version = 6"),
        (
            &sound[..],
            "CREATE TRIGGER later AFTER INSERT ON launches BEGIN SELECT 1; END",
        ),
        (
            b"",
            "PRAGMA journal_mode = WAL; CREATE TABLE theirs (x); PRAGMA user_version = 7",
        ),
        (
            b"",
            "PRAGMA journal_mode = WAL; CREATE TABLE launches (x); PRAGMA user_version = 2",
        ),
    ] {
        fs::write(&path, bytes).unwrap();
        let db = Connection::open(&path).unwrap();
        db.execute_batch(change).unwrap();
        drop(db);
        let found = moved_aside(&path);
        assert!(found.contains("layout 7"), "{found}");
    }
}

#[test]
fn a_flood_of_one_user_removes_his_own_launches_alone() {
    let (_dir, path) = place();
    let limits = HistoryConfig {
        max_launches: 100,
        ..LIMITS
    };
    let mut history = open(&path, limits);
    let of = |uid: u32, app: &str, index: u64| LaunchRecord {
        uid,
        ..launch(app, NOW_S + index)
    };
    for index in 0..100 {
        history.add(&[of(1, "/a", index)]).expect("added");
    }
    // In number, and in bytes.
    let long = "n".repeat(MAX_APP_BYTES);
    for index in 0..1000 {
        history.add(&[of(2, "/a", index)]).expect("added");
        history
            .add(&[of(3 + index as u32 / 100, &long, index)])
            .expect("added");
    }
    for (uid, app, kept) in [(1, "/a", 100), (2, "/a", 100), (1, &long, 0), (4, "/a", 0)] {
        let found = history.launches(Some(uid), Some(app), 1000).expect("read");
        assert_eq!(found.len(), kept, "{uid} {app:.9}");
        assert!(found.iter().all(|launch| launch.uid == uid));
    }
    let len = fs::metadata(&path).unwrap().len();
    assert!(len <= most_bytes(limits).unsigned_abs(), "{len}");
    // Nor is one forgotten, or counted, with another's.
    history.forget(&UserApp::new(2, "/a")).expect("forgotten");
    assert_eq!(history.launches(Some(1), None, 1000).unwrap().len(), 100);
    assert!(history.launches(Some(2), None, 1000).unwrap().is_empty());
    assert_eq!(history.summary(&UserApp::new(2, "/a")).unwrap().with, None);
    assert!(
        history
            .summary(&UserApp::new(1, "/a"))
            .unwrap()
            .with
            .is_some()
    );
}

#[test]
fn launches_beside_writes_are_counted() {
    let (_dir, path) = place();
    let mut history = open(&path, LIMITS);
    let quiet = LaunchRecord {
        background_writes: false,
        ..launch("/a", NOW_S)
    };
    let of_another = launch("/b", NOW_S);
    let beside = |history: &History| history.launches_beside_writes(&UserApp::new(USER, "/a"));
    assert_eq!(beside(&history).unwrap(), 0);
    history
        .add(&[quiet, launch("/a", NOW_S), of_another, launch("/a", NOW_S)])
        .expect("added");
    assert_eq!(beside(&history).unwrap(), 2);
}

#[test]
fn anticipated_launches_are_counted_with_what_they_saved_as_far_as_it_is_known() {
    let (_dir, path) = place();
    let mut history = open(&path, LIMITS);
    assert_eq!(history.anticipated(None, None).unwrap(), (0, 0));
    let of = |uid, kind, saved_us| LaunchRecord {
        uid,
        kind,
        saved_us,
        ..launch("/a", NOW_S)
    };
    let launches = [
        of(USER, Kind::Anticipated, Some(300)),
        of(USER, Kind::Anticipated, None),
        of(USER + 1, Kind::Anticipated, Some(5)),
        of(USER, Kind::Prefetched, None),
    ];
    history.add(&launches).expect("added");
    let other_app = LaunchRecord {
        app: "/b".to_owned(),
        ..of(USER, Kind::Anticipated, Some(20))
    };
    history.add(&[other_app]).expect("added");
    for (uid, app, expected) in [
        (Some(USER), Some("/a"), (2, 300)),
        (Some(USER), None, (3, 320)),
        (None, Some("/a"), (3, 305)),
        (None, None, (4, 325)),
    ] {
        assert_eq!(history.anticipated(uid, app).unwrap(), expected);
    }
}

#[test]
fn a_users_launches_are_listed_by_app_and_time() {
    let (_dir, path) = place();
    let mut history = open(&path, LIMITS);
    let others = LaunchRecord {
        uid: USER + 1,
        ..launch("/c", NOW_S)
    };
    let launches = [launch("/a", NOW_S), others, launch("/b", NOW_S + 5)];
    history.add(&launches).expect("added");
    let times = |limit| history.launch_times(USER, limit).unwrap();
    let (newer, older) = (("/b".to_owned(), NOW_S + 5), ("/a".to_owned(), NOW_S));
    assert_eq!(times(9), [newer.clone(), older]);
    assert_eq!(times(1), [newer]);
}

#[test]
fn a_new_database_does_not_find_the_journal_of_the_damaged_one() {
    let (_dir, path) = place();
    let journal = path.with_file_name("history.sqlite-journal");
    for file in [&path, &journal] {
        fs::write(file, "damaged").unwrap();
    }
    database::move_aside(&path).expect("moved");
    assert!(!path.exists() && !journal.exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Bytes that change anywhere in the file: it is sound or moved aside, and usable in any case.
    #[test]
    fn any_damage_is_found_or_harmless(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        len in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let (_dir, path) = place();
        drop(filled(&path, 40));
        let mut bytes = fs::read(&path).unwrap();
        if cut {
            bytes.truncate(len.index(bytes.len()) + 1);
        }
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fs::write(&path, bytes).unwrap();
        let (mut history, _) = History::open(&path, LIMITS).expect("opened");
        for index in 0..20 {
            history.add(&[launch("/usr/bin/app-1", NOW_S + index)]).expect("sound");
        }
        history.summary(&UserApp::new(USER, "/usr/bin/app-1")).expect("sound");
        prop_assert!(history.launches(None, None, usize::MAX).expect("sound").len() >= 20);
    }

    /// Whatever the clock says: never more launches than allowed, the newest one is there, the rest is in
    /// order, and no launch takes more old ones with it than it may.
    #[test]
    fn pruning_keeps_to_the_bounds(
        max_launches in 1u64..30,
        days in prop::collection::vec(prop_oneof![
            9 => 19_800u64..20_200,
            1 => Just(0),
            1 => Just(u64::MAX / DAY_S),
        ], 1..80),
    ) {
        let (_dir, path) = place();
        let mut history = open(&path, HistoryConfig { max_launches, max_days: 100 });
        let mut given = Vec::new();
        for day in days {
            let before = times(&history).len();
            let time = (day * DAY_S).min(i64::MAX as u64);
            given.push(time);
            history.add(&[launch("/a", time)]).expect("added");
            let kept = times(&history);
            prop_assert!(kept.len() as u64 <= max_launches);
            prop_assert_eq!(kept.last(), Some(&time));
            // One for the number, the others for their age.
            prop_assert!(kept.len() + OLD_AT_ONCE as usize >= before);
            let mut rest = given.iter();
            for time in &kept {
                prop_assert!(rest.any(|given| given == time), "{time} is out of order");
            }
        }
    }

    /// With a clock that goes right, nothing within the bounds is lost, and nothing older is kept once
    /// as many launches have come as were too old.
    #[test]
    fn a_right_clock_loses_nothing(steps in prop::collection::vec(0u64..40, 1..60)) {
        let (_dir, path) = place();
        let mut history = open(&path, LIMITS);
        let mut given: Vec<u64> = Vec::new();
        for step in steps {
            let time = given.last().unwrap_or(&NOW_S) + step * DAY_S;
            given.push(time);
            history.add(&[launch("/a", time)]).expect("added");
            let young = |given: &&u64| **given + LIMITS.max_days * DAY_S >= time;
            let expected: Vec<u64> = given.iter().filter(young).copied().collect();
            prop_assert!(times(&history).ends_with(&expected));
        }
        let last = *given.last().unwrap();
        for _ in 0..given.len() {
            history.add(&[launch("/a", last)]).expect("added");
        }
        let oldest = times(&history).into_iter().min();
        prop_assert!(oldest.unwrap() + LIMITS.max_days * DAY_S >= last);
    }
}
