//! Beside a program that is asked before each file is opened, as scanners are.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use crate::running::{make_pipe, number};
use crate::set_up;
use common::drop_caches;

/// How long the listener takes to answer: four times what counts as late.
const DELAY: Duration = Duration::from_millis(2);

/// How often it looks whether it is to end.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// A listener on permission events of a file system, which allows every open, late. When it is dropped, the kernel allows
/// what it has not answered.
struct Listener {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    fn on(root: &Path) -> Self {
        // SAFETY: the call takes numbers only.
        let group = unsafe {
            libc::fanotify_init(
                libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC,
                libc::O_RDONLY as libc::c_uint,
            )
        };
        assert!(group >= 0, "{}", io::Error::last_os_error());
        // SAFETY: the descriptor is new, and nobody else's.
        let group = unsafe { std::fs::File::from_raw_fd(group) };
        let path = CString::new(root.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends with a zero and lives through the call.
        let marked = unsafe {
            libc::syscall(
                libc::SYS_fanotify_mark,
                group.as_raw_fd(),
                libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM,
                libc::FAN_OPEN_PERM,
                libc::AT_FDCWD,
                path.as_ptr(),
            )
        };
        assert_eq!(marked, 0, "{}", io::Error::last_os_error());
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        // One that fails lets its descriptor go, and with that all files.
        let thread = thread::spawn(move || answer_late(group, &told));
        Listener {
            ends,
            thread: Some(thread),
        }
    }

    fn end(mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

fn answer_late(mut group: std::fs::File, ends: &AtomicBool) {
    const LENGTH: usize = size_of::<libc::fanotify_event_metadata>();
    // An event is 24 bytes: its length, three small numbers, its mask, a descriptor and a process id.
    const DESCRIPTOR: usize = 16;
    let mut events = [0; 64 * LENGTH];
    while !ends.load(Ordering::Relaxed) {
        let mut waiting = [PollFd::new(&group, PollFlags::IN)];
        if poll(&mut waiting, Some(&LOOK)).unwrap() == 0 {
            continue;
        }
        let length = group.read(&mut events).unwrap();
        for event in events[..length].chunks_exact(LENGTH) {
            let descriptor: [u8; 4] = event[DESCRIPTOR..DESCRIPTOR + 4].try_into().unwrap();
            let descriptor = i32::from_ne_bytes(descriptor);
            if descriptor < 0 {
                continue;
            }
            // The delay itself.
            thread::sleep(DELAY);
            let mut answer = descriptor.to_ne_bytes().to_vec();
            answer.extend(libc::FAN_ALLOW.to_ne_bytes());
            group.write_all(&answer).unwrap();
            // SAFETY: the kernel has opened it for this event.
            drop(unsafe { std::fs::File::from_raw_fd(descriptor) });
        }
    }
}

/// The prefetch opens files ahead of the app, and the listener has to answer twice for each. That costs more than it saves.
#[test]
fn a_launch_whose_opens_another_program_delays_is_left_alone_at_once_and_that_is_said() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    // It goes on without opening anything until somebody writes into the pipe: its prefetch ends before it does.
    image.script("app", "cat /data/*; read line < /end");
    let mut pipe = make_pipe(&image.root.path().join("end"));
    let mut let_end = || pipe.write_all(b"\n").unwrap();
    image.enable("app");
    let id = image.id("app");
    let mut service = image.start();
    service.ready_to_learn();
    let app = image.spawn("app");
    let_end();
    app.succeed();
    let learned = service.launch_of(&id);
    assert!(learned.contains("kind=Learned"), "{learned}");
    image.until_stored("app");

    let listener = Listener::on(image.root.path());
    drop_caches();
    let app = image.spawn("app");
    let line = service.launch_of(&id);
    let_end();
    app.succeed();
    let says = "another program is asked before each file is opened";
    assert!(
        line.contains("kind=Prefetched") && line.contains(says),
        "{line}"
    );
    // Three files and metadata of the 7.5 MiB.
    assert!(number(&line, "prefetched_bytes") < 2 << 20, "{line}");
    let off = service.heard(&["switched off", "not faster here", says]);
    assert_eq!(off.len(), 1, "{off:?}");

    let doctor = image.paralfetch(&["doctor", "--json"]);
    let found: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let checks = found["checks"].as_array().unwrap();
    let named = checks
        .iter()
        .find(|check| check["name"] == "permission events")
        .unwrap();
    let who = format!("({}) is asked before files are opened", std::process::id());
    let is_named = named["found"].as_str().unwrap().contains(&who);
    assert!(is_named && named["level"] == "less", "{named}");

    drop_caches();
    let app = image.spawn("app");
    let line = service.launch_of(&id);
    let_end();
    app.succeed();
    assert!(line.contains("kind=Watched"), "{line}");
    assert_eq!(number(&line, "prefetched_bytes"), 0, "{line}");
    listener.end();
    service.stop();
    let list = image.paralfetch(&["stats", &id]);
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(text.contains("not faster here"), "{text}");
}
