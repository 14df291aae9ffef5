//! A drive that stands still in the middle of a launch, as cheap flash does while it tidies up.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Advice, fadvise, major, minor};

use crate::root::{PAGES, Root, pages_of};
use crate::set_up;

/// So few requests in a second that each is a pause of the launch.
const REQUESTS_PER_SECOND: u32 = 1;

/// Where control groups are made.
const GROUPS: &str = "/sys/fs/cgroup/blkio";

/// What sets how many read requests in a second a group gets from a drive.
const LIMIT: &str = "blkio.throttle.read_iops_device";

/// A control group whose processes get few requests from a drive. It is theirs alone: if these tests are
/// killed, an empty group is left, and the drive is as fast as before for everybody.
struct Slowed(PathBuf);

impl Slowed {
    /// `None`, with the reason, where the kernel cannot do that for us.
    fn on(device: &Path) -> Option<Slowed> {
        let groups = Path::new(GROUPS);
        if !groups.join(LIMIT).exists() {
            let why = format!("drives cannot be slowed down: there is no {GROUPS}/{LIMIT}");
            assert!(
                std::env::var_os("PARALFETCH_REQUIRE_PRIVILEGED").is_none_or(|value| value != "1"),
                "{why}"
            );
            eprintln!("SKIPPED: {why}");
            return None;
        }
        let group = groups.join(format!("paralfetch-test-{}", std::process::id()));
        fs::create_dir(&group).unwrap();
        let slowed = Slowed(group);
        let id = rustix::fs::stat(device).unwrap().st_rdev;
        let limit = format!("{}:{} {REQUESTS_PER_SECOND}", major(id), minor(id));
        fs::write(slowed.0.join(LIMIT), limit).unwrap();
        Some(slowed)
    }

    /// The same command, as a process of the group.
    fn command(&self, command: &Command) -> Command {
        let mut within = Command::new("sh");
        within
            .args(["-c", "echo $$ >\"$0\" && exec \"$@\""])
            .arg(self.0.join("cgroup.procs"))
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::null());
        within
    }
}

impl Drop for Slowed {
    fn drop(&mut self) {
        // Nothing is lost where it stays, as after a kill.
        let _ = fs::remove_dir(&self.0);
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
    let Some(slowed) = Slowed::on(root.image.device()) else {
        return;
    };
    let learn = root.paralfetch(&["learn", "--live"], &["/bin/sh", "-c", &read]);
    let output = slowed.command(&learn).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let profile = root.show("sh");
    assert_eq!(profile["ended"], "exit");
    for file in files {
        let all: Vec<u64> = (0..PAGES as u64).collect();
        assert_eq!(pages_of(&profile, &file), all, "{file}");
    }
}
