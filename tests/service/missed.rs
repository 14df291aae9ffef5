//! What prefetched launches read themselves because their profile lacks it.

use std::fs;
use std::path::Path;
use std::process::Command;

use paralfetch::profile::Store;
use paralfetch::service::config::HistoryConfig;
use paralfetch::service::history::{FILE_NAME, FileReads, History};
use serde_json::Value;

use crate::running::{Image, Running};
use crate::set_up;
use common::drop_caches;
use common::fake_bus::{APP, make_pipes, reading, served};
use common::reads::{prefetch, profile, reads_of_launch};
use common::root::{WHOLE, pages_of};

/// A file that launches need from some day on.
const NEEDED: usize = 50;

/// Files that one launch each reads by chance.
const CHANCE: std::ops::Range<usize> = 51..60;

/// Launches the app from empty caches, each time with another file by chance, until what they miss has joined the
/// profile. It may be scheduled anew, or learned again, meanwhile.
fn until_joined(image: &Image, service: &mut Running, launch: impl Fn(usize)) {
    let mut prefetched = 0;
    for chance in CHANCE {
        drop_caches();
        launch(chance);
        let line = service.launch_of(&image.id("app"));
        if !line.contains("kind=Prefetched") {
            continue;
        }
        prefetched += 1;
        service.line(&["what the launch missed was noted"]);
        if !pages(&image.root.show("app"), NEEDED).is_empty() {
            assert!(prefetched > 1, "one launch proves nothing");
            return;
        }
    }
    panic!("nothing has joined in {prefetched} prefetched launches");
}

fn pages(profile: &Value, file: usize) -> Vec<u64> {
    pages_of(profile, &format!("/data/{file}"))
}

fn assert_joined(image: &Image) {
    let shown = image.root.show("app");
    assert!(pages(&shown, NEEDED).into_iter().eq(WHOLE));
    for chance in CHANCE {
        assert!(pages(&shown, chance).is_empty(), "/data/{chance}");
    }
    // Schedule and sequence name the same files, so that the one is made from the other again.
    let schedule = profile(&image.root, "app");
    let store = Store::open(image.root.state.path()).unwrap();
    let sequence = store.load_sequence(schedule.app.key()).unwrap().unwrap();
    assert_eq!(schedule.files, sequence.files);
}

/// The history names the file of launches that have read it themselves.
fn assert_named(image: &Image) {
    let path = image.root.state.path().join(FILE_NAME);
    let (history, _) = History::open(&path, HistoryConfig::default()).unwrap();
    let launches = history.launches(None, None, usize::MAX).unwrap();
    let needed = image.root.path().join(format!("data/{NEEDED}"));
    let is_named = |file: &FileReads| {
        Path::new(&file.path) == needed
            && file.not_in_profile_bytes == 4096 * (WHOLE.end - WHOLE.start)
    };
    let own_reads = launches.iter().map(|launch| launch.own_reads.as_deref());
    let with_it = own_reads.filter(|files| files.unwrap_or_default().iter().any(is_named));
    assert!(with_it.count() >= 2, "{launches:?}");
}

#[test]
fn what_launches_read_from_some_day_on_joins_their_profile() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let list = image.root.path().join("list");
    // What comes after the last pages of the launch that was learned is no part of it. And the app reads so much that it is
    // not learned again for what it misses: a launch of milliseconds is over before its look-ups are recorded.
    let known = "/data/[1-4]? /data/[6-9]? /data/1??";
    let reads = |files: &str| fs::write(&list, format!("{files} {known}\n")).unwrap();
    reads("");
    image.script("app", "read -r files < /list; cat $files");
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    until_joined(&image, &mut service, |chance| {
        reads(&format!(" /data/{NEEDED} /data/{chance}"));
        image.root.image.sync();
        drop_caches();
        image.launch("app");
    });
    // Nothing of it is missed any more.
    reads(&format!(" /data/{NEEDED}"));
    image.root.image.sync();
    image.prefetch_in_the_end(&mut service, "app");
    service.stop();
    assert_joined(&image);
    assert_named(&image);
    drop_caches();
    prefetch(&image.root, "app");
    assert_eq!(reads_of_launch(image.root.path(), &["/app"]), 0);
}

#[test]
fn so_does_what_a_service_reads_that_the_bus_starts_for_them() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    make_pipes(image.root.path());
    image.script("app", APP);
    image.enable("app");
    let mut service = image.start();
    service.ready_to_learn();
    let serve = |files: &[usize]| {
        let reading = reading(image.root.path(), 0, files);
        let mut app = Command::new("chroot");
        app.arg(image.root.path()).arg("/app");
        served(image.root.path(), &reading, app);
    };
    serve(&[3]);
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("kind=Learned"), "{line}");
    image.until_stored("app");
    until_joined(&image, &mut service, |chance| serve(&[NEEDED, chance]));
    service.stop();
    assert_joined(&image);
}
