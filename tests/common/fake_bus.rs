//! A bus that starts a service for an app: both are pipes and a thread. And cgroups, which tell whose the service is.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// The app: reads a file, asks the bus for a service, and goes on when that is done.
pub const APP: &str = "cat /data/1 && echo please > /ask && read answer < /answer && cat /data/2";

/// Makes the pipes between the app and the bus, for all users.
pub fn make_pipes(root: &Path) {
    for pipe in ["ask", "answer"] {
        let path = root.join(pipe);
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    }
}

/// The command of a shell of root's that reads these data files of the image as this user, as a service does.
pub fn reading(root: &Path, user: u32, files: &[usize]) -> String {
    let files: Vec<String> = files.iter().map(|file| format!("/data/{file}")).collect();
    let root = root.display();
    let files = files.join(" ");
    format!("exec chroot --userspec={user}:{user} {root} /bin/cat {files}")
}

/// Runs the app, for which the bus executes this command of a shell.
pub fn served(root: &Path, service: &str, mut app: Command) -> Output {
    let (ask, answer) = (root.join("ask"), root.join("answer"));
    thread::scope(|scope| {
        let bus = scope.spawn(|| {
            let mut asked = String::new();
            File::open(&ask)
                .and_then(|mut ask| ask.read_to_string(&mut asked))
                .unwrap();
            let served = Command::new("sh").args(["-c", service]).output().unwrap();
            // The app waits for the answer, even if the service failed.
            let answered = File::options()
                .write(true)
                .open(&answer)
                .and_then(|mut answer| answer.write_all(b"done\n"));
            answered.unwrap();
            assert!(served.status.success(), "{served:?}");
        });
        let output = app.output().unwrap();
        if !output.status.success() {
            // Without a question the bus would wait for ever.
            let _ = File::options().write(true).open(&ask);
        }
        assert!(output.status.success(), "{output:?}");
        bus.join().unwrap();
        output
    })
}

/// A cgroup, in a mount of the hierarchy of its own.
pub struct Cgroups {
    mounted: tempfile::TempDir,
    pub own: PathBuf,
}

impl Cgroups {
    pub fn new() -> Cgroups {
        let mounted = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "cgroup2", "none"])
            .arg(mounted.path())
            .output()
            .unwrap();
        assert!(mount.status.success(), "{mount:?}");
        let name = format!("paralfetch-test-{}", std::process::id());
        let own = mounted.path().join(name);
        fs::DirBuilder::new().mode(0o755).create(&own).unwrap();
        Cgroups { mounted, own }
    }

    /// What a shell does to enter it.
    pub fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs && ", self.own.display())
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        // A panic in here would end the other tests.
        if let Err(error) = fs::remove_dir(&self.own) {
            eprintln!("cannot remove {}: {error}", self.own.display());
        }
        let unmounted = Command::new("umount").arg(self.mounted.path()).status();
        if !unmounted.as_ref().is_ok_and(|status| status.success()) {
            eprintln!("cannot unmount the cgroups: {unmounted:?}");
        }
    }
}
