//! Waits for the drive and its queue, and throttled writers.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::time::Duration;

use paralfetch_waits::{Wait, WaitCause};
use rustix::fs::{Advice, fadvise};

use crate::alone;
use common::privileged;
use common::wait_rig::{PLAIN, Queue, Rig, Task, begin_writeback, write_scattered};

const LEAST: Duration = Duration::from_millis(20);
/// More requests than the drive takes at a time.
const MANY: u64 = 400;

/// A task reads a page while the drive stands still with another's writes. Returns the wait, when it has ended, and
/// the writer's thread.
fn read_behind_writes(queue: &Queue, pages: u64, cause: WaitCause) -> (Wait, u32) {
    let mut rig = Rig::new(queue, &[], LEAST);
    let (written, read) = (rig.file("written", 8), rig.file("read", 1));
    let file = File::open(&read).unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let path = written.clone();
    let writing = Task::start("test-writer", move || write_scattered(&path, pages));
    let writer = writing.tid;
    writing.join();

    let frozen = rig.freeze();
    let path = written.clone();
    let flushing = Task::start("test-flush", move || begin_writeback(&path));
    // The drive has them, or as many as it takes.
    rig.until_busy();
    let reading = Task::start("test-reader", move || {
        file.read_at(&mut [0; 4096], 512 << 10).unwrap();
    });
    rig.until_waits(reading.tid, cause);
    frozen.thaw();
    let wait = rig.until_waited(reading.tid, cause);
    assert_eq!(wait.device, Some(rig.device()));
    assert_eq!(wait.inode, Some(std::fs::metadata(&read).unwrap().ino()));
    assert!(wait.block.is_some());
    flushing.join();
    reading.join();
    (wait, writer)
}

#[test]
fn reads_wait_in_the_drive_behind_writes() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let (wait, writer) = read_behind_writes(&PLAIN, 16, WaitCause::Drive);
    let whom = wait.for_whom.expect("the writer is known");
    assert_eq!((whom.tid, whom.comm.as_str()), (writer, "test-writer"));
}

#[test]
fn reads_wait_in_the_scheduler_while_the_drive_takes_no_more() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let queue = Queue {
        scheduler: "mq-deadline",
        requests: 1024,
        wbt: 0,
    };
    let (wait, writer) = read_behind_writes(&queue, MANY, WaitCause::Scheduler);
    let whom = wait.for_whom.expect("the writer is known");
    assert_eq!(whom.tid, writer);
}

/// A task writes back more than the queue takes: what it waits for then.
fn write_back(queue: &Queue, cause: WaitCause) {
    let mut rig = Rig::new(queue, &[], LEAST);
    let written = rig.file("written", 8);
    write_scattered(&written, MANY);
    let frozen = rig.freeze();
    let flushing = Task::start("test-flush", move || begin_writeback(&written));
    let wait = rig.until_waits(flushing.tid, cause);
    assert_eq!(wait.device, Some(rig.device()));
    assert!(wait.block.is_some());
    frozen.thaw();
    rig.until_waited(flushing.tid, cause);
    flushing.join();
}

#[test]
fn writers_wait_for_tags() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    write_back(&PLAIN, WaitCause::Tag);
}

#[test]
fn writers_are_throttled_by_the_block_layer() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let queue = Queue { wbt: 2000, ..PLAIN };
    write_back(&queue, WaitCause::WritebackThrottle);
}

#[test]
fn writers_are_throttled_at_the_dirty_limit() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let mut rig = Rig::new(&PLAIN, &[], LEAST);
    rig.set("bdi/strict_limit", "1");
    rig.set("bdi/max_bytes", "4194304");
    let path = rig.path("large");
    let frozen = rig.freeze();
    let writing = Task::start("test-writer", move || {
        std::fs::write(path, vec![3; 32 << 20]).unwrap();
    });
    rig.until_waits(writing.tid, WaitCause::DirtyThrottle);
    frozen.thaw();
    rig.until_waited(writing.tid, WaitCause::DirtyThrottle);
    writing.join();
}

#[test]
fn tasks_wait_for_discards() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let mut rig = Rig::new(&PLAIN, &[], LEAST);
    let written = rig.file("written", 1);
    rig.checkpoint();
    write_scattered(&written, 4);
    let frozen = rig.freeze();
    // Discards themselves are not stopped by the freeze: they have to wait behind a write.
    begin_writeback(&written);
    rig.until_busy();
    let mut trim = Command::new("fstrim").arg(rig.path("")).spawn().unwrap();
    let wait = rig.until_waits(trim.id(), WaitCause::Discard);
    assert_eq!(wait.task.comm, "fstrim");
    assert_eq!(wait.device, Some(rig.device()));
    frozen.thaw();
    rig.until_waited(trim.id(), WaitCause::Discard);
    assert!(trim.wait().unwrap().success());
}
