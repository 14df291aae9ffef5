use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{FileType, Mode};

use super::super::generate::sample;
use super::*;

/// Whose the sample profiles are.
const USER: u32 = 1000;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(dir.path()).expect("just made");
    (dir, store)
}

/// A store with one profile.
fn store_of(app: &str) -> (tempfile::TempDir, Store, Profile, PathBuf) {
    let (dir, store) = store();
    let profile = sample(app);
    let path = store.save(&profile).expect("saved");
    (dir, store, profile, path)
}

fn mode(path: &Path) -> u32 {
    let found = fs::metadata(path).expect("exists");
    found.permissions().mode() & 0o7777
}

/// Holds an error against parts of its one line.
#[track_caller]
fn check_error<T>(result: Result<T, StoreError>, parts: &[&str]) {
    let line = result.err().expect("an error").to_string();
    for part in parts {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(line.lines().count(), 1, "{line}");
}

#[test]
fn profiles_are_saved_loaded_listed_and_removed() {
    let (_dir, store, gimp, path) = store_of("/usr/bin/gimp");
    assert_eq!(mode(&path), 0o600);
    store.save(&sample("/usr/bin/vim")).expect("saved");
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
fn a_name_finds_its_app() {
    let (_dir, store) = store();
    let (one, other, mut image) = (sample("/usr/bin/vi"), sample("/opt/vi"), sample("/bin/ed"));
    image.app.root = Some(b"/images/sid/".to_vec());
    for app in [&one, &other, &image] {
        store.save(app).expect("saved");
    }
    let find = |name: &str| store.find(USER, name.as_ref());
    for (name, found) in [
        ("/opt/vi", Some(&other)),
        ("ed", Some(&image)),
        ("/images/sid/bin/ed", Some(&image)),
        ("/bin/ed", Some(&image)),
        ("/ed", None),
        ("emacs", None),
        ("", None),
    ] {
        assert_eq!(find(name).expect("fine").as_ref(), found, "{name}");
    }
    check_error(find("vi"), &["/usr/bin/vi", "/opt/vi"]);
    // The system's own app comes before one of an image.
    let system = sample("/bin/ed");
    store.save(&system).expect("saved");
    assert_eq!(find("/bin/ed").expect("fine"), Some(system));
    // Apps of one name do not collide.
    for app in [one, other, image] {
        assert_eq!(store.load(app.app.key()).expect("fine"), Some(app));
    }
}

#[test]
fn profiles_of_one_app_are_kept_for_each_user() {
    let (_dir, store) = store();
    let mine = sample("/usr/bin/vi");
    let mut others = mine.clone();
    others.app.uid += 1;
    others.created += 1;
    store.save(&mine).expect("saved");
    store.save(&others).expect("saved");
    let find = |uid| store.find(uid, "vi".as_ref());
    assert_eq!(find(USER).expect("fine"), Some(mine.clone()));
    assert_eq!(find(USER + 1).expect("fine"), Some(others.clone()));
    check_error(find(0), &["/usr/bin/vi of user 1000", "of user 1001"]);
    let all = |name: &str| store.find_all(name.as_ref());
    assert_eq!(all("vi").expect("fine").len(), 2);
    assert!(all("emacs").expect("fine").is_empty());
    let other = sample("/opt/vi");
    store.save(&other).expect("saved");
    check_error(all("vi"), &["/opt/vi", "/usr/bin/vi"]);
    assert_eq!(all("/usr/bin/vi").expect("fine").len(), 2);
    assert!(store.remove(other.app.key()).expect("removable"));
    assert!(store.remove(mine.app.key()).expect("removable"));
    assert_eq!(store.load(mine.app.key()).expect("fine"), None);
    // That of another is found if there is no other.
    assert_eq!(find(USER).expect("fine"), Some(others));
}

#[test]
fn names_are_sanitised() {
    let name = |path: &[u8]| {
        let (uid, root) = (USER, None);
        file_name(AppKey { uid, path, root }, SUFFIX)
    };
    assert!(name(b"/usr/bin/gimp-2.10").starts_with("gimp-2.10-"));
    assert!(name(b"/opt/.hidden app\xff\n").starts_with("_hidden_app__-"));
    assert!(name(&[b"/".as_slice(), &[b'x'; 255]].concat()).len() < 128);
    assert!(name(b"/").starts_with('-'));
}

#[test]
fn a_damaged_profile_is_reported_with_its_name_and_the_remedy() {
    let (_dir, store, bad, path) = store_of("/bin/bad");
    let good = sample("/bin/good");
    store.save(&good).expect("saved");
    fs::write(&path, b"\x89paralf").expect("written");
    let parts = ["cut short", path.to_str().unwrap(), "paralfetch learn"];
    check_error(store.load(bad.app.key()), &parts);
    check_error(store.find(USER, "bad".as_ref()), &parts);
    check_error(store.find(USER, "/bin/bad".as_ref()), &parts);
    let listed = store.list().expect("listed");
    let usable = listed.iter().filter(|found| found.profile.is_ok());
    assert_eq!((listed.len(), usable.count()), (2, 1));
    assert_eq!(store.find(USER, "good".as_ref()).expect("fine"), Some(good));
    store.save(&bad).expect("saved");
    let file = fs::OpenOptions::new().write(true).open(&path);
    file.unwrap().set_len(1 << 40).expect("sparse");
    check_error(store.load(bad.app.key()), &["too many bytes"]);
    assert!(store.remove(bad.app.key()).expect("removable"));
}

#[test]
fn files_of_others_are_not_trusted() {
    let (dir, store, app, path) = store_of("/bin/true");
    let refused = |why: &str| {
        let trusted = "is not to be trusted";
        check_error(store.load(app.app.key()), &[trusted, why]);
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
    let _socket = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    refused("not a regular file");
}

#[test]
fn another_users_file_is_not_trusted() {
    if !rustix::process::geteuid().is_root() {
        let required = std::env::var_os("PARALFETCH_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
        assert!(!required, "only root can give a file to another user");
        eprintln!("SKIPPED: only root can give a file to another user");
        return;
    }
    let (_dir, store, app, path) = store_of("/bin/true");
    std::os::unix::fs::chown(&path, Some(65_534), None).expect("root may");
    check_error(store.load(app.app.key()), &["belongs to another user"]);
}

#[test]
fn an_invalid_profile_leaves_the_old_one() {
    let (dir, store, good, path) = store_of("/bin/true");
    let mut bad = good.clone();
    bad.history.clear();
    let parts = ["cannot write profile", path.to_str().unwrap(), "parameters"];
    check_error(store.save(&bad), &parts);
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
    let (missing, file) = (dir.path().join("missing"), dir.path().join("file"));
    fs::write(&file, b"").expect("written");
    let plain = |path: &Path| path.to_str().expect("plain").to_owned();
    check_error(Store::open(&missing), &["directory", &plain(&missing)]);
    check_error(Store::open(&file), &["directory", &plain(&file)]);
    check_error(Store::create(&file), &["directory", &plain(&file)]);
    check_error(Store::create(&file.join("x")), &[&plain(&file)]);
    let path = plain(dir.path());
    drop(dir);
    check_error(gone.list(), &[&path]);
    check_error(gone.save(&sample("/bin/true")), &[&path]);
    let none = gone.load(sample("/bin/true").app.key());
    assert_eq!(none.expect("none"), None);
}
