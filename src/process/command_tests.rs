use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    for directory in ["a", "b", "b/tool"] {
        fs::create_dir(tree.path().join(directory)).unwrap();
    }
    for (file, mode) in [("a/plain", 0o644), ("a/tool", 0o755), ("b/plain", 0o755)] {
        let file = tree.path().join(file);
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }
    tree
}

fn search(root: Option<&Path>, base: &Path) -> Search {
    let mut search = Search::new(root, None).unwrap();
    if root.is_none() {
        search.base = base.into();
    }
    search
}

fn argv(name: &str) -> Vec<OsString> {
    vec![name.into(), "argument".into()]
}

#[test]
fn path_passes_over_what_cannot_be_executed() {
    let tree = tree();
    let find = |name, path: &str| search(None, tree.path()).find(&argv(name), path.as_ref());

    let found = find("plain", "a:b").unwrap();
    assert_eq!(found.path(), tree.path().join("b/plain"));
    assert_eq!(found.file(), Path::new("b/plain"));
    assert_eq!(found.argv(), argv("plain"));

    assert_eq!(
        find("tool", "b:a").unwrap().path(),
        tree.path().join("a/tool")
    );
    let error = find("tool", "b:nowhere").unwrap_err();
    assert_eq!(error.exit_code(), 126);
    assert!(error.to_string().ends_with("it is a directory"), "{error}");
    let error = find("plain", "a").unwrap_err();
    assert_eq!(error.exit_code(), 126);
    let error = find("none", "a:b").unwrap_err();
    assert_eq!(error.to_string(), "command not found: none");
    assert_eq!(error.exit_code(), 127);
    assert_eq!(find("", "a:b").unwrap_err().exit_code(), 127);
}

#[test]
fn an_empty_element_of_path_is_the_working_directory() {
    let tree = tree();
    let base = tree.path().join("a");
    let found = search(None, &base)
        .find(&argv("tool"), "/nowhere:".as_ref())
        .unwrap();
    assert_eq!(found.path(), base.join("tool"));
    assert_eq!(found.file(), Path::new("./tool"));
}

#[test]
fn a_path_with_a_slash_is_taken_as_it_is() {
    let tree = tree();
    let find = |name| search(None, tree.path()).find(&argv(name), "b".as_ref());
    let found = find("./a//tool").unwrap();
    assert_eq!(found.path(), tree.path().join("a/tool"));
    assert_eq!(found.file(), Path::new("./a//tool"));
    assert_eq!(find("a/none").unwrap_err().exit_code(), 127);
    assert_eq!(find("a/tool/").unwrap_err().exit_code(), 127);
    assert_eq!(find("a/plain").unwrap_err().exit_code(), 126);
}

#[test]
fn a_link_keeps_its_path_and_has_the_inode_of_its_target() {
    let tree = tree();
    symlink("tool", tree.path().join("a/link")).unwrap();
    let found = search(None, tree.path())
        .find(&argv("link"), "a".as_ref())
        .unwrap();
    let target = fs::metadata(tree.path().join("a/tool")).unwrap();
    assert_eq!(found.path(), tree.path().join("a/link"));
    assert_eq!(found.inode(), (target.dev(), target.ino()));
    assert_eq!(found.root(), None);
}

#[test]
fn absolute_links_stay_inside_the_root() {
    let tree = tree();
    symlink("/a/tool", tree.path().join("b/link")).unwrap();
    symlink("/a", tree.path().join("bin")).unwrap();
    symlink("../../../../a/tool", tree.path().join("b/climber")).unwrap();
    let find = |name| search(Some(tree.path()), Path::new("/")).find(&argv(name), "/bin".as_ref());
    let inode = fs::metadata(tree.path().join("a/tool")).unwrap().ino();
    for (name, path) in [
        ("tool", "/bin/tool"),
        ("b/link", "/b/link"),
        ("/b/climber", "/b/climber"),
        ("../a/tool", "/../a/tool"),
    ] {
        let found = find(name).unwrap();
        assert_eq!(found.path(), Path::new(path), "{name}");
        assert_eq!(found.inode().1, inode, "{name}");
    }
    assert_eq!(find("/usr/bin/env").unwrap_err().exit_code(), 127);
    let root = fs::canonicalize(tree.path()).unwrap();
    assert_eq!(find("tool").unwrap().root(), Some(root.as_path()));
}

#[test]
fn a_root_must_be_a_directory() {
    let tree = tree();
    for root in ["a/tool", "nowhere"] {
        let error = Command::find(&argv("tool"), Some(&tree.path().join(root))).unwrap_err();
        assert!(
            matches!(error, CommandError::RootNotADirectory { .. }),
            "{error}"
        );
        assert_eq!(error.exit_code(), 125);
    }
}

#[test]
fn odd_names_are_errors() {
    assert_eq!(Command::find(&[], None).unwrap_err().exit_code(), 125);
    let long = argv(&"x".repeat(10_000));
    assert_eq!(Command::find(&long, None).unwrap_err().exit_code(), 126);
    let tree = tree();
    symlink("loop", tree.path().join("a/loop")).unwrap();
    let error = search(None, tree.path())
        .find(&argv("a/loop"), "".as_ref())
        .unwrap_err();
    assert!(matches!(error, CommandError::LookUp { .. }), "{error}");
}

#[test]
fn the_bits_of_the_users_own_class_decide() {
    let tree = tree();
    let file = tree.path().join("a/tool");
    let mut stat = rustix::fs::stat(&file).unwrap();
    (stat.st_uid, stat.st_gid) = (1000, 100);
    let mut may = |uid, groups: &[u32], mode: u32| {
        let mut search = search(None, tree.path());
        (search.uid, search.groups) = (uid, groups.to_vec());
        stat.st_mode = 0o100_000 | mode;
        search.may_execute(&stat)
    };
    assert!(may(1000, &[5], 0o700));
    assert!(!may(1000, &[100], 0o677));
    assert!(may(7, &[5, 100], 0o010));
    assert!(!may(7, &[5, 100], 0o701));
    assert!(may(7, &[5], 0o001));
    assert!(may(0, &[0], 0o010));
    assert!(!may(0, &[0], 0o666));
}
