//! File systems whose metadata are no blocks of a device: a launch's paths are learned, and looked up ahead.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;

use paralfetch::model::{OperationKind, PrefetchReport, Profile};
use rustix::mount::{MountFlags, mount};

use crate::file_systems::SIZE_MB;
use crate::running::{Image, WAIT, make_pipe};
use crate::{Turn, set_up_on};
use common::reads::{prefetched, profile, reads_of_launch};
use common::root::Root;
use common::{LoopFs, Mounted, drop_caches};

/// Directories, and names in each, that [`LOOKS_UP`] looks up.
const DIRECTORIES: usize = 48;
const NAMES: usize = 16;

/// An app that reads next to nothing but metadata: of names in many directories, of which each has a link and lacks a name.
const LOOKS_UP: &str =
    "for d in /names/*; do for f in $d/*; do [ -e $f ]; done; [ -e $d/absent ]; done; :";

/// An image of this type, with an app that looks names up, which a service has learned and prefetched.
fn looking_up_on(fs_type: &'static str) -> Option<(Image, Turn)> {
    let (image, turn) = set_up_on(|| {
        let image = Image::of(Root::on(LoopFs::of_type(fs_type, SIZE_MB, &[])));
        for directory in 0..DIRECTORIES {
            let directory = image.root.path().join(format!("names/{directory}"));
            fs::create_dir_all(&directory).unwrap();
            for name in 0..NAMES {
                fs::write(directory.join(name.to_string()), "").unwrap();
            }
            symlink("../../data/1", directory.join("link")).unwrap();
        }
        image.script("app", &format!("{WAIT}; {LOOKS_UP}"));
        image
    })?;
    image.enable("app");
    let mut service = image.start();
    service.ready_to_learn();
    image.hold();
    let app = image.spawn("app");
    // Listings are seen from here on.
    service.line(&["recording"]);
    image.let_end();
    app.succeed();
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("kind=Learned"), "{line}");
    image.until_stored("app");
    image.prefetch_in_the_end(&mut service, "app");
    service.stop();
    Some((image, turn))
}

/// Prefetches this profile, and counts what the launch reads after that.
fn reads_after(image: &Image, profile: Profile) -> (PrefetchReport, u64) {
    drop_caches();
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
    // A FIFO is looked up, not opened.
    fs::remove_dir_all(names("5")).unwrap();
    drop(make_pipe(&names("5")));
    for directory in 1..=5 {
        let below = format!("/names/{directory}/");
        let is_below = |path: &[u8]| String::from_utf8_lossy(path).contains(&below);
        assert!(learned.operations.iter().any(|it| is_below(&it.path)));
    }
    let all = learned.operations.len() as u64;
    drop_caches();
    let report = prefetched(learned);
    assert_eq!((report.operations, report.given_up), (all, 0), "{report:?}");
    drop(unserved);
}
