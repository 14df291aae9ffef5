//! What prefetching does to the reads of a launch.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use paralfetch::drive::drop_caches;
use paralfetch::model::Profile;
use paralfetch::prefetch::{Prefetch, PrefetchOptions};
use paralfetch::profile::Store;
use rustix::fs::{major, minor};

use crate::root::Root;
use crate::{set_up, until};

#[test]
fn a_prefetched_launch_reads_nothing_itself() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    root.learn(&[], &Root::READ_ALL);
    drop_caches().unwrap();
    let cold = reads_of_launch(root.path(), &Root::READ_ALL);
    assert!(cold > 100, "a cold launch makes {cold} reads");

    drop_caches().unwrap();
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
    drop_caches().unwrap();
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

fn profile(root: &Root, app: &str) -> Profile {
    let store = Store::open(root.state.path()).unwrap();
    store.find(0, app.as_ref()).unwrap().unwrap()
}

/// Prefetches for a launch of the app, to the end.
pub fn prefetch(root: &Root, app: &str) -> paralfetch::model::PrefetchReport {
    let profile = profile(root, app);
    Prefetch::start(move || Some(profile), PrefetchOptions::default())
        .unwrap()
        .finish_within(std::time::Duration::from_secs(60))
        .unwrap()
}

/// Read requests that the image's device serves while the app runs without us.
pub fn reads_of_launch(root: &Path, cmd: &[&str]) -> u64 {
    // What was read ahead may still be on its way, and counts when it arrives.
    until("the device is idle", || in_flight(root) == 0);
    let before = device_reads(root);
    let status = Command::new("chroot")
        .arg(root)
        .args(cmd)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    device_reads(root) - before
}

/// Reads completed on the device.
fn device_reads(root: &Path) -> u64 {
    statistic(root, 0)
}

/// Requests that the device is working on.
fn in_flight(root: &Path) -> u64 {
    statistic(root, 8)
}

/// A field of the device's statistics (Documentation/block/stat.rst in the kernel).
fn statistic(root: &Path, field: usize) -> u64 {
    let dev = fs::metadata(root).unwrap().dev();
    let stat = format!("/sys/dev/block/{}:{}/stat", major(dev), minor(dev));
    let text = fs::read_to_string(stat).unwrap();
    text.split_whitespace().nth(field).unwrap().parse().unwrap()
}
