//! An ext4 file system with damage in one kind of block: whatever is asked about it has an answer or an error, within
//! the limits. Needs mke2fs(8) and e2fsck(8).
//!
//! The input is a list of changes to a sound image: two bytes of offset among the blocks of that kind, one that
//! tells how many bytes follow, and those bytes.

use std::fs::{self, File};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use paralfetch::fs::ext4::{Ext4, ReadLimits};

/// What is damaged.
#[derive(Clone, Copy)]
pub enum Damaged {
    /// The superblock and the group descriptors.
    Superblock,
    /// The inode table.
    Inodes,
    /// Nodes of an extent tree that is two levels deep.
    Extents,
    /// A directory with an index.
    Directory,
}

/// Size of a block, in bytes.
const BLOCK: u64 = 1024;

/// The first inode that is not reserved is `lost+found`'s; files and directories come after it.
const INODES: Range<u64> = 0..20;

/// A sound image, and a file for damaged ones.
struct Image {
    sound: Vec<u8>,
    path: PathBuf,
    damaged: File,
}

static IMAGE: LazyLock<Image> = LazyLock::new(make);

/// A file system with a hashed directory, a slow link, an inline directory and a file in many pieces.
fn make() -> Image {
    let directory = std::env::temp_dir().join(format!("paralfetch-fuzz-{}", std::process::id()));
    // Of an earlier process with this number.
    let _ = fs::remove_dir_all(&directory);
    let crowd = directory.join("root/crowd");
    fs::create_dir_all(&crowd).unwrap();
    fs::create_dir(directory.join("root/inline")).unwrap();
    fs::write(crowd.join("first"), "").unwrap();
    for index in 0..200 {
        let link = crowd.join(format!("{index:0100}"));
        fs::hard_link(crowd.join("first"), link).unwrap();
    }
    std::os::unix::fs::symlink("x".repeat(200), directory.join("root/link")).unwrap();
    // Holes are kept, and each piece is an extent: 400 need five leaves, and these two levels.
    let pieces = File::create(directory.join("root/pieces")).unwrap();
    for piece in 0..400 {
        pieces.write_all_at(b"piece", piece * 4096).unwrap();
    }
    let path = directory.join("image");
    File::create(&path).unwrap().set_len(3 << 20).unwrap();
    let mut mke2fs = Command::new("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-N", "32"]);
    mke2fs.args(["-I", "256", "-O", "^has_journal,inline_data", "-d"]);
    run(mke2fs.arg(directory.join("root")), &path, &[0]);
    // Sorts the directories into indexes, and says so with its status.
    run(Command::new("e2fsck").arg("-fyD"), &path, &[0, 1]);
    let sound = fs::read(&path).unwrap();
    let damaged = File::options().read(true).write(true).open(&path).unwrap();
    // It is reached by the descriptor alone from here on, and leaves nothing behind.
    fs::remove_dir_all(&directory).unwrap();
    Image {
        sound,
        path: format!("/proc/self/fd/{}", damaged.as_raw_fd()).into(),
        damaged,
    }
}

fn run(command: &mut Command, image: &Path, good: &[i32]) {
    let output = command.arg(image).output().unwrap();
    let status = output.status.code();
    assert!(
        status.is_some_and(|code| good.contains(&code)),
        "{output:?}"
    );
}

/// Where the blocks of this kind lie in the image, in bytes.
fn places(damaged: Damaged) -> Vec<Range<usize>> {
    let ext4 = Ext4::open(&IMAGE.path).unwrap();
    let inodes = 11..20;
    let blocks: Vec<u64> = match damaged {
        Damaged::Superblock => vec![1, 2],
        Damaged::Inodes => (1..32).map(|ino| ext4.inode_block(ino).unwrap()).collect(),
        Damaged::Extents => inodes
            .flat_map(|ino| ext4.extent_nodes(ino).unwrap_or_default())
            .map(|node| node.physical)
            .collect(),
        Damaged::Directory => inodes
            .flat_map(|ino| ext4.directory_blocks(ino).unwrap_or_default())
            .collect(),
    };
    assert!(!blocks.is_empty());
    let bytes = |block: u64| (block * BLOCK) as usize..((block + 1) * BLOCK) as usize;
    blocks.into_iter().map(bytes).collect()
}

/// Places of each kind of damage, found once.
static PLACES: [OnceLock<Vec<Range<usize>>>; 4] = [const { OnceLock::new() }; 4];

/// Damages the image, asks everything, and restores it. One at a time: there is one image.
pub fn check(damaged: Damaged, changes: &[u8]) {
    let places = PLACES[damaged as usize].get_or_init(|| places(damaged));
    let mut rest = changes;
    while let [low, high, len, after @ ..] = rest {
        let at = usize::from(u16::from_le_bytes([*low, *high]));
        let place = &places[at / BLOCK as usize % places.len()];
        let start = place.start + at % BLOCK as usize;
        let len = usize::from(*len).min(after.len()).min(place.end - start);
        IMAGE
            .damaged
            .write_all_at(&after[..len], start as u64)
            .unwrap();
        rest = &after[len..];
    }
    ask_everything();
    for place in places {
        let sound = &IMAGE.sound[place.clone()];
        IMAGE
            .damaged
            .write_all_at(sound, place.start as u64)
            .unwrap();
    }
}

/// Nearly every answer to damage is an error, as it should be.
fn ask_everything() {
    let limits = ReadLimits {
        reads: 1 << 12,
        time: Duration::from_secs(2),
        ..ReadLimits::default()
    };
    let Ok(ext4) = Ext4::open_within(&IMAGE.path, limits) else {
        return;
    };
    for ino in INODES {
        drop(ext4.inode_block(ino));
        drop(ext4.extent_nodes(ino));
        drop(ext4.look_up(ino, b"first"));
        drop(ext4.look_up(ino, b"absent"));
        drop(ext4.directory_blocks(ino));
        drop(ext4.link_blocks(ino));
    }
    ext4.block_kind(5);
}
