//! A drive that stands still in the middle of a launch, as cheap flash does while it tidies up.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Advice, fadvise, major, minor};

use crate::root::{PAGES, Root, pages_of};
use crate::set_up;

/// So few requests in a second that each is a pause of the launch.
const REQUESTS_PER_SECOND: u32 = 1;

/// The control group of all processes that are in no other.
const CONTROL: &str = "/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device";

/// A drive that serves few requests, until this is dropped.
struct Throttle {
    control: PathBuf,
    device: String,
}

impl Throttle {
    /// `None`, with the reason, where the kernel cannot do that for us.
    fn of(device: &Path) -> Option<Throttle> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
        let is_root = groups.lines().any(|line| line.ends_with(":blkio:/"));
        if !is_root || !Path::new(CONTROL).exists() {
            let why = format!("drives cannot be slowed down: this needs {CONTROL}");
            assert!(
                std::env::var_os("PARALFETCH_REQUIRE_PRIVILEGED").is_none_or(|value| value != "1"),
                "{why}"
            );
            eprintln!("SKIPPED: {why}");
            return None;
        }
        let id = rustix::fs::stat(device).unwrap().st_rdev;
        let throttle = Throttle {
            control: CONTROL.into(),
            device: format!("{}:{}", major(id), minor(id)),
        };
        throttle.set(REQUESTS_PER_SECOND);
        Some(throttle)
    }

    fn set(&self, requests: u32) {
        fs::write(&self.control, format!("{} {requests}", self.device)).unwrap();
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // 0 is no limit.
        self.set(0);
    }
}

/// Everything that the app uses is cached, but for the files that it reads.
fn leave_out_data(root: &Root, files: &[String], read: &str) {
    let launched = Command::new("chroot")
        .arg(root.path())
        .args(["/bin/sh", "-c", read])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(launched.success());
    root.image.sync();
    for file in files {
        let file = File::open(root.path().join(&file[1..])).unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
}

#[test]
fn what_is_read_after_a_pause_of_the_drive_is_learned() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let files: Vec<String> = (0..6).map(|file| format!("/data/{file}")).collect();
    let read = format!("cat {}", files.join(" "));
    leave_out_data(&root, &files, &read);
    let Some(throttle) = Throttle::of(root.image.device()) else {
        return;
    };
    root.learn(&["--live"], &["/bin/sh", "-c", &read]);
    drop(throttle);
    let profile = root.show("sh");
    assert_eq!(profile["ended"], "exit");
    for file in files {
        let all: Vec<u64> = (0..PAGES as u64).collect();
        assert_eq!(pages_of(&profile, &file), all, "{file}");
    }
}
