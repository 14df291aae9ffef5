//! Apps that one interpreter runs.

use std::fs;
use std::process::Output;

use crate::set_up;
use common::drop_caches;
use common::root::{Root, our_lines, pages_of};

/// Puts an interpreter and its scripts on the image. The shell stands in for Python: it takes a script in
/// the same way, and needs no library of modules.
fn install_scripts(root: &Root) {
    common::copy_program(root.path().join("bin/sh"), root.path().join("bin/python3"));
    for (script, data) in [("a.py", "1"), ("b.py", "2"), ("c.py", "3")] {
        let text = format!("cat /data/{data}\n");
        fs::write(root.path().join(script), text).unwrap();
    }
}

fn run(root: &Root, argv: &[&str]) -> Output {
    drop_caches();
    let output = root
        .paralfetch(&["run", "--verbose"], argv)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn scripts_of_one_interpreter_have_profiles_of_their_own() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    install_scripts(&root);
    root.learn(&[], &["/bin/python3", "a.py"]);
    root.learn(&[], &["/bin/python3", "-u", "/b.py"]);
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
        let lines = our_lines(&run(&root, &["/bin/python3", path])).join("\n");
        assert!(lines.contains("prefetched "), "{name}: {lines}");
    }
    let lines = our_lines(&run(&root, &["/bin/python3", "c.py"])).join("\n");
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
    let code = ["/bin/python3", "-c", "cat /data/*"];
    let learned = our_lines(&root.learn(&[], &code)).join("\n");
    assert!(
        learned.contains("do not tell which app it starts"),
        "{learned}"
    );
    let lines = our_lines(&run(&root, &code)).join("\n");
    assert!(lines.contains("prefetched "), "{lines}");
    let lines = our_lines(&run(&root, &["/bin/python3", "a.py"])).join("\n");
    assert!(lines.contains("learn the app again"), "{lines}");
    root.learn(&[], &["/bin/python3", "a.py"]);
    let lines = our_lines(&run(&root, &["/bin/python3", "./a.py"])).join("\n");
    assert!(lines.contains("prefetched "), "{lines}");
}
