//! Apps that one interpreter runs.

use std::fs;

use rustix::fs::{CWD, Mode, mkfifoat};

use crate::processes::launch_told;
use crate::set_up;
use common::drop_caches;
use common::root::{Root, our_lines, pages_of};

/// Puts an interpreter and its scripts on the image. The shell stands in for Python: it takes a script in
/// the same way, and needs no library of modules. The scripts wait at a pipe before they read their data.
fn install_scripts(root: &Root) {
    common::copy_program(root.path().join("bin/sh"), root.path().join("bin/python3"));
    mkfifoat(CWD, root.path().join("go"), Mode::RWXU).unwrap();
    for (script, data) in [("a.py", "1"), ("b.py", "2"), ("c.py", "3")] {
        let text = format!("read word < /go; cat /data/{data}\n");
        fs::write(root.path().join(script), text).unwrap();
    }
}

/// What we say of a prefetched launch.
fn run(root: &Root, argv: &[&str]) -> String {
    drop_caches();
    let output = launch_told(root, &["run", "--verbose"], argv, "go");
    our_lines(&output).join("\n")
}

fn learn(root: &Root, argv: &[&str]) -> String {
    our_lines(&launch_told(root, &["learn"], argv, "go")).join("\n")
}

#[test]
fn scripts_of_one_interpreter_have_profiles_of_their_own() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    install_scripts(&root);
    learn(&root, &["/bin/python3", "a.py"]);
    learn(&root, &["/bin/python3", "-u", "/b.py"]);
    for (name, path, own, other) in [
        ("a.py", "/a.py", "/data/1", "/data/2"),
        ("/b.py", "/b.py", "/data/2", "/data/1"),
    ] {
        let profile = root.show(name);
        assert_eq!(profile["app"]["path"], path);
        assert!(!pages_of(&profile, own).is_empty(), "{name} reads {own}");
        assert!(
            pages_of(&profile, other).is_empty(),
            "{name} does not read {other}"
        );
        let lines = run(&root, &["/bin/python3", path]);
        assert!(lines.contains("prefetched "), "{name}: {lines}");
    }
    let lines = run(&root, &["/bin/python3", "c.py"]);
    assert!(lines.contains("no profile of /c.py"), "{lines}");
    // Only the profile of the named script is removed.
    let forgotten = root.paralfetch(&["forget", "a.py"], &[]).output().unwrap();
    assert!(forgotten.status.success(), "{forgotten:?}");
    root.show("b.py");
}

#[test]
fn a_profile_of_the_interpreter_itself_is_not_taken_for_a_scripts() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    install_scripts(&root);
    let code = ["/bin/python3", "-c", "read word < /go; cat /data/*"];
    let learned = learn(&root, &code);
    assert!(
        learned.contains("do not tell which app it starts"),
        "{learned}"
    );
    let lines = run(&root, &code);
    assert!(lines.contains("prefetched "), "{lines}");
    let lines = run(&root, &["/bin/python3", "a.py"]);
    assert!(lines.contains("learn the app again"), "{lines}");
    learn(&root, &["/bin/python3", "a.py"]);
    let lines = run(&root, &["/bin/python3", "./a.py"]);
    assert!(lines.contains("prefetched "), "{lines}");
}
