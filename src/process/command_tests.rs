use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let at = |name: &str| tree.path().join(name);
    for directory in ["a", "b", "b/tool"] {
        fs::create_dir(at(directory)).unwrap();
    }
    for (file, mode) in [("a/plain", 0o644), ("a/tool", 0o755), ("b/plain", 0o755)] {
        fs::write(at(file), "#!/bin/sh\n").unwrap();
        fs::set_permissions(at(file), fs::Permissions::from_mode(mode)).unwrap();
    }
    for (target, link) in [
        ("tool", "a/link"),
        ("loop", "a/loop"),
        ("/a/tool", "b/link"),
        ("/a", "bin"),
        ("../../../../a/tool", "b/climber"),
    ] {
        symlink(target, at(link)).unwrap();
    }
    tree
}

fn argv(name: &str) -> Vec<OsString> {
    vec![name.into(), "argument".into()]
}

fn find(name: &str, path: &str, base: &Path) -> Result<Command, SpawnError> {
    let mut search = Search::new(None, None).unwrap();
    search.base = base.into();
    search.find(&argv(name), path.as_ref())
}

#[test]
fn programs_are_found_as_execvp_finds_them() {
    let tree = tree();
    let target = fs::metadata(tree.path().join("a/tool")).unwrap();
    // Name, PATH, the path that was found, and what execve is given.
    for (name, path, found_path, file) in [
        ("plain", "a:b", "b/plain", "b/plain"),
        ("tool", "b:a", "a/tool", "a/tool"),
        ("./a//tool", "b", "a/tool", "./a//tool"),
        // A link keeps its path.
        ("link", "a", "a/link", "a/link"),
    ] {
        let found = find(name, path, tree.path()).unwrap();
        assert_eq!(found.path(), tree.path().join(found_path), "{name}");
        assert_eq!(found.file(), Path::new(file), "{name}");
        assert_eq!((found.argv(), found.root()), (&argv(name)[..], None));
        let is_target = found.inode() == (target.dev(), target.ino());
        assert_eq!(is_target, name != "plain", "{name}");
    }
    // An empty element is the working directory.
    let base = tree.path().join("a");
    let found = find("tool", "/nowhere:", &base).unwrap();
    assert_eq!(found.path(), base.join("tool"));
    assert_eq!(found.file(), Path::new("./tool"));
}

#[test]
fn what_cannot_be_executed_is_an_error_with_the_shells_code() {
    let tree = tree();
    let long = "x".repeat(10_000);
    for (name, path, code, text) in [
        ("tool", "b:nowhere", 126, "it is a directory"),
        ("plain", "a", 126, "permission denied"),
        ("a/plain", "b", 126, "permission denied"),
        ("none", "a:b", 127, "command not found: none"),
        ("", "a:b", 127, "command not found: "),
        ("a/none", "b", 127, "not found: a/none"),
        ("a/tool/", "b", 127, "not found: a/tool/"),
        ("a/loop", "", 126, "(os error 40)"),
        (&long, "a", 126, "(os error 36)"),
    ] {
        let error = find(name, path, tree.path()).unwrap_err();
        assert_eq!(error.exit_code(), code, "{error}");
        assert!(error.to_string().ends_with(text), "{error}");
    }
    assert_eq!(Command::find(&[], None).unwrap_err().exit_code(), 125);
    for root in ["a/tool", "nowhere"] {
        let error = Command::find(&argv("tool"), Some(&tree.path().join(root))).unwrap_err();
        assert_eq!(error.exit_code(), 125);
        assert!(error.to_string().contains("as root directory"), "{error}");
    }
}

#[test]
fn absolute_links_stay_inside_the_root() {
    let tree = tree();
    let search = || Search::new(Some(tree.path()), None).unwrap();
    let find = |name| search().find(&argv(name), "/bin".as_ref());
    let inode = fs::metadata(tree.path().join("a/tool")).unwrap().ino();
    let root = fs::canonicalize(tree.path()).unwrap();
    for (name, path) in [
        ("tool", "/bin/tool"),
        ("b/link", "/b/link"),
        ("/b/climber", "/b/climber"),
        ("../a/tool", "/../a/tool"),
    ] {
        let found = find(name).unwrap();
        assert_eq!(found.path(), Path::new(path), "{name}");
        assert_eq!(found.inode().1, inode, "{name}");
        assert_eq!(found.root(), Some(root.as_path()));
    }
    assert_eq!(find("/usr/bin/env").unwrap_err().exit_code(), 127);
}

#[test]
fn the_bits_of_the_users_own_class_decide() {
    let tree = tree();
    let mut stat = rustix::fs::stat(tree.path().join("a/tool")).unwrap();
    (stat.st_uid, stat.st_gid) = (1000, 100);
    for (uid, groups, mode, expected) in [
        (1000, vec![5], 0o700, true),
        (1000, vec![100], 0o677, false),
        (7, vec![5, 100], 0o010, true),
        (7, vec![5, 100], 0o701, false),
        (7, vec![5], 0o001, true),
        (0, vec![0], 0o010, true),
        (0, vec![0], 0o666, false),
    ] {
        let mut search = Search::new(None, None).unwrap();
        (search.uid, search.groups) = (uid, groups);
        stat.st_mode = 0o100_000 | mode;
        assert_eq!(search.may_execute(&stat), expected, "{uid} {mode:o}");
    }
}
