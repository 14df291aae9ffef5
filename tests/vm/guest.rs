//! The part that runs in the virtual machine: launches an app in every way that matters, and prints
//! what came of it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use paralfetch::apps::{Rules, identify_command};
use paralfetch::learn::{LearnOptions, LearnedProfile, learn};
use paralfetch::model::Learned;
use paralfetch::model::{GivenParams, LaunchLimits};
use paralfetch::prefetch::{self, Prefetch};
use paralfetch::process::{self, Spawn, Supervisor};
use paralfetch::profile::Store;

use crate::compare::{Page, found_in, log_of, recall, size};
use crate::facts::{Facts, MARK};
use crate::service;
use crate::waits;
use common::reads::reads_of_launch;

/// The product's program, which the host sends along.
pub const PARALFETCH: &str = "./paralfetch";
pub const APP: [&str; 2] = ["/usr/bin/python3", "/opt/app.py"];
/// A system of the app's own: what this program and the machine's first process have mapped, and so
/// keep in the cache, is no part of it. An idle launch is then read from the drive to the last page.
pub const ROOT: &str = "/srv/app";
/// What is copied into it, beside the interpreter and its modules.
const SYSTEM: [&str; 6] = [
    "/bin",
    "/lib",
    "/lib64",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/usr/lib/x86_64-linux-gnu",
];
/// The file that the app reads parts of, as it is called from outside.
const DATA: &str = "/srv/app/opt/data";
const DATA_BYTES: usize = 1024 * 4096;
const STATE_DIR: &str = "state";
/// Longest launch and prefetch: emulated processors are slow.
pub const LIMIT: Duration = Duration::from_secs(300);
/// The same for the command line.
const TIMEOUT: [&str; 2] = ["--timeout", "300"];

/// Finds everything out and prints it. What it is about to do is printed as well, for a machine that
/// does not come to its end.
pub fn main() {
    let started = Instant::now();
    let begin = |what: &str| println!("{:5.1} s: {what}", started.elapsed().as_secs_f64());
    begin("installing the app");
    install();

    begin("doctor, and the launch on an idle system");
    let doctor = output(&["doctor", "--json"]);
    let app = |how| learned(&APP, Some(ROOT), how);
    let idle = app(Learned::Exact);
    begin("the launch while others hold its files");
    // Two: what one process alone has mapped is taken back from it before a launch is learned.
    let holders = [Holder::of(&APP), Holder::of(&APP)];
    let held = app(Learned::Exact);
    drop(holders);
    begin("the live launches");
    // The first only makes sure that all of it is cached.
    drop(app(Learned::Live));
    let live = app(Learned::Live);
    begin("the service's launches");
    let (served, knob) = service::learn();
    let served = log_of(&served);
    let is_file = |page: &Page| !page.is_metadata();
    let is_data = |page: &Page| page.is_of(DATA);
    begin("learn, run and bench");
    let learn_report = paralfetch("learn", &[&["--verbose"][..], &TIMEOUT].concat());
    // This launch may have ended in a quiet window before the app did. What follows is about a whole profile.
    let store = Store::open(Path::new(STATE_DIR)).unwrap();
    let stored = store.load(idle.profile.app.key()).unwrap();
    assert!(stored.is_some(), "learn has stored a profile of the app");
    store.save(&idle.profile).unwrap();
    let run_report = {
        fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
        paralfetch("run", &["-v"])
    };
    let bench = "--runs 1 --scenarios cold,prefetch --export-json bench.json";
    let bench: Vec<&str> = bench.split(' ').chain(TIMEOUT).collect();
    paralfetch("bench", &bench);
    begin("the launch after its prefetch");
    let cold_reads = reads_of(|| {});
    let profile = idle.profile.clone();
    let reads_after_prefetch = reads_of(|| {
        let load = move || Some(profile);
        let prefetch = Prefetch::start(load, prefetch::PrefetchOptions::default()).unwrap();
        let report = prefetch.finish_within(LIMIT).unwrap();
        assert_eq!(report.refused, None);
    });
    begin("waits");
    let waits = waits::named();
    begin("comparing");
    let facts = Facts {
        doctor_status: doctor.status.code(),
        doctor: serde_json::from_slice(&doctor.stdout).unwrap_or_default(),
        hooks: serde_json::to_value(held.profile.hooks).unwrap(),
        files: recall(&idle, &held, |page| is_file(page) && !is_data(page)),
        data: recall(&idle, &held, is_data),
        metadata: recall(&idle, &held, Page::is_metadata),
        live_files: recall(&idle, &live, is_file),
        live_metadata: recall(&idle, &live, Page::is_metadata),
        served_files: found_in(&idle, &served, is_file),
        served_metadata: found_in(&idle, &served, Page::is_metadata),
        knob,
        idle: size(&idle),
        held: size(&held),
        live: size(&live),
        cold_reads,
        reads_after_prefetch,
        bench: serde_json::from_slice(&fs::read("bench.json").unwrap()).unwrap(),
        learn_report,
        run_report,
        waits,
    };
    begin("done");
    println!("{MARK}{}", serde_json::to_string(&facts).unwrap());
}

/// Read requests to the drive of one launch with empty caches, after these preparations.
fn reads_of(prepare: impl FnOnce()) -> u64 {
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
    // What chroot itself reads is no part of the app.
    let status = Command::new("chroot").args(["/", "true"]).status().unwrap();
    assert!(status.success(), "{status}");
    prepare();
    reads_of_launch(Path::new(ROOT), &APP)
}

/// Makes the app's system.
fn install() {
    fs::create_dir_all(format!("{ROOT}/opt")).unwrap();
    fs::create_dir_all(format!("{ROOT}/usr/bin")).unwrap();
    // A link to the version that the system has.
    let version = fs::read_link(APP[0]).unwrap();
    let version = version.to_str().unwrap();
    let copied = Command::new("cp")
        .args(["-a", "--parents"])
        .args(SYSTEM)
        .args([
            APP[0],
            &format!("/usr/bin/{version}"),
            &format!("/usr/lib/{version}"),
        ])
        .arg(ROOT)
        // Where it looks for the parents' owners and modes.
        .current_dir("/")
        .status()
        .unwrap();
    assert!(copied.success());
    let script = format!("{ROOT}{}", APP[1]);
    fs::write(&script, include_str!("app.py")).unwrap();
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(DATA, vec![b'x'; DATA_BYTES]).unwrap();
    rustix::fs::sync();
}

/// One learning run of an app, which drops the caches first unless it is live.
pub fn learned(app: &[impl AsRef<OsStr>], root: Option<&str>, how: Learned) -> LearnedProfile {
    let argv: Vec<OsString> = app.iter().map(|arg| arg.as_ref().to_owned()).collect();
    let command = process::Command::find(&argv, root.map(Path::new)).unwrap();
    let mut supervisor = Supervisor::new().unwrap();
    let options = LearnOptions {
        app: identify_command(&Rules::builtin(), &command, 0).app,
        how,
        limits: LaunchLimits {
            // An emulated processor may compute for longer than any window: only the app's exit ends its launch.
            min_reads: 0,
            timeout: LIMIT,
            ..LaunchLimits::default()
        },
        keeper: None,
        earlier: None,
        given: GivenParams::default(),
        state_dir: None,
        tell: |_| (),
    };
    let learned = learn(Spawn::new(command), options, &mut supervisor).unwrap();
    let exit = match learned.exit {
        Some(exit) => exit,
        None => supervisor.wait().unwrap(),
    };
    assert_eq!(exit.status, process::AppStatus::Code(0));
    learned.profile.unwrap()
}

/// The app, running on: its libraries and the whole data file stay mapped, so that they cannot be
/// dropped from the cache.
pub struct Holder(Child);

impl Holder {
    /// Started by this command.
    pub fn of(app: &[&str]) -> Holder {
        let mut child = Command::new("chroot")
            .arg(ROOT)
            .args(app)
            .arg("hold")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "holding\n");
        Holder(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

/// What `paralfetch COMMAND … -- APP` says on standard error; it must succeed.
fn paralfetch(command: &str, options: &[&str]) -> String {
    let args = [&[command], options, &["--root", ROOT, "--"], &APP].concat();
    let output = output(&args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn output(args: &[&str]) -> Output {
    Command::new(PARALFETCH)
        .args(["--state-dir", STATE_DIR])
        .args(args)
        .output()
        .unwrap()
}
