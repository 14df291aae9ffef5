//! File systems without a mount: directories without case, and damage.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use paralfetch::fs::ext4::{Ext4, Ext4Error};
use tempfile::TempDir;

use crate::common::succeed;

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

fn file_name(index: usize) -> String {
    format!("Straße-Ä-{index:040}")
}

#[test]
fn names_without_case_are_found_where_e2fsck_put_them() {
    let image = Image::new(8192, &["-O", "casefold", "-E", "encoding=utf8"], |root| {
        fs::create_dir(root.join("folded")).unwrap();
        for index in 0..600 {
            File::create(root.join("folded").join(file_name(index))).unwrap();
        }
    });
    // EXT4_CASEFOLD_FL and EXT4_EXTENTS_FL.
    image.debugfs("set_inode_field folded flags 0x40080000");
    image.index_directories();
    let dump = image.debugfs("htree_dump folded");
    assert!(dump.contains("Indirect levels: "), "{dump}");
    let ext4 = image.open();
    let folded = ext4.look_up(2, b"folded").unwrap().found.unwrap();
    assert_eq!(ext4.look_up(2, b"Folded").unwrap().found, None);
    let all: BTreeSet<u64> = ext4.directory_blocks(folded).unwrap().into_iter().collect();
    for index in 0..600 {
        let plain = ext4.look_up(folded, file_name(index).as_bytes()).unwrap();
        let other_case = file_name(index).replace("Straße-Ä", "sTRASSE-a\u{308}");
        assert!(plain.found.is_some(), "{index}");
        assert!(plain.blocks.len() < 6, "{plain:?}");
        assert_eq!(ext4.look_up(folded, other_case.as_bytes()).unwrap(), plain);
    }
    for absent in [file_name(600).as_bytes(), b"\xff\xfe", b"plain"] {
        let absent = ext4.look_up(folded, absent).unwrap();
        assert_eq!(absent.found, None);
        // Newer kernels search once more without the hash.
        assert_eq!(absent.blocks.into_iter().collect::<BTreeSet<_>>(), all);
    }
}

#[test]
fn names_that_are_invalid_are_refused_unread_where_that_is_strict() {
    let args = [
        "-O",
        "casefold",
        "-E",
        "encoding=utf8,encoding_flags=strict",
    ];
    let image = Image::new(1024, &args, |root| {
        fs::create_dir(root.join("folded")).unwrap()
    });
    image.debugfs("set_inode_field folded flags 0x40080000");
    let ext4 = image.open();
    let folded = ext4.look_up(2, b"folded").unwrap().found.unwrap();
    assert_eq!(ext4.look_up(folded, b"\xff").unwrap(), Default::default());
    assert_eq!(ext4.look_up(folded, b"valid").unwrap().blocks.len(), 1);
}

#[test]
fn case_that_is_ignored_by_unknown_rules_is_reported() {
    let args = ["-O", "casefold", "-E", "encoding=utf8"];
    let image = Image::new(1024, &args, |root| {
        fs::create_dir(root.join("folded")).unwrap();
        File::create(root.join("folded/name")).unwrap();
    });
    image.debugfs("set_inode_field folded flags 0x40080000");
    image.debugfs("set_super_value encoding 99");
    let ext4 = image.open();
    let folded = ext4.look_up(2, b"folded").unwrap().found.unwrap();
    let error = ext4.look_up(folded, b"NAME").unwrap_err();
    assert!(matches!(error, Ext4Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("ignores case"), "{error}");
    // Listing it takes no rules.
    assert_eq!(ext4.directory_blocks(folded).unwrap().len(), 1);
}

/// Everything that can be asked of the first inodes; answers and errors are both fine.
fn ask_everything(ext4: &Ext4) -> usize {
    let mut answers = 0;
    for ino in 0..40 {
        for name in [&b"linked-0000"[..], b"absent", b".."] {
            answers += usize::from(ext4.look_up(ino, name).is_ok());
        }
        for blocks in [
            ext4.directory_blocks(ino),
            ext4.link_blocks(ino),
            ext4.xattr_blocks(ino),
        ] {
            answers += blocks.map_or(0, |blocks| {
                assert!(blocks.iter().all(|&block| block < ext4.blocks()));
                1
            });
        }
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
                // The superblock is libext2fs's own business.
                let at = 2048 + random(whole.len() - 2048 - 8);
                let bytes = [0, 0xff, 1, random(256) as u8][random(4)];
                file.write_all_at(&vec![bytes; 1 << random(4)], at as u64)
                    .unwrap();
            }
            let answers = Ext4::open(&image.path()).map_or(0, |ext4| ask_everything(&ext4));
            damaged += usize::from(answers != sound);
            if random(8) == 0 {
                file.write_all_at(&whole, 0).unwrap();
            }
        }
        assert!(damaged > 10, "no damage has reached anything that is read");
    }
}
