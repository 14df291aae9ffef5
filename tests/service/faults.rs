//! Never in the way: what may go wrong, and launches that go on all the same.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::running::{Image, files_in, number};
use crate::set_up;
use common::until;

#[test]
fn damaged_state_costs_a_relearn() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    service.stop();
    for entry in fs::read_dir(image.root.state.path()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        bytes.truncate(bytes.len() / 2);
        fs::write(&path, bytes).unwrap();
    }
    let mut service = image.start();
    image.launch("app");
    service.stop();
    image.enable("app");
    service = image.start();
    image.learn(&mut service, "app");
}

#[test]
fn a_profile_that_is_gone_or_damaged_is_learned_again() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    for damage in [Vec::new(), b"no profile".to_vec()] {
        image.learn(&mut service, "app");
        service.stop();
        let state = image.root.state.path();
        let names = files_in(state);
        let profile = names.iter().find(|name| name.ends_with(".pf")).unwrap();
        match damage.is_empty() {
            true => fs::remove_file(state.join(profile)).unwrap(),
            false => fs::write(state.join(profile), damage).unwrap(),
        }
        service = image.start();
    }
    image.learn(&mut service, "app");
    let line = image.launch_cold(&mut service, "app");
    assert!(line.contains("kind=Prefetched"), "{line}");
}

#[test]
fn a_wrong_configuration_is_refused_and_the_old_one_stays() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    image.configure("[launch]\nquiet_reads = \"many\"\n");
    let pid = rustix::process::Pid::from_child(&service.child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    let line = service.line(&["the old configuration stays"]);
    assert!(line.contains("config.toml, line 8"), "{line}");
    image.learn(&mut service, "app");
}

#[test]
fn a_read_only_state_directory_is_said_and_launches_go_on() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    let state = image.root.state.path();
    let _read_only = common::Mounted::bind(state, state);
    common::succeed(
        Command::new("mount")
            .args(["-o", "remount,bind,ro"])
            .arg(state),
    );
    image.launch("app");
    service.line(&["WARN", "cannot write"]);
    image.launch("app");
    service.launch_of(&image.id("app"));
}

/// A parallel compile: nothing of it is anybody's business.
#[test]
fn thousands_of_programs_wake_nobody() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    let before = switches(service.pid());
    let status = Command::new("/bin/sh")
        .args([
            "-c",
            "i=0; while [ $i -lt 2000 ]; do /bin/true; i=$((i+1)); done",
        ])
        .status()
        .unwrap();
    assert!(status.success());
    // Thread by thread: one that ended meanwhile has taken its count along. The shield's look by the clock for as long
    // as anybody waits for the drive, which says nothing of programs.
    let after = switches(service.pid());
    let woken: Vec<(&String, u64)> = after
        .iter()
        .filter(|(thread, _)| !thread.starts_with("pf-shield") && !thread.starts_with("pf-writers"))
        .map(|(thread, after)| (thread, after - before.get(thread).unwrap_or(&0)))
        .collect();
    let all: u64 = woken.iter().map(|(_, count)| count).sum();
    // It looks at its own affairs by the clock; each program that woke it would be one more.
    assert!(all < 1000, "woken by 2000 programs: {woken:?}");
    let line = image.launch_cold(&mut service, "app");
    assert!(number(&line, "read_bytes") > 0, "{line}");
}

/// Apps that exit at once, and one that many start at once, are one job each.
#[test]
fn many_launches_at_once_are_one_job() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.script("brief", "exit 0");
    image.enable("brief");
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    let mut launches: Vec<_> = (0..40)
        .flat_map(|_| ["/brief", "/app"])
        .map(|name| {
            Command::new("chroot")
                .arg(image.root.path())
                .arg(name)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for launch in &mut launches {
        assert!(launch.wait().unwrap().success());
    }
    // All of them are over, and the service is still there.
    service.launch_of(&image.id("app"));
    let open = fs::read_dir(format!("/proc/{}/fd", service.pid()))
        .unwrap()
        .count();
    assert!(open < 200, "{open} descriptors are open");
    let line = image.launch_cold(&mut service, "app");
    assert!(line.contains("kind=Prefetched"), "{line}");
}

#[test]
fn an_app_whose_executable_is_replaced_is_learned_again() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    // As a package manager does it: another file is renamed over it.
    let path = image.root.path().join("app");
    let new = image.root.path().join("app.new");
    fs::write(&new, "#!/bin/sh\ncat /data/1*\n").unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&new, &path).unwrap();
    image.launch("app");
    service.launch_of(&image.id("app"));
    service.ready_to_learn();
    let line = image.launch_cold(&mut service, "app");
    assert!(line.contains("kind=Learned"), "{line}");
    // By the old profile, meanwhile.
    assert!(number(&line, "prefetched_bytes") > 1 << 20, "{line}");
}

/// The launch that shows it is not judged: it ends before its prefetch.
#[test]
fn an_app_that_is_replaced_and_ends_at_once_is_learned_again() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    image.script("new", "[ ! -e /go ] || cat /data/*");
    fs::rename(image.root.path().join("new"), image.id("app")).unwrap();
    image.launch_cold(&mut service, "app");
    image.let_end();
    image.learn(&mut service, "app");
}

/// Voluntary context switches of each thread of a process so far, by the thread's name and id.
fn switches(pid: u32) -> HashMap<String, u64> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .filter_map(|task| {
            let task = task.unwrap();
            // A thread may end between the listing and the reading.
            let status = fs::read_to_string(task.path().join("status")).ok()?;
            let field = |name: &str| {
                let found = status.lines().find_map(|line| line.strip_prefix(name));
                found.unwrap().trim().to_owned()
            };
            let count = field("voluntary_ctxt_switches:").parse().unwrap();
            let id = task.file_name().into_string().unwrap();
            Some((format!("{} {id}", field("Name:")), count))
        })
        .collect()
}

/// Nothing that the service lacks keeps a program from starting.
#[test]
fn programs_go_on_when_the_service_has_no_descriptors_left() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    service.ready_to_learn();
    // Fewer than it has open.
    let pid = rustix::process::Pid::from_child(&service.child);
    let usual = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let none = rustix::process::Rlimit {
        current: Some(16),
        ..usual
    };
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Nofile, none).unwrap();
    for _ in 0..20 {
        image.launch("app");
    }
    // It goes on, and learns once it has room again.
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Nofile, usual).unwrap();
    image.learn_in_the_end(&mut service, "app");
    service.stop();
}

/// A FUSE file system whose process never answers, at a directory. It is gone when this is dropped.
struct DeadFuse {
    directory: std::path::PathBuf,
    /// Closed last: what waits for an answer is let go then.
    _device: fs::File,
}

impl DeadFuse {
    /// Makes the directory `dead` with this app in it, which is enabled, and returns it: where one is to be mounted later.
    fn place(image: &Image, name: &str, text: &str) -> std::path::PathBuf {
        let directory = image.root.path().join("dead");
        fs::create_dir(&directory).unwrap();
        let app = format!("dead/{name}");
        image.script(&app, text);
        image.enable(&app);
        directory
    }

    fn mount(directory: std::path::PathBuf) -> DeadFuse {
        let device = fs::File::options().read(true).write(true).open("/dev/fuse");
        let device = device.unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&device);
        let data = format!("fd={fd},rootmode=40755,user_id=0,group_id=0");
        let data = std::ffi::CString::new(data).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("dead", &directory, "fuse", flags, Some(data.as_c_str())).unwrap();
        DeadFuse {
            directory,
            _device: device,
        }
    }
}

impl Drop for DeadFuse {
    fn drop(&mut self) {
        let detach = rustix::mount::UnmountFlags::DETACH;
        rustix::mount::unmount(&self.directory, detach).unwrap();
    }
}

#[test]
fn an_app_on_a_file_system_that_never_answers_holds_up_nobody() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let directory = DeadFuse::place(&image, "app", "true");
    image.enable("app");
    let _dead = DeadFuse::mount(directory);
    let mut service = image.start();
    image.learn(&mut service, "app");
    service.signal(rustix::process::Signal::HUP);
    service.line(&["the configuration was read again"]);
    let line = image.launch_cold(&mut service, "app");
    assert!(line.contains("kind=Prefetched"), "{line}");
}

/// The registry is lost, so that the links to each app's program are looked up at the start.
#[test]
fn a_profile_on_a_file_system_that_never_answers_holds_up_no_start() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let directory = DeadFuse::place(&image, "own", "cat /data/*");
    let mut service = image.start();
    image.learn(&mut service, "dead/own");
    image.until_stored("own");
    service.stop();
    fs::remove_file(image.root.state.path().join("managed.json")).unwrap();
    let dead = DeadFuse::mount(directory);
    let output = image.paralfetch(&["enable", &image.id("dead/own")]);
    assert!(!output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another process or a server"), "{said}");
    let mut service = image.start();
    drop(dead);
    service.signal(rustix::process::Signal::HUP);
    service.line(&["the configuration was read again"]);
    image.prefetch_in_the_end(&mut service, "dead/own");
    service.stop();
}

/// What one service has written, another one that has read it before would write over.
#[test]
fn a_second_service_says_whose_the_state_is_and_enabling_beside_one_is_refused() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let service = image.start();
    let held = format!("is in use by process {}", service.pid());
    let second = image.service().output().unwrap();
    assert!(!second.status.success(), "{second:?}");
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(
        said.contains(&held) && said.contains("stop that one first"),
        "{said}"
    );
    // There is no bus by which the service could be asked.
    image.script("other", "true");
    let enabled = image.paralfetch(&["enable", &image.id("other")]);
    assert!(!enabled.status.success(), "{enabled:?}");
    let said = String::from_utf8_lossy(&enabled.stderr);
    assert!(
        said.contains(&held) && said.contains("the service runs"),
        "{said}"
    );
    // A killed one holds nothing.
    service.kill();
    image.enable("other");
    image.start().stop();
}

/// A log that nobody reads costs no launch its prefetch.
#[test]
fn a_full_pipe_for_the_log_stops_nothing() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    service.stop();
    image.configure("");
    let (reader, writer) = std::io::pipe().unwrap();
    let filled = writer.try_clone().unwrap();
    rustix::fs::fcntl_setfl(&filled, rustix::fs::OFlags::NONBLOCK).unwrap();
    while std::io::Write::write(&mut &filled, &[b'x'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&filled, rustix::fs::OFlags::empty()).unwrap();
    let running = image.start_unheard(writer.into());
    let prefetched = || {
        let stats = image.paralfetch(&["stats", "--json", &image.id("app")]);
        let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
        let mut launches = stats["launches"].as_array().unwrap().iter();
        launches.any(|launch| launch["kind"] == "prefetched")
    };
    until("a launch is prefetched", || {
        common::drop_caches();
        image.launch("app");
        prefetched()
    });
    drop((running, reader, filled));
}
