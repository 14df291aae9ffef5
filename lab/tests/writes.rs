//! Benchmarks beside a writer, from the command line to their end, and that nothing is left of them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lab::record::Written;
use lab::report;

/// Whether tests that need root can run. If not, says so loudly; where CI forbids that, fails.
fn privileged() -> bool {
    let there = ["/dev/loop-control", "/dev/fuse", "/sbin/mke2fs"];
    let missing = there.iter().find(|path| !Path::new(path).exists());
    let why = match missing {
        Some(path) => format!("this test needs {path}"),
        None if !rustix::process::geteuid().is_root() => "this test needs root".to_owned(),
        None => return true,
    };
    common::skipped(&why);
    false
}

/// There is one session at a time.
fn alone() -> MutexGuard<'static, ()> {
    static SESSION: Mutex<()> = Mutex::new(());
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

fn writes(directory: &Path, out: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lab"))
        .args([
            "writes",
            "--limit",
            "1",
            "--settle-ms",
            "100",
            "--runs",
            "1",
        ])
        .args(more)
        .arg("--out")
        .arg(out)
        .arg("--image-dir")
        .arg(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn written(out: &Path) -> Vec<Written> {
    report::load(out).unwrap().written
}

/// The record of what the shield has changed and not restored.
const CHANGED: &str = "/run/paralfetch-lab-shield/knobs.json";

#[test]
fn a_benchmark_runs_quiet_and_beside_a_writer_to_its_end() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let (images, out) = (place.path().join("images"), place.path().join("out"));
    let options = [
        "--device",
        "ufs",
        "--drive-scheduler",
        "mq-deadline",
        "--benchmarks",
        "m1",
        "--writer",
        "fsyncs",
        "--measures",
        "detector,requests",
        "--waits",
    ];
    let output = writes(&images, &out, &options);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let tables = String::from_utf8_lossy(&output.stdout);
    assert!(
        tables.contains("# Waiting for background writes: ufs, mq-deadline"),
        "{tables}"
    );

    let found = written(&out);
    let conditions: Vec<(bool, &str)> = found
        .iter()
        .map(|one| (one.writer.is_some(), one.measure.as_str()))
        .collect();
    let asked = [
        (false, "none"),
        (true, "none"),
        (true, "detector"),
        (true, "requests"),
    ];
    assert_eq!(conditions, asked, "{said}");
    for one in &found {
        let operation = |name: &str| one.operations.iter().find(|each| each.name == name);
        for name in ["creat", "write", "fsync", "close", "all"] {
            let times = operation(name).unwrap();
            assert!(times.count > 0 && times.count <= 500, "{times:?}");
            let rising = [times.p50_ms, times.p95_ms, times.p99_ms, times.worst_ms];
            assert!(rising.is_sorted() && times.p50_ms > 0.0, "{times:?}");
        }
        assert_eq!(one.throughput.is_some(), one.writer.is_some());
        assert!(
            one.throughput.is_none_or(|beside| beside.drive_mb_s > 0.0),
            "{one:?}"
        );
    }
    assert!(
        fs::read_to_string(out.join("writes.md"))
            .unwrap()
            .contains("| all | requests |")
    );

    // What is there is not measured again, and is shown again.
    let again = writes(&images, &out, &options);
    assert!(again.status.success() && again.stdout == output.stdout);
    assert_eq!(written(&out).len(), found.len());
    assert!(!Path::new(CHANGED).exists());
    let left: Vec<_> = fs::read_dir(&images)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name != "sessions.lock")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(images.to_str().unwrap()), "{mounts}");
}

#[test]
fn a_large_file_is_written_beside_a_package_that_is_installed() {
    if !privileged() || !Path::new("/usr/bin/dpkg-deb").exists() {
        return;
    }
    let _alone = alone();
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let (images, out) = (place.path().join("images"), place.path().join("out"));
    let options = [
        "--device",
        "ufs",
        "--benchmarks",
        "dpkg",
        "--writer-mib",
        "64",
        "--writer",
        "truncate",
        "--measures",
        "none",
        "--json",
    ];
    let output = writes(&images, &out, &options);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8_lossy(&output.stdout);
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(
        lines
            .lines()
            .all(|line| line.starts_with("{\"record\":\"written\"")),
        "{lines}"
    );
    for one in written(&out) {
        assert!(
            one.operations
                .iter()
                .any(|each| each.name == "all" && each.count > 0),
            "{one:?}"
        );
    }
}

#[test]
fn what_is_not_there_cannot_be_asked_for() {
    let place = tempfile::tempdir().unwrap();
    for (option, value, known) in [
        ("--benchmarks", "m6", "photos"),
        ("--measures", "boost", "requests"),
        ("--writer", "append", "fsyncs"),
        ("--device", "drum", "qlc-sata"),
        ("--drive-scheduler", "cfq", "bfq"),
    ] {
        let output = writes(place.path(), &place.path().join("out"), &[option, value]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(known), "{said}");
    }
}
