//! What metadata blocks are, held against dumpe2fs(8) and debugfs(8).

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Command;
use std::time::SystemTime;

use paralfetch::fs::ext4::{Ext4, Fixed};
use paralfetch::fs::mounts::MountTable;
use paralfetch::judge::{BlockKind, FileLookUp, LiveSystem};
use rustix::fs::{XattrFlags, setxattr};

use crate::common::{LoopExt4, privileged, succeed};
use crate::debugfs::inspect;
use crate::populate::populate;

#[test]
fn the_layout_is_known() {
    if !privileged() {
        return;
    }
    for options in [
        &["-b", "4096"][..],
        &["-b", "1024"],
        &["-b", "1024", "-O", "^flex_bg"],
        &["-b", "1024", "-O", "meta_bg,^resize_inode"],
        &["-b", "1024", "-O", "sparse_super2"],
    ] {
        let image = LoopExt4::new(128, options);
        image.sync();
        let ext4 = Ext4::open(image.device()).unwrap();
        let text = succeed(Command::new("dumpe2fs").arg(image.device()));
        let mut seen = 0;
        for (words, kind) in [
            (
                &["rimary superblock at ", "ackup superblock at "][..],
                Fixed::Superblock,
            ),
            (
                &["roup descriptors at ", "roup descriptor at "],
                Fixed::Superblock,
            ),
            (&["Reserved GDT blocks at "], Fixed::Superblock),
            (&["Block bitmap at "], Fixed::BlockBitmap),
            (&["Inode bitmap at "], Fixed::InodeBitmap),
            (&["Inode table at "], Fixed::InodeTable),
        ] {
            for range in words.iter().flat_map(|word| text.split(word).skip(1)) {
                let range: String = range
                    .chars()
                    .take_while(|c| c.is_ascii_digit() || *c == '-')
                    .collect();
                let (first, last) = range.split_once('-').unwrap_or((&range, &range));
                let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
                for block in first..=last {
                    assert_eq!(
                        ext4.fixed(block).unwrap(),
                        Some(kind),
                        "{options:?} {block}"
                    );
                    seen += 1;
                }
            }
        }
        assert!(seen > 100, "{options:?}: {text}");
        let journal = blocks(&image, "<8>");
        assert!(journal.len() > 100, "{options:?}");
        for block in journal {
            let kind = ext4.fixed(block).unwrap();
            assert_eq!(kind, Some(Fixed::Journal), "{options:?} {block}");
        }
        assert_eq!(ext4.fixed(ext4.blocks()).unwrap(), None);
    }
}

#[test]
fn extent_nodes_directories_links_and_attributes_are_told() {
    check_contents(&[], BlockKind::ExtentNode);
}

#[test]
fn indirect_blocks_are_told() {
    check_contents(&["-O", "^extent,^64bit"], BlockKind::Indirect);
}

/// Compares the kinds of blocks of whole trees, directories and so on with what they belong to.
fn check_contents(options: &[&str], map_kind: BlockKind) {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(256, &[&["-b", "4096", "-I", "256"], options].concat());
    let root = image.mount_point();
    let samples = populate(&image, 20);
    let large = root.join("large");
    fs::create_dir(&large).unwrap();
    for file in 0..2000 {
        fs::write(
            large.join(format!("a-name-that-takes-some-room-{file}")),
            "",
        )
        .unwrap();
    }
    symlink("x/".repeat(50), root.join("link")).unwrap();
    let attributed = root.join("attributed");
    fs::write(&attributed, "x").unwrap();
    setxattr(&attributed, "user.long", &[7; 2000], XattrFlags::empty()).unwrap();

    let inodes: Vec<u64> = samples.iter().map(|sample| sample.ino).collect();
    let mut expected: Vec<(u64, BlockKind)> = inspect(&image, &inodes)
        .values()
        .flat_map(|inode| inode.nodes.iter().map(|node| (node.physical, map_kind)))
        .collect();
    assert!(!expected.is_empty());
    let of = |path: &str, kind| {
        blocks(&image, path)
            .into_iter()
            .map(move |block| (block, kind))
    };
    let directory = of("/large", BlockKind::Directory);
    let directory: Vec<_> = match map_kind {
        // debugfs lists the blocks of the map, too; a directory of so many blocks has one.
        BlockKind::Indirect => directory.take(12).collect(),
        _ => directory.collect(),
    };
    assert!(directory.len() > 10);
    expected.extend(directory);
    expected.extend(of("/link", BlockKind::SymbolicLink));
    let stat = debugfs(&image, "stat /attributed");
    let acl = stat.split("File ACL: ").nth(1).unwrap();
    let acl = acl.split_whitespace().next().unwrap().parse().unwrap();
    expected.push((acl, BlockKind::Xattr));

    let dev = fs::metadata(root).unwrap().dev();
    let mut system = LiveSystem::new(MountTable::read().unwrap(), SystemTime::now());
    assert!(system.on_drive(dev));
    for (block, kind) in expected {
        assert_eq!(system.block(dev, block), kind, "block {block}");
    }
}

/// Blocks of a file, a directory or a link.
fn blocks(image: &LoopExt4, path: &str) -> Vec<u64> {
    let text = debugfs(image, &format!("blocks {path}"));
    let blocks: Vec<u64> = text
        .split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect();
    assert!(!blocks.is_empty(), "{path}");
    blocks
}

fn debugfs(image: &LoopExt4, request: &str) -> String {
    image.sync();
    succeed(
        Command::new("debugfs")
            .arg("-R")
            .arg(request)
            .arg(image.device()),
    )
}
