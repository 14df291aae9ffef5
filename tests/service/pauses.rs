//! Apps that go on after a pause, as those of updaters that ask the network first.

use std::ops::Range;

use paralfetch::model::Place;

use crate::running::{Image, Running, WAIT};
use crate::set_up;
use common::drop_caches;
use common::reads::{prefetch, profile, reads_of_launch};
use common::root::{WHOLE, pages_of};

/// Files that the app reads before its pause, and those that it reads after it.
const BEFORE: Range<usize> = 10..20;
const AFTER: Range<usize> = 20..30;

/// A launch is over soon, so that its app need not pause for long.
const SOON_OVER: &str = "[launch]\nquiet_window_ms = 500\nquiet_reads = 1\n";

/// Launches the app from empty caches, and lets it go on once that is written down. Returns what was said of the launch.
fn launch_with_pause(image: &Image, service: &mut Running) -> String {
    image.hold();
    service.ready_to_learn();
    drop_caches();
    let app = image.spawn("app");
    let line = service.launch_of(&image.id("app"));
    image.let_end();
    app.succeed();
    line
}

#[test]
fn what_comes_after_a_pause_is_learned_by_two_launches_and_read_ahead_at_its_place() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.configure(&format!("prefetch.max_learned_launches = 2\n{SOON_OVER}"));
    image.script("app", &format!("cat /data/1?; {WAIT}; cat /data/2?"));
    image.enable("app");
    let mut service = image.start();
    let is_in_profile = |file: usize| {
        let pages = pages_of(&image.root.show("app"), &format!("/data/{file}"));
        pages.into_iter().eq(WHOLE)
    };
    for has_joined in [false, true] {
        let line = launch_with_pause(&image, &mut service);
        assert!(line.contains("kind=Learned"), "{line}");
        service.line(&["what the launch missed was noted"]);
        assert!({ BEFORE }.all(is_in_profile));
        let joined = AFTER.filter(|&file| is_in_profile(file)).count();
        assert_eq!(joined, if has_joined { AFTER.len() } else { 0 });
    }
    service.stop();
    assert_order(&image);
    drop_caches();
    let report = prefetch(&image.root, "app");
    let files: Vec<String> = AFTER.map(|file| format!("/data/{file}")).collect();
    let mut command = vec!["/bin/cat"];
    command.extend(files.iter().map(String::as_str));
    let reads = reads_of_launch(image.root.path(), &command);
    assert_eq!(reads, 0, "{report:?}");
}

/// The profile has the files before the pause and those behind it in the order of the launch, and none of the latter for
/// a doubtful part of a window.
fn assert_order(image: &Image) {
    let profile = profile(&image.root, "app");
    let is_of = |place, start: &[u8]| match place {
        Place::Data { file } => {
            let path = profile.files[file as usize].path.as_deref();
            path.is_some_and(|path| path.starts_with(start))
        }
        Place::Metadata { .. } => false,
    };
    let [before, after] = [b"/data/1", b"/data/2"].map(|start| {
        let entries = profile.entries.iter();
        let of_files = entries.filter(|entry| is_of(entry.span.place, start));
        of_files.map(|entry| entry.time_us).collect::<Vec<_>>()
    });
    assert!(
        before.iter().max() < after.iter().min(),
        "{before:?} {after:?}"
    );
    let mut doubtful = profile.fault_around.iter();
    assert!(!doubtful.any(|span| is_of(span.place, b"/data/2")));
}

#[test]
fn what_an_app_executes_after_its_launch_is_a_launch_of_its_own() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.configure(SOON_OVER);
    image.script("other", "cat /data/2?");
    image.script("app", &format!("cat /data/1?; {WAIT}; /other"));
    image.enable("app");
    image.enable("other");
    let mut service = image.start();
    image.hold();
    service.ready_to_learn();
    let app = image.spawn("app");
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("kind=Learned"), "{line}");
    service.ready_to_learn();
    image.let_end();
    app.succeed();
    let line = service.launch_of(&image.id("other"));
    assert!(line.contains("kind=Learned"), "{line}");
    service.stop();
    let shown = image.root.show("other");
    for file in AFTER {
        let pages = pages_of(&shown, &format!("/data/{file}"));
        assert!(pages.into_iter().eq(WHOLE), "/data/{file}");
    }
}
