//! What goes wrong meanwhile.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio, id};

use paralfetch::drive::Sysfs;
use paralfetch::policy::{MeasureKind, ShieldSettings};
use paralfetch::shield::{Shield, ShieldError, ShieldOptions};

use crate::set_up;
use crate::system::{USER, WrittenImage, quiet, read, shield, until_in_force};
use common::until;

/// Names the run directory and the device for [`a_process_with_a_shield`].
const ROLE: &str = "PARALFETCH_TEST_SHIELD";

/// A process that shields launches until it is killed.
struct Shielding(Child);

impl Shielding {
    /// In the phase in which a measure of this kind is in force.
    fn start(written: &WrittenImage, kind: MeasureKind) -> Shielding {
        let role = format!(
            "{} {} {kind}",
            written.run_dir.path().display(),
            written.device()
        );
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "faults::a_process_with_a_shield", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut shielding = Shielding(command.spawn().unwrap());
        let stdout = shielding.0.stdout.take().unwrap();
        let mut lines = BufReader::new(stdout).lines().map(Result::unwrap);
        // It says so, or ends after a minute.
        assert!(lines.any(|line| line.ends_with("in force now")), "{kind}");
        shielding
    }
}

impl Drop for Shielding {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test of its own: what [`Shielding`] runs.
#[test]
fn a_process_with_a_shield() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let words: Vec<&str> = role.split(' ').collect();
    let [run_dir, device, kind] = words[..] else {
        panic!("{role}");
    };
    let (device, kind) = (device.parse().unwrap(), kind.parse().unwrap());
    let settings = quiet(match kind {
        MeasureKind::Hold => ShieldSettings::default(),
        kind => ShieldSettings::default().only(kind),
    });
    let shield = shield(Path::new(run_dir), settings);
    let root = id().cast_signed();
    match kind {
        MeasureKind::Hold => assert!(shield.launch_begins(1, USER, root, device)),
        _ => assert!(shield.foreground_waits(root, root, USER, device)),
    }
    until_in_force(&shield, kind);
    println!("\n{kind} is in force now");
    std::io::stdout().flush().unwrap();
    // Until it is killed, or the test has ended.
    let _ = std::io::stdin().lines().count();
}

#[test]
fn a_process_that_is_killed_in_any_phase_leaves_the_knobs_as_before() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    for kind in MeasureKind::ALL {
        // The memory of cgroups is limited where the hierarchy of version 2 counts it: in the virtual machine.
        if kind == MeasureKind::Group {
            continue;
        }
        let mut shielding = Shielding::start(&written, kind);
        // The journal's thread is found at the second look, after the task that waits.
        until("a knob is changed", || written.is_changed());
        shielding.0.kill().unwrap();
        shielding.0.wait().unwrap();
        written.is_as_before();
        until("the keeper has removed the record", || {
            !written.run_dir.path().join("knobs.json").exists()
        });
    }
}

#[test]
fn a_record_that_was_left_is_restored_at_the_next_start() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    let options = || ShieldOptions {
        guard_dir: written.run_dir.path().to_owned(),
        keeper: None,
        settings: quiet(ShieldSettings::default()),
        sysfs: Sysfs::default(),
    };
    let first = Shield::start(options()).unwrap();
    assert!(first.launch_begins(1, USER, id().cast_signed(), written.device()));
    until_in_force(&first, MeasureKind::Hold);
    assert!(
        matches!(Shield::start(options()), Err(ShieldError::Knobs(_))),
        "one at a time"
    );
    let record = written.run_dir.path().join("knobs.json");
    let left = fs::read(&record).unwrap();
    let changed = written.knob("dirty_expire_centisecs");
    first.stop();
    // As after a kill of all.
    fs::write(&record, left).unwrap();
    fs::write("/proc/sys/vm/dirty_expire_centisecs", changed).unwrap();
    let second = Shield::start(options()).unwrap();
    written.is_as_before();
    second.stop();
}

#[test]
fn what_an_administrator_sets_meanwhile_is_left_alone() {
    let Some((written, _turn)) = set_up() else {
        return;
    };
    let knob = Path::new("/proc/sys/vm/dirty_expire_centisecs");
    let before = read(knob);
    let shield = written.shield(quiet(ShieldSettings::default()));
    assert!(shield.launch_begins(1, USER, id().cast_signed(), written.device()));
    until_in_force(&shield, MeasureKind::Hold);
    fs::write(knob, "1234").unwrap();
    assert!(shield.launch_ends(1));
    until("the hold has ended", || shield.status().in_force.is_empty());
    let left = read(knob);
    fs::write(knob, before).unwrap();
    assert_eq!(left, "1234");
    let ended = shield.status().ended;
    let hold = ended
        .iter()
        .find(|report| report.kind == MeasureKind::Hold)
        .unwrap();
    assert!(
        hold.why_ended
            .as_ref()
            .unwrap()
            .contains("others have set it"),
        "{hold:?}"
    );
    written.is_as_before();
}

#[test]
fn a_drive_that_goes_away_meanwhile_takes_nothing_with_it() {
    let Some((mut written, _turn)) = set_up() else {
        return;
    };
    let shield = written.shield(quiet(ShieldSettings::default()));
    let task = id().cast_signed();
    assert!(shield.foreground_waits(task, task, USER, written.device()));
    until_in_force(&shield, MeasureKind::Backlog);
    let bdi = format!(
        "/sys/class/bdi/{}:{}",
        written.device() >> 20,
        written.device() & 0xf_ffff
    );
    let limit = Path::new(&bdi).join("strict_limit");
    assert_eq!(read(&limit), "1");
    written.image.pull_out();
    written.stop_writing();
    written.image.unmount();
    until("the measures have ended", || {
        shield.status().in_force.is_empty()
    });
    // The device of a loop outlives its file, with its limits.
    assert_eq!(read(&limit), "0");
    assert_eq!(
        read(Path::new("/proc/sys/vm/dirty_expire_centisecs")),
        "3000"
    );
    shield.stop();
}
