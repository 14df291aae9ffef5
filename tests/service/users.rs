//! Launches of several users: what one of them shows decides nothing about those of the others.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use paralfetch::fs::residency;
use paralfetch::profile::Store;

use crate::running::{Image, Running, number};
use crate::{seen_early_and_late, set_up};
use common::root::content;
use common::until;
use common::{Mounted, drop_caches, succeed};

/// Two users and root.
const USERS: [u32; 3] = [54_321, 54_322, 0];

/// Size of the file that each of them reads alone, in pages.
const PAGES: usize = 256;

/// An app that reads the file in its argument, one for each user, and that the administrator has named.
fn prepare(image: &Image) {
    image.script("app", "cat /data/1? \"$1\"");
    fs::create_dir(image.root.path().join("own")).unwrap();
    for user in USERS {
        fs::write(own_file(image, user), content(1, PAGES)).unwrap();
    }
    image.enable("app");
}

fn own_file(image: &Image, user: u32) -> PathBuf {
    image.root.path().join(format!("own/{user}"))
}

/// What launches the app in that root directory as the user of this id, with this user's file.
fn app(root: &Path, id: u32, user: u32) -> String {
    let root = root.display();
    format!("exec chroot --userspec={id}:{id} {root} /app /own/{user} >/dev/null")
}

/// Has this user launch the app from empty caches; returns what the service says of it.
fn launch(image: &Image, service: &mut Running, user: u32) -> String {
    drop_caches();
    succeed(Command::new("sh").args(["-c", &app(image.root.path(), user, user)]));
    let line = service.launch_of(&image.id("app"));
    assert_eq!(number(&line, "uid"), u64::from(user), "{line}");
    line
}

/// Launches it until that is learned. No recorder waits for the first launch if another user has learned the app already,
/// and it may be seen too late.
fn learn(image: &Image, service: &mut Running, user: u32) {
    until("it is learned", || {
        let line = launch(image, service, user);
        assert!(!line.contains("kind=Prefetched"), "{line}");
        only_his_is_cached(image, user);
        // What lacks the first moments is learned again.
        line.contains("kind=Learned") && !line.contains("its first moments")
    });
}

/// Checks that of the users' own files this user's alone is cached.
fn only_his_is_cached(image: &Image, user: u32) {
    for other in USERS {
        let file = File::open(own_file(image, other)).unwrap();
        let cached = residency::cached(file.as_fd(), &(0..PAGES as u64)).unwrap();
        assert_eq!(cached.is_empty(), other != user, "{other}'s, of {user}");
    }
}

#[test]
fn what_a_user_launches_is_learned_and_prefetched_for_him_alone() {
    seen_early_and_late(|image| {
        prepare(image);
        let mut service = image.start();
        service.ready_to_learn();
        for user in USERS {
            learn(image, &mut service, user);
        }
        // The users take turns: what one of them reads is no evidence about the profiles of the others.
        for _ in 0..2 {
            for user in USERS {
                let line = launch(image, &mut service, user);
                assert!(line.contains("kind=Prefetched"), "{line}");
                only_his_is_cached(image, user);
            }
        }
        service.stop();
        let expected = USERS.map(|user| (user, vec![user]));
        assert_eq!(own_files_of_profiles(image), expected.into());
    });
}

/// By user, the users whose own files his profile reads.
fn own_files_of_profiles(image: &Image) -> BTreeMap<u32, Vec<u32>> {
    let store = Store::create(image.root.state.path()).unwrap();
    let profiles = store.list().unwrap().into_iter();
    let profiles = profiles.map(|stored| stored.profile.unwrap());
    profiles
        .map(|profile| {
            let paths = profile.files.into_iter().filter_map(|file| file.path);
            let names = paths.map(|path| String::from_utf8(path).unwrap());
            let own = names.filter_map(|name| name.strip_prefix("/own/")?.parse().ok());
            (profile.app.uid, own.collect())
        })
        .collect()
}

#[test]
fn the_ids_of_a_users_own_namespace_are_his() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    prepare(&image);
    let user = USERS[0];
    // Where the user can reach it by himself.
    let opt = tempfile::tempdir_in("/opt").unwrap();
    let _opt = Mounted::bind(image.root.path(), opt.path());
    let mut service = image.start();
    service.ready_to_learn();
    learn(&image, &mut service, user);
    drop_caches();
    let script = format!("read mapped && {}", app(opt.path(), 0, user));
    let mut subordinate = Command::new("setpriv")
        .args([format!("--reuid={user}"), format!("--regid={user}")])
        .args(["--clear-groups", "unshare", "--user", "--keep-caps"])
        .args(["sh", "-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let proc = PathBuf::from(format!("/proc/{}", subordinate.id()));
    let namespace = || fs::read_link(proc.join("ns/user")).unwrap();
    let ours = fs::read_link("/proc/self/ns/user").unwrap();
    until("it has its namespace", || namespace() != ours);
    // As newuidmap(1) does for a user with subordinate ids.
    for map in ["uid_map", "gid_map"] {
        fs::write(proc.join(map), format!("0 300000 1\n1 {user} 1\n")).unwrap();
    }
    let mut mapped = subordinate.stdin.take().unwrap();
    mapped.write_all(b"yes\n").unwrap();
    assert!(subordinate.wait().unwrap().success());
    let line = service.launch_of(&image.id("app"));
    assert_eq!(number(&line, "uid"), u64::from(user), "{line}");
    assert!(line.contains("kind=Prefetched"), "{line}");
}
