//! File systems other than ext4: pages of files are learned and prefetched.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use paralfetch::fs::residency::cached;
use paralfetch::model::{self, Place, PrefetchReport, Skipped};
use rustix::fs::{Advice, fadvise};

use crate::running::{Image, fill_with_app};
use crate::{Turn, set_up_on};
use common::reads::{left_nothing_out, prefetch, profile, reads_on};
use common::root::{PAGES, Root, WHOLE, content, our_lines, pages_of};
use common::{LoopFs, drop_caches, until, write_back};

/// As small as XFS may be.
pub const SIZE_MB: u64 = 320;

/// An image with an app that a service has learned and prefetched.
fn learned(image: impl FnOnce() -> Image) -> Option<(Image, Turn)> {
    let (image, turn) = set_up_on(image)?;
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    image.prefetch_in_the_end(&mut service, "app");
    service.stop();
    Some((image, turn))
}

/// The same on a file system of this type.
fn learned_on(fs_type: &'static str) -> Option<(Image, Turn)> {
    learned(|| Image::of(Root::on(LoopFs::of_type(fs_type, SIZE_MB, &[]))))
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
fn leaves_next_to_nothing_to_the_launch(image: &Image) -> PrefetchReport {
    let (disk, root) = (image.root.image.mount_point(), image.root.path());
    drop_caches();
    let cold = reads_on(disk, root, &["/app"]);
    drop_caches();
    let report = prefetch(&image.root, "app");
    let left_nothing_out = left_nothing_out(&report, &image.root, "app");
    assert!(left_nothing_out && !report.warm, "{report:?}");
    let own = reads_on(disk, root, &["/app"]);
    assert!(own * 10 <= cold, "{own} of {cold}");
    report
}

#[test]
fn a_launch_from_xfs_is_learned_and_prefetched() {
    let Some((image, _turn)) = learned_on("xfs") else {
        return;
    };
    let report = leaves_next_to_nothing_to_the_launch(&image);
    assert_eq!(report.metadata.pages, 0, "{report:?}");
}

#[test]
fn a_launch_from_btrfs_is_learned_and_prefetched() {
    let Some((image, _turn)) = learned_on("btrfs") else {
        return;
    };
    let report = leaves_next_to_nothing_to_the_launch(&image);
    assert_eq!(report.metadata.pages, 0, "{report:?}");
}

/// The number (`st_dev`) that the app's profile has for the file system of a data file.
fn learned_dev(image: &Image) -> u64 {
    let profile = profile(&image.root, "app");
    let is_it = |file: &&model::File| file.path.as_deref() == Some(b"/data/7");
    let file = profile.files.iter().find(is_it).unwrap();
    profile.devices[usize::from(file.device)].dev
}

fn dev(path: &Path) -> u64 {
    fs::metadata(path).unwrap().dev()
}

/// An image with an app that lies on the lower layer of an overlay.
fn overlaid() -> Image {
    let mut image = Image::new();
    image.root.overlay();
    image
}

#[test]
fn a_launch_from_an_overlay_is_learned_and_prefetched_on_its_lower_layer() {
    let Some((image, _turn)) = learned(overlaid) else {
        return;
    };
    let lower = image.root.image.mount_point();
    assert_ne!(dev(image.root.path()), dev(lower));
    assert_eq!(learned_dev(&image), dev(lower));
    let report = leaves_next_to_nothing_to_the_launch(&image);
    assert!(report.metadata.pages > 0, "{report:?}");
}

/// Readahead of the drives below is off meanwhile.
#[test]
fn exact_learning_on_an_overlay_learns_touched_pages_alone() {
    let Some((image, _turn)) = set_up_on(overlaid) else {
        return;
    };
    let touch = "dd if=/sparse/big bs=4096 skip=100 count=1";
    let output = image.root.learn(&[], &["/bin/sh", "-c", touch]);
    let said = our_lines(&output);
    assert!(
        said.iter().any(|line| line.contains("readahead is off")),
        "{said:?}"
    );
    let profile = image.root.show("sh");
    assert_eq!(pages_of(&profile, "/sparse/big"), [100]);
}

/// An image that mkfs makes with these arguments, and a service learns, is found again on another loop device. Another one in
/// its place is not taken for it.
fn is_served_as_an_image(fs_type: &'static str, mkfs_args: &[&str]) -> Option<PrefetchReport> {
    let (mut image, _turn) = learned(|| Image::read_only(fs_type, mkfs_args))?;
    assert_eq!(learned_dev(&image), dev(image.root.path()));
    let report = leaves_next_to_nothing_to_the_launch(&image);
    let file = |image: &Image| image.root.path().join("data/7");
    image.root.image.reattach();
    assert!(is_cold(&file(&image)));
    let again = prefetch(&image.root, "app");
    assert!(
        !again.skipped.contains_key(&Skipped::DeviceGone),
        "{again:?}"
    );
    until("it is cached", || is_cached(&file(&image)));
    image.root.image.replace_read_only(mkfs_args, |root| {
        fill_with_app(root);
        fs::write(root.join("data/7"), content(1, PAGES + 1)).unwrap();
    });
    let other = prefetch(&image.root, "app");
    // Entries are not even looked at where all that is left to read is cached.
    let reasons = [Skipped::DeviceGone, Skipped::Gone];
    let is_refused = reasons.iter().any(|why| other.skipped.contains_key(why));
    assert!(is_refused || other.devices.contains(&None), "{other:?}");
    assert!(is_cold(&file(&image)), "{other:?}");
    Some(report)
}

#[test]
fn a_launch_from_erofs_is_learned_and_prefetched_and_another_image_is_not_read_for_it() {
    let Some(report) = is_served_as_an_image("erofs", &[]) else {
        return;
    };
    assert!(report.metadata.pages > 0, "{report:?}");
}

/// Two images with one UUID, and one time for all files.
#[test]
fn a_launch_from_compressed_erofs_is_learned_and_a_new_file_with_its_numbers_is_not_read_for_it() {
    let same = [
        "-zlz4hc",
        "-U11111111-2222-3333-4444-555555555555",
        "-T1700000000",
    ];
    is_served_as_an_image("erofs", &same);
}

/// How snaps are made.
pub const AS_SNAPS: [&str; 3] = ["-comp", "lzo", "-no-fragments"];

/// Small files, which cat(1) reads with a buffer that reaches past their end.
#[test]
fn a_launch_from_squashfs_is_learned_and_prefetched_and_another_image_is_not_read_for_it() {
    let Some(report) = is_served_as_an_image("squashfs", &AS_SNAPS) else {
        return;
    };
    assert_eq!(report.metadata.pages, 0, "{report:?}");
}

/// The image's blocks come before the pages inside, in the order of the image.
#[test]
fn blocks_of_a_squashfs_are_read_before_the_pages_inside() {
    let zstd = ["-comp", "zstd"];
    let Some((image, _turn)) = set_up_on(|| Image::read_only("squashfs", &zstd)) else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    service.ready_to_learn();
    let line = image.launch_cold(&mut service, "app");
    assert!(line.contains("kind=Learned"), "{line}");
    service.stop();
    let file = image.root.image.file();
    let ino = fs::metadata(&file).unwrap().ino();
    let profile = profile(&image.root, "app");
    let inside = |file: &model::File| profile.devices[usize::from(file.device)].fs == "squashfs";
    let files = profile
        .entries
        .iter()
        .filter_map(|entry| match entry.span.place {
            Place::Data { file } => Some(&profile.files[file as usize]),
            Place::Metadata { .. } => None,
        });
    let files: Vec<&model::File> = files.collect();
    let blocks = files.iter().filter(|file| file.ino == ino && !inside(file));
    let blocks = blocks.count();
    let first_inside = files.iter().position(|file| inside(file)).unwrap();
    let before = files[..first_inside].iter().filter(|file| file.ino == ino);
    assert!(blocks > 0, "{profile:?}");
    assert_eq!(before.count(), blocks);
    drop_caches();
    let report = prefetch(&image.root, "app");
    let left_nothing_out = left_nothing_out(&report, &image.root, "app");
    assert!(left_nothing_out && !report.warm, "{report:?}");
    let cached = cached(File::open(file).unwrap().as_fd(), &(0..1 << 20)).unwrap();
    assert!(!cached.is_empty());
    // Nobody needs the blocks while the pages are there.
    until("the pages are cached", || prefetch(&image.root, "app").warm);
    drop_pages(&image.root.image.file());
    let report = prefetch(&image.root, "app");
    assert!(report.warm, "{report:?}");
}

/// Takes a file's pages out of the cache.
fn drop_pages(file: &Path) {
    let file = File::open(file).unwrap();
    // Some may still be on their way.
    until("no page is cached", || {
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        cached(file.as_fd(), &(0..1 << 20)).unwrap().is_empty()
    });
}

/// Removes a data file that was learned and puts another in its place. XFS may give it the same inode number.
fn replace(file: &Path) {
    fs::remove_file(file).unwrap();
    write_back();
    fs::write(file, content(1, PAGES)).unwrap();
    drop_caches();
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
    let own = dev(image.root.path());
    assert_eq!(learned_dev(&image), own, "the subvolume's own");
}
