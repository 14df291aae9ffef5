//! Blocks that looking names up reads, held against what the drive serves and what debugfs(8) says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use paralfetch::fs::ext4::{Ext4, Ext4Error};
use rustix::fs::XattrFlags;

use crate::cold::{Blocks, Cold};
use crate::common::{LoopExt4, privileged, succeed};
use crate::debugfs::inspect;
use crate::names::{crowd, name, shatter};

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
    // Every name is found, by its own inode.
    let files: BTreeMap<String, u64> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                entry.metadata().unwrap().ino(),
            )
        })
        .collect();
    for (name, &inode) in &files {
        let found = ext4.look_up(ino, name.as_bytes()).unwrap().found;
        assert_eq!(found, Some(inode), "{name}");
    }
    for (name, inode) in [(".", ino), ("..", 2)] {
        assert_eq!(
            ext4.look_up(ino, name.as_bytes()).unwrap().found,
            Some(inode)
        );
    }
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
    let (count, length) = (40_000, 250);
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

/// Two names of one hash, one at the end of a leaf and the other in the next leaf.
#[test]
fn names_of_one_hash_in_two_leaves() {
    if !privileged() {
        return;
    }
    let seed = "01020304-0506-0708-090a-0b0c0d0e0f10";
    let image = LoopExt4::new(16, &["-b", "1024", "-E", &format!("hash_seed={seed}")]);
    // By the birthday paradox, about 30 pairs of hashes of 31 bits.
    let names: Vec<String> = (0..350_000).map(|index| name(index, 250)).collect();
    let hashes = hashes(&image, &names, seed);
    let mut by_hash: Vec<(u32, &String)> = hashes.into_iter().zip(&names).collect();
    by_hash.sort_unstable();
    let pair = (100..names.len() - 200)
        .find(|&at| by_hash[at].0 == by_hash[at + 1].0)
        .unwrap();
    let mut leaves = BTreeSet::new();
    // A leaf has room for three of the names, and the fourth splits it. Which of the three then begins
    // the new leaf depends on their order, and on the kernel.
    let orders = [[0, 1, 100], [0, 1, -100], [-100, 0, 1], [-100, 1, 0]];
    for (index, order) in orders.iter().enumerate() {
        let directory = image.mount_point().join(format!("order{index}"));
        fs::create_dir(&directory).unwrap();
        for &at in order.iter().chain(&[200]) {
            let (_, name) = by_hash[pair.checked_add_signed(at).unwrap()];
            File::create(directory.join(name)).unwrap();
        }
        let cold = Cold::new(&image);
        let ext4 = Ext4::open(image.device()).unwrap();
        let ino = fs::metadata(&directory).unwrap().ino();
        for (_, name) in &by_hash[pair..pair + 2] {
            let path = directory.join(name);
            cold.check("one of a pair", &cold.walk(&path), || {
                assert!(path.metadata().is_ok());
            });
            // The root, and one leaf or two.
            let look_up = ext4.look_up(ino, name.as_bytes()).unwrap();
            leaves.insert(look_up.blocks.len() - 1);
        }
    }
    assert_eq!(leaves, BTreeSet::from([1, 2]));
}

/// The hashes of names by debugfs(8).
fn hashes(image: &LoopExt4, names: &[String], seed: &str) -> Vec<u32> {
    let directory = tempfile::tempdir().unwrap();
    let commands = directory.path().join("commands");
    let script = names
        .iter()
        .map(|name| format!("dx_hash -h half_md4 -s {seed} {name}\n"));
    fs::write(&commands, script.collect::<String>()).unwrap();
    let mut debugfs = Command::new("debugfs");
    debugfs.arg("-f").arg(commands).arg(image.device());
    let output = succeed(&mut debugfs);
    let hash = |line: &str| {
        let (_, rest) = line.split_once(" is 0x")?;
        let (digits, _) = rest.split_once(' ')?;
        u32::from_str_radix(digits, 16).ok()
    };
    let found: Vec<u32> = output.lines().filter_map(hash).collect();
    assert_eq!(found.len(), names.len());
    found
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
    for (name, inode) in [(".", ino), ("..", 2)] {
        assert_eq!(
            ext4.look_up(ino, name.as_bytes()).unwrap().found,
            Some(inode)
        );
    }
    for index in 0..7 {
        let path = directory.join(name(index, 8));
        let look_up = ext4.look_up(ino, name(index, 8).as_bytes()).unwrap();
        assert!(look_up.blocks.is_empty());
        cold.check("inline", &cold.walk(&path), || {
            assert_eq!(path.metadata().is_ok(), index < 6);
        });
    }
}

#[test]
fn links_and_attributes() {
    for args in [
        &["-b", "4096"][..],
        &["-b", "1024", "-O", "^extent,^64bit"],
        &["-b", "1024", "-O", "ea_inode"],
        &["-b", "4096", "-O", "inline_data,ea_inode", "-I", "256"],
    ] {
        if !privileged() {
            return;
        }
        let image = LoopExt4::new(32, args);
        let at = |name: &str| image.mount_point().join(name);
        for (link, length) in [("fast", 59), ("slow", 60), ("inline", 100), ("long", 1000)] {
            symlink("x".repeat(length), at(link)).unwrap();
        }
        // One block has room for one of them; the other needs an inode of its own.
        let large = args.join(" ").contains("ea_inode");
        let outer = if large { &[700, 60_000][..] } else { &[700] };
        for (file, sizes) in [("none", &[][..]), ("inner", &[10]), ("outer", outer)] {
            File::create(at(file)).unwrap();
            for (index, &size) in sizes.iter().enumerate() {
                set_attribute(&at(file), index, size);
            }
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
        for (file, expected) in [("none", 0..=0), ("inner", 0..=0), ("outer", 1..=80)] {
            let mut blocks = cold.walk(&at(file));
            let ino = fs::metadata(at(file)).unwrap().ino();
            let own = ext4.xattr_blocks(ino).unwrap();
            assert!(expected.contains(&own.len()), "{file} {args:?} {own:?}");
            assert!(ext4.link_blocks(ino).unwrap().is_empty());
            blocks.needed.extend(own);
            cold.check(file, &blocks, || read_attributes(&at(file)));
        }
    }
}

fn set_attribute(path: &Path, index: usize, size: usize) {
    let name = format!("user.test{index}");
    rustix::fs::setxattr(
        path,
        name,
        &vec![index as u8 + 1; size],
        XattrFlags::empty(),
    )
    .unwrap();
}

fn read_attributes(path: &Path) {
    let mut names = [0_u8; 1024];
    let length = rustix::fs::listxattr(path, &mut names).unwrap();
    for name in names[..length].split_inclusive(|&byte| byte == 0) {
        let name = std::ffi::CStr::from_bytes_with_nul(name).unwrap();
        rustix::fs::getxattr(path, name, &mut vec![0_u8; 1 << 16]).unwrap();
    }
}

#[test]
fn what_is_no_directory_or_encrypted_is_refused() {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(16, &["-O", "encrypt"]);
    let (directory, file) = (
        image.mount_point().join("dir"),
        image.mount_point().join("file"),
    );
    fs::create_dir(&directory).unwrap();
    File::create(&file).unwrap();
    let inodes = [&directory, &file].map(|path| fs::metadata(path).unwrap().ino());
    image.sync();
    let mut debugfs = Command::new("debugfs");
    // EXT4_ENCRYPT_FL and EXT4_EXTENTS_FL.
    debugfs.args(["-w", "-R", "set_inode_field dir flags 0x80800"]);
    succeed(debugfs.arg(image.device()));
    let ext4 = Ext4::open(image.device()).unwrap();
    let error = ext4.look_up(inodes[0], b"name").unwrap_err();
    assert!(matches!(error, Ext4Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("encrypted"));
    assert_eq!(ext4.directory_blocks(inodes[0]).unwrap().len(), 1);
    for result in [
        ext4.look_up(inodes[1], b"name").map(drop),
        ext4.directory_blocks(0).map(drop),
    ] {
        assert!(matches!(result, Err(Ext4Error::Inode { .. })));
    }
}

/// Without case, as the kernel sees it.
#[test]
fn without_case() {
    if !privileged() {
        return;
    }
    if !Path::new("/sys/fs/ext4/features/casefold").exists() {
        eprintln!("SKIPPED: this kernel's ext4 has no casefold");
        return;
    }
    let image = LoopExt4::new(64, &["-O", "casefold", "-E", "encoding=utf8"]);
    let directory = image.mount_point().join("folded");
    fs::create_dir(&directory).unwrap();
    succeed(Command::new("chattr").arg("+F").arg(&directory));
    for index in 0..2000 {
        File::create(directory.join(format!("Datei-ÄÖÜ-{index:050}"))).unwrap();
    }
    let cold = Cold::new(&image);
    for index in [0, 700, 1999, 2000] {
        let path = directory.join(format!("dATEI-äöü-{index:050}"));
        let blocks = cold.walk(&path);
        // The repeated search of newer kernels reads more than older ones do: needed or not.
        let blocks = match index < 2000 {
            true => blocks,
            false => Blocks {
                needed: Vec::new(),
                ahead: blocks.needed,
            },
        };
        cold.check("without case", &blocks, || {
            assert_eq!(path.metadata().is_ok(), index < 2000);
        });
    }
}
