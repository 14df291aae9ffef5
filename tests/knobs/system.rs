//! Settings of the whole system: the limits of dirty memory, each of which has two forms.

use std::fs;
use std::path::{Path, PathBuf};

use paralfetch::drive::{Knobs, Setting, Undone};

use crate::Test;
use common::privileged;

pub const TESTS: &[Test] = &[
    (
        "dirty_limits_get_back_the_form_that_was_in_force",
        dirty_limits_get_back_the_form_that_was_in_force,
    ),
    (
        "a_dirty_limit_that_others_have_set_is_kept",
        a_dirty_limit_that_others_have_set_is_kept,
    ),
];

const NAMES: [&str; 4] = [
    "dirty_bytes",
    "dirty_ratio",
    "dirty_background_bytes",
    "dirty_background_ratio",
];

fn path(name: &str) -> PathBuf {
    Path::new("/proc/sys/vm").join(name)
}

fn values() -> [String; 4] {
    NAMES.map(|name| fs::read_to_string(path(name)).unwrap().trim().to_owned())
}

fn setting(name: &str, value: &str) -> Setting {
    Setting::File {
        path: path(name),
        value: value.to_owned(),
    }
}

/// What the system has when a test begins, and again when it ends, however it does.
struct Limits([String; 4]);

impl Limits {
    fn now() -> Self {
        Limits(values())
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for (name, value) in NAMES.iter().zip(&self.0) {
            // The other form is 0: it follows.
            if value != "0"
                && let Err(error) = fs::write(path(name), value)
            {
                eprintln!("cannot restore {name}: {error}");
            }
        }
    }
}

fn dirty_limits_get_back_the_form_that_was_in_force() {
    if !privileged() {
        return;
    }
    let system = Limits::now();
    let run = tempfile::tempdir().unwrap();
    let mut knobs = Knobs::acquire(run.path(), None).unwrap();
    let undone = |knobs: &mut Knobs, name, value| {
        let id = knobs.change(setting(name, value)).unwrap().unwrap();
        assert!(!values().contains(&system.0[1]), "it is in force");
        assert_eq!(knobs.undo(id).unwrap(), Undone::Restored);
    };
    // From a ratio to bytes, and to another ratio.
    let before = values();
    undone(&mut knobs, "dirty_bytes", "268435456");
    assert_eq!(values(), before);
    undone(&mut knobs, "dirty_ratio", "33");
    assert_eq!(values(), before);

    // From bytes, which nobody can write 0 to.
    fs::write(path("dirty_bytes"), "536870912").unwrap();
    let before = values();
    assert_eq!(before[..2], ["536870912", "0"]);
    undone(&mut knobs, "dirty_ratio", "33");
    assert_eq!(values(), before);
    assert!(
        knobs
            .change(setting("dirty_bytes", "536870912"))
            .unwrap()
            .is_none()
    );
    // Both forms one after the other, and all at once.
    let first = knobs.change(setting("dirty_ratio", "33")).unwrap().unwrap();
    knobs
        .change(setting("dirty_bytes", "268435456"))
        .unwrap()
        .unwrap();
    assert_eq!(knobs.undo(first).unwrap(), Undone::Restored);
    assert_eq!(values()[..2], ["268435456", "0"], "the later change stays");
    knobs.restore().unwrap();
    assert_eq!(values(), before);

    // A ratio of 0 is a form, too, and is not written by writing 0 alone.
    fs::write(path("dirty_background_ratio"), "0").unwrap();
    let before = values();
    let mut knobs = Knobs::acquire(run.path(), None).unwrap();
    knobs
        .change(setting("dirty_background_bytes", "134217728"))
        .unwrap()
        .unwrap();
    knobs.restore().unwrap();
    assert_eq!(values(), before);
}

fn a_dirty_limit_that_others_have_set_is_kept() {
    if !privileged() {
        return;
    }
    let _system = Limits::now();
    let run = tempfile::tempdir().unwrap();
    let mut knobs = Knobs::acquire(run.path(), None).unwrap();
    let id = knobs
        .change(setting("dirty_bytes", "268435456"))
        .unwrap()
        .unwrap();
    let background = knobs
        .change(setting("dirty_background_ratio", "3"))
        .unwrap()
        .unwrap();
    // tuned's profiles write the ratio.
    fs::write(path("dirty_ratio"), "37").unwrap();
    assert_eq!(knobs.undo(id).unwrap(), Undone::ChangedByOthers);
    assert_eq!(knobs.undo(background).unwrap(), Undone::Restored);
    assert_eq!(values()[..2], ["0", "37"]);
}
