//! `doctor` on the machine as it is.

use std::process::Command;

use serde_json::Value;

use crate::common::privileged;

fn doctor(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_paralfetch"))
        .arg("doctor")
        .args(args)
        .output()
        .unwrap()
}

/// Where the other tests learn and prefetch, doctor says that both work, and by what means.
#[test]
fn where_learning_works_doctor_says_so() {
    if !privileged() {
        return;
    }
    let output = doctor(&["--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{found:#}");
    assert_eq!(found["works"], true);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(found["kernel"], release.trim());
    for kind in ["reads", "faults"] {
        let means = found["hooks"][kind].as_str().unwrap();
        assert!(
            ["tracepoint", "fentry", "no-function", "refused"].contains(&means),
            "{means}"
        );
    }
    let text = String::from_utf8(doctor(&[]).stdout).unwrap();
    for check in found["checks"].as_array().unwrap() {
        assert!(text.contains(check["name"].as_str().unwrap()), "{text}");
        // What is not as it should be has its price named.
        assert_eq!(check["cost"].is_null(), check["level"] == "ok", "{check}");
    }
}

/// Without root nothing works, and doctor says why.
#[test]
fn without_root_doctor_fails() {
    use std::os::unix::process::CommandExt;
    if !privileged() {
        return;
    }
    // The build may lie where another user cannot go: give the program by descriptor.
    let program = std::fs::File::open(env!("CARGO_BIN_EXE_paralfetch")).unwrap();
    let link = format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&program)
    );
    rustix::io::fcntl_setfd(&program, rustix::io::FdFlags::empty()).unwrap();
    let output = Command::new(link)
        .args(["doctor", "--json"])
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(found["works"], false);
    assert_eq!(found["hooks"], Value::Null);
    assert!(String::from_utf8_lossy(&output.stderr).contains("do not both work"));
}
