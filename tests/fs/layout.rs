//! Places of inodes, tree nodes and data, on file systems of several layouts.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;

use paralfetch::fs::ext4::Ext4;
use paralfetch::fs::fiemap::extents;

use crate::debugfs::inspect;
use crate::populate::populate;
use common::{LoopExt4, privileged};

#[test]
fn extents_in_4_kib_blocks() {
    check(&["-b", "4096"], 2);
}

#[test]
fn extents_in_1_kib_blocks() {
    check(&["-b", "1024"], 2);
}

#[test]
fn indirect_blocks_of_4_kib() {
    check(&["-b", "4096", "-O", "^extent,^64bit"], 2);
}

#[test]
fn indirect_blocks_of_1_kib() {
    check(&["-b", "1024", "-O", "^extent,^64bit"], 3);
}

#[test]
fn clusters_of_16_blocks() {
    check(&["-b", "4096", "-O", "bigalloc", "-C", "65536"], 2);
}

#[test]
fn inode_tables_in_every_block_group() {
    check(&["-b", "1024", "-O", "^flex_bg"], 2);
}

#[test]
fn group_descriptors_spread_over_the_disk() {
    check(&["-b", "1024", "-O", "meta_bg,^resize_inode"], 2);
}

#[test]
fn inline_data_has_no_blocks() {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(64, &["-O", "inline_data", "-I", "256"]);
    let samples = populate(&image, 20);
    image.sync();
    let ext4 = Ext4::open(image.device()).unwrap();
    let small = samples
        .iter()
        .find(|sample| sample.path.ends_with("small"))
        .unwrap();
    assert_eq!(ext4.extent_nodes(small.ino).unwrap(), []);
    let file = File::open(&small.path).unwrap();
    assert!(
        extents(file.as_fd(), 0, 1)
            .unwrap()
            .iter()
            .all(|extent| !extent.has_lba())
    );
}

/// Compares all that we say of a populated file system with what debugfs says. At least one file must
/// have `levels` levels of nodes.
fn check(mke2fs_args: &[&str], levels: u32) {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(256, mke2fs_args);
    let samples = populate(&image, 300);
    let inodes: Vec<u64> = samples.iter().map(|sample| sample.ino).collect();
    let expected = inspect(&image, &inodes);
    let ext4 = Ext4::open(image.device()).unwrap();
    let block_size = ext4.block_size();
    assert_eq!(block_size, mke2fs_args[1].parse::<u64>().unwrap());

    let mut deepest = 0;
    for sample in &samples {
        let expected = &expected[&sample.ino];
        let name = sample.path.display();
        assert_eq!(
            ext4.inode_block(sample.ino).unwrap(),
            expected.table_block,
            "{name}"
        );

        let nodes = ext4.extent_nodes(sample.ino).unwrap();
        let places = |nodes: &mut dyn Iterator<Item = (u64, u32)>| -> Vec<(u64, u32)> {
            let mut places: Vec<_> = nodes.collect();
            places.sort_unstable();
            places
        };
        assert_eq!(
            places(&mut nodes.iter().map(|node| (node.physical, node.depth))),
            places(
                &mut expected
                    .nodes
                    .iter()
                    .map(|node| (node.physical, node.depth))
            ),
            "{name}"
        );
        for node in &expected.nodes {
            // debugfs names the first block that is there, which may come after a hole.
            let ours = nodes
                .iter()
                .find(|ours| ours.physical == node.physical)
                .unwrap();
            assert!(
                (ours.first..ours.first + ours.len).contains(&node.first),
                "{name} {ours:?}"
            );
            deepest = deepest.max(node.depth + 1);
        }
        // Each block of data is mapped by one node of each level, or by the inode alone.
        for &logical in expected.data.keys() {
            let mapping = nodes
                .iter()
                .filter(|node| (node.first..node.first + node.len).contains(&logical));
            let mut depths: Vec<u32> = mapping.map(|node| node.depth).collect();
            depths.sort_unstable();
            assert!(
                (0..).zip(&depths).all(|(depth, &found)| depth == found),
                "{name} {logical}: {depths:?}"
            );
        }

        let file = File::open(&sample.path).unwrap();
        let pages = file.metadata().unwrap().len().div_ceil(4096);
        let found: BTreeMap<u64, u64> = extents(file.as_fd(), 0, pages)
            .unwrap()
            .iter()
            .filter(|extent| extent.has_lba())
            .flat_map(|extent| {
                let (first, physical) = (extent.logical / block_size, extent.physical / block_size);
                (0..extent.length / block_size).map(move |block| (first + block, physical + block))
            })
            .collect();
        assert_eq!(found, expected.data, "{name}");
    }
    assert_eq!(
        deepest, levels,
        "the samples do not have the trees that they are meant to have"
    );

    assert!(ext4.inode_block(0).is_err());
    assert!(ext4.inode_block(1 << 31).is_err());
    assert!(ext4.inode_block((1 << 32) + 12).is_err());
    assert!(ext4.extent_nodes(1 << 31).is_err());
    // The root directory is no regular file.
    assert_eq!(ext4.extent_nodes(2).unwrap(), []);
}
