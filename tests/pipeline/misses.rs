//! What `run --report` and `learn --json` tell.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::process::Command;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;

use crate::processes::launch_told;
use crate::set_up;
use common::drop_caches;
use common::root::{FILES, PAGES, Root, content, our_lines};

/// An app that waits until it is told to go, so that the prefetch is over by then, reads all data, and
/// reads and then extends a log.
const APP: [&str; 3] = [
    "/bin/sh",
    "-c",
    "read word < /go; cat /data/* /log; echo more >> /log",
];

/// A root with what the app needs.
fn prepared() -> Option<(Root, std::sync::MutexGuard<'static, ()>)> {
    let (root, turn) = set_up()?;
    mkfifoat(CWD, root.path().join("go"), Mode::RWXU).unwrap();
    fs::write(root.path().join("log"), content(7, 3)).unwrap();
    Some((root, turn))
}

/// Launches the app by `command`; returns what we said.
fn launch(root: &Root, command: &[&str]) -> Vec<String> {
    our_lines(&launch_told(root, command, &APP, "go"))
}

/// A cold prefetched launch: its misses, and the totals.
fn report(root: &Root) -> (Vec<Value>, Value) {
    drop_caches();
    let file = root.state.path().join("report");
    let option = format!("--report={}", file.to_str().unwrap());
    let lines = launch(root, &["run", &option]);
    let text =
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}, but it says {lines:?}"));
    let mut values: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let totals = values.pop().unwrap();
    assert_eq!(totals["type"], "totals", "{text}");
    assert_eq!(totals["lost_events"], 0, "{totals}");
    assert!(values.iter().all(|value| value["type"] == "miss"), "{text}");
    (values, totals)
}

/// Path, reason, first page and number of pages of those misses of the tree that the prefetch had
/// the time to prevent. (The shell comes before the prefetch thread, and waits then.)
fn preventable(misses: &[Value]) -> BTreeSet<(String, String, u64, u64)> {
    misses
        .iter()
        .filter(|miss| miss["kind"] == "data" && miss["reason"] != "other")
        .filter(|miss| {
            let path = miss["path"].as_str().unwrap();
            path.starts_with("/data") || path == "/log" || path == "/bin/cat"
        })
        .map(|miss| {
            (
                miss["path"].as_str().unwrap().to_owned(),
                miss["reason"].as_str().unwrap().to_owned(),
                miss["start"].as_u64().unwrap(),
                miss["pages"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn a_report_names_each_miss_with_its_reason() {
    let Some((root, _turn)) = prepared() else {
        return;
    };
    launch(&root, &["learn"]);
    let expected = |list: &[(&str, &str, u64, u64)]| -> BTreeSet<_> {
        list.iter()
            .map(|&(path, reason, start, pages)| (path.to_owned(), reason.to_owned(), start, pages))
            .collect()
    };

    // The log is left out of every profile, since the app writes it.
    let (misses, totals) = report(&root);
    let log = ("/log", "written", 0, 4);
    assert_eq!(preventable(&misses), expected(&[log]), "{misses:#?}");
    let of_tree: Vec<&Value> = misses
        .iter()
        .filter(|miss| miss["reason"] != "other")
        .collect();
    for miss in of_tree.iter().filter(|miss| miss["path"] != "/log") {
        let reason = miss["reason"].as_str().unwrap();
        let is_bitmap = miss["block"] == "block-bitmap";
        let path = miss["path"].as_str().unwrap_or_default();
        // The launch reads around a page of a library that has not come yet, and a page fault maps what is there, used or not
        // (fault-around): how many, the host decides.
        let is_of_library = path.starts_with("/lib") && reason == "not-in-profile";
        assert!(
            ["late", "read-around"].contains(&reason) || is_bitmap || is_of_library,
            "{miss}"
        );
    }
    assert_eq!(totals["requests"], of_tree.len(), "{totals}");
    assert!(
        totals["launch_requests"].as_u64().unwrap() > FILES as u64,
        "{totals}"
    );

    // One file of another inode, one that has grown, a new one, and one that was only touched.
    let data = root.path().join("data");
    fs::write(data.join("other"), content(9, PAGES)).unwrap();
    fs::rename(data.join("other"), data.join("1")).unwrap();
    let mut grown = File::options().append(true).open(data.join("2")).unwrap();
    grown.write_all(&content(2, 4)).unwrap();
    fs::write(data.join("new"), content(3, 2)).unwrap();
    let touched = File::options().write(true).open(data.join("3")).unwrap();
    touched.set_modified(std::time::SystemTime::now()).unwrap();
    let (misses, totals) = report(&root);
    let pages = PAGES as u64;
    assert_eq!(
        preventable(&misses),
        expected(&[
            ("/data/1", "stale", 0, pages),
            ("/data/2", "stale", pages, 4),
            ("/data/new", "not-in-profile", 0, 2),
            log,
        ]),
        "{misses:#?}"
    );
    assert_eq!(totals["by_reason"]["stale"]["requests"], 2, "{totals}");
    let metadata: BTreeSet<&str> = misses
        .iter()
        .filter(|miss| miss["kind"] == "metadata" && miss["reason"] == "not-in-profile")
        .map(|miss| miss["block"].as_str().unwrap())
        .collect();
    let possible = BTreeSet::from(["inode-table", "directory", "block-bitmap"]);
    assert!(metadata.is_subset(&possible), "{misses:#?}");

    // The same for people.
    drop_caches();
    let text = launch(&root, &["run", "--report"]).join("\n");
    assert!(text.contains("2 stale"), "{text}");
    assert!(
        text.lines()
            .any(|line| line.contains("not-in-profile") && line.ends_with("/data/new")),
        "{text}"
    );
}

#[test]
fn without_tracing_the_app_runs_and_one_line_says_so() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    root.learn(&[], &Root::READ_ALL);
    let run = root.paralfetch(&["run", "--report"], &Root::READ_ALL);
    let output = Command::new("setpriv")
        .args(["--bounding-set", "-perfmon,-bpf,-sys_admin", "--"])
        .arg(run.get_program())
        .args(run.get_args())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout.len(), FILES * PAGES * 4096);
    let lines = our_lines(&output);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("lacks CAP_PERFMON and CAP_BPF") && lines[0].contains("no report"),
        "{lines:?}"
    );
}

#[test]
fn what_learning_requires_is_told_as_json() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let file = root.state.path().join("learned.json");
    let option = format!("--json={}", file.to_str().unwrap());
    let output = root.learn(&[&option], &Root::READ_ALL);
    // The report is in the file; besides the slowed drive, the only line is about the arguments of `sh -c`, which
    // tell no app.
    let lines = our_lines(&output);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].contains("which app it starts"), "{lines:?}");
    let learned: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    fs::remove_file(file).unwrap();
    let profile = root.show("sh");
    let required = &learned["required"];
    assert_eq!(learned["log_entries"], profile["log_entries"]);
    assert_eq!(required["files"], profile["totals"]["files"]);
    assert_eq!(
        required["missing_metadata"],
        learned["resolved"]["missing_metadata"]
    );
    let kib = |kind: &str| required[kind]["kib"].as_u64().unwrap();
    assert!(kib("data") >= (FILES * PAGES * 4) as u64, "{learned}");
    assert!(kib("metadata") >= 4 * FILES as u64 / 16, "{learned}");
    if !required["mapped_files"].is_null() {
        // All but the data: programs and libraries.
        let files = required["files"].as_u64().unwrap();
        let mapped = required["mapped_files"].as_u64().unwrap();
        assert_eq!(mapped, files - FILES as u64, "{learned}");
        assert!(mapped >= 3, "{learned}");
    } else {
        assert_eq!(required["mapped_files"], Value::Null);
    }
}
