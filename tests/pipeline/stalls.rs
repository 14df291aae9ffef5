//! A drive that stands still in the middle of a launch, as cheap flash does while it tidies up; and an app
//! that gets no processor, as on a machine that is busy.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Advice, fadvise, major, minor};

use crate::common::Mounted;
use crate::root::{PAGES, Root, pages_of};
use crate::set_up;

/// A control group whose processes get little of something. It is theirs alone: if these tests are killed,
/// an empty group is left, and everybody else gets as much as before.
struct Slowed(PathBuf);

impl Slowed {
    /// Processes that get so few requests in a second from this drive that each is a pause of the launch.
    fn by_drive(device: &Path) -> Option<Slowed> {
        let id = rustix::fs::stat(device).unwrap().st_rdev;
        let limit = format!("{}:{} 1", major(id), minor(id));
        Slowed::by("blkio", &[("blkio.throttle.read_iops_device", &limit)])
    }

    /// Processes that get ten milliseconds of processor time in a second.
    fn by_processor() -> Option<Slowed> {
        let limits = [
            ("cpu.cfs_period_us", "1000000"),
            ("cpu.cfs_quota_us", "10000"),
        ];
        Slowed::by("cpu", &limits)
    }

    /// `None`, with the reason, where the kernel cannot do that for us.
    fn by(controller: &str, limits: &[(&str, &str)]) -> Option<Slowed> {
        let groups = Path::new("/sys/fs/cgroup").join(controller);
        let mut missing = limits
            .iter()
            .filter(|(file, _)| !groups.join(file).exists());
        if let Some((file, _)) = missing.next() {
            let why = format!(
                "apps cannot be slowed down: there is no {}/{file}",
                groups.display()
            );
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
        for (file, limit) in limits {
            fs::write(slowed.0.join(file), limit).unwrap();
        }
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
    let Some(slowed) = Slowed::by_drive(root.image.device()) else {
        return;
    };
    let learn = root.paralfetch(&["learn", "--live"], &["/bin/sh", "-c", &read]);
    let output = slowed.command(&learn).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(root.show("sh")["ended"], "exit");
    assert_whole(&root, &files);
}

#[test]
fn what_is_read_after_a_wait_for_a_processor_is_learned() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    let Some(slowed) = Slowed::by_processor() else {
        return;
    };
    let group = root.path().join("group");
    fs::create_dir(&group).unwrap();
    let _mounted = Mounted::bind(&slowed.0, &group);
    // Enough each time that it is no quiet.
    let files: Vec<String> = (0..40).map(|file| format!("/data/{file}")).collect();
    let work = "i=0; while [ $i -lt 6000 ]; do i=$((i+1)); done";
    let parts: Vec<String> = files
        .chunks(20)
        .map(|files| format!("{work}; cat {}", files.join(" ")))
        .collect();
    let read = parts.join("; ");
    leave_out_data(&root, &files, &read);
    // Only the app: whoever learns it looks as often as ever.
    let enter = format!("echo $$ >/group/cgroup.procs; {read}");
    let output = root
        .paralfetch(
            &["learn", "--live", "--timeout", "300"],
            &["/bin/sh", "-c", &enter],
        )
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_whole(&root, &files);
}

/// All of these files were learned.
fn assert_whole(root: &Root, files: &[String]) {
    let profile = root.show("sh");
    for file in files {
        let all: Vec<u64> = (0..PAGES as u64).collect();
        assert_eq!(pages_of(&profile, file), all, "{file}");
    }
}
