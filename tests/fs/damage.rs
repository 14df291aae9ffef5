//! File systems without a mount: directories that are refused, and damage.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use paralfetch::fs::ext4::{Ext4, Ext4Error, ReadLimits};
use tempfile::TempDir;

use common::succeed;

/// An image with the contents of a directory; needs no privileges.
struct Image {
    directory: TempDir,
}

impl Image {
    fn new(kib: u64, mke2fs_args: &[&str], fill: impl Fn(&Path)) -> Image {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("source");
        fs::create_dir(&source).unwrap();
        fill(&source);
        let image = Image { directory };
        File::create(image.path())
            .unwrap()
            .set_len(kib << 10)
            .unwrap();
        let mut mke2fs = Command::new("mke2fs");
        mke2fs
            .args(["-q", "-F", "-t", "ext4", "-b", "1024", "-d"])
            .arg(source);
        succeed(mke2fs.args(mke2fs_args).arg(image.path()));
        image
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn debugfs(&self, command: &str) -> String {
        succeed(
            Command::new("debugfs")
                .args(["-w", "-R", command])
                .arg(self.path()),
        )
    }

    fn open(&self) -> Ext4 {
        Ext4::open(&self.path()).unwrap()
    }

    fn ino(&self, name: &str) -> u64 {
        let stat = self.debugfs(&format!("stat {name}"));
        let (_, rest) = stat.split_once("Inode: ").unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Sorts directories into indexes.
    fn index_directories(&self) {
        let mut e2fsck = Command::new("e2fsck");
        let output = e2fsck.arg("-fyD").arg(self.path()).output().unwrap();
        // Versions differ in whether their status calls this a correction.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
        let words = String::from_utf8_lossy(&output.stdout);
        assert!(words.contains("FILE SYSTEM WAS MODIFIED"), "{words}");
    }
}

#[test]
fn directories_whose_names_have_other_hashes_and_files_are_refused() {
    let image = Image::new(1024, &[], |root| {
        for directory in ["encrypted", "folded"] {
            fs::create_dir(root.join(directory)).unwrap();
        }
        File::create(root.join("file")).unwrap();
    });
    let ino = |name: &str| image.ino(name);
    // EXT4_EXTENTS_FL with EXT4_ENCRYPT_FL or EXT4_CASEFOLD_FL.
    for (name, flags, reason) in [
        ("encrypted", "0x80800", "encrypted"),
        ("folded", "0x40080000", "ignores case"),
    ] {
        image.debugfs(&format!("set_inode_field {name} flags {flags}"));
        let error = image.open().look_up(ino(name), b"name").unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("cannot tell what a look-up"), "{error}");
        assert!(error.contains(reason), "{error}");
        // Listing takes no hashes.
        assert_eq!(image.open().directory_blocks(ino(name)).unwrap().len(), 1);
    }
    let ext4 = image.open();
    for result in [
        ext4.look_up(ino("file"), b"name").map(drop),
        ext4.directory_blocks(0).map(drop),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with("cannot find the metadata"), "{error}");
    }
}

/// A file and a directory of one block each, in an image whose blocks have 1 KiB. Their trees can be made to grow without
/// taking more room.
struct Endless {
    image: Image,
    file: u64,
    directory: u64,
}

/// Size of an inode in such an image, and where its map begins in it.
const INODE: u64 = 256;
const MAP: u64 = 40;

impl Endless {
    fn new() -> Endless {
        let image = Image::new(1024, &["-O", "^has_journal", "-I", "256"], |root| {
            fs::write(root.join("file"), "content").unwrap();
            fs::write(root.join("nodes"), [1; 4 * 1024]).unwrap();
            fs::create_dir(root.join("directory")).unwrap();
        });
        let ino = |name: &str| image.ino(name);
        let (file, directory) = (ino("file"), ino("directory"));
        Endless {
            image,
            file,
            directory,
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(self.image.path());
        file.unwrap().write_all_at(bytes, at).unwrap();
    }

    /// Where an inode lies in the image, in bytes.
    fn inode(&self, ino: u64) -> u64 {
        let block = self.image.open().inode_block(ino).unwrap();
        block * 1024 + (ino - 1) * INODE % 1024
    }

    /// Gives the file or directory an extent tree with a node in each of four levels, to which all 84 entries of the level
    /// above lead: 50 million ways. libext2fs notices a node that is its own ancestor.
    fn grow(&self, ino: u64) {
        let nodes = self.image.debugfs("blocks /nodes");
        let nodes: Vec<u32> = nodes
            .split_whitespace()
            .map(|block| block.parse().unwrap())
            .collect();
        let header = |entries: u16, most: u16, depth: usize| {
            let fields = [0xf30a, entries, most, depth as u16, 0, 0];
            fields.map(u16::to_le_bytes).concat()
        };
        // Logical block, lower and upper half of the node's place.
        let entry = |logical: u32, node: u32| [logical, node, 0].map(u32::to_le_bytes).concat();
        let root = [header(1, 4, nodes.len()), entry(0, nodes[0])].concat();
        self.write(self.inode(ino) + MAP, &root);
        for (level, &node) in nodes.iter().enumerate() {
            let below = *nodes.get(level + 1).unwrap_or(&node);
            let entries: Vec<u8> = (0..84).flat_map(|at| entry(at, below)).collect();
            let header = header(84, 84, nodes.len() - 1 - level);
            self.write(u64::from(node) * 1024, &[header, entries].concat());
        }
    }
}

fn error_of<T: std::fmt::Debug>(answer: Result<T, Ext4Error>) -> String {
    answer.unwrap_err().to_string()
}

#[test]
fn trees_that_never_end_stop_at_a_bound_that_the_error_names() {
    let endless = Endless::new();
    endless.grow(endless.file);
    let error = error_of(endless.image.open().extent_nodes(endless.file));
    assert!(error.contains("more than 65536 tree nodes"), "{error}");

    let limits = ReadLimits {
        reads: 100,
        ..ReadLimits::default()
    };
    let ext4 = Ext4::open_within(&endless.image.path(), limits).unwrap();
    let error = error_of(ext4.extent_nodes(endless.file));
    assert!(error.contains("too many reads"), "{error}");
    // The next question is another.
    ext4.inode_block(endless.file).unwrap();
}

#[test]
fn a_directory_that_claims_to_be_huge_or_never_ends_is_refused() {
    let endless = Endless::new();
    let ino = endless.directory;
    let size = endless.inode(ino) + 4;
    endless.write(size, &(1_u32 << 30).to_le_bytes());
    let error = error_of(endless.image.open().look_up(ino, b"name"));
    assert!(error.contains("too large for a directory"), "{error}");
    endless.write(size, &1024_u32.to_le_bytes());
    endless.grow(ino);
    for answer in [
        endless.image.open().look_up(ino, b"name").map(drop),
        endless.image.open().directory_blocks(ino).map(drop),
    ] {
        let error = error_of(answer);
        assert!(error.contains("in circles"), "{error}");
    }
}

#[test]
fn the_time_for_all_questions_ends_and_the_error_says_so() {
    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }
    let endless = Endless::new();
    endless.grow(endless.file);
    // A drive that takes a second for each read.
    let limits = ReadLimits {
        time: Duration::from_secs(300),
        clock: || {
            NOW.set(NOW.get() + 1);
            Duration::from_secs(NOW.get())
        },
        ..ReadLimits::default()
    };
    let ext4 = Ext4::open_within(&endless.image.path(), limits).unwrap();
    for _ in 0..2 {
        let error = error_of(ext4.extent_nodes(endless.file));
        assert!(error.contains("takes too long"), "{error}");
    }
    assert!(NOW.get() < 600);
}

#[test]
fn a_superblock_that_claims_any_size_is_refused_before_memory_is_filled() {
    let endless = Endless::new();
    // Of the number of blocks, the upper half; the feature that makes it count is mke2fs's default.
    endless.write(1024 + 0x150, &[0xff, 0xff, 0, 0]);
    let error = error_of(Ext4::open(&endless.image.path()));
    assert!(
        error.starts_with("cannot read the ext4 metadata"),
        "{error}"
    );
}

/// All that can be asked about the first inodes: the blocks of each answer, or `None` for an error.
fn ask_everything(ext4: &Ext4) -> Vec<Option<Vec<u64>>> {
    let mut answers = Vec::new();
    for ino in 0..40 {
        for name in [&b"linked-0000"[..], b"absent"] {
            let found = ext4.look_up(ino, name).ok();
            answers.push(found.map(|found| [found.blocks, found.perhaps].concat()));
        }
        answers.push(ext4.directory_blocks(ino).ok());
        answers.push(ext4.link_blocks(ino).ok());
        answers.push(ext4.inode_block(ino).ok().map(|block| vec![block]));
    }
    for block in answers.iter().flatten().flatten() {
        assert!(*block < ext4.blocks(), "{block}");
    }
    answers
}

#[test]
fn damage_anywhere_gives_an_error_or_an_answer() {
    for features in [
        "^has_journal",
        "^has_journal,^extent,^64bit",
        "^has_journal,inline_data",
    ] {
        let image = Image::new(512, &["-O", features, "-N", "64", "-I", "256"], |root| {
            let crowd = root.join("crowd");
            fs::create_dir(&crowd).unwrap();
            File::create(crowd.join("linked-0000")).unwrap();
            for index in 1..400 {
                let link = crowd.join(format!("linked-{index:04}{}", "-".repeat(60)));
                fs::hard_link(crowd.join("linked-0000"), link).unwrap();
            }
            symlink("x".repeat(200), root.join("link")).unwrap();
        });
        image.index_directories();
        let whole = fs::read(image.path()).unwrap();
        let sound = ask_everything(&image.open());
        let named: Vec<u64> = sound.iter().flatten().flatten().copied().collect();
        let file = OpenOptions::new().write(true).open(image.path()).unwrap();
        // A linear congruential generator (Knuth's MMIX): the same damage in every run.
        let mut state = 1_u64;
        let mut random = move |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut damaged = 0;
        for _ in 0..300 {
            for _ in 0..=random(30) {
                // Anywhere but in the superblock, which libext2fs checks, or in blocks that are read.
                let at = match random(2) {
                    0 => 2048 + random(whole.len() - 2048 - 8),
                    _ => named[random(named.len())] as usize * 1024 + random(1024 - 8),
                };
                let bytes = [0, 0xff, 1, random(256) as u8][random(4)];
                file.write_all_at(&vec![bytes; 1 << random(4)], at as u64)
                    .unwrap();
            }
            let answers = Ext4::open(&image.path()).map(|ext4| ask_everything(&ext4));
            damaged += usize::from(answers.ok().as_ref() != Some(&sound));
            if random(8) == 0 {
                file.write_all_at(&whole, 0).unwrap();
            }
        }
        assert!(
            damaged > 10,
            "only {damaged} of 300 changes have reached anything that is read"
        );
    }
}
