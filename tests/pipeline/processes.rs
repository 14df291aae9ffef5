//! Apps that run in the image.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use common::root::Root;
use common::until;

/// Processes whose root directory is the image, with their names.
pub fn apps(root: &Root) -> Vec<(Pid, String)> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let pid: i32 = path.file_name()?.to_str()?.parse().ok()?;
            // What cannot be read has ended meanwhile.
            let directory = fs::read_link(path.join("root")).ok()?;
            let name = fs::read_to_string(path.join("comm")).ok()?;
            let found = (Pid::from_raw(pid)?, name.trim_end().to_owned());
            (directory == root.path()).then_some(found)
        })
        .collect()
}

/// Waits until the app has come to its sleep.
pub fn until_asleep(root: &Root) {
    until("the app sleeps", || {
        apps(root).iter().any(|(_, name)| name == "sleep")
    });
}

/// Ends all apps.
pub fn end_apps(root: &Root) {
    for (pid, _) in apps(root) {
        match kill_process(pid, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => panic!("cannot end {pid:?}: {error}"),
        }
    }
    until("the apps have ended", || apps(root).is_empty());
}

/// Waits until a process has no thread but its first.
pub fn until_single_threaded(pid: u32) {
    let tasks = Path::new("/proc").join(pid.to_string()).join("task");
    until("a single thread is left", || {
        fs::read_dir(&tasks).unwrap().count() == 1
    });
}

/// A named pipe for writing, once a process has opened it for reading.
pub fn until_read(pipe: &Path) -> File {
    let mut opened = None;
    until("the app reads the pipe", || {
        // Without a reader this fails with ENXIO.
        match open(pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()) {
            Ok(file) => opened = Some(File::from(file)),
            Err(error) => assert_eq!(error, Errno::NXIO),
        }
        opened.is_some()
    });
    opened.unwrap()
}
