//! File systems other than ext4: pages of files are learned and prefetched, and their metadata by look-ups.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use paralfetch::drive::drop_caches;
use paralfetch::fs::residency::cached;
use paralfetch::model::{OperationKind, PrefetchReport, Profile, Skipped};
use rustix::mount::{MountFlags, mount};

use crate::running::{Image, make_pipe};
use crate::{Turn, set_up_on};
use common::reads::{prefetch, prefetched, profile, reads_of_launch};
use common::root::{PAGES, Root, WHOLE, content};
use common::{LoopFs, Mounted, until};

/// As small as XFS may be.
const SIZE_MB: u64 = 320;

/// Directories, and names in each, that [`LOOKS_UP`] looks up.
const DIRECTORIES: usize = 48;
const NAMES: usize = 16;

/// An app that reads next to nothing but metadata: of names in many directories, of which each has a link and lacks a name.
const LOOKS_UP: &str =
    "for d in /names/*; do for f in $d/*; do [ -e $f ]; done; [ -e $d/absent ]; done; :";

/// An image of this type, with an app that a service has learned and prefetched.
fn learned_on(fs_type: &'static str) -> Option<(Image, Turn)> {
    learned_with(fs_type, |_| ())
}

/// The same with an app that looks names up.
fn looking_up_on(fs_type: &'static str) -> Option<(Image, Turn)> {
    learned_with(fs_type, |image| {
        for directory in 0..DIRECTORIES {
            let directory = image.root.path().join(format!("names/{directory}"));
            fs::create_dir_all(&directory).unwrap();
            for name in 0..NAMES {
                fs::write(directory.join(name.to_string()), "").unwrap();
            }
            symlink("../../data/1", directory.join("link")).unwrap();
        }
        image.script("app", LOOKS_UP);
    })
}

/// An image of this type with an app that was learned and prefetched after `prepare`.
fn learned_with(fs_type: &'static str, prepare: impl FnOnce(&Image)) -> Option<(Image, Turn)> {
    let image = || Image::of(Root::on(LoopFs::of_type(fs_type, SIZE_MB, &[])));
    let (image, turn) = set_up_on(image)?;
    prepare(&image);
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

/// Prefetches this profile, and counts what the launch reads after that.
fn reads_after(image: &Image, profile: Profile) -> (PrefetchReport, u64) {
    drop_caches().unwrap();
    let report = prefetched(profile);
    (report, reads_of_launch(image.root.path(), &["/app"]))
}

/// What is left to the launch by a prefetch with the look-ups of its profile, and by one without.
fn leaves_no_look_up_to_the_launch(fs_type: &'static str) {
    let Some((image, _turn)) = looking_up_on(fs_type) else {
        return;
    };
    let learned = profile(&image.root, "app");
    let paths_of = |kind| {
        let of_kind = learned.operations.iter().filter(move |it| it.kind == kind);
        of_kind.map(|it| String::from_utf8(it.path.clone()).unwrap())
    };
    for wanted in ["/names/7/3", "/names/7/absent", "/names/7/link"] {
        let found = paths_of(OperationKind::LookUp).any(|path| path.ends_with(wanted));
        assert!(found, "{wanted} of {:?}", learned.operations);
    }
    let lists = |wanted| paths_of(OperationKind::List).any(|path| path.ends_with(wanted));
    assert!(lists("/names") && lists("/names/7"));
    let without = Profile {
        operations: Vec::new(),
        ..learned.clone()
    };
    let all = learned.operations.len() as u64;
    let (report, own) = reads_after(&image, learned);
    assert_eq!((report.operations, report.given_up), (all, 0), "{report:?}");
    let (report, own_without) = reads_after(&image, without);
    assert_eq!(report.operations, 0, "{report:?}");
    assert!(own * 4 <= own_without, "{own} of {own_without}");
}

#[test]
fn metadata_on_xfs_come_in_by_look_ups() {
    leaves_no_look_up_to_the_launch("xfs");
}

#[test]
fn metadata_on_btrfs_come_in_by_look_ups() {
    leaves_no_look_up_to_the_launch("btrfs");
}

/// A FUSE file system that nobody serves: whoever looks a name up in it waits. Ends with this value.
struct Unserved {
    _mounted: Mounted,
    _device: File,
}

impl Unserved {
    fn at(place: &Path) -> Unserved {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.unwrap();
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        let options = CString::new(options).unwrap();
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        mount("none", place, "fuse", flags, Some(&*options)).unwrap();
        Unserved {
            _mounted: Mounted::already(place),
            _device: device,
        }
    }
}

/// Between a launch and the next, whoever owns directories puts there what he likes.
#[test]
fn a_look_up_neither_waits_where_nobody_answers_nor_follows_a_link() {
    let Some((image, _turn)) = looking_up_on("xfs") else {
        return;
    };
    let learned = profile(&image.root, "app");
    let names = |name: &str| image.root.path().join("names").join(name);
    let unserved = Unserved::at(&names("1"));
    // Links into it, and ever more links.
    fs::remove_dir_all(names("2")).unwrap();
    symlink("1", names("2")).unwrap();
    fs::remove_dir_all(names("3")).unwrap();
    symlink("3/3", names("3")).unwrap();
    for name in 0..NAMES {
        let link = names("4").join(name.to_string());
        fs::remove_file(&link).unwrap();
        symlink(format!("../1/{name}"), link).unwrap();
    }
    // FIFOs and devices are looked up, not opened.
    fs::remove_dir_all(names("5")).unwrap();
    drop(make_pipe(&names("5")));
    let all = learned.operations.len() as u64;
    drop_caches().unwrap();
    let report = prefetched(learned);
    assert_eq!((report.operations, report.given_up), (all, 0), "{report:?}");
    drop(unserved);
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
