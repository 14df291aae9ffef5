//! Probing drives: a loop device over a file, and paths. Needs root.

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use common::{LoopExt4, Mounted, privileged};
use paralfetch::drive::{ProbeError, Sysfs, probe_drive};
use paralfetch::fs::mounts::MountTable;
use serde_json::Value;

fn paralfetch(state: &Path, args: &[&str]) -> Output {
    let mut program = Command::new(common::program());
    program.arg("--state-dir").arg(state).args(args);
    program.output().unwrap()
}

fn probe(state: &Path, path: &Path, options: &[&str]) -> Output {
    let path = path.to_str().unwrap();
    paralfetch(state, &[&["probe", path], options].concat())
}

/// What `probe --json` says of the one drive.
fn probed(state: &Path, path: &Path) -> Value {
    let output = probe(state, path, &["--busy", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let mut found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 1, "{found:#}");
    found[0].take()
}

/// The file behind a loop device lies on the drive that is measured, whether the device, a directory or a file on it is
/// named; what was measured is what doctor says from then on.
#[test]
fn the_drive_below_a_loop_device_is_measured_and_kept() {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(128, &[]);
    // Its own drive is read through it where it cannot be opened: it must have places there.
    let data = image.mount_point().join("data");
    let mut file = fs::File::create(&data).unwrap();
    let block: Vec<u8> = (0..1 << 20)
        .map(|index: u32| (index * 7 / 3) as u8)
        .collect();
    for _ in 0..64 {
        file.write_all(&block).unwrap();
    }
    file.sync_all().unwrap();
    image.sync();
    let state = tempfile::tempdir().unwrap();
    let by_device = probed(state.path(), image.device());
    let name = by_device["name"].as_str().unwrap();
    assert!(!name.starts_with("loop"), "{by_device:#}");
    let bytes = by_device["bytes"].as_u64().unwrap();
    assert!((1 << 20..=10 << 20).contains(&bytes), "{by_device:#}");
    assert!(by_device["measured"].is_u64(), "{by_device:#}");
    assert_eq!(by_device["costs"].as_object().unwrap().len(), 4);
    for path in [image.mount_point(), &data] {
        assert_eq!(probed(state.path(), path)["name"], name);
    }
    let kept = state.path().join("drives.json");
    let is_kept = !by_device["identities"].as_array().unwrap().is_empty();
    if is_kept {
        let text = fs::read_to_string(&kept).unwrap();
        assert_eq!(text.matches("\"identities\"").count(), 1, "{text}");
        let doctor = paralfetch(state.path(), &["doctor"]);
        let text = String::from_utf8(doctor.stdout).unwrap();
        let line = text
            .lines()
            .find(|line| line.contains(&format!("drive {name} ")));
        // It may be that no apps lie on the drive that the build is on.
        assert!(
            line.is_none_or(|line| line.contains("(measured)")),
            "{text}"
        );
    }
    // A damaged file costs what was measured, and is replaced.
    fs::write(&kept, "damaged").unwrap();
    let output = probe(state.path(), image.device(), &["--busy"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("drives.json"), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with(&format!("drive     {name} (")), "{text}");
    assert!(!fs::read_to_string(&kept).unwrap().contains("damaged"));
}

/// A loop device over a file in memory is the drive itself. It claims to rotate, and is told for what it is.
#[test]
fn a_loop_device_over_memory_is_a_drive_without_heads() {
    if !privileged() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let memory = Mounted::new("tmpfs", "none", place.path());
    let file = place.path().join("image");
    fs::write(&file, vec![1u8; 64 << 20]).unwrap();
    let device = AttachedLoop::new(&file);
    let name = device.0.strip_prefix("/dev/").unwrap().to_owned();
    let rotational = format!("/sys/block/{name}/queue/rotational");
    let before = fs::read_to_string(&rotational).unwrap();
    fs::write(&rotational, "1").unwrap();
    let state = tempfile::tempdir().unwrap();
    let found = probed(state.path(), Path::new(&device.0));
    fs::write(&rotational, before.trim()).unwrap();
    assert_eq!(found["name"], *name);
    assert_eq!(found["through"], *device.0);
    assert_ne!(found["class"], "rotational");
    let words = found["words"].as_str().unwrap();
    assert!(
        words.contains("it claims to rotate, as virtual drives do"),
        "{words}"
    );
    // Nothing is mounted from it, and it has no serial number.
    assert_eq!(found["identities"], Value::Array(Vec::new()));
    drop(device);
    drop(memory);
}

/// A launch must not wait behind a probe.
#[test]
fn a_probe_stops_when_it_is_told_to() {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(8, &[]);
    let sysfs = Sysfs::default();
    let mounts = MountTable::read().unwrap();
    let device = fs::metadata(image.device()).unwrap().rdev();
    let drives = sysfs.drives_below(device);
    let steps = Cell::new(0);
    let tell = |_| {
        steps.set(steps.get() + 1);
        match steps.get() < 2 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let probed = probe_drive(&drives[0], image.device(), &sysfs, &mounts, true, tell);
    assert!(matches!(probed, Err(ProbeError::Stopped)), "{probed:?}");
    assert_eq!(steps.get(), 2);
}

#[test]
fn what_is_on_no_drive_is_refused() {
    if !privileged() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let output = probe(state.path(), Path::new("/proc/version"), &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/proc/version is on no drive"), "{said}");
    let output = probe(state.path(), Path::new("/nowhere"), &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot look at /nowhere"), "{said}");
    assert!(!state.path().join("drives.json").exists());
}

/// A loop device, detached at the end.
struct AttachedLoop(String);

impl AttachedLoop {
    fn new(file: &Path) -> AttachedLoop {
        let mut losetup = Command::new("losetup");
        let output = losetup
            .args(["--find", "--show"])
            .arg(file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        AttachedLoop(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for AttachedLoop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").args(["--detach", &self.0]).status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("{} stays attached", self.0);
        }
    }
}
