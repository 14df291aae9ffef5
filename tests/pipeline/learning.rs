//! What is learned, and what is left behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use paralfetch::drive::Knobs;
use paralfetch::fs::mounts::MountTable;
use paralfetch::learn::LearningSettings;
use paralfetch::model::Learned;
use rustix::fs::{major, minor};
use rustix::process::{Pid, Signal, kill_process};

use crate::processes::{end_apps, until_asleep};
use crate::set_up;
use common::root::{FILES, PAGES, Root, our_lines, pages_of};
use common::until;

#[test]
fn exact_learning_finds_the_pages_that_were_touched() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let read =
        "dd if=/sparse/big bs=4096 skip=10 count=3; dd if=/sparse/big bs=4096 skip=300 count=1";
    root.learn(&[], &["/bin/sh", "-c", read]);
    let profile = root.show("sh");
    assert_eq!(profile["learned"], "exact");
    assert_eq!(profile["ended"], "exit");
    assert_eq!(pages_of(&profile, "/sparse/big"), [10, 11, 12, 300]);
    assert!(!pages_of(&profile, "/bin/dd").is_empty());
}

#[test]
fn learning_as_read_finds_what_the_drive_read() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let read = "dd if=/sparse/big bs=4096 skip=10 count=3";
    root.learn(&["--as-read"], &["/bin/sh", "-c", read]);
    let profile = root.show("sh");
    assert_eq!(profile["learned"], "as-read");
    let pages = pages_of(&profile, "/sparse/big");
    assert!(
        [10, 11, 12].iter().all(|page| pages.contains(page)),
        "{pages:?}"
    );
    assert!(
        pages.len() > 3,
        "readahead reads more than was asked for: {pages:?}"
    );
}

#[test]
fn thresholds_that_are_given_make_the_schedule() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    // Two holes: of 2 pages and of 7.
    let read = "for page in 10 13 21; do dd if=/sparse/big bs=4096 skip=$page count=1; done";
    for (hole, expected) in [
        ("0", vec![10, 13, 21]),
        ("2", vec![10, 11, 12, 13, 21]),
        ("7", (10..=21).collect()),
    ] {
        let options = ["--shift", "20", "--distance", "3", "--hole", hole];
        root.learn(&options, &["/bin/sh", "-c", read]);
        let profile = root.show("sh");
        assert_eq!(pages_of(&profile, "/sparse/big"), expected, "{hole}");
        assert_eq!(profile["params"]["shift_bytes"], 20 << 10);
        assert_eq!(profile["params"]["merge_distance"], 3);
    }
}

#[test]
fn every_file_comes_with_its_metadata() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let output = root.learn(&["--verbose"], &Root::READ_ALL);
    let profile = root.show("/bin/sh");
    for file in 0..FILES {
        let pages = pages_of(&profile, &format!("/data/{file}"));
        assert_eq!(pages, (0..PAGES as u64).collect::<Vec<_>>(), "file {file}");
    }
    // 16 inodes of 256 bytes share a block.
    let metadata = profile["totals"]["metadata_pages"].as_u64().unwrap();
    assert!(metadata >= FILES as u64 / 16, "{metadata} metadata pages");
    let text = our_lines(&output).join("\n");
    assert!(text.contains("events lost: 0"), "{text}");
}

#[test]
fn settings_are_restored() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let knobs = knobs(&root);
    let before: Vec<String> = knobs.iter().map(read).collect();
    root.learn(&[], &Root::READ_ALL);
    assert_eq!(knobs.iter().map(read).collect::<Vec<_>>(), before);
}

#[test]
fn settings_are_restored_when_learning_is_killed() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let knobs = knobs(&root);
    let before: Vec<String> = knobs.iter().map(read).collect();
    let mut learning = root
        .paralfetch(&["learn"], &["/bin/sleep", "100"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until_asleep(&root);
    assert_eq!(read(&knobs[0]), "0", "readahead is off while learning");
    learning.kill().unwrap();
    learning.wait().unwrap();
    until("settings are back", || {
        knobs.iter().map(read).collect::<Vec<_>>() == before
    });
    end_apps(&root);
}

#[test]
fn a_stopped_app_does_not_keep_the_drive_slow_and_the_user_is_told_for_how_long_it_is() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let knobs = knobs(&root);
    let before: Vec<String> = knobs.iter().map(read).collect();
    let cmd = ["/bin/sh", "-c", "cat /data/1; kill -STOP $$"];
    let mut learning = root
        .paralfetch(&["learn", "--timeout", "2"], &cmd)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(learning.stderr.take().unwrap()).lines();
    let drive = root.image.device().file_name().unwrap().to_str().unwrap();
    let warning = format!(
        "paralfetch: readahead is off on {drive} while the launch is learned, for at most 32 s: "
    );
    let line = lines.by_ref().map(Result::unwrap).next().unwrap();
    assert!(line.starts_with(&warning), "{line}");
    until("settings are changed", || read(&knobs[0]) == "0");
    // As a shell's job does, but not before it has put the settings back.
    let learner = Pid::from_child(&learning);
    let stat = format!("/proc/{}/stat", learner.as_raw_nonzero());
    until("the learner has stopped with the app", || {
        fs::read_to_string(&stat).unwrap().contains(") T ")
    });
    assert_eq!(knobs.iter().map(read).collect::<Vec<_>>(), before);
    end_apps(&root);
    kill_process(learner, Signal::CONT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest[0].contains("the app was stopped"), "{rest:?}");
    assert_eq!(learning.wait().unwrap().signal(), Some(9));
}

#[test]
fn a_learner_that_hangs_has_its_settings_restored_at_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let (knob, run_dir) = (directory.path().join("knob"), directory.path().join("run"));
    fs::write(&knob, "128").unwrap();
    let mut keeper = Command::new(common::program());
    keeper.args(["keep-knobs", "1", "--run-dir"]).arg(&run_dir);
    // This process is the learner. It neither restores the knob nor ends.
    let mut knobs = Knobs::acquire(&run_dir, Some(keeper)).unwrap();
    knobs.set(&knob, "0").unwrap();
    until("the keeper has restored the knob", || read(&knob) == "128");
    until("its record is gone", || {
        !run_dir.join("knobs.json").exists()
    });
    knobs.restore().unwrap();
    assert_eq!(read(&knob), "128");
}

#[test]
fn nothing_is_changed_while_other_processes_can_hold_the_learner_up() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let knobs = knobs(&root);
    let values = || knobs.iter().map(read).collect::<Vec<_>>();
    let before = values();
    let mounts = MountTable::read().unwrap();
    let path = Some(root.path());
    let mut settings = LearningSettings::acquire(&mounts, path, Learned::Exact, None).unwrap();
    assert_eq!(values(), before);
    settings.write_back(&mounts, true).unwrap();
    assert_eq!(values(), before);
    settings.apply().unwrap();
    assert_eq!(values(), ["0", "0"]);
    // As the keeper does at the limit: what is learned after that is not exact.
    fs::write(&knobs[0], &before[0]).unwrap();
    let error = settings.restore().unwrap_err().to_string();
    assert!(error.contains("did not keep its value"), "{error}");
    assert_eq!(values(), before);
}

#[test]
fn a_launch_that_falls_quiet_is_complete_while_the_app_runs_on() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let cmd = ["/bin/sh", "-c", "cat /data/* && exec sleep 1000"];
    let mut learning = root
        .paralfetch(&["learn"], &cmd)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Kept to the end: more lines follow, and writing them must not fail.
    let mut lines = BufReader::new(learning.stderr.take().unwrap()).lines();
    let line = lines
        .by_ref()
        .map(Result::unwrap)
        // The first lines are about the drive, about the arguments of `sh -c`, which tell no app, and about what this
        // kernel does not show.
        .filter(|line| line.starts_with("paralfetch: "))
        .find(|line| line.contains("learned "))
        .unwrap();
    assert!(line.contains("learned /bin/sh "), "{line}");
    let profile = root.show("sh");
    assert_eq!(profile["ended"], "quiet");
    assert_eq!(pages_of(&profile, "/data/0").len(), PAGES);
    assert!(learning.try_wait().unwrap().is_none(), "the app runs on");
    end_apps(&root);
    let status = learning.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "{status}");
    drop(lines);
}

#[test]
fn a_launch_that_is_killed_is_not_learned() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let learn_killed = || {
        let cmd = ["/bin/sh", "-c", "cat /data/1; kill -KILL $$"];
        let output = root.paralfetch(&["learn"], &cmd).output().unwrap();
        assert_eq!(output.status.signal(), Some(9), "{output:?}");
        let lines = our_lines(&output);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[1].contains("ended by signal 9"), "{lines:?}");
    };
    learn_killed();
    let kept = fs::read_dir(root.state.path()).unwrap().count();
    assert_eq!(kept, 0, "no profile comes of it");

    root.learn(&[], &Root::READ_ALL);
    let before = fs::read(root.profile_file()).unwrap();
    learn_killed();
    assert_eq!(fs::read(root.profile_file()).unwrap(), before);
}

#[test]
fn other_file_systems_are_counted() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    // Files of ramfs are read by way of the page cache, like those on drives.
    let memory = root.path().join("memory");
    fs::create_dir(&memory).unwrap();
    let _memory = common::Mounted::new("ramfs", "none", &memory);
    // A hole, since what is written there is cached for good.
    let hole = fs::File::create(memory.join("hole")).unwrap();
    hole.set_len(7 * 4096).unwrap();
    let output = root.learn(
        &["--verbose"],
        &["/bin/sh", "-c", "cat /data/* /memory/hole"],
    );
    assert_eq!(pages_of(&root.show("sh"), "/data/3").len(), PAGES);
    let lines = our_lines(&output);
    let counted = "left out: 1 file, 7 pages: ramfs lives in memory";
    assert!(lines.iter().any(|line| line.contains(counted)), "{lines:?}");
}

/// The settings that learning changes.
fn knobs(root: &Root) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let dev = fs::metadata(root.path()).unwrap().dev();
    let device = fs::canonicalize(format!("/sys/dev/block/{}:{}", major(dev), minor(dev))).unwrap();
    let name = device.file_name().unwrap().to_str().unwrap();
    vec![
        PathBuf::from(format!(
            "/sys/class/bdi/{}:{}/read_ahead_kb",
            major(dev),
            minor(dev)
        )),
        PathBuf::from(format!("/sys/fs/ext4/{name}/inode_readahead_blks")),
    ]
}

fn read(knob: &PathBuf) -> String {
    fs::read_to_string(knob).unwrap().trim().to_owned()
}
