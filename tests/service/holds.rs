//! Apps that are held before they run, until the first region of their schedule has arrived.

use std::time::{Duration, Instant};

use paralfetch::drive::drop_caches;
use paralfetch::model::{Hold, Profile};
use paralfetch::profile::Store;

use crate::running::{Image, Running};
use crate::set_up;
use common::reads::profile;
use common::scheduler::Scheduler;
use common::slowed::Slowed;
use common::until;

/// How many data files the schedule keeps where its drive stands still: each request takes a second then.
const FEW: usize = 3;

/// Learns the app, and has it held for what `change` leaves in its schedule, so long at most, as long as its drive has this
/// scheduler. `None` where there is none that favours readers.
fn hold(image: &Image, most_ms: u16, change: impl FnOnce(&mut Profile)) -> Option<Scheduler> {
    let scheduler = Scheduler::of(&image.root);
    if !scheduler.choose("bfq") {
        return None;
    }
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    image.until_recorded("app");
    service.stop();
    let mut learned = profile(&image.root, "app");
    change(&mut learned);
    learned.hold = Some(Hold {
        entries: learned.entries.len() as u32,
        most_ms,
    });
    let store = Store::open(image.root.state.path()).unwrap();
    store.save(&learned).unwrap();
    Some(scheduler)
}

/// Leaves a few data files in a schedule.
fn few_files(learned: &mut Profile) {
    let mut files = 0;
    learned.entries.retain(|entry| {
        let is_data = !entry.span.place.is_metadata() && entry.span.len > 1;
        files += usize::from(is_data);
        is_data && files <= FEW
    });
    assert_eq!(learned.entries.len(), FEW);
}

/// A service that has an app held for a few files, so long at most, and whose requests to the image's drive take a second each;
/// nothing is cached.
fn held_on_a_drive_that_stands_still(
    image: &Image,
    most_ms: u16,
) -> Option<(Running, (Scheduler, Slowed))> {
    let scheduler = hold(image, most_ms, few_files)?;
    let slowed = Slowed::by_drive(image.root.image.device())?;
    let service = image.start();
    slowed.take(service.pid());
    drop_caches().unwrap();
    Some((service, (scheduler, slowed)))
}

#[test]
fn an_app_is_held_until_its_first_region_has_arrived() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let Some(scheduler) = hold(&image, 5_000, |_| ()) else {
        return;
    };
    let mut service = image.start();
    let line = image.launch_cold(&mut service, "app");
    assert!(line.contains("kind=Prefetched"), "{line}");
    assert!(line.contains("note=\"held for "), "{line}");
    // Warm, it waits for nothing.
    image.launch("app");
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("kind=Prefetched"), "{line}");
    service.stop();

    // A shell starts it by vfork(2) and would stand still.
    image.script("starter", "/app\ntrue");
    let mut service = image.start();
    drop_caches().unwrap();
    image.launch("starter");
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("kind=Prefetched"), "{line}");
    assert!(!line.contains("held for"), "{line}");
    service.stop();

    // Switched off, or with a scheduler that sorts.
    for is_off in [true, false] {
        let text = if is_off {
            "prefetch.hold = false\n"
        } else {
            ""
        };
        image.configure(text);
        assert!(is_off || scheduler.choose("mq-deadline"));
        let mut service = image.start();
        let line = image.launch_cold(&mut service, "app");
        assert!(line.contains("kind=Prefetched"), "{line}");
        assert!(!line.contains("held for"), "{line}");
        service.stop();
    }
}

#[test]
fn an_app_whose_drive_stands_still_is_let_go() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let Some((mut service, _slow)) = held_on_a_drive_that_stands_still(&image, 700) else {
        return;
    };
    let begun = Instant::now();
    let app = image.spawn("app");
    service.line(&["held for what is read ahead"]);
    app.succeed();
    assert!(begun.elapsed() >= Duration::from_millis(700));
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("held for too long and let go"), "{line}");
    service.stop();
}

#[test]
fn an_app_that_is_held_goes_on_when_the_service_ends_or_is_killed() {
    for kill in [true, false] {
        let Some((image, _turn)) = set_up() else {
            return;
        };
        image.script("app", "echo >/begun; cat /data/*");
        let Some((mut service, _slow)) = held_on_a_drive_that_stands_still(&image, 5_000) else {
            return;
        };
        std::fs::remove_file(image.root.path().join("begun")).unwrap();
        let app = image.spawn("app");
        service.line(&["held for what is read ahead"]);
        match kill {
            true => service.kill(),
            false => service.stop(),
        }
        app.succeed();
        assert!(image.root.path().join("begun").exists());
    }
}

#[test]
fn an_app_that_is_held_goes_on_when_its_drive_is_lost() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let Some((mut service, _slow)) = held_on_a_drive_that_stands_still(&image, 5_000) else {
        return;
    };
    let mut app = image.spawn("app");
    service.line(&["held for what is read ahead"]);
    image.root.image.pull_out();
    // It fails, as it would without the service.
    until("it has ended", || app.0.try_wait().unwrap().is_some());
    service.stop();
}
