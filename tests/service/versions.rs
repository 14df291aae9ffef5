//! Updates that leave the old version in place, as the stores of Nix and Guix do, and directories of releases.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::Value;

use crate::running::{Image, Running};
use crate::set_up;
use common::root::{PAGES, WHOLE, content, pages_of};
use common::until;

/// Data files of each version.
const FILES: usize = 20;

/// Updates of the app.
const UPDATES: usize = 5;

/// What the log says when an app is to be learned again.
const AGAIN: [&str; 1] = ["will be learned again"];

/// Puts a version of the app's data beside the others, and has `/current` lead to it.
fn put_version(image: &Image, version: usize) {
    let directory = image.root.path().join(format!("release-{version}"));
    fs::create_dir(&directory).unwrap();
    for file in 0..FILES {
        let content = content(version * FILES + file, PAGES);
        fs::write(directory.join(file.to_string()), content).unwrap();
    }
    put_link(image, version);
    image.root.image.sync();
}

/// Has `/current` lead to a version.
fn put_link(image: &Image, version: usize) {
    let link = image.root.path().join("current");
    // There is none before the first version.
    let _ = fs::remove_file(&link);
    symlink(format!("release-{version}"), link).unwrap();
}

/// Renames a starter of this version over the one before, as a package manager does it.
fn put_starter(image: &Image, version: usize) {
    image.script("app.new", &format!("cat /release-{version}/*"));
    fs::rename(image.id("app.new"), image.id("app")).unwrap();
}

/// Launches the app from empty caches and sees it learned. From full ones, what reads so little may have ended before a busy
/// service has looked which program it is: in a root of its own, only a process that is there can tell.
fn learn_cold(image: &Image, service: &mut Running) {
    service.ready_to_learn();
    let line = image.launch_cold(service, "app");
    assert!(line.contains("kind=Learned"), "{line}");
}

/// What the profile has, once nothing is written any more.
fn learned(image: &Image, service: Running) -> Value {
    service.stop();
    image.root.show("app")
}

fn all_pages(profile: &Value) -> u64 {
    let entries = profile["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["pages"].as_u64().unwrap()).sum()
}

/// Of all versions, the profile has the files of this one.
fn assert_version(profile: &Value, present: usize) {
    for version in 1..=UPDATES + 1 {
        for file in 0..FILES {
            let pages = pages_of(profile, &format!("/release-{version}/{file}"));
            match version == present {
                true => assert!(pages.into_iter().eq(WHOLE), "{file}"),
                false => assert!(pages.is_empty(), "{version}/{file}: {pages:?}"),
            }
        }
    }
}

#[test]
fn after_updates_beside_the_old_version_the_present_one_alone_is_read_ahead() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    put_version(&image, 1);
    put_starter(&image, 1);
    image.enable("app");
    let mut service = image.start();
    learn_cold(&image, &mut service);
    let first = learned(&image, service);
    assert_version(&first, 1);
    let mut service = image.start();
    for version in 2..=UPDATES + 1 {
        put_version(&image, version);
        put_starter(&image, version);
        image.launch_cold(&mut service, "app");
        learn_cold(&image, &mut service);
    }
    let last = learned(&image, service);
    assert_version(&last, UPDATES + 1);
    let [before, after] = [&first, &last].map(all_pages);
    assert!(after * 10 <= before * 11, "{before} {after}");
}

/// The executable stays, so that what launches miss leads back to learning.
#[test]
fn an_update_behind_a_starter_that_stays_takes_the_place_of_the_old_version() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    // What is scheduled anew meanwhile takes in nothing.
    image.configure("prefetch.dynamic = false\n");
    put_version(&image, 1);
    image.script("app", "cat /current/*");
    image.enable("app");
    let mut service = image.start();
    learn_cold(&image, &mut service);
    put_version(&image, 2);
    // One launch proves nothing, and now and then one is only measured, to compare.
    let is_learned_again = |service: &mut Running| {
        image.launch_cold(service, "app");
        !service.heard(&AGAIN).is_empty()
    };
    assert!(!is_learned_again(&mut service));
    let found = (0..4).any(|_| is_learned_again(&mut service));
    assert!(found, "nothing has led back to learning");
    learn_cold(&image, &mut service);
    assert_version(&learned(&image, service), 2);
}

/// Whoever has named the app has named the link.
#[test]
fn an_app_that_is_named_behind_a_link_stays_the_same_when_the_link_is_switched() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    for version in [1, 2] {
        put_version(&image, version);
        image.script(
            &format!("release-{version}/app"),
            &format!("cat /release-{version}/[0-9]*"),
        );
    }
    put_link(&image, 1);
    image.enable("current/app");
    let mut service = image.start();
    service.until_located(1);
    image.learn(&mut service, "current/app");
    put_link(&image, 2);
    // It is the launch of the same app that is waited for.
    image.launch_cold(&mut service, "current/app");
    let id = image.id("current/app");
    // By the path that the link leads to now, once that was looked for.
    until("a launch by the new path is seen", || {
        image.launch("release-2/app");
        let said = service.listen(Duration::from_secs(1));
        said.iter()
            .any(|line| line.contains("INFO launch ") && line.contains(&id))
    });
}
