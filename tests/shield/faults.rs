//! What goes wrong meanwhile.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use paralfetch::drive::Sysfs;
use paralfetch::shield::{Shield, ShieldError, ShieldOptions};

use crate::set_up;
use crate::system::{USER, WrittenImage, nobody, read, shield, until_in_force};
use common::until;

/// Names the run directory and the device for [`a_process_with_a_shield`].
const ROLE: &str = "PARALFETCH_TEST_SHIELD";

/// A process that shields a drive until it is killed.
struct ShieldingProcess(Child);

impl ShieldingProcess {
    /// Once the drive is shielded.
    fn start(written: &WrittenImage) -> ShieldingProcess {
        let role = format!("{} {}", written.run_dir.path().display(), written.dev());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "faults::a_process_with_a_shield", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = ShieldingProcess(command.spawn().unwrap());
        let stdout = process.0.stdout.take().unwrap();
        let mut lines = BufReader::new(stdout).lines().map(Result::unwrap);
        // It says so, or ends after a minute.
        assert!(lines.any(|line| line.ends_with("in force now")));
        process
    }
}

impl Drop for ShieldingProcess {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test of its own: what [`ShieldingProcess`] runs.
#[test]
fn a_process_with_a_shield() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (run_dir, dev) = role.split_once(' ').unwrap();
    let shield = shield(Path::new(run_dir));
    assert!(shield.launch(USER, dev.parse().unwrap()));
    until_in_force(&shield);
    println!("\nit is in force now");
    std::io::stdout().flush().unwrap();
    // Until it is killed, or the test has ended.
    let _ = std::io::stdin().lines().count();
}

#[test]
fn a_process_that_is_killed_leaves_the_knobs_as_before() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    let mut process = ShieldingProcess::start(&written);
    assert!(written.is_changed());
    process.0.kill().unwrap();
    process.0.wait().unwrap();
    written.is_as_before();
    until("the keeper has removed the record", || {
        !written.run_dir.path().join("knobs.json").exists()
    });
}

#[test]
fn a_record_that_was_left_is_restored_at_the_next_start() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    let options = || ShieldOptions {
        guard_dir: written.run_dir.path().to_owned(),
        keeper: None,
        sysfs: Sysfs::default(),
        people: nobody(),
    };
    let first = Shield::start(options()).unwrap();
    assert!(first.launch(USER, written.dev()));
    until_in_force(&first);
    assert!(
        matches!(Shield::start(options()), Err(ShieldError::Knobs(_))),
        "one at a time"
    );
    let record = written.run_dir.path().join("knobs.json");
    let left = fs::read(&record).unwrap();
    let changed = written.knob("max_sectors_kb");
    first.stop();
    // As after a kill of all.
    fs::write(&record, left).unwrap();
    fs::write(written.queue("max_sectors_kb"), changed).unwrap();
    let second = Shield::start(options()).unwrap();
    written.is_as_before();
    second.stop();
}

#[test]
fn what_an_administrator_sets_meanwhile_is_left_alone() {
    let Some((mut written, _turn)) = set_up() else {
        return;
    };
    let knob = written.queue("max_sectors_kb");
    let before = read(&knob);
    let shield = written.shield();
    assert!(shield.launch(USER, written.dev()));
    until_in_force(&shield);
    fs::write(&knob, "96").unwrap();
    written.stop_writing();
    until("it has ended", || shield.status().in_force.is_empty());
    let left = read(&knob);
    fs::write(&knob, before).unwrap();
    assert_eq!(left, "96");
    let ended = shield.status().ended;
    let why = ended[0].why_ended.as_ref().unwrap();
    assert!(why.contains("others have set it"), "{why}");
    written.is_as_before();
}

#[test]
fn a_drive_that_goes_away_meanwhile_takes_nothing_with_it() {
    let Some((mut written, _turn)) = set_up() else {
        return;
    };
    let shield = written.shield();
    assert!(shield.launch(USER, written.dev()));
    until_in_force(&shield);
    assert!(written.is_changed());
    written.image.pull_out();
    written.stop_writing();
    written.image.unmount();
    until("it has ended", || shield.status().in_force.is_empty());
    // The device of a loop outlives its file, with its settings.
    written.is_as_before();
    shield.stop();
}
