//! File systems other than ext4: pages of files are learned and prefetched.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use paralfetch::drive::drop_caches;
use paralfetch::fs::residency::cached;
use paralfetch::model::Skipped;

use crate::running::Image;
use crate::{Turn, set_up_on};
use common::reads::{prefetch, profile, reads_of_launch};
use common::root::{PAGES, Root, WHOLE, content};
use common::{LoopFs, until};

/// As small as XFS may be.
const SIZE_MB: u64 = 320;

/// An image of this type, with an app that a service has learned and prefetched.
fn learned_on(fs_type: &'static str) -> Option<(Image, Turn)> {
    let image = || Image::of(Root::on(LoopFs::of_type(fs_type, SIZE_MB, &[])));
    let (image, turn) = set_up_on(image)?;
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    image.prefetch_in_the_end(&mut service, "app");
    service.stop();
    Some((image, turn))
}

/// Whether all pages of a data file are cached.
fn is_cached(file: &Path) -> bool {
    let file = File::open(file).unwrap();
    cached(file.as_fd(), &WHOLE).unwrap() == [WHOLE]
}

/// Whether none is.
fn is_cold(file: &Path) -> bool {
    let file = File::open(file).unwrap();
    cached(file.as_fd(), &WHOLE).unwrap().is_empty()
}

/// A launch whose pages were prefetched makes next to no request of its own: metadata come in by the opens of the prefetch.
fn leaves_next_to_nothing_to_the_launch(fs_type: &'static str) {
    let Some((image, _turn)) = learned_on(fs_type) else {
        return;
    };
    drop_caches().unwrap();
    let cold = reads_of_launch(image.root.path(), &["/app"]);
    drop_caches().unwrap();
    let report = prefetch(&image.root, "app");
    assert!(report.skipped.is_empty(), "{report:?}");
    assert_eq!(
        (report.warm, report.metadata.pages),
        (false, 0),
        "{report:?}"
    );
    let own = reads_of_launch(image.root.path(), &["/app"]);
    assert!(own * 10 <= cold, "{own} of {cold}");
}

#[test]
fn a_launch_from_xfs_is_learned_and_prefetched() {
    leaves_next_to_nothing_to_the_launch("xfs");
}

#[test]
fn a_launch_from_btrfs_is_learned_and_prefetched() {
    leaves_next_to_nothing_to_the_launch("btrfs");
}

/// Removes a data file that was learned and puts another in its place. XFS may give it the same inode number.
fn replace(file: &Path) {
    fs::remove_file(file).unwrap();
    rustix::fs::sync();
    fs::write(file, content(1, PAGES)).unwrap();
    rustix::fs::sync();
    drop_caches().unwrap();
}

#[test]
fn a_new_file_on_xfs_is_not_taken_for_the_one_that_was_learned() {
    let Some((image, _turn)) = learned_on("xfs") else {
        return;
    };
    let [replaced, other] = ["data/7", "data/8"].map(|name| image.root.path().join(name));
    replace(&replaced);
    let report = prefetch(&image.root, "app");
    assert_eq!(report.stale_files, 1, "{report:?}");
    assert!(report.skipped.contains_key(&Skipped::Gone), "{report:?}");
    until("the other is cached", || is_cached(&other));
    assert!(is_cold(&replaced));
}

/// A file and its copy in a snapshot have one inode number and one generation.
#[test]
fn neither_a_new_file_on_btrfs_nor_a_snapshots_is_taken_for_the_one_that_was_learned() {
    let Some((image, _turn)) = learned_on("btrfs") else {
        return;
    };
    let subvolume = image.root.image.snapshot("snapshot");
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let _snapshot = image.root.image.mount_subvolume(&subvolume, at);
    let names = ["data/7", "data/8"];
    let [replaced, other] = names.map(|name| image.root.path().join(name));
    let [copy, other_copy] = names.map(|name| at.join(name));
    let inode = |file: &Path| fs::metadata(file).unwrap().ino();
    assert_eq!(inode(&replaced), inode(&copy));
    replace(&replaced);
    let report = prefetch(&image.root, "app");
    assert_eq!(report.stale_files, 1, "{report:?}");
    assert!(report.skipped.contains_key(&Skipped::Gone), "{report:?}");
    until("the other is cached", || is_cached(&other));
    assert!(is_cold(&replaced) && is_cold(&copy) && is_cold(&other_copy));
    let profile = profile(&image.root, "app");
    let dev = fs::metadata(image.root.path()).unwrap().dev();
    let devices: Vec<u64> = profile.devices.iter().map(|device| device.dev).collect();
    assert_eq!(devices, [dev], "the subvolume's own");
}
