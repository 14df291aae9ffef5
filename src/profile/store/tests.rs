use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{FileType, Mode};

use super::super::generate::sample;
use super::*;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(dir.path()).expect("just made");
    (dir, store)
}

fn mode(path: &Path) -> u32 {
    let found = fs::metadata(path).expect("exists");
    found.permissions().mode() & 0o7777
}

#[test]
fn what_is_saved_is_loaded_listed_and_removed() {
    let (_dir, store) = store();
    let (gimp, vim) = (sample("/usr/bin/gimp"), sample("/usr/bin/vim"));
    let path = store.save(&gimp).expect("saved");
    assert_eq!(mode(&path), 0o600);
    store.save(&vim).expect("saved");
    let newer = Profile {
        created: 9,
        ..gimp.clone()
    };
    assert_eq!(store.save(&newer).expect("replaced"), path);
    assert_eq!(store.load(gimp.app.key()).expect("fine"), Some(newer));
    let listed = store.list().expect("listed");
    let apps = listed
        .iter()
        .map(|found| &found.profile.as_ref().expect("fine").app.path[..]);
    assert!(apps.eq([b"/usr/bin/gimp".as_slice(), b"/usr/bin/vim"]));
    assert!(store.remove(gimp.app.key()).expect("removed"));
    assert!(!store.remove(gimp.app.key()).expect("not there"));
    assert_eq!(store.load(gimp.app.key()).expect("fine"), None);
    assert_eq!(store.list().expect("listed").len(), 1);
}

#[test]
fn apps_of_one_name_do_not_collide() {
    let (_dir, store) = store();
    let mut apps = vec![
        sample("/usr/bin/vi"),
        sample("/opt/bin/vi"),
        sample("/usr/bin/vi"),
    ];
    apps[2].app.root = Some(b"/images/sid".to_vec());
    for app in &apps {
        store.save(app).expect("saved");
    }
    for app in apps {
        assert_eq!(store.load(app.app.key()).expect("fine"), Some(app));
    }
}

#[test]
fn a_name_finds_its_app() {
    let (_dir, store) = store();
    let (one, other, mut image) = (sample("/usr/bin/vi"), sample("/opt/vi"), sample("/bin/ed"));
    image.app.root = Some(b"/images/sid/".to_vec());
    for app in [&one, &other, &image] {
        store.save(app).expect("saved");
    }
    let find = |name: &str| store.find(name.as_ref());
    assert_eq!(find("/opt/vi").expect("fine"), Some(other));
    assert_eq!(find("ed").expect("fine"), Some(image.clone()));
    assert_eq!(
        find("/images/sid/bin/ed").expect("fine"),
        Some(image.clone())
    );
    assert_eq!(find("/bin/ed").expect("fine"), Some(image.clone()));
    assert_eq!(find("/ed").expect("fine"), None);
    let system = sample("/bin/ed");
    store.save(&system).expect("saved");
    assert_eq!(find("/bin/ed").expect("fine"), Some(system));
    assert_eq!(find("emacs").expect("fine"), None);
    assert_eq!(find("").expect("fine"), None);
    let error = find("vi").expect_err("two").to_string();
    assert!(error.contains("/usr/bin/vi") && error.contains("/opt/vi"));
}

#[test]
fn names_are_sanitised() {
    let name = |path: &[u8]| file_name(AppKey { path, root: None });
    assert!(name(b"/usr/bin/gimp-2.10").starts_with("gimp-2.10-"));
    assert!(name(b"/opt/.hidden app\xff\n").starts_with("_hidden_app__-"));
    assert!(name(&[b"/".as_slice(), &[b'x'; 255]].concat()).len() < 128);
    assert!(name(b"/").starts_with('-'));
}

#[test]
fn a_damaged_profile_is_reported_with_its_name_and_the_remedy() {
    let (_dir, store) = store();
    let (good, bad) = (sample("/bin/good"), sample("/bin/bad"));
    store.save(&good).expect("saved");
    let path = store.save(&bad).expect("saved");
    fs::write(&path, b"\x89paralf").expect("written");
    let errors = [
        store.load(bad.app.key()).expect_err("damaged"),
        store.find("bad".as_ref()).expect_err("damaged"),
        store.find("/bin/bad".as_ref()).expect_err("damaged"),
    ];
    for error in errors {
        let line = error.to_string();
        assert!(matches!(error, StoreError::Damaged { .. }), "{line}");
        assert!(line.contains(path.to_str().expect("plain")), "{line}");
        assert!(line.contains("paralfetch learn"), "{line}");
    }
    let listed = store.list().expect("listed");
    assert_eq!(
        listed.iter().filter(|found| found.profile.is_ok()).count(),
        1
    );
    assert_eq!(store.find("good".as_ref()).expect("fine"), Some(good));
    assert!(store.remove(bad.app.key()).expect("removable"));
}

#[test]
fn files_of_others_are_not_trusted() {
    let (dir, store) = store();
    let app = sample("/bin/true");
    let path = store.save(&app).expect("saved");
    let refused = |why: &str| {
        let error = store.load(app.app.key()).expect_err("not to be trusted");
        assert!(matches!(error, StoreError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    };
    for writable in [0o620, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(writable)).expect("own file");
        refused("others may write");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("own file");
    assert_eq!(store.load(app.app.key()).expect("fine"), Some(app.clone()));

    let elsewhere = dir.path().join("elsewhere");
    fs::rename(&path, &elsewhere).expect("renamed");
    symlink(&elsewhere, &path).expect("linked");
    refused("symbolic link");
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("made");
    refused("not a regular file");
    fs::remove_dir(&path).expect("removed");
    // Would wait for a writer for ever if it were opened in the usual way.
    let fifo = FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, Mode::RUSR, 0).expect("made");
    refused("not a regular file");
    fs::remove_file(&path).expect("removed");
    let socket = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    refused("not a regular file");
    drop(socket);
}

#[test]
fn another_users_file_is_not_trusted() {
    if !rustix::process::geteuid().is_root() {
        let required = std::env::var_os("PARALFETCH_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
        assert!(!required, "only root can give a file to another user");
        eprintln!("SKIPPED: only root can give a file to another user");
        return;
    }
    let (_dir, store) = store();
    let app = sample("/bin/true");
    let path = store.save(&app).expect("saved");
    std::os::unix::fs::chown(&path, Some(65_534), None).expect("root may");
    let error = store.load(app.app.key()).expect_err("another user's");
    assert!(error.to_string().contains("belongs to another user"));
}

#[test]
fn oversized_files_are_refused() {
    let (_dir, store) = store();
    let app = sample("/bin/true");
    let path = store.save(&app).expect("saved");
    let file = fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("own file");
    file.set_len(1 << 40).expect("sparse");
    let error = store.load(app.app.key()).expect_err("too large");
    let too_large = |cause: &FormatError| matches!(cause, FormatError::TooLarge { .. });
    assert!(matches!(error, StoreError::Damaged { cause, .. } if too_large(&cause)));
}

#[test]
fn an_invalid_profile_leaves_the_old_one() {
    let (dir, store) = store();
    let good = sample("/bin/true");
    store.save(&good).expect("saved");
    let mut bad = good.clone();
    bad.history.clear();
    let error = store.save(&bad).expect_err("no parameters");
    assert!(matches!(error, StoreError::Unwritable { .. }));
    assert_eq!(store.load(good.app.key()).expect("fine"), Some(good));
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 1);
}

#[test]
fn leftovers_of_a_crash_are_not_listed() {
    let (dir, store) = store();
    for name in [".new-abc.tmp", ".new-abc.pf", "notes.txt"] {
        fs::write(dir.path().join(name), b"x").expect("written");
    }
    assert!(store.list().expect("listed").is_empty());
}

#[test]
fn create_makes_a_private_directory() {
    let (dir, _store) = store();
    let deep = dir.path().join("a/b/profiles");
    Store::create(&deep).expect("made");
    assert_eq!(mode(&deep), 0o700);
    Store::create(&deep).expect("there already");
    Store::open(&deep).expect("there");
}

#[test]
fn a_missing_or_unusable_directory_is_named() {
    let (dir, gone) = store();
    let missing = dir.path().join("missing");
    let file = dir.path().join("file");
    fs::write(&file, b"").expect("written");
    for (error, named) in [
        (Store::open(&missing).expect_err("missing"), &missing),
        (Store::open(&file).expect_err("no directory"), &file),
        (Store::create(&file).expect_err("no directory"), &file),
        (
            Store::create(&file.join("x")).expect_err("below a file"),
            &file,
        ),
    ] {
        assert!(matches!(error, StoreError::Directory { .. }));
        let line = error.to_string();
        assert!(line.contains(named.to_str().expect("plain")), "{line}");
    }
    let path = dir.path().to_owned();
    drop(dir);
    for error in [
        gone.list().map(drop).expect_err("gone"),
        gone.save(&sample("/bin/true")).map(drop).expect_err("gone"),
    ] {
        assert!(error.to_string().contains(path.to_str().expect("plain")));
    }
    assert_eq!(
        gone.load(sample("/bin/true").app.key()).expect("none"),
        None
    );
}
