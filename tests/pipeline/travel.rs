//! Profiles that travel: exported from one image, imported on another.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::MutexGuard;

use paralfetch::model::Profile;
use paralfetch::profile::{PortableProfile, Store};
use serde_json::Value;

use crate::known::{known, metadata_needed, metadata_of};
use crate::set_up;
use common::reads::{prefetched, profile, reads_of_launch};
use common::root::{FILES, PAGES, Root, content, our_lines};
use common::{copy_time, drop_caches, succeed};

/// Exports an app of an image; returns the file.
fn export(root: &Root, app: &str) -> PathBuf {
    let file = root.state.path().join("exported.json");
    succeed(&mut root.paralfetch(&["export", "-o", file.to_str().unwrap(), app], &[]));
    file
}

/// An image with an app that was learned, and the file that it was exported to.
fn exported() -> Option<(Root, PathBuf, MutexGuard<'static, ()>)> {
    let (root, turn) = set_up()?;
    root.learn(&[], &Root::READ_ALL);
    let file = export(&root, "sh");
    Some((root, file, turn))
}

/// What imports a file for the apps of an image.
fn import(root: &Root, file: &Path) -> Command {
    let mut command = root.paralfetch(&["import"], &[]);
    command.arg("--root").arg(root.path()).arg(file);
    command
}

/// The profile that was made of what was imported.
fn imported(root: &Root, app: &str) -> Profile {
    let seeds = Store::open(&root.state.path().join("seeds")).unwrap();
    seeds.find(0, app.as_ref()).unwrap().unwrap()
}

/// Read requests of a cold launch that these entries were read ahead for.
fn reads_with(root: &Root, profile: Option<Profile>) -> u64 {
    drop_caches();
    if let Some(profile) = profile {
        let report = prefetched(profile);
        assert!(
            report.refused.is_none() && report.skipped.is_empty(),
            "{report:?}"
        );
    }
    reads_of_launch(root.path(), &Root::READ_ALL)
}

/// Gives each data file of the image another place, and the time of modification that it has on the other one, as the
/// files of a package have it.
fn lay_out_anew(root: &Root, other: &Root) {
    let data = |root: &Root, file: usize| root.path().join(format!("data/{file}"));
    fs::remove_dir_all(root.path().join("data")).unwrap();
    fs::create_dir(root.path().join("data")).unwrap();
    fs::write(root.path().join("padding"), content(0, 700)).unwrap();
    for file in (0..FILES).rev() {
        fs::write(data(root, file), content(file, PAGES)).unwrap();
        copy_time(&data(other, file), &data(root, file));
    }
    let ino = |root: &Root| fs::metadata(data(root, 3)).unwrap().ino();
    assert_ne!(ino(root), ino(other));
}

#[test]
fn a_profile_of_another_image_closes_nearly_what_one_learned_there_closes() {
    let Some((first, file, _turn)) = exported() else {
        return;
    };
    let second = Root::new();
    lay_out_anew(&second, &first);
    // Of another version, and of another size.
    fs::write(second.path().join("data/7"), content(8, PAGES)).unwrap();
    fs::write(second.path().join("data/9"), content(9, 2)).unwrap();

    let said = succeed(&mut import(&second, &file));
    assert!(
        said.contains("1 of another size, 1 of another version"),
        "{said}"
    );
    let cold = reads_with(&second, None);
    let with_imported = reads_with(&second, Some(imported(&second, "sh")));
    second.learn(&[], &Root::READ_ALL);
    let with_learned = reads_with(&second, Some(profile(&second, "sh")));
    let (closed, closable) = (
        cold.saturating_sub(with_imported),
        cold.saturating_sub(with_learned),
    );
    assert!(
        closable > 100 && closed * 10 >= closable * 9,
        "{cold} reads cold, {with_imported} with the imported profile, {with_learned} with the learned one"
    );
}

#[test]
fn look_ups_travel_with_the_pages() {
    let Some((root, _turn)) = known() else {
        return;
    };
    root.learn(&[], &["/known"]);
    let text = fs::read(export(&root, "known")).unwrap();
    let portable = PortableProfile::parse(&text).unwrap();
    let paths: Vec<&str> = portable
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    for path in [
        "/known",
        "/data/plain",
        "/data/child",
        "/deep/a/b/c/d/e/file",
    ] {
        assert!(paths.contains(&path), "{path}: {paths:?}");
    }
    let listed: Vec<&str> = portable
        .listings
        .iter()
        .map(|used| used.path.as_str())
        .collect();
    for path in ["/listed", "/looked", "/links"] {
        assert!(listed.contains(&path), "{path}: {listed:?}");
    }
    // No inode, no device, no user.
    let value: Value = serde_json::from_slice(&text).unwrap();
    let keys: BTreeSet<&str> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let known = [
        "app",
        "completion",
        "ended",
        "files",
        "listings",
        "look-ups",
        "paralfetch-profile",
        "reads",
    ];
    assert!(keys.is_subset(&known.into()), "{keys:?}");

    // On the same image all that the launch needs is found again, and little else.
    let file = root.state.path().join("exported.json");
    succeed(&mut import(&root, &file));
    succeed(&mut root.paralfetch(&["forget", "known"], &[]));
    succeed(&mut import(&root, &file));
    let shown = root.show("known");
    assert_eq!(shown["learned"], "imported");
    let needed = metadata_needed(&root);
    let metadata: BTreeSet<u64> = metadata_of(&shown).into_iter().collect();
    let missing: Vec<_> = needed.difference(&metadata).collect();
    assert!(missing.is_empty(), "{missing:?} of {needed:?}");
    assert!(
        metadata.len() <= needed.len() * 2,
        "{metadata:?} for {needed:?}"
    );

    // What not everybody may read does not travel.
    let private = root.path().join("data/child");
    fs::set_permissions(private, fs::Permissions::from_mode(0o600)).unwrap();
    root.learn(&[], &["/known"]);
    let portable = PortableProfile::parse(&fs::read(export(&root, "known")).unwrap()).unwrap();
    assert!(portable.files.iter().all(|file| file.path != "/data/child"));
}

#[test]
fn hostile_imports_are_refused_with_one_line_each() {
    let Some((root, good, _turn)) = exported() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let text = fs::read_to_string(&good).unwrap();
    symlink(&good, at("link")).unwrap();
    succeed(Command::new("mkfifo").arg(at("fifo")));
    File::create(at("long")).unwrap().set_len(9 << 20).unwrap();
    for (name, text) in [
        ("no-json", "not a profile".to_owned()),
        (
            "version",
            text.replace("\"paralfetch-profile\":1", "\"paralfetch-profile\":9"),
        ),
        ("upwards", text.replace("/data/", "/data/../data/")),
        ("relative", text.replace("\"/data/", "\"data/")),
        ("outside", text.replace("/data/", "/absent/")),
    ] {
        fs::write(at(name), text).unwrap();
    }
    let before = fs::read_dir(root.state.path()).unwrap().count();
    for (name, why) in [
        ("link", "symbolic link"),
        ("fifo", "not a regular file"),
        ("/dev/zero", "not a regular file"),
        ("long", "longer than"),
        ("absent", "No such file"),
        ("no-json", "no portable profile"),
        ("version", "format is 9"),
        ("upwards", "no plain absolute path"),
        ("relative", "no plain absolute path"),
        ("outside", "not there"),
    ] {
        let output = import(&root, &at(name)).output().unwrap();
        let lines = our_lines(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {output:?}");
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(why), "{name}: {lines:?}");
    }
    assert_eq!(fs::read_dir(root.state.path()).unwrap().count(), before);
}
