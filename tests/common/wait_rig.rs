//! An ext4 on a loop device of its own, whose image lies on another file system that can be frozen: then the drive
//! takes requests and completes none.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use paralfetch_waits::{Wait, WaitCause, WaitDetector, WaitOptions};

use crate::{LoopExt4, succeed};

/// Longest time that anything in these tests may take to happen.
const LIMIT: Duration = crate::PATIENCE;
/// After so many seconds a guard thaws what is frozen, whatever has become of the test.
const FROZEN_SECONDS: &str = "240";

/// How the queue of the drive is set up.
pub struct Queue {
    pub scheduler: &'static str,
    pub requests: u32,
    /// Writeback throttling, microseconds; 0: off.
    pub wbt: u32,
}

/// Takes all that it is given.
pub const PLAIN: Queue = Queue {
    scheduler: "none",
    requests: 128,
    wbt: 0,
};

/// Size of the drive in MiB.
const SIZE_MB: u64 = 192;

pub struct Rig {
    pub detector: WaitDetector,
    /// Waits that have ended.
    seen: Vec<Wait>,
    drive: FreshLoop,
    below: LoopExt4,
}

impl Rig {
    pub fn new(queue: &Queue, mke2fs: &[&str], least: Duration) -> Rig {
        let below = LoopExt4::new(SIZE_MB + 64, &[]);
        let image = below.mount_point().join("image");
        File::create(&image)
            .unwrap()
            .set_len(SIZE_MB << 20)
            .unwrap();
        let mut make = Command::new("mke2fs");
        make.args(["-q", "-F", "-t", "ext4", "-b", "4096"])
            .args(["-E", "lazy_itable_init=0,lazy_journal_init=0"])
            .args(mke2fs)
            .arg(&image);
        succeed(&mut make);
        let drive = FreshLoop::mounted(&image, queue, below.mount_point());
        let options = WaitOptions { least, only: None };
        Rig {
            detector: WaitDetector::start(&options).unwrap(),
            seen: Vec::new(),
            drive,
            below,
        }
    }

    /// A path in the file system.
    pub fn path(&self, name: &str) -> PathBuf {
        self.drive.mount_point.join(name)
    }

    /// The drive's node.
    pub fn node(&self) -> &Path {
        &self.drive.node
    }

    /// The drive's number, as waits name it.
    pub fn device(&self) -> u32 {
        kernel_dev(fs::metadata(&self.drive.mount_point).unwrap().dev())
    }

    /// Sets a knob of the drive, which goes away with it.
    pub fn set(&self, knob: &str, value: &str) {
        self.drive.set(knob, value);
    }

    /// A file of so many MiB, on the drive and in the cache.
    pub fn file(&self, name: &str, mib: usize) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, vec![1; mib << 20]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        path
    }

    /// Writes everything back, and what the journal holds to its place.
    pub fn checkpoint(&self) {
        let file = File::open(&self.drive.mount_point).unwrap();
        rustix::fs::syncfs(&file).unwrap();
        // EXT4_IOC_CHECKPOINT.
        let flags: u32 = 0;
        // SAFETY: it reads one integer.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), 0x4004_662b, &raw const flags) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }

    /// From now on the drive completes no write, and so no read behind one.
    pub fn freeze(&self) -> Frozen {
        Frozen::new(self.below.mount_point())
    }

    /// Waits until the drive has requests that it does not complete, and no more arrive.
    pub fn until_busy(&self) {
        let path = format!("/sys/block/loop{}/inflight", self.drive.number);
        let under_way = || fs::read_to_string(&path).unwrap();
        let limit = Instant::now() + LIMIT;
        let mut before = under_way();
        loop {
            thread::sleep(Duration::from_millis(50));
            let now = under_way();
            let writes = now.split_whitespace().nth(1).unwrap();
            if writes != "0" && now == before {
                return;
            }
            before = now;
            assert!(Instant::now() < limit, "the drive gets no requests");
        }
    }

    /// Waits until the task waits for this, and returns the wait.
    pub fn until_waits(&mut self, tid: u32, cause: WaitCause) -> Wait {
        self.until_it_waits(&format!("task {tid} waits for {cause}"), |wait| {
            wait.task.tid == tid && wait.cause == cause
        })
    }

    /// Waits until a wait like that is under way.
    pub fn until_it_waits(&mut self, what: &str, is_wanted: impl Fn(&Wait) -> bool) -> Wait {
        let limit = Instant::now() + LIMIT;
        loop {
            let waiting = self.detector.waiting().unwrap();
            if let Some(wait) = waiting.iter().find(|wait| is_wanted(wait)) {
                assert!(wait.under_way);
                return wait.clone();
            }
            assert!(
                Instant::now() < limit,
                "not seen: {what}\n{waiting:#?}\nended: {:#?}",
                self.seen
            );
            let ended = self.detector.poll(Duration::from_millis(10)).unwrap();
            self.seen.extend(ended);
        }
    }

    /// Waits until the task has waited for this, and returns the longest such wait.
    pub fn until_waited(&mut self, tid: u32, cause: WaitCause) -> Wait {
        let limit = Instant::now() + LIMIT;
        loop {
            let ended = self.detector.poll(Duration::from_millis(10)).unwrap();
            self.seen.extend(ended);
            let is_wanted = |wait: &&Wait| wait.task.tid == tid && wait.cause == cause;
            if let Some(wait) = self
                .seen
                .iter()
                .filter(is_wanted)
                .max_by_key(|wait| wait.duration_ns)
            {
                assert!(!wait.under_way);
                return wait.clone();
            }
            assert!(
                Instant::now() < limit,
                "task {tid} has not waited for {cause}\nended: {:#?}",
                self.seen
            );
        }
    }

    /// All waits of the task so far.
    pub fn waits_of(&mut self, tid: u32) -> Vec<Wait> {
        let ended = self.detector.poll(Duration::ZERO).unwrap();
        self.seen.extend(ended);
        let of = self.seen.iter().filter(|wait| wait.task.tid == tid);
        of.cloned().collect()
    }
}

/// `st_dev` as the kernel's own number.
fn kernel_dev(dev: u64) -> u32 {
    rustix::fs::major(dev) << 20 | rustix::fs::minor(dev)
}

/// Pages that follow one another on the drive but for a hole after each: a request for each page.
pub fn write_scattered(path: &Path, pages: u64) {
    use std::os::unix::fs::FileExt;
    let file = File::options().write(true).open(path).unwrap();
    for page in 0..pages {
        file.write_at(&[2; 4096], page * 8192).unwrap();
    }
}

/// Begins to write the dirty pages of a file, as the flusher does, and waits for none.
pub fn begin_writeback(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    // SAFETY: no pointer is passed.
    let result =
        unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// A thread that does one thing.
pub struct Task {
    pub tid: u32,
    done: Receiver<()>,
    thread: thread::JoinHandle<()>,
}

impl Task {
    pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Task {
        let (begun, tid) = channel();
        let (end, done) = channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let tid = rustix::thread::gettid().as_raw_nonzero().get();
                begun.send(tid as u32).unwrap();
                work();
                // Nobody waits for it any more if the test has failed.
                let _ = end.send(());
            })
            .unwrap();
        let tid = tid.recv_timeout(LIMIT).unwrap();
        Task { tid, done, thread }
    }

    /// Waits until it has done it.
    pub fn join(self) {
        // It also ends, without a message, when it has panicked.
        let ended = self.done.recv_timeout(LIMIT);
        assert!(
            ended != Err(std::sync::mpsc::RecvTimeoutError::Timeout),
            "thread {} does not end",
            self.tid
        );
        self.thread.join().unwrap();
    }
}

/// A frozen file system. It is thawed by a process of its own: when this value goes, when the test is killed, and at
/// the latest after half a minute.
pub struct Frozen(Child);

impl Frozen {
    fn new(mount_point: &Path) -> Frozen {
        let script = format!(
            "echo ready; timeout -s KILL {FROZEN_SECONDS} cat >/dev/null; fsfreeze --unfreeze \"$0\""
        );
        let mut guard = Command::new("sh")
            .args(["-c", &script])
            .arg(mount_point)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // What it runs is in memory before anything is frozen.
        let mut ready = [0; 6];
        io::Read::read_exact(guard.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let frozen = Frozen(guard);
        succeed(Command::new("fsfreeze").arg("--freeze").arg(mount_point));
        frozen
    }

    /// Lets the drive go on.
    pub fn thaw(self) {}
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // The guard reads the end of the file.
        drop(self.0.stdin.take());
        match self.0.wait() {
            Ok(status) if status.success() => {}
            other => eprintln!("cannot thaw: {other:?}"),
        }
    }
}

/// A loop device that was added for this and is removed again, with all of its knobs.
struct FreshLoop {
    number: u32,
    node: PathBuf,
    mount_point: PathBuf,
}

const LOOP_CTL_ADD: libc::Ioctl = 0x4c80;
const LOOP_CTL_REMOVE: libc::Ioctl = 0x4c81;

fn loop_control(request: libc::Ioctl, number: u32) -> io::Result<()> {
    let control = File::options()
        .read(true)
        .write(true)
        .open("/dev/loop-control")?;
    // SAFETY: it takes a number.
    match unsafe { libc::ioctl(control.as_raw_fd(), request, libc::c_long::from(number)) } {
        result if result >= 0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl FreshLoop {
    fn mounted(image: &Path, queue: &Queue, beside: &Path) -> FreshLoop {
        let first = 1000 + std::process::id() % 1000 * 10;
        let added = (first..first + 10).find(|number| loop_control(LOOP_CTL_ADD, *number).is_ok());
        let number = added.expect("a loop device can be added");
        let mount_point = beside.join("mnt");
        let drive = FreshLoop {
            number,
            node: PathBuf::from(format!("/dev/loop{number}")),
            mount_point,
        };
        let limit = Instant::now() + LIMIT;
        while !drive.node.exists() {
            assert!(Instant::now() < limit, "no {}", drive.node.display());
            thread::sleep(Duration::from_millis(10));
        }
        let mut attach = Command::new("losetup");
        // With direct I/O, 6.1 writes into a file system that is frozen.
        attach.arg("--direct-io=off").arg(&drive.node).arg(image);
        succeed(&mut attach);
        drive.set("queue/scheduler", queue.scheduler);
        drive.set("queue/nr_requests", &queue.requests.to_string());
        drive.set("queue/wbt_lat_usec", &queue.wbt.to_string());
        drive.set("queue/read_ahead_kb", "128");
        // Pages must not change while they are written.
        drive.set("queue/stable_writes", "1");
        fs::create_dir(&drive.mount_point).unwrap();
        let mut mount = Command::new("mount");
        mount
            // The test commits when it wants to.
            .args(["-t", "ext4", "-o", "noinit_itable,commit=300"])
            .arg(&drive.node)
            .arg(&drive.mount_point);
        succeed(&mut mount);
        drive
    }

    fn set(&self, knob: &str, value: &str) {
        let path = format!("/sys/block/loop{}/{knob}", self.number);
        fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

impl Drop for FreshLoop {
    fn drop(&mut self) {
        let limit = Instant::now() + LIMIT;
        let mut tried = Err(io::Error::other("not tried"));
        // A thread may be about to close a file of it.
        while tried.is_err() && Instant::now() < limit {
            let unmounted = Command::new("umount").arg(&self.mount_point).output();
            let detached = Command::new("losetup")
                .arg("--detach")
                .arg(&self.node)
                .output();
            tried = unmounted
                .and(detached)
                .and_then(|_| loop_control(LOOP_CTL_REMOVE, self.number));
            thread::sleep(Duration::from_millis(50));
        }
        if let Err(error) = tried {
            eprintln!("cannot remove {}: {error}", self.node.display());
        }
    }
}
