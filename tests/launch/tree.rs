//! Ending a launch tree.

use crate::{Test, roles};

pub const TESTS: &[Test] = &[("tree::nothing_is_left", nothing_is_left)];

fn nothing_is_left() {
    let output = roles::role("tree").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
