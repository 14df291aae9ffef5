//! Blocks that looking names up reads, held against what the drive serves and what debugfs(8) says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use paralfetch::fs::ext4::Ext4;

use crate::debugfs::inspect;
use crate::names::{crowd, name, shatter};
use common::cold::Cold;
use common::{LoopExt4, privileged, succeed};

/// Looks names of a crowded directory up, present and absent, and lists it. Its map must have `levels`
/// levels outside of the inode.
fn check_crowd(mke2fs_args: &[&str], count: usize, length: usize, levels: u32) {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(256, mke2fs_args);
    if mke2fs_args[1] == "1024" && !mke2fs_args.join(" ").contains("^extent") {
        shatter(&image, 1024);
    }
    let directory = crowd(&image, count, length);
    check_names(&image, &directory, count, length);
    let ino = fs::metadata(&directory).unwrap().ino();
    let expected = &inspect(&image, &[ino])[&ino];
    let depth = expected.nodes.iter().map(|node| node.depth + 1).max();
    assert_eq!(depth.unwrap_or(0), levels, "the directory's map is another");
    let ext4 = Ext4::open(image.device()).unwrap();
    let listed = ext4.directory_blocks(ino).unwrap();
    let nodes = expected.nodes.iter().map(|node| node.physical);
    let all: BTreeSet<u64> = expected.data.values().copied().chain(nodes).collect();
    assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), all);
    assert_eq!(listed.len(), all.len(), "a block comes twice");
}

fn check_names(image: &LoopExt4, directory: &Path, count: usize, length: usize) {
    let cold = Cold::new(image);
    for index in [0, 1, count / 3, count / 2, count - 1, count, count + 7] {
        let path = directory.join(name(index, length));
        let blocks = cold.walk(&path);
        cold.check(&format!("name {index} of {count}"), &blocks, || {
            assert_eq!(path.symlink_metadata().is_ok(), index < count);
        });
    }
    let mut blocks = cold.walk(directory);
    let ext4 = Ext4::open(image.device()).unwrap();
    let ino = fs::metadata(directory).unwrap().ino();
    blocks.needed.extend(ext4.directory_blocks(ino).unwrap());
    cold.check("listing", &blocks, || {
        assert_eq!(fs::read_dir(directory).unwrap().count(), count);
    });
    assert_eq!(ext4.look_up(ino, &[b'x'; 256]).unwrap(), Default::default());
}

#[test]
fn linear_in_4_kib_blocks() {
    check_crowd(&["-b", "4096", "-O", "^dir_index"], 1500, 60, 1);
}

#[test]
fn linear_in_1_kib_blocks() {
    check_crowd(&["-b", "1024", "-O", "^dir_index"], 500, 60, 1);
}

#[test]
fn linear_with_indirect_blocks() {
    let args = ["-b", "1024", "-O", "^dir_index,^extent,^64bit"];
    check_crowd(&args, 1000, 250, 2);
}

#[test]
fn hashed_in_4_kib_blocks() {
    check_crowd(&["-b", "4096"], 3000, 60, 1);
}

#[test]
fn hashed_with_nodes_in_1_kib_blocks() {
    check_crowd(&["-b", "1024"], 5000, 60, 2);
}

#[test]
fn hashed_with_indirect_blocks() {
    check_crowd(&["-b", "1024", "-O", "^extent,^64bit"], 5000, 60, 2);
}

#[test]
fn hashed_without_flex_bg_and_checksums() {
    let features = "^flex_bg,^metadata_csum,^64bit";
    check_crowd(&["-b", "1024", "-O", features], 3000, 100, 2);
}

#[test]
fn hashed_with_three_levels() {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(256, &["-b", "1024", "-O", "large_dir"]);
    let directory = image.mount_point().join("large");
    fs::create_dir(&directory).unwrap();
    let (count, length) = (28_000, 250);
    File::create(directory.join(name(0, length))).unwrap();
    for index in 1..count {
        fs::hard_link(
            directory.join(name(0, length)),
            directory.join(name(index, length)),
        )
        .unwrap();
    }
    image.sync();
    let mut debugfs = Command::new("debugfs");
    debugfs.args(["-R", "htree_dump large"]).arg(image.device());
    let dump = succeed(&mut debugfs);
    assert!(dump.contains("Indirect levels: 2"), "{}", &dump[..500]);
    check_names(&image, &directory, count, length);
}

#[test]
fn inline_directories_need_nothing_but_their_inodes() {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(16, &["-O", "inline_data", "-I", "256"]);
    let directory = image.mount_point().join("inline");
    fs::create_dir(&directory).unwrap();
    // More than the map's place in the inode holds.
    for index in 0..6 {
        File::create(directory.join(name(index, 8))).unwrap();
    }
    let cold = Cold::new(&image);
    let ext4 = Ext4::open(image.device()).unwrap();
    let ino = fs::metadata(&directory).unwrap().ino();
    assert!(ext4.directory_blocks(ino).unwrap().is_empty());
    for index in 0..7 {
        let path = directory.join(name(index, 8));
        let look_up = ext4.look_up(ino, name(index, 8).as_bytes()).unwrap();
        assert_eq!(look_up, Default::default());
        cold.check("inline", &cold.walk(&path), || {
            assert_eq!(path.metadata().is_ok(), index < 6);
        });
    }
}

#[test]
fn long_links_need_their_block() {
    for args in [
        &["-b", "4096"][..],
        &["-b", "1024", "-O", "^extent,^64bit"],
        &["-b", "4096", "-O", "inline_data", "-I", "256"],
    ] {
        if !privileged() {
            return;
        }
        let image = LoopExt4::new(32, args);
        let at = |name: &str| image.mount_point().join(name);
        for (link, length) in [("fast", 59), ("slow", 60), ("inline", 100), ("long", 1000)] {
            symlink("x".repeat(length), at(link)).unwrap();
        }
        let cold = Cold::new(&image);
        let ext4 = Ext4::open(image.device()).unwrap();
        let mut counts = BTreeMap::new();
        for link in ["fast", "slow", "inline", "long"] {
            let mut blocks = cold.walk(&at(link));
            let own = ext4
                .link_blocks(at(link).symlink_metadata().unwrap().ino())
                .unwrap();
            counts.insert(link, own.len());
            blocks.needed.extend(own);
            cold.check(link, &blocks, || drop(fs::read_link(at(link)).unwrap()));
        }
        assert_eq!((counts["fast"], counts["long"]), (0, 1), "{args:?}");
        // Kernels up to 5.18 make inline links.
        if !args.join(" ").contains("inline_data") {
            assert_eq!((counts["slow"], counts["inline"]), (1, 1), "{args:?}");
        }
    }
}
