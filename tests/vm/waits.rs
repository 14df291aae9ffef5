//! The wait detector on the machine's kernel: it loads, and names waits that are produced on purpose.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use paralfetch_waits::WaitCause;

use crate::facts::WaitFacts;
use common::wait_rig::{PLAIN, Rig, Task, begin_writeback};

pub fn named() -> WaitFacts {
    let status = Command::new("modprobe").arg("loop").status().unwrap();
    assert!(status.success(), "modprobe loop: {status}");
    let mut rig = Rig::new(&PLAIN, &[], Duration::from_millis(20));
    let shared = rig.file("shared", 2);
    let inode = fs::metadata(&shared).unwrap().ino();
    let path = shared.clone();
    let writing = Task::start("test-writer", move || {
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(&vec![2; 2 << 20], 0).unwrap();
    });
    let writer = writing.tid;
    writing.join();

    let frozen = rig.freeze();
    begin_writeback(&shared);
    let syncing = Task::start("test-fsync", move || {
        File::open(shared).unwrap().sync_all().unwrap();
    });
    let fsync = rig.until_waits(syncing.tid, WaitCause::Sync);
    // An empty file has no pages to wait for: only the commit.
    let path = rig.path("empty");
    let committing = Task::start("test-commit", move || {
        File::create(path).unwrap().sync_all().unwrap();
    });
    let commit = rig.until_waits(committing.tid, WaitCause::JournalCommit);
    frozen.thaw();
    rig.until_waited(syncing.tid, WaitCause::Sync);
    syncing.join();
    committing.join();

    let group = Group::with_high_of("16777216");
    let mut greedy = Greedy::start(&group);
    let pid = greedy.0.id();
    rig.until_waited(pid, WaitCause::MemoryThrottle);
    greedy.end();

    WaitFacts {
        missing: rig.detector.missing().to_vec(),
        fsync_is_for_the_file: fsync.inode == Some(inode) && fsync.device == Some(rig.device()),
        fsync_is_for_the_writer: fsync.for_whom.is_some_and(|whom| whom.tid == writer),
        commit_is_for_the_drive: commit.device == Some(rig.device()),
        lost: rig.detector.lost(),
    }
}

/// A control group with a limit at which its tasks are made to sleep.
struct Group(&'static Path);

impl Group {
    fn with_high_of(bytes: &str) -> Group {
        fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory").unwrap();
        let group = Group(Path::new("/sys/fs/cgroup/waits"));
        fs::create_dir(group.0).unwrap();
        fs::write(group.0.join("memory.high"), bytes).unwrap();
        group
    }
}

/// A process that wants more memory than its group should have.
struct Greedy(Child);

impl Greedy {
    fn start(group: &Group) -> Greedy {
        let script = "echo $$ >\"$0\" && exec python3 -c 'b\"x\" * (512 << 20)'";
        let child = Command::new("sh")
            .args(["-c", script])
            .arg(group.0.join("cgroup.procs"))
            .spawn()
            .unwrap();
        Greedy(child)
    }

    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
