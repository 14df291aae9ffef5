//! Faultaround is narrowed while a launch is learned, and restored whatever becomes of the service. The kernel may
//! refuse the real setting, so a file system in memory takes the place of debugfs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::running::{Image, Launched, Running};
use crate::set_up;
use common::Mounted;
use common::until;

const DEBUGFS: &str = "/sys/kernel/debug";
const KNOB: &str = "/sys/kernel/debug/fault_around_bytes";

/// What it is while nothing is learned, and while something is.
const WIDE: &str = "65536";
const ONE_PAGE: &str = "4096";

struct Debugfs(#[expect(dead_code, reason = "its end unmounts it")] Mounted);

impl Debugfs {
    fn new() -> Debugfs {
        let mounted = Mounted::new("tmpfs", "none", Path::new(DEBUGFS));
        fs::write(KNOB, WIDE).unwrap();
        Debugfs(mounted)
    }
}

fn value() -> String {
    fs::read_to_string(KNOB).unwrap().trim().to_owned()
}

/// A service that learns a launch for as long as the test wants.
fn learning(image: &Image) -> (Running, Launched) {
    image.script_that_goes_on("app");
    image.configure("[launch]\nquiet_window_ms = 20000\n");
    image.enable("app");
    let mut service = image.start();
    service.ready_to_learn();
    let app = image.spawn("app");
    until("faults map one page", || value() == ONE_PAGE);
    (service, app)
}

/// The process that restores the knobs of learning for this service. The shield has a keeper of its own, for a
/// directory below.
fn keeper(image: &Image) -> Option<Pid> {
    let run_dir = image.run_dir();
    let run_dir = run_dir.to_str().unwrap();
    let mut processes = fs::read_dir("/proc").unwrap().flatten();
    processes.find_map(|process| {
        let line = fs::read_to_string(process.path().join("cmdline")).ok()?;
        let is_keeper =
            line.contains("keep-knobs") && line.split('\0').any(|argument| argument == run_dir);
        let pid = process.file_name().to_str()?.parse().ok()?;
        is_keeper.then(|| Pid::from_raw(pid)).flatten()
    })
}

#[test]
fn a_learned_launch_has_exact_faults_and_the_knob_is_restored_behind_it() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let _debugfs = Debugfs::new();
    image.script_that_goes_on("app");
    image.enable("app");
    let mut service = image.start();
    service.ready_to_learn();
    assert_eq!(value(), WIDE, "nothing is learned yet");
    let app = image.spawn("app");
    until("faults map one page", || value() == ONE_PAGE);
    image.let_end();
    app.succeed();
    service.line(&["recorded", "exact_faults=true"]);
    assert_eq!(value(), WIDE);
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("kind=Learned"), "{line}");
    assert_eq!(keeper(&image), None);
}

#[test]
fn a_launch_is_not_exact_if_somebody_changes_the_knob_meanwhile() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let _debugfs = Debugfs::new();
    let (mut service, app) = learning(&image);
    fs::write(KNOB, "8192").unwrap();
    image.let_end();
    app.succeed();
    service.line(&["recorded", "exact_faults=false"]);
    assert_eq!(value(), "8192", "it is somebody else's now");
}

#[test]
fn the_knob_is_restored_when_the_service_is_stopped_or_killed_while_it_learns() {
    for signal in [Signal::TERM, Signal::KILL] {
        let Some((image, _turn)) = set_up() else {
            return;
        };
        let _debugfs = Debugfs::new();
        let (service, app) = learning(&image);
        until("there is a keeper", || keeper(&image).is_some());
        if signal == Signal::TERM {
            service.stop();
            assert_eq!(value(), WIDE);
        } else {
            // systemd asks all processes of a service to end when its first has been killed.
            kill_process(keeper(&image).unwrap(), Signal::TERM).unwrap();
            service.kill();
            until("the keeper has restored the knob", || value() == WIDE);
        }
        until("the keeper has ended", || keeper(&image).is_none());
        image.let_end();
        app.succeed();
    }
}

#[test]
fn the_next_service_restores_the_knob_if_the_keeper_was_killed_too() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let _debugfs = Debugfs::new();
    let (service, app) = learning(&image);
    until("there is a keeper", || keeper(&image).is_some());
    kill_process(keeper(&image).unwrap(), Signal::KILL).unwrap();
    service.kill();
    image.let_end();
    app.succeed();
    assert_eq!(value(), ONE_PAGE);
    let mut service = image.start();
    assert_eq!(value(), WIDE);
    let said = service.listen(Duration::ZERO);
    assert!(said.iter().all(|line| !line.contains("WARN")), "{said:?}");
}
