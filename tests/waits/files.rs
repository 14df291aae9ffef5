//! Waits for pages of files, and for locks of those who wait for them.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

use paralfetch_waits::WaitCause;

use crate::alone;
use common::privileged;
use common::wait_rig::{PLAIN, Rig, Task, begin_writeback};

const LEAST: Duration = Duration::from_millis(20);

#[test]
fn tasks_wait_for_pages_that_others_have_begun_to_write() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let mut rig = Rig::new(&PLAIN, &[], LEAST);
    let (shared, short) = (rig.file("shared", 4), rig.file("short", 4));
    let writer = {
        let files = [shared.clone(), short.clone()];
        Task::start("test-writer", move || {
            for file in files {
                // Not truncated first: else ext4 writes it when it is closed.
                let file = File::options().write(true).open(file).unwrap();
                file.write_all_at(&vec![2; 4 << 20], 0).unwrap();
            }
        })
    };
    let writer_tid = writer.tid;
    writer.join();
    let frozen = rig.freeze();
    begin_writeback(&shared);
    begin_writeback(&short);

    // fsync(2) of a file that is being written.
    let file = shared.clone();
    let syncing = Task::start("test-fsync", move || {
        File::open(file).unwrap().sync_all().unwrap();
    });
    let wait = rig.until_waits(syncing.tid, WaitCause::Sync);
    assert_eq!(wait.task.comm, "test-fsync");
    assert_eq!(wait.task.pid, std::process::id());
    assert_eq!(wait.task.uid, 0);
    assert_eq!(wait.device, Some(rig.device()));
    let inode = fs::metadata(&shared).unwrap().ino();
    assert_eq!(wait.inode, Some(inode));
    let whom = wait.for_whom.expect("the writer is known");
    assert_eq!((whom.tid, whom.comm.as_str()), (writer_tid, "test-writer"));

    // truncate(2) of such a file.
    let file = short.clone();
    let truncating = Task::start("test-truncate", move || {
        let file = File::options().write(true).open(file).unwrap();
        file.set_len(4096 * 3 + 7).unwrap();
    });
    let wait = rig.until_waits(truncating.tid, WaitCause::Sync);
    assert_eq!(wait.inode, Some(fs::metadata(&short).unwrap().ino()));

    // write(2) to a page that is being written.
    let file = shared.clone();
    let changing = Task::start("test-change", move || {
        let file = File::options().write(true).open(file).unwrap();
        file.write_at(b"changed", 4096).unwrap();
    });
    let wait = rig.until_waits(changing.tid, WaitCause::Data);
    assert_eq!(wait.inode, Some(inode));

    // write(2) to a file that another task has locked, which waits itself.
    let file = short.clone();
    let locked_out = Task::start("test-lock", move || {
        let file = File::options().write(true).open(file).unwrap();
        file.write_at(b"late", 0).unwrap();
    });
    let wait = rig.until_waits(locked_out.tid, WaitCause::Lock);
    let whom = wait.for_whom.expect("the holder is known");
    assert_eq!(whom.tid, truncating.tid);
    assert_eq!(whom.comm, "test-truncate");

    frozen.thaw();
    for (tid, cause) in [
        (syncing.tid, WaitCause::Sync),
        (truncating.tid, WaitCause::Sync),
        (changing.tid, WaitCause::Data),
        (locked_out.tid, WaitCause::Lock),
    ] {
        let wait = rig.until_waited(tid, cause);
        assert!(wait.duration_ns >= LEAST.as_nanos() as u64);
    }
    for task in [syncing, truncating, changing, locked_out] {
        task.join();
    }
    assert_eq!(rig.detector.lost(), 0);
}
