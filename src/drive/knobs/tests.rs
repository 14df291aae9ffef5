//! The guard, with files for knobs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::{TempDir, tempdir};

use super::*;

/// A directory with a knob that is 128, and the paths of the knob and of a directory for the record.
fn knob() -> (TempDir, PathBuf, PathBuf) {
    let dir = tempdir().unwrap();
    let (knob, run) = (dir.path().join("knob"), dir.path().join("run"));
    fs::write(&knob, "128\n").unwrap();
    (dir, knob, run)
}

fn value(path: &Path) -> String {
    fs::read_to_string(path).expect("a knob")
}

#[test]
fn dropping_restores_the_first_value() {
    let (_dir, knob, run) = knob();
    let mut knobs = Knobs::acquire(&run, None).unwrap();
    knobs.set(&knob, "0").unwrap();
    knobs.set(&knob, "1").unwrap();
    assert_eq!(value(&knob), "1");
    drop(knobs);
    assert_eq!(value(&knob), "128");
    assert_eq!(restore_leftovers(&run).unwrap(), 0);
}

#[test]
fn the_next_start_restores_after_a_crash() {
    let (_dir, knob, run) = knob();
    let mut knobs = Knobs::acquire(&run, None).unwrap();
    knobs.set(&knob, "0").unwrap();
    assert_eq!(restore_leftovers(&run).unwrap(), 0, "it is in use");
    assert_eq!(value(&knob), "0");
    assert!(matches!(Knobs::acquire(&run, None), Err(KnobError::Busy)));
    // A crash: destructors do not run, and the lock is released with the process.
    knobs.changes.clear();
    drop(knobs);
    assert_eq!(value(&knob), "0");
    assert_eq!(restore_leftovers(&run).unwrap(), 1);
    assert_eq!(value(&knob), "128");
}

#[test]
fn a_knob_that_cannot_be_restored_does_not_keep_others_from_it() {
    let (dir, knob, run) = knob();
    let other = dir.path().join("other");
    fs::write(&other, "1").unwrap();
    let mut knobs = Knobs::acquire(&run, None).unwrap();
    knobs.set(&knob, "0").unwrap();
    knobs.set(&other, "2").unwrap();
    fs::remove_file(&other).unwrap();
    fs::create_dir(&other).unwrap();
    let error = knobs.restore().unwrap_err().to_string();
    assert!(error.contains(other.to_str().unwrap()), "{error}");
    assert_eq!(value(&knob), "128");
    // It stays recorded, and the next start tries again.
    fs::remove_dir(&other).unwrap();
    fs::write(&other, "2").unwrap();
    assert_eq!(restore_leftovers(&run).unwrap(), 1);
    assert_eq!(value(&other), "1");
}

#[test]
fn others_cannot_reach_the_lock() {
    let dir = tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let _knobs = Knobs::acquire(dir.path(), None).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(dir.path()), 0o755);
    assert_eq!(mode(&dir.path().join(LOCK)), 0o600);

    let link = dir.path().join("link");
    std::os::unix::fs::symlink("/", &link).unwrap();
    let error = Knobs::acquire(&link, None)
        .err()
        .map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("not a directory")));
}

#[test]
fn a_damaged_record_is_an_error_that_names_it() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join(record::RECORD), "{").unwrap();
    let error = restore_leftovers(dir.path()).unwrap_err().to_string();
    assert!(error.contains(record::RECORD), "{error}");
}

fn file(path: &Path, value: &str) -> Setting {
    Setting {
        path: path.to_owned(),
        value: value.to_owned(),
    }
}

#[test]
fn what_others_have_set_since_is_kept() {
    let (_dir, knob, run) = knob();
    let mut knobs = Knobs::acquire(&run, None).unwrap();
    let id = knobs.change(file(&knob, "0")).unwrap().unwrap();
    assert!(knobs.change(file(&knob, "0")).unwrap().is_none());
    fs::write(&knob, "64").unwrap();
    assert_eq!(knobs.undo(id).unwrap(), Undone::ChangedByOthers);
    assert!(matches!(knobs.undo(id), Err(KnobError::NotChanged)));
    knobs.set(&knob, "0").unwrap();
    fs::write(&knob, "32").unwrap();
    drop(knobs);
    assert_eq!(value(&knob), "32");
    assert!(!record::exists(&run));
}

#[test]
fn a_knob_that_was_changed_twice_is_undone_in_any_order() {
    let (_dir, knob, run) = knob();
    let mut knobs = Knobs::acquire(&run, None).unwrap();
    let mut twice = || ["0", "1"].map(|value| knobs.change(file(&knob, value)).unwrap().unwrap());
    let ([first, second], [third, fourth]) = (twice(), twice());
    assert_eq!(knobs.undo(second).unwrap(), Undone::Restored);
    assert_eq!(knobs.undo(first).unwrap(), Undone::Restored);
    assert_eq!(value(&knob), "1", "the later changes stay");
    assert_eq!(knobs.undo(fourth).unwrap(), Undone::Restored);
    assert_eq!(value(&knob), "0");
    assert_eq!(knobs.undo(third).unwrap(), Undone::Restored);
    assert_eq!(value(&knob).trim(), "128");
}

#[test]
fn a_knob_that_has_gone_is_no_error() {
    let (dir, knob, run) = knob();
    let other = dir.path().join("other");
    fs::write(&other, "1").unwrap();
    let mut knobs = Knobs::acquire(&run, None).unwrap();
    let id = knobs.change(file(&other, "2")).unwrap().unwrap();
    knobs.change(file(&knob, "0")).unwrap().unwrap();
    fs::remove_file(&other).unwrap();
    assert_eq!(knobs.undo(id).unwrap(), Undone::Gone);
    assert!(!other.exists(), "restoring makes no file");
    knobs.restore().unwrap();
    assert_eq!(value(&knob), "128");
}

#[test]
fn a_setting_that_cannot_be_made_leaves_nothing_recorded() {
    let (dir, knob, run) = knob();
    let mut knobs = Knobs::acquire(&run, None).unwrap();
    let missing = dir.path().join("missing");
    assert!(knobs.change(file(&missing, "1")).is_err());
    // The kernel refuses this one when it is written.
    if rustix::process::geteuid().is_root() {
        let refused = Path::new("/proc/sys/vm/dirty_ratio");
        assert!(knobs.change(file(refused, "no number")).is_err());
    }
    assert!(!record::exists(&run));
    knobs.change(file(&knob, "0")).unwrap().unwrap();
    assert_eq!(value(&knob), "0");
}

#[test]
fn it_is_known_whether_a_knob_has_our_value() {
    let (_dir, knob, run) = knob();
    let mut knobs = Knobs::acquire(&run, None).unwrap();
    let [first, second] =
        ["0", "1"].map(|value| knobs.change(file(&knob, value)).unwrap().unwrap());
    assert!(
        knobs.has_our_value(first).unwrap(),
        "the later change is ours, too"
    );
    fs::write(&knob, "64").unwrap();
    assert!(!knobs.has_our_value(first).unwrap());
    assert!(!knobs.has_our_value(second).unwrap());
    assert_eq!(knobs.undo(second).unwrap(), Undone::ChangedByOthers);
    let found = knobs.has_our_value(second);
    assert!(matches!(found, Err(KnobError::NotChanged)));
}

/// Kernels raise `read_ahead_kb` with each write to `max_sectors_kb`, of whatever size.
#[test]
fn what_another_largest_request_raises_is_restored_with_it() {
    let dir = tempdir().unwrap();
    let (largest, readahead) = (
        dir.path().join("max_sectors_kb"),
        dir.path().join("read_ahead_kb"),
    );
    fs::write(&largest, "1280").unwrap();
    fs::write(&readahead, "128").unwrap();
    let mut knobs = Knobs::acquire(&dir.path().join("run"), None).unwrap();
    let id = knobs.change(file(&largest, "64")).unwrap().unwrap();
    fs::write(&readahead, "2560").unwrap();
    assert_eq!(knobs.undo(id).unwrap(), Undone::Restored);
    assert_eq!((&*value(&largest), &*value(&readahead)), ("1280", "128"));
}

/// The change fails when the knob is read back, and undoing it fails, too.
#[test]
fn a_change_that_failed_and_could_not_be_undone_is_undone_later() {
    let dir = tempdir().unwrap();
    let (knob, run) = (dir.path().join("knob"), dir.path().join("run"));
    mknodat(CWD, &knob, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let kernel = {
        let knob = knob.clone();
        // Each of these waits until the guard takes part.
        std::thread::spawn(move || {
            fs::write(&knob, "1").unwrap();
            assert_eq!(value(&knob), "5");
            let mut read_back = File::options().write(true).open(&knob).unwrap();
            fs::remove_file(&knob).unwrap();
            fs::create_dir(&knob).unwrap();
            read_back.write_all(b"\xff").unwrap();
        })
    };
    let mut knobs = Knobs::acquire(&run, None).unwrap();
    assert!(knobs.change(file(&knob, "5")).is_err());
    kernel.join().unwrap();
    assert!(record::exists(&run));
    assert!(knobs.undo_orphans(), "it cannot be read yet");
    fs::remove_dir(&knob).unwrap();
    fs::write(&knob, "5").unwrap();
    assert!(!knobs.undo_orphans());
    assert_eq!(value(&knob), "1");
    assert!(!record::exists(&run));
}

#[test]
fn the_keepers_limit_is_renewed_while_something_is_changed() {
    let (dir, knob, run) = knob();
    let told = dir.path().join("told");
    let mut keeper = Command::new("sh");
    keeper.args(["-c", "cat > \"$0\""]).arg(&told);
    let mut knobs = Knobs::acquire(&run, Some(keeper)).unwrap();
    knobs.renew().unwrap();
    let id = knobs.change(file(&knob, "0")).unwrap().unwrap();
    knobs.renew().unwrap();
    knobs.undo(id).unwrap();
    knobs.renew().unwrap();
    // Waits for the keeper.
    drop(knobs);
    assert_eq!(value(&told), "++-");
}

#[test]
fn a_record_of_the_first_version_is_restored() {
    let (dir, knob, run) = knob();
    fs::create_dir(&run).unwrap();
    let gone = dir.path().join("gone");
    let old = serde_json::json!([
        {"path": gone, "value": "1"},
        {"path": knob, "value": "64"},
        {"path": knob, "value": "0"},
    ]);
    fs::write(run.join(record::RECORD), old.to_string()).unwrap();
    assert_eq!(restore_leftovers(&run).unwrap(), 2);
    assert_eq!(value(&knob), "64");
    assert!(!gone.exists());
}

#[test]
fn a_record_of_a_later_version_is_left_alone() {
    let (_dir, knob, run) = knob();
    fs::create_dir(&run).unwrap();
    let later = r#"{"version": 3, "changes": "in another form"}"#;
    fs::write(run.join(record::RECORD), later).unwrap();
    let error = restore_leftovers(&run).unwrap_err().to_string();
    assert!(error.contains("another version"), "{error}");
    assert_eq!(value(&knob), "128\n");
    assert!(record::exists(&run));
}

#[test]
fn what_a_killed_process_had_begun_to_write_is_removed() {
    let dir = tempdir().unwrap();
    // No process has an id as large.
    let half = dir.path().join(".new-4294967295-a.tmp");
    fs::write(&half, "{").unwrap();
    assert_eq!(restore_leftovers(dir.path()).unwrap(), 0);
    assert!(!half.exists());
    assert_eq!(restore_leftovers(&dir.path().join("none")).unwrap(), 0);
}
