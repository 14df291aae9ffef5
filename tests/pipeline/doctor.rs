//! `doctor` on the machine as it is.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use common::root::install_as;
use common::{LoopExt4, Mounted, privileged};

fn doctor(args: &[&str]) -> std::process::Output {
    Command::new(common::program())
        .arg("doctor")
        .args(args)
        .output()
        .unwrap()
}

/// Where the other tests learn and prefetch, doctor says that both work, and by what means.
#[test]
fn where_learning_works_doctor_says_so() {
    if !privileged() {
        return;
    }
    let output = doctor(&["--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{found:#}");
    assert_eq!(found["works"], true);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(found["kernel"], release.trim());
    for kind in ["reads", "faults"] {
        let means = found["hooks"][kind].as_str().unwrap();
        assert!(
            ["tracepoint", "fentry", "no-function", "refused"].contains(&means),
            "{means}"
        );
    }
    let text = String::from_utf8(doctor(&[]).stdout).unwrap();
    for check in found["checks"].as_array().unwrap() {
        assert!(text.contains(check["name"].as_str().unwrap()), "{text}");
        // What is not as it should be has its price named.
        assert_eq!(check["cost"].is_null(), check["level"] == "ok", "{check}");
    }
}

/// What only root can look at is unknown to others, and nothing is called broken for that.
#[test]
fn without_root_doctor_says_what_is_unknown() {
    use std::os::unix::process::CommandExt;
    if !privileged() {
        return;
    }
    // The build may lie where another user cannot go: give the program by descriptor.
    let program = std::fs::File::open(common::program()).unwrap();
    let link = format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&program)
    );
    rustix::io::fcntl_setfd(&program, rustix::io::FdFlags::empty()).unwrap();
    let output = Command::new(link)
        .args(["doctor", "--json"])
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(output.status.code(), Some(0), "{found:#}");
    assert_eq!(found["works"], true);
    assert_eq!(found["hooks"], Value::Null);
    let checks = found["checks"].as_array().unwrap().iter();
    let unknown = checks.filter(|check| check["level"] == "unknown");
    let names: Vec<&str> = unknown
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[..1], ["privileges"], "{found:#}");
    assert!(
        names.len() > 1 && names[1].starts_with("hook: "),
        "{found:#}"
    );
}

/// What `doctor` finds in a root directory.
fn doctor_in(root: &Path) -> (Option<i32>, Value) {
    let mut chroot = Command::new("chroot");
    chroot.arg(root).args(["/paralfetch", "doctor", "--json"]);
    let output = chroot.output().unwrap();
    let found =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (output.status.code(), found)
}

fn check<'a>(found: &'a Value, name: &str) -> &'a Value {
    let mut checks = found["checks"].as_array().unwrap().iter();
    checks.find(|check| check["name"] == name).unwrap()
}

/// A mounted ext4 helps nobody if the apps lie elsewhere; where they lie on it in part, doctor says in which.
#[test]
fn file_systems_that_hold_apps_are_judged_and_no_others() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let _root = Mounted::new("tmpfs", "tmpfs", root);
    let program = Path::new(common::program());
    install_as(program, Path::new("/paralfetch"), root);
    for name in ["usr", "home", "boot", "state"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let _mounts = ["proc", "sys", "dev"].map(|name| {
        fs::create_dir(root.join(name)).unwrap();
        Mounted::bind(&Path::new("/").join(name), &root.join(name))
    });
    let image = LoopExt4::new(16, &[]);
    let boot = Mounted::bind(image.mount_point(), &root.join("boot"));
    let (status, found) = doctor_in(root);
    assert_eq!((status, &found["works"]), (Some(1), &Value::Bool(false)));
    let judged = check(&found, "file systems");
    assert_eq!(judged["level"], "broken");
    let reason = judged["found"].as_str().unwrap();
    assert!(reason.starts_with("/home, /usr: tmpfs"), "{reason}");
    // The service says the same, with the status upon which systemd leaves it.
    let mut service = Command::new("chroot");
    service
        .arg(root)
        .args(["/paralfetch", "--state-dir=/state", "service", "--no-bus"]);
    let ended = service
        .args(["--config-dir=/state", "--run-dir=/state"])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(69), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        said.contains("cannot work here: no apps lie on ext4"),
        "{said}"
    );
    drop(boot);

    let _home = Mounted::bind(image.mount_point(), &root.join("home"));
    let (status, found) = doctor_in(root);
    assert_eq!(
        (status, &found["works"]),
        (Some(0), &Value::Bool(true)),
        "{found:#}"
    );
    let supported = check(&found, "file systems")["found"].as_str().unwrap();
    assert!(supported.ends_with("(/home)"), "{supported}");
    let others = check(&found, "other file systems");
    assert_eq!(others["level"], "less");
    assert!(
        others["found"].as_str().unwrap().starts_with("/usr: tmpfs"),
        "{others}"
    );
}
