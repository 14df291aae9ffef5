//! What is learned, and what is left behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::fs::{major, minor};

use crate::processes::{end_apps, until_asleep};
use crate::root::{FILES, PAGES, Root, our_lines, pages_of};
use crate::{set_up, until};

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
fn every_file_comes_with_its_metadata() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let output = root.learn(&[], &Root::READ_ALL);
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
        // The first line is about the arguments of `sh -c`, which tell no app.
        .find(|line| line.starts_with("paralfetch: ") && !line.contains("which app it starts"))
        .unwrap();
    assert!(line.contains("learned /bin/sh"), "{line}");
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
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("ended by signal 9"), "{lines:?}");
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
    let _memory = crate::common::Mounted::new("ramfs", "none", &memory);
    // A hole, since what is written there is cached for good.
    let hole = fs::File::create(memory.join("hole")).unwrap();
    hole.set_len(7 * 4096).unwrap();
    let output = root.learn(&[], &["/bin/sh", "-c", "cat /data/* /memory/hole"]);
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
