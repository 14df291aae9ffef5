//! Profiles that were learned elsewhere: the first launch here is prefetched, and learned as if there were none.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use paralfetch::model::Learned;
use paralfetch::profile::Store;

use crate::running::{Image, number};
use crate::set_up;
use common::root::FILES;
use common::{copy_time, drop_caches, succeed};

/// Gives the data of an image the times that they have on another, as those of a package.
fn same_times(from: &Image, to: &Image) {
    for file in 0..FILES {
        let at = |image: &Image| image.root.path().join(format!("data/{file}"));
        copy_time(&at(from), &at(to));
    }
}

#[test]
fn a_first_launch_is_prefetched_by_an_imported_profile_and_learned() {
    let Some((first, _turn)) = set_up() else {
        return;
    };
    first.enable("app");
    let mut service = first.start();
    first.learn(&mut service, "app");
    first.until_stored("app");
    service.stop();
    let file = first.root.state.path().join("app.json");
    let exported = first.paralfetch(&["export", "-o", file.to_str().unwrap(), &first.id("app")]);
    assert!(exported.status.success(), "{exported:?}");

    let second = Image::new();
    same_times(&first, &second);
    let mut import = second.root.paralfetch(&["import"], &[]);
    succeed(import.arg("--root").arg(second.root.path()).arg(&file));
    second.enable("app");
    let mut service = second.start();
    service.ready_to_learn();
    service.line(&["profiles from elsewhere"]);
    drop_caches();
    second.launch("app");
    let line = service.launch_of(&second.id("app"));
    assert!(line.contains("kind=Learned"), "{line}");
    assert!(number(&line, "prefetched_bytes") > 1 << 20, "{line}");
    second.until_stored("app");
    // From now on, by its own.
    let line = second.launch_cold(&mut service, "app");
    assert!(line.contains("kind=Prefetched"), "{line}");
    service.stop();
    let own = Store::open(second.root.state.path()).unwrap();
    let own = own.find(0, "app".as_ref()).unwrap().unwrap();
    assert_eq!(own.learned, Learned::Live);
}

#[test]
fn profiles_that_others_could_have_put_there_are_not_used() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let shipped = tempfile::Builder::new().tempdir_in("/var/lib").unwrap();
    let set = |mode| fs::set_permissions(shipped.path(), fs::Permissions::from_mode(mode)).unwrap();
    fs::write(shipped.path().join("damaged.json"), "{}").unwrap();
    for (mode, what, why) in [
        (0o777, "not looked at", "others may write it"),
        (0o755, "not used", "no portable profile"),
    ] {
        set(mode);
        let mut command = image.service();
        command.arg("--profiles-dir").arg(shipped.path());
        let mut service = image.start_command(command).ready();
        service.line(&[what, why]);
        service.stop();
    }
    // Nothing was made of them.
    assert!(!image.root.state.path().join("seeds").exists());
}
