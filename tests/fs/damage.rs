//! File systems without a mount: directories that are refused, and damage.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use paralfetch::fs::ext4::Ext4;
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

#[test]
fn directories_whose_names_have_other_hashes_and_files_are_refused() {
    let image = Image::new(1024, &[], |root| {
        for directory in ["encrypted", "folded"] {
            fs::create_dir(root.join(directory)).unwrap();
        }
        File::create(root.join("file")).unwrap();
    });
    let ino = |name: &str| -> u64 {
        let stat = image.debugfs(&format!("stat {name}"));
        let (_, rest) = stat.split_once("Inode: ").unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
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
