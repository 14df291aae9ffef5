//! An ext4 file system, damaged anywhere behind its superblock: look-ups in it give an answer or an
//! error. Needs mke2fs(8) and e2fsck(8).
//!
//! The input is a list of changes to a sound image: three bytes of offset, one that tells how many
//! bytes follow, and those bytes.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use paralfetch::fs::ext4::Ext4;

/// Bytes that the changes leave alone: the superblock is libext2fs's own business.
const SPARED: usize = 2048;

/// A sound image, and a file for damaged ones.
struct Image {
    sound: Vec<u8>,
    damaged: PathBuf,
}

static IMAGE: LazyLock<Image> = LazyLock::new(make);

/// A file system with a hashed directory, a slow link and an inline directory.
fn make() -> Image {
    let directory = std::env::temp_dir().join(format!("paralfetch-fuzz-{}", std::process::id()));
    let crowd = directory.join("root/crowd");
    fs::create_dir_all(&crowd).unwrap();
    fs::create_dir(directory.join("root/inline")).unwrap();
    fs::write(crowd.join("first"), "").unwrap();
    for index in 0..200 {
        let link = crowd.join(format!("{index:0100}"));
        fs::hard_link(crowd.join("first"), link).unwrap();
    }
    std::os::unix::fs::symlink("x".repeat(200), directory.join("root/link")).unwrap();
    let image = directory.join("image");
    fs::File::create(&image)
        .unwrap()
        .set_len(256 << 10)
        .unwrap();
    let mut mke2fs = Command::new("mke2fs");
    mke2fs.args([
        "-q", "-F", "-t", "ext4", "-b", "1024", "-N", "32", "-I", "256",
    ]);
    mke2fs.args(["-O", "^has_journal,inline_data", "-d"]);
    run(mke2fs.arg(directory.join("root")), &image, &[0]);
    // Sorts the directories into indexes, and says so with its status.
    run(Command::new("e2fsck").arg("-fyD"), &image, &[0, 1]);
    Image {
        sound: fs::read(&image).unwrap(),
        damaged: image,
    }
}

fn run(command: &mut Command, image: &Path, good: &[i32]) {
    let output = command.arg(image).output().unwrap();
    assert!(
        output
            .status
            .code()
            .is_some_and(|code| good.contains(&code)),
        "{output:?}"
    );
}

libfuzzer_sys::fuzz_target!(|changes: &[u8]| {
    let mut bytes = IMAGE.sound.clone();
    let mut rest = changes;
    while let [a, b, c, len, after @ ..] = rest {
        let at = SPARED + u32::from_le_bytes([*a, *b, *c, 0]) as usize % (bytes.len() - SPARED);
        let len = usize::from(*len).min(after.len()).min(bytes.len() - at);
        bytes[at..at + len].copy_from_slice(&after[..len]);
        rest = &after[len..];
    }
    fs::write(&IMAGE.damaged, bytes).unwrap();
    let Ok(ext4) = Ext4::open(&IMAGE.damaged) else {
        return;
    };
    for ino in 0..20 {
        // Nearly every answer to damage is an error, as it should be.
        drop(ext4.look_up(ino, b"first"));
        drop(ext4.look_up(ino, b"absent"));
        drop(ext4.directory_blocks(ino));
        drop(ext4.link_blocks(ino));
    }
});
