//! The history on file systems that are full or read-only. Needs root, for mounts of its own.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{Mounted, privileged, succeed};
use paralfetch::service::config::HistoryConfig;
use paralfetch::service::history::{FILE_NAME, History, HistoryError, LaunchRecord};

/// A child that one test has forked holds the files of another until it executes its program: a file system is
/// busy then, or its space is not freed. So the tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

const LIMITS: HistoryConfig = HistoryConfig {
    max_launches: 10_000,
    max_days: 365,
};

fn launch(index: u64) -> LaunchRecord {
    LaunchRecord {
        time_s: 1_700_000_000 + index,
        app: "/usr/bin/app".to_owned(),
        duration_us: Some(index),
        note: Some("n".repeat(400)),
        ..LaunchRecord::default()
    }
}

/// A file system of 1 MiB in memory.
fn small(target: &Path) -> Mounted {
    let mounted = Mounted::new("tmpfs", "tmpfs", target);
    remount(target, "size=1m");
    mounted
}

fn remount(target: &Path, options: &str) {
    let options = format!("remount,{options}");
    succeed(Command::new("mount").args(["-o", &options]).arg(target));
}

/// Takes all the space that is left.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    let full = std::iter::repeat_with(|| file.write_all(&[0; 4096])).find_map(Result::err);
    assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::StorageFull));
}

fn count(history: &History) -> usize {
    history.launches(None, None, usize::MAX).unwrap().len()
}

#[test]
fn a_full_disk_is_an_error_and_costs_nothing_that_is_there() {
    let _turn = turn();
    if !privileged() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let _mounted = small(dir.path());
    let path = dir.path().join(FILE_NAME);
    let filler = dir.path().join("filler");
    let full = |error: HistoryError| {
        let text = error.to_string();
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        assert!(text.ends_with("disk is full"), "{text}");
    };

    fill(&filler);
    full(History::open(&path, LIMITS).unwrap_err());

    fs::write(&filler, "").unwrap();
    let (mut history, found) = History::open(&path, LIMITS).unwrap();
    assert_eq!(found, None);
    for index in 0..10 {
        history.add(&[launch(index)]).unwrap();
    }
    fill(&filler);
    // There is room in the pages that the file has.
    let error = (10..1000).find_map(|index| history.add(&[launch(index)]).err());
    full(error.expect("there is no room for so many"));
    let kept = count(&history);
    assert!(kept >= 10, "{kept}");
    drop(history);

    let (mut history, found) = History::open(&path, LIMITS).unwrap();
    assert_eq!((count(&history), found), (kept, None));
    // A process that another test has just forked may still hold the file: truncating it frees the space.
    fs::write(&filler, "").unwrap();
    history.add(&[launch(0)]).unwrap();
    assert_eq!(count(&history), kept + 1);
}

#[test]
fn a_read_only_file_system_is_an_error() {
    let _turn = turn();
    if !privileged() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let _mounted = small(dir.path());
    let path = dir.path().join(FILE_NAME);
    let read_only = |error: HistoryError| {
        let text = error.to_string();
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        let text = text.to_lowercase();
        assert!(
            text.contains("read-only") || text.contains("readonly"),
            "{text}"
        );
    };

    remount(dir.path(), "ro");
    read_only(History::open(&path, LIMITS).unwrap_err());
    remount(dir.path(), "rw");
    let (mut history, _) = History::open(&path, LIMITS).unwrap();
    history.add(&[launch(0)]).unwrap();
    drop(history);
    remount(dir.path(), "ro");
    read_only(History::open(&path, LIMITS).unwrap_err());
    assert!(!dir.path().join("history.sqlite.damaged").exists());
}

#[test]
fn processes_that_make_it_at_once_do_not_take_it_for_a_damaged_one() {
    let _turn = turn();
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        // Empty, as its maker leaves it who is killed then.
        File::create(dir.path().join(FILE_NAME)).unwrap();
        let stats = || {
            Command::new(common::program())
                .arg("--state-dir")
                .arg(dir.path())
                .args(["stats", "--json"])
                .env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus")
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        let all = [stats(), stats(), stats(), stats()];
        for mut one in all {
            assert!(one.wait().unwrap().success());
        }
        let entries = fs::read_dir(dir.path()).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().file_name());
        assert!(names.all(|name| !name.to_string_lossy().contains("damaged")));
    }
}

/// Before anything was learned or recorded, and whoever asks.
#[test]
fn asking_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let state_dir = place.path().join("state");
    for command in [&["list"][..], &["list", "--json"], &["stats"], &["mode"]] {
        let output = Command::new(common::program())
            .arg("--state-dir")
            .arg(&state_dir)
            .args(command)
            .output()
            .unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
        assert!(!state_dir.exists(), "{command:?}");
    }
}
