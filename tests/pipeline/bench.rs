//! Comparing launches.

use std::fs;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::processes::{apps, until_asleep};
use crate::set_up;
use common::root::Root;

/// The results of a scenario.
fn of<'a>(results: &'a serde_json::Value, scenario: &str) -> &'a serde_json::Value {
    let all = results["results"].as_array().unwrap();
    let found = all.iter().find(|result| result["scenario"] == scenario);
    found.unwrap()
}

#[test]
fn bench_counts_what_the_app_reads() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let [json, markdown] = ["bench.json", "bench.md"].map(|name| root.state.path().join(name));
    let mut bench = vec!["bench", "--runs", "2"];
    bench.extend(["--export-json", json.to_str().unwrap()]);
    bench.extend(["--export-markdown", markdown.to_str().unwrap()]);
    let output = root.paralfetch(&bench, &Root::READ_ALL).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("gap closed") && text.contains('█'), "{text}");
    let results: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let counts = |scenario: &str, what: &str| -> Vec<u64> {
        let counts = of(&results, scenario)[what].as_array().unwrap();
        counts.iter().map(|count| count.as_u64().unwrap()).collect()
    };
    for what in ["read_requests", "read_bytes"] {
        assert!(
            counts("cold", what).iter().all(|&count| count > 100),
            "{results}"
        );
        assert_eq!(counts("warm", what), [0, 0], "{results}");
    }
    assert!(
        counts("prefetch", "prefetch_bytes")
            .iter()
            .all(|&bytes| bytes > 1 << 20)
    );
    let cold = of(&results, "cold");
    assert_eq!(cold["times"].as_array().unwrap().len(), 2);
    assert!(
        cold["stddev"].is_number() && cold["mean"].is_number(),
        "{cold}"
    );
    let table = fs::read_to_string(&markdown).unwrap();
    assert_eq!(table.lines().count(), 2 + 3, "{table}");
    assert!(results["reduction"].is_number(), "{results}");
}

#[test]
fn bench_ends_apps_that_run_on() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    // No launch takes the time limit: all fall quiet.
    let options = "bench --until quiet --timeout 600 --runs 1 --json";
    let bench: Vec<&str> = options.split(' ').collect();
    let cmd = ["/bin/sh", "-c", "cat /data/*; exec sleep 1000"];
    let output = root.paralfetch(&bench, &cmd).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(apps(&root), [], "nothing of the app is left");
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["until"], "quiet");
    assert_eq!(results["results"].as_array().unwrap().len(), 3);
    for scenario in ["cold", "prefetch", "warm"] {
        let times = of(&results, scenario)["times"].as_array().unwrap();
        assert_eq!(times.len(), 1, "{scenario}");
    }
}

#[test]
fn bench_that_is_interrupted_ends_its_app() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let cmd = ["/bin/sh", "-c", "cat /data/1; sleep 1000"];
    let mut bench = root
        .paralfetch(&["bench"], &cmd)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until_asleep(&root);
    // Not to its process group: the app is not interrupted.
    kill_process(Pid::from_child(&bench), Signal::INT).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(130));
    assert_eq!(apps(&root), [], "nothing of the app is left");
}
