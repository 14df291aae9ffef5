//! What may happen to disks and memory under a running service.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::running::{Image, Running, WAIT, files_in, number};
use crate::set_up;
use common::until;
use common::{Mounted, drop_caches, lacking, succeed};

#[test]
fn a_full_disk_costs_nothing_that_was_there() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let state = image.root.state.path();
    let _small = Mounted::new("tmpfs", "none", state);
    succeed(
        Command::new("mount")
            .args(["-o", "remount,size=1m,mode=700"])
            .arg(state),
    );
    image.script("other", "cat /data/1*");
    image.enable("app");
    image.enable("other");
    let mut service = image.start();
    image.learn(&mut service, "app");
    image.until_recorded("app");
    image.until_stored("app");
    let profiles = || -> Vec<(String, Vec<u8>)> {
        let names = files_in(state)
            .into_iter()
            .filter(|name| name.ends_with(".pf"));
        names
            .map(|name| (name.clone(), fs::read(state.join(name)).unwrap()))
            .collect()
    };
    let kept = profiles();
    assert_eq!(kept.len(), 1);

    let filler = state.join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    image.learn_in_the_end(&mut service, "other");
    service.line(&["WARN", "cannot"]);
    image.prefetch_in_the_end(&mut service, "app");
    assert_eq!(profiles(), kept);

    // An open file keeps its room.
    drop(file);
    fs::remove_file(&filler).unwrap();
    image.learn_in_the_end(&mut service, "other");
    service.stop();
    assert_eq!(profiles().len(), 2);
    let mut service = image.start();
    for name in ["app", "other"] {
        image.prefetch_in_the_end(&mut service, name);
    }
}

#[test]
fn a_state_directory_that_was_removed_is_made_again() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.script("other", "cat /data/1*");
    image.enable("app");
    image.enable("other");
    let mut service = image.start();
    image.learn(&mut service, "app");
    image.until_stored("app");
    // After a launch, the registry is written last.
    image.prefetch_in_the_end(&mut service, "app");
    let state = image.root.state.path();
    // The service may just be writing to it.
    until("the state directory is removed", || {
        let removed = fs::remove_dir_all(state).map_err(|error| error.kind());
        assert!(
            matches!(removed, Ok(()) | Err(ErrorKind::DirectoryNotEmpty)),
            "{removed:?}"
        );
        removed.is_ok()
    });
    image.prefetch_in_the_end(&mut service, "app");
    image.learn_in_the_end(&mut service, "other");
    service.stop();
    let names = files_in(state);
    for file in ["managed.json", "history.sqlite"] {
        assert!(names.contains(&file.to_owned()), "{names:?}");
    }
    let mode = fs::metadata(state).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let mut service = image.start();
    for name in ["app", "other"] {
        image.prefetch_in_the_end(&mut service, name);
    }
}

#[test]
fn a_disk_may_be_unplugged_and_come_back_under_another_number() {
    let Some((mut image, _turn)) = set_up() else {
        return;
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let local = elsewhere.path().join("local-app");
    fs::write(&local, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(&local, fs::Permissions::from_mode(0o755)).unwrap();
    let enabled = image.paralfetch(&["enable", local.to_str().unwrap()]);
    assert!(enabled.status.success(), "{enabled:?}");
    // Never launched before the disk goes: it stays to be learned.
    image.script("other", "cat /data/1*");
    image.enable("app");
    image.enable("other");
    let mut service = image.start();
    image.learn(&mut service, "app");

    // Nothing of ours keeps it busy.
    image.root.image.unmount();
    let status = Command::new(&local).stdout(Stdio::null()).status();
    assert!(status.unwrap().success());
    service.launch_of(local.to_str().unwrap());

    image.root.image.reattach();
    let first = image.launch_cold(&mut service, "app");
    assert!(first.contains("kind=Prefetched"), "{first}");
    // Nor is it taken for another app. It may have read too much itself, by chance.
    let missed = number(&first, "own_requests") > 12;
    let second = image.launch_cold(&mut service, "app");
    assert!(missed || second.contains("kind=Prefetched"), "{second}");
    image.learn_in_the_end(&mut service, "other");
}

/// A drive that is gone while it is mounted and a launch on it is prefetched and another learned: what reads it fails,
/// as it does without the service, and apps elsewhere go on.
#[test]
fn a_drive_may_be_pulled_out() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let elsewhere = Image::new();
    elsewhere.script("local", "cat /data/*");
    let enabled = image.paralfetch(&["enable", &elsewhere.id("local")]);
    assert!(enabled.status.success(), "{enabled:?}");
    image.script("other", &format!("cat /data/1*; {WAIT}"));
    image.enable("app");
    image.enable("other");
    let mut service = image.start();
    image.learn(&mut service, "app");
    let learning = image.spawn("other");
    service.line(&["launch begins", "other", "Learn"]);
    drop_caches();
    let prefetched = image.spawn("app");
    service.line(&["launch begins", "app", "Prefetch"]);
    image.root.image.pull_out();
    drop((learning, prefetched));
    // Whatever becomes of them: the file system has failed.
    for name in ["app", "other"] {
        let _ = image.launcher(name).status();
    }
    elsewhere.learn_in_the_end(&mut service, "local");
    elsewhere.prefetch_in_the_end(&mut service, "local");
    service.stop();
}

/// The service and its apps see a file of the test's in the place of /proc/pressure/memory.
#[test]
fn nothing_is_prefetched_while_memory_is_short() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    if !fs::exists("/proc/pressure/memory").unwrap() {
        lacking("this kernel does not tell memory pressure");
        return;
    }
    let pressure = image.root.state.path().join("pressure");
    let press = |share: &str| {
        let text = format!("some avg10={share} avg60=0.00 avg300=0.00 total=0\n");
        fs::write(&pressure, text).unwrap();
    };
    press("0.00");
    image.enable("app");
    let service = image.service();
    let mut private = Command::new("unshare");
    private
        .args(["--mount", "sh", "-c"])
        .arg("mount --bind \"$0\" /proc/pressure/memory && exec \"$@\"")
        .arg(&pressure)
        .arg(service.get_program())
        .args(service.get_args());
    private.env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus");
    let mut service = image.start_command(private).ready();
    let launch = |service: &mut Running| {
        drop_caches();
        let status = Command::new("nsenter")
            .args(["--mount", "--target", &service.pid().to_string(), "chroot"])
            .arg(image.root.path())
            .arg("/app")
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
        service.launch_of(&image.id("app"))
    };
    service.ready_to_learn();
    let line = launch(&mut service);
    assert!(line.contains("kind=Learned"), "{line}");
    press("60.00");
    let line = launch(&mut service);
    assert!(line.contains("not prefetched: memory is short"), "{line}");
    press("0.00");
    // It is no evidence against the profile, either.
    let line = launch(&mut service);
    assert!(line.contains("kind=Prefetched"), "{line}");
    assert!(!line.contains("memory is short"), "{line}");
}
