//! Apps that run in the image.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

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

/// Waits until a `run` has no thread left that reads ahead: none but its first, and the shield's where the drive is being
/// written, which lasts as long as the app.
pub fn until_read_ahead(pid: u32) {
    let tasks = Path::new("/proc").join(pid.to_string()).join("task");
    let reads = |task: &Path| {
        let name = fs::read_to_string(task.join("comm"));
        // One that has ended meanwhile has none.
        name.is_ok_and(|name| !name.starts_with("pf-shield"))
    };
    until("the prefetch thread has ended", || {
        let tasks = fs::read_dir(&tasks).unwrap();
        tasks
            .filter(|task| reads(&task.as_ref().unwrap().path()))
            .count()
            == 1
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

/// Launches an app that waits at a pipe in its root, by `run` until the prefetch is over: how far a prefetch is ahead of an
/// app that does not wait is a matter of chance. The app must succeed.
pub fn launch_told(root: &Root, command: &[&str], app: &[&str], pipe: &str) -> Output {
    let launched = root
        .paralfetch(command, app)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = until_read(&root.path().join(pipe));
    if command[0] == "run" {
        until_read_ahead(launched.id());
    }
    pipe.write_all(b"now\n").unwrap();
    drop(pipe);
    let output = launched.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}
