//! What the detector reports against what the kernel counts.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::alone;
use common::privileged;
use common::wait_rig::{PLAIN, Rig, Task};

const SWITCH: &str = "/proc/sys/kernel/task_delayacct";

/// The kernel's delay accounting, on as long as this exists.
struct Accounting(String);

impl Accounting {
    fn on() -> Accounting {
        let before = fs::read_to_string(SWITCH).unwrap();
        fs::write(SWITCH, "1").unwrap();
        Accounting(before)
    }
}

impl Drop for Accounting {
    fn drop(&mut self) {
        if let Err(error) = fs::write(SWITCH, &self.0) {
            eprintln!("{SWITCH}: {error}");
        }
    }
}

/// Makes the calling thread one of the real-time class. Since 6.12, a task of the fair class may leave its queue only
/// after it went to sleep, and the kernel then accounts the time before its last wait once more.
fn leave_the_fair_class() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: it reads the struct.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// How long a thread of this process has waited for I/O, by the kernel's own account (proc_pid_stat(5), field 42,
/// in ticks).
fn accounted(tid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
    let fields = text.rsplit_once(')').unwrap().1;
    let ticks = fields.split_whitespace().nth(42 - 3).unwrap();
    Duration::from_secs(ticks.parse().unwrap()) / rustix::param::clock_ticks_per_second() as u32
}

#[test]
fn sums_are_those_of_the_kernels_accounting() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let mut rig = Rig::new(&PLAIN, &[], Duration::from_micros(50));
    let path = rig.file("file", 1);
    let accounting = Accounting::on();
    let (go, turns) = channel::<()>();
    let (told, done) = channel();
    let syncing = Task::start("test-fsync", move || {
        leave_the_fair_class();
        let file = File::options().write(true).open(path).unwrap();
        for () in turns {
            file.write_at(&[4; 64 << 10], 0).unwrap();
            file.sync_data().unwrap();
            told.send(()).unwrap();
        }
    });
    for _ in 0..3 {
        let frozen = rig.freeze();
        go.send(()).unwrap();
        let tid = syncing.tid;
        rig.until_it_waits("the task waits for a second", |wait| {
            wait.task.tid == tid && wait.duration_ns > 1_000_000_000
        });
        frozen.thaw();
        done.recv_timeout(Duration::from_secs(20)).unwrap();
    }
    let accounted = accounted(syncing.tid).as_secs_f64();
    let waits = rig.waits_of(syncing.tid);
    let sum: u64 = waits.iter().map(|wait| wait.duration_ns).sum();
    let sum = sum as f64 / 1e9;
    drop(go);
    syncing.join();
    drop(accounting);
    assert!(accounted > 3.0, "{accounted}");
    assert!(
        (sum / accounted - 1.0).abs() <= 0.05,
        "{sum} s seen, {accounted} s accounted: {waits:#?}"
    );
}
