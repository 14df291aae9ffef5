//! A process that is killed while it changes knobs, in each phase of that.

use std::fs;
use std::path::{Path, PathBuf};

use paralfetch::drive::{Knobs, restore_leftovers};
use paralfetch::process::parse_stat;
use rustix::process::{Pid, Signal, kill_process};

use crate::Test;
use crate::drive::{Drive, read, setting};
use crate::holder::{Holder, SlowKnob, keeper};
use common::privileged;
use common::until;

pub const TESTS: &[Test] = &[
    (
        "a_killed_process_leaves_no_knob_changed",
        a_killed_process_leaves_no_knob_changed,
    ),
    (
        "the_next_start_restores_what_nobody_else_did",
        the_next_start_restores_what_nobody_else_did,
    ),
    (
        "a_process_that_hangs_has_its_knobs_restored",
        a_process_that_hangs_has_its_knobs_restored,
    ),
    (
        "a_keeper_that_has_ended_is_started_again",
        a_keeper_that_has_ended_is_started_again,
    ),
    (
        "a_keeper_that_is_asked_to_end_restores_first",
        a_keeper_that_is_asked_to_end_restores_first,
    ),
];

/// How far a process is with a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// It reads what the knob is.
    Looks,
    /// It has recorded that, and is about to write the knob.
    Writes,
    /// It has written it, and is about to see what the kernel made of that.
    ReadsBack,
    /// All is done.
    Holds,
    /// It reads whether the knob still has its value.
    Undoes,
    /// It is about to write the old value.
    Restores,
}

const PHASES: [Phase; 6] = [
    Phase::Looks,
    Phase::Writes,
    Phase::ReadsBack,
    Phase::Holds,
    Phase::Undoes,
    Phase::Restores,
];

fn mentions(run_dir: &Path, knob: &Path) -> bool {
    let record = fs::read_to_string(run_dir.join("knobs.json"));
    record.is_ok_and(|record| record.contains(knob.to_str().unwrap()))
}

/// Starts a process that has changed the drive's knobs, and has come so far with a slow knob. Ends it by SIGKILL.
fn kill_in(phase: Phase, run_dir: &Path, drive: &Drive, slow: &SlowKnob, has_keeper: bool) {
    // Asked once: what the other scheduler is depends on the one in force.
    let changes = drive.changes();
    let mut settings: Vec<String> = changes
        .iter()
        .map(|(path, value)| format!("{} {value}", path.display()))
        .collect();
    settings.push(format!("{} 5", slow.0.display()));
    let mut holder = Holder::start(run_dir, &settings, has_keeper);
    until("all but the slow knob are changed", || {
        changes.iter().all(|(path, value)| {
            let text = read(path);
            text == *value || text.contains(&format!("[{value}]"))
        })
    });
    if phase > Phase::Looks {
        slow.answer("1\n");
        until("the slow knob is recorded", || mentions(run_dir, &slow.0));
    }
    if phase > Phase::Writes {
        assert_eq!(slow.written(), "5");
    }
    if phase > Phase::ReadsBack {
        slow.answer("5\n");
        holder.says("held");
    }
    if phase > Phase::Holds {
        holder.undo();
    }
    if phase > Phase::Undoes {
        slow.answer("5\n");
    }
    // It may be on its way to the slow knob, and must not find what takes its place.
    holder.stop();
    slow.becomes(match phase {
        Phase::Looks | Phase::Writes => "1",
        // The kernel has rounded what was written, and nobody has seen that.
        Phase::ReadsBack => "4",
        Phase::Holds | Phase::Undoes | Phase::Restores => "5",
    });
    holder.kill();
}

fn a_killed_process_leaves_no_knob_changed() {
    if !privileged() {
        return;
    }
    let drive = Drive::new();
    let before = drive.values();
    for phase in PHASES {
        let directory = tempfile::tempdir().unwrap();
        let run_dir = directory.path().join("run");
        let slow = SlowKnob::new(directory.path().join("slow"));
        kill_in(phase, &run_dir, &drive, &slow, true);
        until("the keeper has restored the knobs", || {
            !run_dir.join("knobs.json").exists()
        });
        assert_eq!(drive.values(), before, "{phase:?}");
        assert_eq!(read(&slow.0), "1", "{phase:?}");
    }
}

fn the_next_start_restores_what_nobody_else_did() {
    if !privileged() {
        return;
    }
    let drive = Drive::new();
    let before = drive.values();
    for phase in PHASES {
        let directory = tempfile::tempdir().unwrap();
        let run_dir = directory.path().join("run");
        let slow = SlowKnob::new(directory.path().join("slow"));
        kill_in(phase, &run_dir, &drive, &slow, false);
        assert_ne!(drive.values(), before, "{phase:?}");
        let count = drive.changes().len() + usize::from(phase > Phase::Looks);
        assert_eq!(restore_leftovers(&run_dir).unwrap(), count, "{phase:?}");
        assert_eq!(drive.values(), before, "{phase:?}");
        assert_eq!(read(&slow.0), "1", "{phase:?}");
        assert_eq!(restore_leftovers(&run_dir).unwrap(), 0);
    }
}

/// Two plain files for knobs, and a directory for the guard.
fn plain() -> (tempfile::TempDir, [PathBuf; 2], PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let knobs = ["one", "two"].map(|name| directory.path().join(name));
    for knob in &knobs {
        fs::write(knob, "128\n").unwrap();
    }
    let run_dir = directory.path().join("run");
    (directory, knobs, run_dir)
}

fn a_process_that_hangs_has_its_knobs_restored() {
    let (_directory, [one, two], run_dir) = plain();
    let mut knobs = Knobs::acquire(&run_dir, Some(keeper(&run_dir, 1))).unwrap();
    let first = knobs.change(setting((one.clone(), "0"))).unwrap().unwrap();
    until("the keeper has restored the knob", || read(&one) == "128");
    until("its record is gone", || {
        !run_dir.join("knobs.json").exists()
    });
    // It goes on after all, and what it has changed is no longer so.
    let second = knobs.change(setting((two.clone(), "0"))).unwrap().unwrap();
    knobs.undo(first).unwrap();
    assert_eq!(read(&one), "128");
    knobs.undo(second).unwrap();
    assert_eq!(read(&two), "128");
}

/// The processes that this one has started and not waited for.
fn children() -> Vec<Pid> {
    let own = std::process::id().cast_signed();
    let processes = fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| fs::read(entry.unwrap().path().join("stat")).ok())
        .filter_map(|stat| parse_stat(&stat))
        .filter(|process| process.parent == own)
        .filter_map(|process| Pid::from_raw(process.pid))
        .collect()
}

fn a_keeper_that_has_ended_is_started_again() {
    let (_directory, [one, two], run_dir) = plain();
    let mut knobs = Knobs::acquire(&run_dir, Some(keeper(&run_dir, 600))).unwrap();
    knobs.change(setting((one.clone(), "0"))).unwrap().unwrap();
    let first = children();
    kill_process(first[0], Signal::KILL).unwrap();
    until("the keeper has ended", || {
        let stat = format!("/proc/{}/stat", first[0].as_raw_nonzero());
        read(Path::new(&stat)).contains(") Z ")
    });
    knobs.change(setting((two.clone(), "0"))).unwrap().unwrap();
    let second = children();
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second);
    drop(knobs);
    assert_eq!([read(&one), read(&two)], ["128", "128"]);
}

fn a_keeper_that_is_asked_to_end_restores_first() {
    let (_directory, [one, _], run_dir) = plain();
    let mut knobs = Knobs::acquire(&run_dir, Some(keeper(&run_dir, 1))).unwrap();
    // As systemd does with a service that is stopped, from the keeper's first moment on.
    kill_process(children()[0], Signal::TERM).unwrap();
    knobs.change(setting((one.clone(), "0"))).unwrap().unwrap();
    until("the keeper has restored the knob", || read(&one) == "128");
}
