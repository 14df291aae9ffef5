//! Two drives with one UUID: one that was learned, and a copy of it, as somebody has who has just moved to a new drive.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::running::{Running, make_pipe, number, prefetched_in_the_end};
use crate::set_up;
use common::drop_caches;
use common::reads::device_reads;
use common::root::{FILES, PAGES};

/// What an app reads of the image's data, in bytes.
const DATA: u64 = (FILES * PAGES * 4096) as u64;

/// Under another number first, and then under the one that the drive had when it was learned.
#[test]
fn an_app_on_a_drive_with_a_copy_is_prefetched_from_the_drive_that_it_lies_on() {
    let Some((mut image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    image.until_recorded("app");
    for is_swapped in [false, true] {
        let former = image.root.image.device().to_owned();
        if is_swapped {
            image.root.image.unmount();
            image.root.image.reattach();
        }
        let copy = image.root.image.copy(is_swapped.then_some(&*former));
        assert_eq!(copy.device() == former, is_swapped);
        drop_caches();
        let before = device_reads(copy.mount_point());
        let line = prefetched_in_the_end(|| image.launch_cold(&mut service, "app"));
        assert!(number(&line, "prefetched_bytes") > 1 << 20, "{line}");
        assert!(!line.contains("the same UUID"), "{line}");
        assert_eq!(
            device_reads(copy.mount_point()),
            before,
            "the copy is left alone"
        );
    }
    service.stop();
}

#[test]
fn what_may_lie_on_either_of_two_drives_is_read_from_neither_and_that_is_said() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    // The app lies elsewhere, and its data on the drive.
    let elsewhere = tempfile::tempdir().unwrap();
    let app = elsewhere.path().join("app");
    let data = image.root.path().join("data");
    // It reads nothing before it is let: what is read ahead for it does not depend on who is faster.
    let pipe_path = elsewhere.path().join("pipe");
    let mut pipe = make_pipe(&pipe_path);
    let script = format!(
        "#!/bin/sh\nread line < {}\ncat {}/*\n",
        pipe_path.display(),
        data.display()
    );
    fs::write(&app, script).unwrap();
    fs::set_permissions(&app, fs::Permissions::from_mode(0o755)).unwrap();
    let id = app.to_str().unwrap();
    let enabled = image.paralfetch(&["enable", id]);
    assert!(enabled.status.success(), "{enabled:?}");
    let mut service = image.start();
    let mut launch = |service: &mut Running| {
        drop_caches();
        let mut launched = Command::new(&app).stdout(Stdio::null()).spawn().unwrap();
        let begins = service.line(&["launch begins"]);
        if begins.contains("plan=Prefetch") {
            let launch = format!("launch={}", number(&begins, "launch"));
            service.until_said(&["nothing more is read ahead", &launch]);
        }
        pipe.write_all(b"\n").unwrap();
        assert!(launched.wait().unwrap().success());
        service.launch_of(id)
    };
    service.ready_to_learn();
    let line = launch(&mut service);
    assert!(line.contains("kind=Learned"), "{line}");
    image.until_stored("app");
    let copy = image.root.image.copy(None);
    let before = device_reads(copy.mount_point());
    let line = prefetched_in_the_end(|| launch(&mut service));
    let places = [image.root.path(), copy.mount_point()].map(|place| place.display().to_string());
    assert!(line.contains("have the same UUID"), "{line}");
    assert!(places.iter().all(|place| line.contains(place)), "{line}");
    // Of its data, nothing was read ahead; programs and libraries of this system, which were, are less than half of that.
    assert!(number(&line, "prefetched_bytes") < DATA / 2, "{line}");
    assert_eq!(device_reads(copy.mount_point()), before);
    drop(copy);
    let line = prefetched_in_the_end(|| launch(&mut service));
    assert!(!line.contains("the same UUID"), "{line}");
    assert!(number(&line, "prefetched_bytes") > DATA / 2, "{line}");
    service.stop();
}
