//! Reads of helpers: processes that a bus starts for the app are no part of the launch tree.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::root::{Root, pages_of};
use crate::set_up;

/// The app: reads a file, asks the bus for a service, and goes on when that is done.
const APP: [&str; 3] = [
    "/bin/sh",
    "-c",
    "cat /data/1 && echo please > /ask && read answer < /answer && cat /data/2",
];

/// All pages of a data file.
const WHOLE: std::ops::Range<u64> = 0..16;

fn with_bus() -> Option<(Root, impl Drop)> {
    let (root, turn) = set_up()?;
    for pipe in ["ask", "answer"] {
        let path = root.path().join(pipe);
        mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }
    Some((root, turn))
}

/// Learns a launch for which the bus starts `cat` of these files, in a cgroup if one is given.
fn learn(root: &Root, options: &[&str], served: &[usize], cgroup: Option<&Path>) -> Output {
    let join = cgroup.map_or_else(String::new, |cgroup| {
        format!("echo $$ > {}/cgroup.procs && ", cgroup.display())
    });
    let files: Vec<String> = served.iter().map(|file| format!("/data/{file}")).collect();
    let service = format!(
        "{join}exec chroot {} /bin/cat {}",
        root.path().display(),
        files.join(" ")
    );
    let learning = root.paralfetch(&[&["learn"], options].concat(), &APP);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("{join}exec \"$0\" \"$@\"")])
        .arg(learning.get_program())
        .args(learning.get_args());
    let (ask, answer) = (root.path().join("ask"), root.path().join("answer"));
    thread::scope(|scope| {
        let bus = scope.spawn(move || {
            let mut asked = String::new();
            File::open(&ask)
                .and_then(|mut ask| ask.read_to_string(&mut asked))
                .unwrap();
            let served = Command::new("sh").args(["-c", &service]).output().unwrap();
            // The app waits for the answer, even if the service failed.
            let answered = File::options()
                .write(true)
                .open(&answer)
                .and_then(|mut answer| answer.write_all(b"done\n"));
            answered.unwrap();
            assert!(served.status.success(), "{served:?}");
        });
        let output = shell.output().unwrap();
        if !output.status.success() {
            // Without a question the bus would wait for ever.
            let ask = root.path().join("ask");
            let _ = File::options().write(true).open(ask);
        }
        assert!(output.status.success(), "{output:?}");
        bus.join().unwrap();
        output
    })
}

fn learned(root: &Root, file: usize) -> Vec<u64> {
    pages_of(&root.show("sh"), &format!("/data/{file}"))
}

#[test]
fn reads_of_a_helper_are_learned_when_they_recur() {
    let Some((root, _turn)) = with_bus() else {
        return;
    };
    learn(&root, &[], &[50, 51], None);
    assert!(learned(&root, 1).into_iter().eq(WHOLE));
    assert!(learned(&root, 50).is_empty(), "it may have been chance");
    let output = learn(&root, &[], &[50, 52], None);
    assert!(learned(&root, 50).into_iter().eq(WHOLE));
    for chance in [51, 52] {
        assert!(learned(&root, chance).is_empty(), "/data/{chance}");
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("started for this launch, as before"),
        "{said}"
    );
    // Now its data are cached: live learning cannot see the reads, and keeps what is known.
    learn(&root, &["--live"], &[50], None);
    assert!(learned(&root, 50).into_iter().eq(WHOLE));
    assert!(learned(&root, 2).into_iter().eq(WHOLE));
}

#[test]
fn processes_in_the_launchs_own_cgroup_belong_to_the_launch() {
    let Some((root, _turn)) = with_bus() else {
        return;
    };
    let cgroups = Cgroups::new();
    learn(&root, &[], &[50], Some(&cgroups.own));
    assert!(learned(&root, 50).into_iter().eq(WHOLE));
}

/// A cgroup, in a mount of the hierarchy of its own.
struct Cgroups {
    mounted: tempfile::TempDir,
    own: PathBuf,
}

impl Cgroups {
    fn new() -> Cgroups {
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
