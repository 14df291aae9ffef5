//! `paralfetch-waits`, with a file that is written to a drive as fast as the machine allows.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use paralfetch_waits::{Wait, WaitOptions, WaitWatch};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::alone;
use common::{LoopExt4, privileged, until, waits_program};

/// A user without an account.
const NOBODY: u32 = 65_533;

/// `paralfetch-waits`, which is killed after two minutes.
fn waits(arguments: &[&str]) -> Command {
    let mut timeout = Command::new("timeout");
    timeout.args(["--signal=KILL", "120", waits_program()]);
    of(timeout, arguments)
}

/// The same without a limit, to be sent signals: see [`ended`].
fn unlimited(arguments: &[&str]) -> Command {
    of(Command::new(waits_program()), arguments)
}

fn of(mut program: Command, arguments: &[&str]) -> Command {
    // A fast drive answers each request of a long fsync within a millisecond.
    program.args(["--least", "0"]).args(arguments);
    program.stdin(Stdio::null());
    // Whoever runs the tests through sudo is not meant.
    program.env_remove("SUDO_UID").env_remove("PKEXEC_UID");
    program
}

/// The lines on standard error that are the program's own.
fn our_lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let ours = text
        .lines()
        .filter(|line| line.starts_with("paralfetch-waits: "));
    ours.map(str::to_owned).collect()
}

/// A shell command that writes a file and waits until the drive has it.
fn write_to(file: &Path) -> String {
    let file = file.display();
    format!("dd if=/dev/zero of={file} bs=1M count=64 conv=fsync 2>/dev/null")
}

/// The device of a file system as the kernel numbers it.
fn device(directory: &Path) -> u32 {
    let dev = fs::metadata(directory).unwrap().dev();
    rustix::fs::major(dev) << 20 | rustix::fs::minor(dev)
}

/// JSON lines, the last of which has the totals.
fn parsed(text: &[u8]) -> (Vec<Value>, Value) {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().map(serde_json::from_str);
    let mut lines: Vec<Value> = lines
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error}: {text}"));
    let totals = lines.pop().unwrap();
    assert_eq!(totals["type"], "totals", "{text}");
    assert!(lines.iter().all(|line| line["type"] == "wait"), "{text}");
    (lines, totals)
}

/// The waits of dd(1) for its file or its drive.
fn of_dd(waits: &[Value], device: u32) -> Vec<&Value> {
    let causes = ["sync", "journal-commit", "scheduler", "drive"];
    let is_one = |wait: &&Value| {
        wait["task"]["comm"] == "dd"
            && wait["device"] == device
            && causes.contains(&wait["cause"].as_str().unwrap())
    };
    waits.iter().filter(is_one).collect()
}

/// Waits for a program that is sure to end, and ends it if it does not.
fn ended(mut child: Child) -> Output {
    let is_over = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until("the program ends", || child.try_wait().unwrap().is_some());
    }));
    if let Err(panic) = is_over {
        child.kill().unwrap();
        child.wait().unwrap();
        std::panic::resume_unwind(panic);
    }
    child.wait_with_output().unwrap()
}

#[test]
fn the_waits_of_a_command_are_listed_and_its_status_passes_through() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let drive = LoopExt4::new(256, &[]);
    let file = drive.mount_point().join("written");
    let script = format!("{}; exit 3", write_to(&file));
    let command = ["--", "sh", "-c", &script];
    let output = waits(&[&["--json"][..], &command].concat())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(output.stdout.is_empty());
    let (single, totals) = parsed(&output.stderr);
    assert!(
        !of_dd(&single, device(drive.mount_point())).is_empty(),
        "{single:#?}"
    );
    assert_eq!(totals["waits"], single.len(), "{totals}");
    assert_eq!(
        (&totals["unlisted"], &totals["lost"]),
        (&0.into(), &0.into())
    );
    for rows in ["by_cause", "by_process", "by_file"] {
        let rows = totals[rows].as_array().unwrap().iter();
        let sum: u64 = rows.map(|row| row["total_ns"].as_u64().unwrap()).sum();
        assert_eq!(totals["total_ns"], sum, "{totals}");
    }

    // Into a file, and as text for people.
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("waits");
    let option = format!("--json={}", report.display());
    let output = waits(&[&[&*option][..], &command].concat())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let (single, _) = parsed(&fs::read(&report).unwrap());
    assert!(!single.is_empty());
    let output = waits(&[&["--cost"][..], &command].concat())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let lines = our_lines(&output);
    assert!(lines[0].contains(" in sum, worst "), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("  dd[")), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.contains("% of a processor")),
        "{lines:?}"
    );
}

#[test]
fn the_waits_of_the_system_are_listed_as_they_end() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let drive = LoopExt4::new(256, &[]);
    let watch = waits(&["--json", "--for", "3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Writes until that has ended.
    let script = format!(
        "while :; do {}; done",
        write_to(&drive.mount_point().join("written"))
    );
    let mut writer = Command::new("sh");
    let mut writer = writer
        .args(["-c", &script])
        .process_group(0)
        .spawn()
        .unwrap();
    let output = watch.wait_with_output();
    // The shell and the dd that it runs.
    kill_process_group(Pid::from_child(&writer), Signal::KILL).unwrap();
    writer.wait().unwrap();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let (single, totals) = parsed(&output.stdout);
    assert!(
        !of_dd(&single, device(drive.mount_point())).is_empty(),
        "{single:#?}"
    );
    let listed = totals["waits"].as_u64().unwrap() - totals["unlisted"].as_u64().unwrap();
    assert_eq!(listed, single.len() as u64, "{totals}");
}

#[test]
fn a_watch_sees_what_was_started_before_it() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let drive = LoopExt4::new(256, &[]);
    // A grandchild, as the app of a wrapper is.
    let script = format!(
        "read go && {}",
        write_to(&drive.mount_point().join("written"))
    );
    let mut app = Command::new("sh")
        .args(["-c", "sh -c \"$0\"; true", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let watch = WaitWatch::start(WaitOptions {
        only: Some(rustix::process::getpid()),
        least: Duration::ZERO,
    });
    assert!(watch.until_attached(Duration::from_secs(60)));
    let mut go = app.stdin.take().unwrap();
    go.write_all(b"now\n").unwrap();
    drop(go);
    until("the app ends", || app.try_wait().unwrap().is_some());
    let seen = watch.finish().unwrap();
    let own = device(drive.mount_point());
    let is_one = |wait: &Wait| wait.task.comm == "dd" && wait.device == Some(own);
    assert!(seen.waits.iter().any(is_one), "{:#?}", seen.waits);
}

#[test]
fn signals_reach_the_command_whose_waits_are_watched() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let mut watched = unlimited(&["--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut stdout = BufReader::new(watched.stdout.take().unwrap());
    stdout.read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    kill_process(Pid::from_child(&watched), Signal::TERM).unwrap();
    let output = ended(watched);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(!our_lines(&output).is_empty(), "{output:?}");
}

#[test]
fn a_signal_ends_watching_with_the_totals() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    // It ends by itself, should the signal not end it.
    let mut watch = unlimited(&["--for", "50"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Any wait on the system has a line, and this thread's own for its file is one.
    let drive = LoopExt4::new(64, &[]);
    let mut stdout = BufReader::new(watch.stdout.take().unwrap());
    let file = drive.mount_point().join("written");
    let mut line = String::new();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| stdout.read_line(&mut line).map(|_| ()));
        until("a wait has a line", || {
            fs::write(&file, [7; 4096]).unwrap();
            fs::File::open(&file).unwrap().sync_all().unwrap();
            reader.is_finished()
        });
        reader.join().unwrap().unwrap();
    });
    assert!(line.contains(" ms  "), "{line}");
    kill_process(Pid::from_child(&watch), Signal::INT).unwrap();
    let mut last = String::new();
    for line in stdout.lines() {
        last.push_str(&line.unwrap());
        last.push('\n');
    }
    let output = ended(watch);
    assert!(output.status.success(), "{output:?}");
    for part in [" in sum, worst ", "cause", "process", "file or device"] {
        assert!(last.contains(part), "{part}: {last}");
    }
}

#[test]
fn watching_needs_root_and_the_command_runs_as_who_called() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    for (arguments, status) in [(&["--json"][..], 1), (&["--", "echo", "started"], 125)] {
        // Not by uid(): the build may lie where only root can look a program up.
        let mut timeout = Command::new("timeout");
        let nobody = NOBODY.to_string();
        timeout.args(["--signal=KILL", "120", "setpriv", "--clear-groups"]);
        timeout.args(["--reuid", &nobody, waits_program()]);
        let output = of(timeout, arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let lines = our_lines(&output);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("needs root"), "{lines:?}");
    }
    let output = waits(&["--", "id", "-u"])
        .env("SUDO_UID", NOBODY.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, format!("{NOBODY}\n").into_bytes());
    let output = waits(&["--", "/nonexistent"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{output:?}");
}
