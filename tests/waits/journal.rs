//! Waits for metadata and for the journal.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use paralfetch_waits::WaitCause;

use crate::alone;
use common::privileged;
use common::wait_rig::{PLAIN, Rig, Task};

fn change_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

#[test]
fn tasks_wait_for_metadata_and_for_who_holds_a_handle_meanwhile() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let mut rig = Rig::new(&PLAIN, &[], Duration::from_millis(20));
    let (file, other) = (rig.path("file"), rig.path("directory/other"));
    fs::create_dir(rig.path("directory")).unwrap();
    fs::write(&file, "").unwrap();
    fs::write(&other, "").unwrap();
    rig.checkpoint();
    // Committed, and to be written to its place.
    change_mode(&file, 0o600);
    sync(&file);

    let frozen = rig.freeze();
    // The inode's block is being written.
    let node = rig.node().to_owned();
    let writing = Task::start("test-node", move || sync(&node));
    rig.until_it_waits("the node is being written", |wait| {
        wait.task.tid == writing.tid
    });
    let path = file.clone();
    let holding = Task::start("test-holder", move || change_mode(&path, 0o644));
    let wait = rig.until_waits(holding.tid, WaitCause::Metadata);
    assert_eq!(wait.device, Some(rig.device()));

    // It waits with a handle. A commit locks the transaction, and the next handle has to wait for both.
    let path = rig.path("");
    let committing = Task::start("test-commit", move || {
        let root = File::open(path).unwrap();
        rustix::fs::syncfs(root).unwrap();
    });
    rig.until_it_waits("the journal waits for the handle", |wait| {
        wait.cause == WaitCause::JournalHandle && wait.task.comm.starts_with("jbd2/loop")
    });
    let path = rig.path("directory/new");
    let creating = Task::start("test-create", move || fs::write(path, "").unwrap());
    let wait = rig.until_waits(creating.tid, WaitCause::JournalHandle);
    assert_eq!(wait.device, Some(rig.device()));

    frozen.thaw();
    let wait = rig.until_waited(creating.tid, WaitCause::JournalHandle);
    let whom = wait.for_whom.expect("the holder is known");
    assert_eq!(whom.tid, holding.tid);
    assert_eq!(whom.comm, "test-holder");
    for task in [writing, holding, committing, creating] {
        task.join();
    }
}

#[test]
fn tasks_wait_for_a_commit_and_for_buffers_that_it_writes() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let mut rig = Rig::new(&PLAIN, &[], Duration::from_millis(20));
    let file = rig.path("file");
    fs::write(&file, "").unwrap();
    rig.checkpoint();
    // The first commit into an empty journal writes its superblock before anything else.
    change_mode(&file, 0o640);
    sync(&file);
    change_mode(&file, 0o600);

    let frozen = rig.freeze();
    let path = file.clone();
    let syncing = Task::start("test-fsync", move || sync(&path));
    let wait = rig.until_waits(syncing.tid, WaitCause::JournalCommit);
    assert_eq!(wait.device, Some(rig.device()));
    assert!(wait.inode.is_some());
    // The inode's block is on its way to the journal.
    rig.until_it_waits("the journal is being written", |wait| {
        wait.task.comm.starts_with("jbd2/loop")
            && matches!(wait.cause, WaitCause::Drive | WaitCause::Scheduler)
    });
    let path = file.clone();
    let changing = Task::start("test-chmod", move || change_mode(&path, 0o644));
    let wait = rig.until_waits(changing.tid, WaitCause::JournalBuffer);
    assert_eq!(wait.device, Some(rig.device()));
    frozen.thaw();
    rig.until_waited(changing.tid, WaitCause::JournalBuffer);
    rig.until_waited(syncing.tid, WaitCause::JournalCommit);
    for task in [syncing, changing] {
        task.join();
    }
}

/// The smallest journal is full again and again.
#[test]
fn tasks_wait_for_room_in_the_journal() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let mut rig = Rig::new(&PLAIN, &["-J", "size=4"], Duration::from_micros(50));
    let stop = Arc::new(AtomicBool::new(false));
    let directory = rig.path("many");
    let (path, stopped) = (directory.clone(), Arc::clone(&stop));
    let filling = Task::start("test-fill", move || {
        fs::create_dir(&path).unwrap();
        for file in 0..200_000 {
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            let name = path.join(format!("{file:0>200}"));
            fs::write(&name, "").unwrap();
            if file % 200 == 0 {
                sync(&name);
            }
        }
    });
    let wait = rig.until_waited(filling.tid, WaitCause::JournalSpace);
    stop.store(true, Ordering::Relaxed);
    assert_eq!(wait.device, Some(rig.device()));
    filling.join();
}
