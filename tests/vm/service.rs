//! The service, where the kernel lets it narrow faultaround: what it learns of a launch, and what becomes of the
//! setting.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use paralfetch::model::Profile;
use paralfetch::profile::Store;

use crate::facts::KnobFacts;
use crate::guest::{APP, Holder, LIMIT, PARALFETCH, ROOT};

const KNOB: &str = "/sys/kernel/debug/fault_around_bytes";
const ONE_PAGE: &str = "4096";
const STATE_DIR: &str = "state-service";
const CONFIG_DIR: &str = "config-service";
const LOG: &str = "log-service";
pub fn knob() -> String {
    fs::read_to_string(KNOB).unwrap().trim().to_owned()
}

/// Has the service learn a launch of the app with everything cached, after one in whose middle it was killed.
/// Returns the launch sequence, and what the knob was.
pub fn learn() -> (Profile, KnobFacts) {
    let before = knob();
    fs::create_dir(CONFIG_DIR).unwrap();
    let config = "mode = \"manual\"\nlog.level = \"debug\"\n[launch]\ntimeout_s = 300\nquiet_reads = 1\nquiet_window_ms = 60000\n";
    fs::write(Path::new(CONFIG_DIR).join("config.toml"), config).unwrap();
    assert!(enable().success());

    let mut service = start();
    let launch = Holder::of(&APP[1..]);
    until("faults map one page", || knob() == ONE_PAGE);
    service.kill().unwrap();
    service.wait().unwrap();
    until("the knob is restored", || knob() == before);
    let killed = knob();
    drop(launch);

    let (mut service, sequence) = learn_launch();
    let log = fs::read_to_string(LOG).unwrap();
    print!("{}", lines_with(&log, "kind=Learned"));
    let learned = knob();
    service.kill().unwrap();
    service.wait().unwrap();
    let facts = KnobFacts {
        before,
        killed,
        learned,
        is_exact: has_said("exact_faults=true"),
        faults_wide: faults(),
        faults_narrow: {
            let wide = knob();
            fs::write(KNOB, ONE_PAGE).unwrap();
            let faults = faults();
            fs::write(KNOB, wide).unwrap();
            faults
        },
    };
    (sequence, facts)
}

/// A service that has just learned a launch, and the launch sequence.
fn learn_launch() -> (Child, Profile) {
    let service = start();
    until("a recorder is ready", || has_said("ready to learn"));
    let launched = Command::new("chroot").args([ROOT, APP[1]]).status();
    assert!(launched.unwrap().success());
    until("the launch is learned", || has_said("kind=Learned"));
    let sequence = until_some("the launch sequence", || {
        let stored = Store::open(Path::new(STATE_DIR)).ok()?.list().ok()?;
        let profile = stored.into_iter().next()?.profile.ok()?;
        let store = Store::open(Path::new(STATE_DIR)).ok()?;
        store.load_sequence(profile.app.key()).ok()?
    });
    (service, sequence)
}

fn enable() -> ExitStatus {
    let app = format!("{ROOT}{}", APP[1]);
    command(&["enable", &app]).status().unwrap()
}

fn lines_with(text: &str, words: &str) -> String {
    let lines = text.lines().filter(|line| line.contains(words));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Minor page faults of a launch with everything cached.
fn faults() -> u64 {
    let of_children = || -> u64 {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        // Behind the name: the ninth field is cminflt, minor faults of children that were waited for.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().nth(8).unwrap().parse().unwrap()
    };
    let before = of_children();
    let status = Command::new("chroot").args([ROOT, APP[1]]).status();
    assert!(status.unwrap().success());
    of_children() - before
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(PARALFETCH);
    command.args(["--state-dir", STATE_DIR]).args(args);
    command
}

/// A service that is ready to learn.
fn start() -> Child {
    let args = "service --no-bus --config-dir config-service --run-dir run-service";
    let args: Vec<&str> = args.split(' ').collect();
    let log = File::create(LOG).unwrap();
    let service = command(&args).stderr(log).stdin(Stdio::null()).spawn();
    until("the service is ready", || has_said("ready to learn"));
    service.unwrap()
}

fn has_said(words: &str) -> bool {
    fs::read_to_string(LOG).is_ok_and(|log| log.contains(words))
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    until_some(what, || is_so().then_some(()));
}

fn until_some<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let limit = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        let log = || fs::read_to_string(LOG).unwrap_or_default();
        assert!(Instant::now() < limit, "not so: {what}\n{}", log());
        thread::park_timeout(Duration::from_millis(10));
    }
}
