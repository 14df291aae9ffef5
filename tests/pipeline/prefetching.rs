//! What prefetching does to the reads of a launch.

use crate::set_up;
use common::drop_caches;
use common::reads::{prefetch, profile, reads_of_launch};
use common::root::Root;

#[test]
fn a_prefetched_launch_reads_nothing_itself() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    root.learn(&[], &Root::READ_ALL);
    drop_caches();
    let cold = reads_of_launch(root.path(), &Root::READ_ALL);
    assert!(cold > 100, "a cold launch makes {cold} reads");

    drop_caches();
    let report = prefetch(&root, "sh");
    assert!(!report.warm && report.refused.is_none(), "{report:?}");
    assert!(report.skipped.is_empty(), "{report:?}");
    let prefetched = reads_of_launch(root.path(), &Root::READ_ALL);
    assert_eq!(prefetched, 0, "against {cold} reads of a cold launch");
}

#[test]
fn a_warm_launch_is_left_alone() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    root.learn(&[], &Root::READ_ALL);
    drop_caches();
    let cold = prefetch(&root, "sh");
    assert!(cold.calls > 0, "{cold:?}");
    let warm = prefetch(&root, "sh");
    assert!(warm.warm, "{warm:?}");
    assert_eq!(warm.calls, 0, "{warm:?}");
}

#[test]
fn a_profile_is_found_again_under_another_device() {
    let Some((mut root, _turn)) = set_up() else {
        return;
    };
    root.learn(&[], &Root::READ_ALL);
    root.image.reattach();
    let profile = profile(&root, "sh");
    let report = prefetch(&root, "sh");
    assert!(report.skipped.is_empty(), "{report:?}");
    assert_eq!(report.scheduled, profile.entries.len() as u64);
    assert_eq!(reads_of_launch(root.path(), &Root::READ_ALL), 0);
}
