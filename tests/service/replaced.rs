//! Files of apps that a package update has replaced.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use paralfetch::fs::ext4::Ext4;
use paralfetch::model::{Place, Profile};
use paralfetch::profile::Store;

use crate::running::Image;
use crate::set_up;
use common::drop_caches;
use common::reads::{left_nothing_out, prefetch, profile, reads_of_launch};

/// Pages of the file, between holes: as many extents, more than an inode has room for.
const EXTENTS: u64 = 12;

/// Files on either side of it, so that no other file of the app has its inode in the same block.
const NEIGHBOURS: usize = 40;

/// Writes a file between neighbours that nobody reads.
fn write_fragmented(directory: &Path, name: &str) {
    let neighbours = |side| {
        for number in 0..NEIGHBOURS {
            fs::write(directory.join(format!("{name}-{side}-{number}")), "").unwrap();
        }
    };
    neighbours("before");
    let file = File::create(directory.join(name)).unwrap();
    for page in 0..EXTENTS {
        file.write_all_at(&[1; 4096], page * 2 * 4096).unwrap();
    }
    file.sync_all().unwrap();
    neighbours("after");
}

/// The pages of metadata that a file on the image has for itself: of the inode table and of the extent tree.
fn metadata_of(image: &Image, path: &Path) -> BTreeSet<u64> {
    image.root.image.sync();
    let ext4 = Ext4::open(image.root.image.device()).unwrap();
    let ino = fs::metadata(path).unwrap().ino();
    let nodes = ext4.extent_nodes(ino).unwrap();
    assert_eq!(nodes.len(), 1, "it is fragmented");
    [ext4.inode_block(ino).unwrap(), nodes[0].physical].into()
}

/// The schedule, and the launch sequence that later schedules are made from.
fn stored(image: &Image) -> [Profile; 2] {
    let schedule = profile(&image.root, "app");
    let store = Store::open(image.root.state.path()).unwrap();
    let sequence = store.load_sequence(schedule.app.key()).unwrap().unwrap();
    [schedule, sequence]
}

fn metadata_in(profile: &Profile) -> BTreeSet<u64> {
    let entries = profile.entries.iter();
    let metadata = entries.filter(|entry| matches!(entry.span.place, Place::Metadata { .. }));
    metadata.flat_map(|entry| entry.span.pages()).collect()
}

/// The new file's metadata come before its data, those of the old one are gone, and nothing else changes,
/// in the schedule and in the launch sequence.
#[test]
fn a_replaced_file_brings_its_metadata_and_the_old_ones_go() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let directory = image.root.path().join("far");
    fs::create_dir(&directory).unwrap();
    write_fragmented(&directory, "file");
    let file = directory.join("file");
    let old = metadata_of(&image, &file);
    image.script("app", "cat /data/* /far/file");
    image.enable("app");
    let mut service = image.start();
    // Cold: paths are seen a moment after the beginning, and blocks that are read from the beginning on.
    drop_caches();
    image.learn(&mut service, "app");
    service.stop();
    let before = stored(&image).map(|kept| metadata_in(&kept));
    for before in &before {
        assert!(before.is_superset(&old), "{old:?} {before:?}");
    }

    write_fragmented(&directory, "new");
    fs::rename(directory.join("new"), &file).unwrap();
    let new = metadata_of(&image, &file);
    let is_known = |page| before.iter().any(|before| before.contains(page));
    assert!(!new.iter().any(is_known), "{new:?} {before:?}");
    let mut service = image.start();
    image.launch_cold(&mut service, "app");
    service.line(&["obsolete entries were replaced or removed"]);
    service.stop();

    for (before, kept) in before.iter().zip(stored(&image)) {
        let after = metadata_in(&kept);
        assert!(after.is_superset(&new), "{new:?} {after:?}");
        assert!(after.is_disjoint(&old), "{old:?} {after:?}");
        let others: BTreeSet<u64> = before.difference(&old).copied().collect();
        assert!(after.is_superset(&others), "{others:?} {after:?}");
        assert_in_place(&kept, &new);
    }
    drop_caches();
    let report = prefetch(&image.root, "app");
    assert!(left_nothing_out(&report, &image.root, "app"), "{report:?}");
    assert_eq!(reads_of_launch(image.root.path(), &["/app"]), 0);
}

/// The metadata stand just before the first data of the file.
fn assert_in_place(profile: &Profile, metadata: &BTreeSet<u64>) {
    let is_of_file = |place| match place {
        Place::Data { file } => profile.files[file as usize].path.as_deref() == Some(b"/far/file"),
        Place::Metadata { .. } => false,
    };
    let mut entries = profile.entries.iter();
    let first = entries
        .position(|entry| is_of_file(entry.span.place))
        .unwrap();
    let of_metadata = profile.entries[..first].iter().rev();
    let just_before = of_metadata.take_while(|entry| entry.span.place.is_metadata());
    let found: BTreeSet<u64> = just_before.flat_map(|entry| entry.span.pages()).collect();
    assert!(found.is_superset(metadata), "{metadata:?} {found:?}");
}
