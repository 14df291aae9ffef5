//! Reads of helpers: processes that a bus starts for the app are no part of the launch tree.

use std::process::{Command, Output};

use crate::set_up;
use common::fake_bus::{APP, Cgroups, make_pipes, reading, served};
use common::root::{Root, pages_of};

/// All pages of a data file.
const WHOLE: std::ops::Range<u64> = 0..16;

fn with_bus() -> Option<(Root, impl Drop)> {
    let (root, turn) = set_up()?;
    make_pipes(root.path());
    Some((root, turn))
}

/// Learns a launch for which the bus starts `cat` of these files. Before, both do what `first` says.
fn learn(root: &Root, options: &[&str], files: &[usize], first: &str) -> Output {
    learn_of_users(root, options, (0, 0), files, first)
}

/// The same, where the app and what the bus starts are of these users.
fn learn_of_users(
    root: &Root,
    options: &[&str],
    (user, server): (u32, u32),
    files: &[usize],
    first: &str,
) -> Output {
    let app = ["/bin/sh", "-c", APP];
    let learning = root.paralfetch(&[&["learn"], options].concat(), &app);
    let mut shell = Command::new("sh");
    shell
        .env("SUDO_UID", user.to_string())
        .args(["-c", &format!("{first}exec \"$0\" \"$@\"")])
        .arg(learning.get_program())
        .args(learning.get_args());
    let service = format!("{first}{}", reading(root.path(), server, files));
    served(root.path(), &service, shell)
}

fn learned(root: &Root, file: usize) -> Vec<u64> {
    pages_of(&root.show("sh"), &format!("/data/{file}"))
}

#[test]
fn reads_of_a_helper_are_learned_when_they_recur() {
    let Some((root, _turn)) = with_bus() else {
        return;
    };
    learn(&root, &[], &[50, 51], "");
    assert!(learned(&root, 1).into_iter().eq(WHOLE));
    assert!(learned(&root, 50).is_empty(), "it may have been chance");
    let output = learn(&root, &["--verbose"], &[50, 52], "");
    assert!(learned(&root, 50).into_iter().eq(WHOLE));
    for chance in [51, 52] {
        assert!(learned(&root, chance).is_empty(), "/data/{chance}");
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("by other processes for this launch, as before"),
        "{said}"
    );
    // Now its data are cached: live learning cannot see the reads, and keeps what is known.
    learn(&root, &["--live"], &[50], "");
    assert!(learned(&root, 50).into_iter().eq(WHOLE));
    assert!(learned(&root, 2).into_iter().eq(WHOLE));
}

#[test]
fn what_other_users_start_meanwhile_is_not_learned() {
    const USER: u32 = 54_321;
    let Some((root, _turn)) = with_bus() else {
        return;
    };
    let learned_of = |server: u32, file: usize| {
        for _ in 0..2 {
            learn_of_users(&root, &[], (USER, server), &[file], "");
        }
        learned(&root, file)
    };
    assert!(learned_of(USER + 1, 50).is_empty());
    // The user's own, and a service of the system.
    assert!(learned_of(USER, 51).into_iter().eq(WHOLE));
    assert!(learned_of(999, 52).into_iter().eq(WHOLE));
}

#[test]
fn processes_in_the_launchs_own_cgroup_belong_to_the_launch() {
    let Some((root, _turn)) = with_bus() else {
        return;
    };
    let cgroups = Cgroups::new();
    learn(&root, &[], &[50], &cgroups.enter());
    assert!(learned(&root, 50).into_iter().eq(WHOLE));
}
