//! Apps that a drive or a busy machine keeps waiting.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Advice, fadvise, major, minor};

use crate::root::Root;
use crate::skipped;

/// A control group whose processes get little of something. It is theirs alone: if these tests are killed,
/// an empty group is left, and everybody else gets as much as before.
pub struct Slowed(pub PathBuf);

impl Slowed {
    /// Two files of the image, a command that reads them, and processes that get so few requests in a second from its
    /// drive that each is a pause of the launch. Everything else that the command uses is cached.
    pub fn reading(root: &Root) -> Option<(Slowed, Vec<String>, String)> {
        let files: Vec<String> = (0..2).map(|file| format!("/data/{file}")).collect();
        let read = format!("cat {}", files.join(" "));
        leave_out_data(root, &files, &read);
        Some((Slowed::by_drive(root.image.device(), 1)?, files, read))
    }

    /// Processes that get so many read requests in a second from this drive.
    pub fn by_drive(device: &Path, reads: u32) -> Option<Slowed> {
        let id = rustix::fs::stat(device).unwrap().st_rdev;
        let (major, minor) = (major(id), minor(id));
        Slowed::by(
            (
                "blkio",
                &[(
                    "blkio.throttle.read_iops_device",
                    &format!("{major}:{minor} {reads}"),
                )],
            ),
            ("io", ("io.max", &format!("{major}:{minor} riops={reads}"))),
        )
    }

    /// Processes that get ten milliseconds of processor time in a second.
    pub fn by_processor() -> Option<Slowed> {
        let limits = [
            ("cpu.cfs_period_us", "1000000"),
            ("cpu.cfs_quota_us", "10000"),
        ];
        Slowed::by(("cpu", &limits), ("cpu", ("cpu.max", "10000 1000000")))
    }

    /// By a hierarchy of the controller's own, or by the one of all controllers, whichever the system has. `None`, with
    /// the reason, where it has neither.
    fn by(
        (controller, limits): (&str, &[(&str, &str)]),
        (unified, limit): (&str, (&str, &str)),
    ) -> Option<Slowed> {
        let root = Path::new("/sys/fs/cgroup");
        let own = root.join(controller);
        if limits.iter().all(|(file, _)| own.join(file).exists()) {
            return Some(Slowed::within(&own, limits));
        }
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        if controllers.split_whitespace().any(|name| name == unified) {
            fs::write(root.join("cgroup.subtree_control"), format!("+{unified}")).unwrap();
            return Some(Slowed::within(root, &[limit]));
        }
        skipped(&format!(
            "apps cannot be slowed down: there is no control group with the controller {controller}"
        ));
        None
    }

    fn within(groups: &Path, limits: &[(&str, &str)]) -> Slowed {
        let group = groups.join(format!("paralfetch-test-{}", std::process::id()));
        fs::create_dir(&group).unwrap();
        let slowed = Slowed(group);
        for (file, limit) in limits {
            fs::write(slowed.0.join(file), limit).unwrap();
        }
        slowed
    }

    /// A running process is one of the group from now on.
    pub fn take(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    /// Processes of the group get as much of this drive as others from now on, and what waits for it goes on at once.
    pub fn lift(&self, device: &Path) {
        let id = rustix::fs::stat(device).unwrap().st_rdev;
        let id = format!("{}:{}", major(id), minor(id));
        let own = self.0.join("blkio.throttle.read_iops_device");
        match own.exists() {
            true => fs::write(own, format!("{id} 0")).unwrap(),
            false => fs::write(self.0.join("io.max"), format!("{id} riops=max")).unwrap(),
        }
    }

    /// A command that executes this one as a process of the group.
    pub fn command(&self, command: &Command) -> Command {
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
pub fn leave_out_data(root: &Root, files: &[String], read: &str) {
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
