//! Programs of the system, and who executes them.

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// An ordinary user, who has this group besides their own.
pub const USER: &str = "alice";
/// The group that a polkit rule is made for.
pub const GROUP: &str = "launchers";

/// The service's units, and its name on the bus.
pub const UNIT: &str = "paralfetch.service";
pub const SOCKET: &str = "paralfetch.socket";
pub const NAME: &str = "org.paralfetch.Paralfetch1";

/// Where the service keeps what it has learned.
pub const STATE_DIR: &str = "/var/lib/paralfetch";

/// What a program prints; it must succeed.
pub fn output(argv: &[&str]) -> String {
    let output = outcome(argv);
    assert!(output.status.success(), "{argv:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// What a program prints that must fail, on standard error.
pub fn refusal(argv: &[&str]) -> String {
    let output = outcome(argv);
    assert!(!output.status.success(), "{argv:?}: {}", text(&output));
    String::from_utf8(output.stderr).unwrap()
}

/// Runs a program.
pub fn outcome(argv: &[&str]) -> Output {
    Command::new(argv[0])
        .args(&argv[1..])
        .output()
        .unwrap_or_else(|error| panic!("{argv:?}: {error}"))
}

/// Both streams, and how it ended.
fn text(output: &Output) -> String {
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|stream| String::from_utf8_lossy(stream));
    format!("{}\n{stdout}{stderr}", output.status)
}

/// A command that executes `argv` as the ordinary user, without a session, as su(1) does it.
pub fn as_user<'a>(argv: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec![
        "setpriv",
        "--reuid",
        USER,
        "--regid",
        USER,
        "--init-groups",
        "--",
    ];
    all.extend(argv);
    all
}

/// A property of a unit.
pub fn property(unit: &str, name: &str) -> String {
    let line = output(&["systemctl", "show", "--property", name, "--value", unit]);
    line.trim().to_owned()
}

/// The service's process.
pub fn main_pid() -> u32 {
    property(UNIT, "MainPID").parse().unwrap()
}

/// Neither on the bus nor for systemd.
pub fn nothing_runs() {
    for unit in [UNIT, SOCKET] {
        assert_eq!(property(unit, "LoadState"), "not-found", "{unit}");
    }
    let call = outcome(&["busctl", "--system", "status", NAME]);
    assert!(!call.status.success(), "nobody has the name on the bus");
}

/// A line of /proc/PID/status.
pub fn status_of(pid: u32, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap().trim_start_matches(':').trim().to_owned()
}

/// Waits for something that is sure to come and that no event reports.
pub fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(300);
    while !reached() {
        assert!(Instant::now() < limit, "waited in vain until {what}");
        // The machine may have one processor, which what is waited for needs.
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// All that is in these directories and was not there before.
pub fn files() -> Vec<String> {
    let places = [
        "/etc",
        "/usr",
        "/opt",
        "/run/paralfetch",
        STATE_DIR,
        "/var/lib/systemd/deb-systemd-helper-enabled",
        "/var/lib/systemd/deb-systemd-helper-masked",
    ];
    let found = outcome(&[&["find"], &places[..], &["-xdev"]].concat());
    let mut files: Vec<String> = String::from_utf8_lossy(&found.stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    files.sort();
    files
}
