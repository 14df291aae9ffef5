//! What happens to a machine: packages are updated, clocks are set, it is suspended.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::apps::{self, APP, SLOW, profile_of};
use common::guest::journal::{Journal, now_us};
use common::guest::system::{USER, main_pid, output, until};

/// How far the clock is set forward, in days: further than any time that something is kept for.
const DAYS: u64 = 400;

/// For how long the machine is suspended, in seconds.
const ASLEEP: &str = "3";

/// A package replaces a file of an app. It is found again before anybody launches the app.
pub fn package_updated(service: &Journal) {
    // Not the first: where the host is busy, a launch may begin before it is seen.
    let file = apps::data().last().unwrap();
    let before = fs::metadata(&file).unwrap().ino();
    assert_eq!(inode_in_profile(&file), before);
    install_package("pf-data", &file, &fs::read(&file).unwrap());
    let replaced = fs::metadata(&file).unwrap().ino();
    assert_ne!(replaced, before, "dpkg unpacks into another file");
    obsolete_entries_found(service);
    assert_eq!(inode_in_profile(&file), replaced);
    apps::assert_prefetched(&apps::launch_cold(service, APP));
}

/// Builds a package with this file, and installs it.
pub fn install_package(name: &str, file: &str, content: &[u8]) {
    let inside = format!("{name}{file}");
    fs::create_dir_all(format!("{name}/DEBIAN")).unwrap();
    fs::create_dir_all(inside.rsplit_once('/').unwrap().0).unwrap();
    fs::write(
        format!("{name}/DEBIAN/control"),
        format!(
            "Package: {name}\nVersion: 2\nArchitecture: all\n\
             Maintainer: nobody <root@localhost>\nDescription: data\n"
        ),
    )
    .unwrap();
    fs::write(&inside, content).unwrap();
    let package = format!("{name}.deb");
    output(&["dpkg-deb", "--build", name, &package]);
    output(&["dpkg", "--install", &package]);
}

/// Waits until the service has found replaced files of the app.
pub fn obsolete_entries_found(service: &Journal) {
    let said = service.next("a profile was looked through", |entry| {
        entry.message() == "obsolete entries were replaced or removed"
            && entry.field("F_APP") == APP
    });
    println!("        {}", said.fields());
}

/// The inode of a file by its path, as the app's profile has it.
fn inode_in_profile(path: &str) -> u64 {
    let profile = profile_of(APP);
    let files = profile["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == path);
    let file = file.unwrap_or_else(|| panic!("{path} is not in {files:#?}"));
    file["inode"].as_u64().unwrap()
}

/// The time of day jumps, forward and back: what was learned stays, and launches go on being prefetched, that one
/// too which is learned when a month has gone by.
pub fn clock_set(service: &Journal) {
    let days = i64::try_from(DAYS * 24 * 60 * 60).unwrap();
    set_clock(days);
    // A launch behind which the app's reads are put into another order does not make the next one due.
    let mut launched_us = 0;
    until("the next launch is to be learned", || {
        launched_us = now_us();
        apps::assert_prefetched(&apps::launch_cold(service, APP));
        let list = output(&["paralfetch", "list", "--user", USER]);
        let mut lines = list.lines().filter(|line| line.ends_with(APP));
        lines.any(|line| line.starts_with("learning"))
    });
    service.ready_to_learn(launched_us);
    set_clock(-days);
    let again = apps::launch_cold(service, APP);
    let fields = again.fields();
    assert_eq!(again.field("F_KIND"), "Learned", "{fields}");
    assert!(again.number("F_PREFETCHED_BYTES") > 0, "{fields}");
    apps::assert_prefetched(&apps::launch_cold(service, APP));
    let list = output(&["paralfetch", "list"]);
    assert!(!list.contains("switched off"), "{list}");
}

/// Sets the clock so many seconds forward, or back. Returns the new time, in seconds since the epoch.
pub fn set_clock(jump: i64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let then = now.as_secs().checked_add_signed(jump).unwrap();
    output(&["date", "--set", &format!("@{then}")]);
    then
}

/// The machine is suspended while a launch is learned. What the app does before and after is learned.
pub fn suspended(service: &Journal) {
    let enabled_us = now_us();
    output(&["paralfetch", "enable", SLOW]);
    service.ready_to_learn(enabled_us);
    // On the same processor: an emulated one may stand still, and nobody can tell who sleeps on another.
    let on_first = |pid: u32| {
        output(&[
            "taskset",
            "--all-tasks",
            "--pid",
            "--cpu-list",
            "0",
            &pid.to_string(),
        ]);
    };
    on_first(main_pid());
    let mut app = apps::start(SLOW);
    on_first(app.id());
    service.next("the launch begins", |entry| {
        entry.message() == "launch begins" && entry.field("F_APP") == SLOW
    });
    output(&["rtcwake", "--mode", "mem", "--seconds", ASLEEP]);
    assert_eq!(
        app.try_wait().unwrap(),
        None,
        "it was suspended in its launch"
    );
    assert!(app.wait().unwrap().success());
    let learned = service.launch_of(SLOW);
    println!("        {SLOW}: {}", learned.fields());
    assert_eq!(learned.field("F_KIND"), "Learned", "{}", learned.fields());
    let profile = profile_of(SLOW);
    let files = profile["files"].as_array().unwrap();
    for path in apps::data() {
        assert!(files.iter().any(|file| file["path"] == path), "{path}");
    }
}
