//! Files that are damaged, or not ours.

use proptest::prelude::*;

use super::*;

/// That the file at `path` is taken for a damaged one, and that life goes on.
fn moved_aside(path: &Path) -> String {
    let before = fs::read(path).unwrap();
    let (mut history, found) = open(path, LIMITS);
    let OpenedHistory::Damaged { moved_to, why } = found else {
        panic!("{found:?}");
    };
    assert_eq!(moved_to, path.with_file_name("history.sqlite.damaged"));
    assert_eq!(fs::read(moved_to).unwrap(), before);
    assert!(times(&history).is_empty());
    history.add(&launch("/usr/bin/new", NOW_S)).expect("added");
    drop(history);
    let (history, found) = open(path, LIMITS);
    assert_eq!(
        (times(&history), found),
        (vec![NOW_S], OpenedHistory::Database)
    );
    why
}

#[test]
fn damaged_and_foreign_files_are_moved_aside() {
    let (_dir, path) = place();
    drop(filled(&path, 300));
    let sound = fs::read(&path).unwrap();

    fs::write(&path, &sound[..sound.len() / 2]).unwrap();
    moved_aside(&path);
    fs::write(&path, &sound[..50]).unwrap();
    moved_aside(&path);
    fs::write(
        &path,
        "no database at all, but long enough to be one".repeat(200),
    )
    .unwrap();
    assert!(moved_aside(&path).contains("not a database"));
    let mut garbage = sound.clone();
    garbage[8192..12288].fill(0x5a);
    fs::write(&path, garbage).unwrap();
    moved_aside(&path);

    fs::write(&path, &sound).unwrap();
    let db = Connection::open(&path).unwrap();
    db.pragma_update(None, "user_version", 2).unwrap();
    drop(db);
    assert!(moved_aside(&path).contains("layout 1"));

    fs::write(&path, &sound).unwrap();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("CREATE TRIGGER later AFTER INSERT ON launches BEGIN SELECT 1; END")
        .unwrap();
    drop(db);
    moved_aside(&path);

    fs::remove_file(&path).unwrap();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE theirs (x); PRAGMA user_version = 1")
        .unwrap();
    drop(db);
    moved_aside(&path);
}

#[test]
fn what_belongs_to_a_database_goes_with_it() {
    let (_dir, path) = place();
    let named = |suffix: &str| path.with_file_name(format!("{FILE_NAME}{suffix}"));
    fs::write(&path, "first").unwrap();
    fs::write(named("-journal"), "its journal").unwrap();
    damage::move_aside(&path).expect("moved");
    assert_eq!(fs::read(named(".damaged")).unwrap(), b"first");
    assert_eq!(fs::read(named(".damaged-journal")).unwrap(), b"its journal");
    assert!(!path.exists() && !named("-journal").exists());
    // The next one has none, and must not seem to have this one.
    fs::write(&path, "second").unwrap();
    damage::move_aside(&path).expect("moved");
    assert_eq!(fs::read(named(".damaged")).unwrap(), b"second");
    assert!(!named(".damaged-journal").exists());
}

#[test]
fn damage_under_way_is_named_and_cured_by_opening_again() {
    let (_dir, path) = place();
    let mut history = filled(&path, 300);
    let len = fs::metadata(&path).unwrap().len();
    let garbage = vec![0x5a; usize::try_from(len).unwrap()];
    fs::write(&path, garbage).unwrap();
    let error = history.add(&launch("/a", NOW_S)).unwrap_err();
    assert!(matches!(error, HistoryError::Damaged { .. }), "{error}");
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    drop(history);
    moved_aside(&path);
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
        let (mut history, _) = open(&path, LIMITS);
        for index in 0..20 {
            history.add(&launch("/usr/bin/app-1", NOW_S + index)).expect("sound");
        }
        history.summaries().expect("sound");
        prop_assert!(history.launches(None, usize::MAX).expect("sound").len() >= 20);
    }
}
