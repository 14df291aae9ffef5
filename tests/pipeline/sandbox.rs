//! Apps in mount namespaces of their own: what their look-ups need is learned through the mounts there.
//!
//! Everything is cached when they are learned: their paths alone tell what they need.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command};

use paralfetch::fs::ext4::Ext4;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use crate::known::{READ, assert_same, known, metadata_needed, metadata_of};
use common::reads::{prefetch, reads_of_launch};
use common::root::{Root, install, pages_of};
use common::until;
use common::{Mounted, drop_caches, succeed};

/// A directory of the image over which the sandbox mounts a file system in its own namespace.
const COVERED: &str = "/new";

/// A sandbox that is given this FIFO does not end before its namespace has been seen.
const STAY: &str = "/app/stay";

/// The image with the program that makes sandboxes.
fn with_sandbox() -> Option<(Root, impl Drop)> {
    let (root, turn) = known()?;
    let at = |path: &str| root.path().join(&path[1..]);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/pipeline/sandbox.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-static", "-O1", "-Wall", "-Werror", "-o"]);
    succeed(compiler.arg(at("/sandbox")).arg(source));
    for directory in [COVERED, "/app"] {
        fs::create_dir(at(directory)).unwrap();
    }
    fs::hard_link(at("/known"), at("/app/known")).unwrap();
    fs::hard_link(at("/sandbox"), at("/app/sandbox")).unwrap();
    mknodat(CWD, at(STAY), FileType::Fifo, Mode::RWXU, 0).unwrap();
    root.image.sync();
    Some((root, turn))
}

/// What is learned of a launch for which everything is cached.
struct Learned {
    metadata: BTreeSet<u64>,
    profile: Value,
    /// Counts of paths.
    paths: Value,
}

/// `stays` makes sure that the sandbox does, by a last argument.
fn learn_warm(root: &Root, cmd: &[&str], stays: bool) -> Learned {
    let mut full = cmd.to_vec();
    full.extend(stays.then_some(STAY));
    let mut warm = Command::new("chroot");
    succeed(warm.arg(root.path()).args(cmd));
    let report = tempfile::NamedTempFile::new().unwrap();
    let json = format!("--json={}", report.path().display());
    let gate = File::options()
        .read(true)
        .write(true)
        .open(root.path().join(&STAY[1..]));
    let mut learning = root.paralfetch(&["learn", "--live", &json], &full);
    let mut learning = learning.spawn().unwrap();
    if stays {
        until("its namespace is held", || holds_namespace(&learning));
    }
    drop(gate.unwrap());
    assert!(learning.wait().unwrap().success());
    let resolved: Value = serde_json::from_slice(&fs::read(report.path()).unwrap()).unwrap();
    let app = Path::new(cmd[0]).file_name().unwrap().to_str().unwrap();
    let profile = root.show(app);
    succeed(&mut root.paralfetch(&["forget", app], &[]));
    Learned {
        metadata: metadata_of(&profile).into_iter().collect(),
        profile,
        paths: resolved["resolved"]["paths"].clone(),
    }
}

/// Whether the process has a mount namespace open.
fn holds_namespace(process: &Child) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap();
    descriptors
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .any(|target| target.to_string_lossy().starts_with("mnt:["))
}

/// The block of a file's or directory's inode.
fn inode_block(root: &Root, path: &str) -> u64 {
    let ino = fs::metadata(root.path().join(&path[1..])).unwrap().ino();
    let ext4 = Ext4::open(root.image.device()).unwrap();
    ext4.inode_block(ino).unwrap()
}

/// The metadata of a directory itself: its inode's block and its own.
fn blocks_of(root: &Root, directory: &str) -> BTreeSet<u64> {
    let ino = fs::metadata(root.path().join(&directory[1..]))
        .unwrap()
        .ino();
    let ext4 = Ext4::open(root.image.device()).unwrap();
    let own = ext4.directory_blocks(ino).unwrap().into_iter();
    own.chain([inode_block(root, directory)]).collect()
}

fn assert_nothing_is_unresolved(learned: &Learned) {
    for count in ["foreign", "hidden"] {
        assert_eq!(learned.paths[count], 0, "{}", learned.paths);
    }
}

fn assert_data_are_learned(learned: &Learned) {
    for (path, pages) in READ {
        let found = pages_of(&learned.profile, path);
        assert!(
            pages.iter().all(|page| found.contains(page)),
            "{path}: {found:?}"
        );
    }
}

#[test]
fn a_sandbox_needs_the_same_metadata_as_the_app_without_it() {
    let Some((root, _turn)) = with_sandbox() else {
        return;
    };
    let needed = metadata_needed(&root);
    // What the app's own paths do not lead to; of /new, what is looked up before a mount covers it.
    let mut allowed = BTreeSet::from(["/sandbox", STAY].map(|path| inode_block(&root, path)));
    for directory in ["/app", COVERED] {
        allowed.extend(blocks_of(&root, directory));
    }
    for way in ["none", "pivot", "chroot"] {
        let learned = learn_warm(&root, &["/sandbox", way], way != "none");
        let metadata: Vec<u64> = learned.metadata.iter().copied().collect();
        assert_same(way, &needed, &metadata, &allowed);
        assert_data_are_learned(&learned);
        assert_nothing_is_unresolved(&learned);
    }
}

#[test]
fn a_prefetched_sandbox_reads_nothing_itself() {
    let Some((root, _turn)) = with_sandbox() else {
        return;
    };
    let cmd = ["/sandbox", "pivot"];
    root.learn(&[], &cmd);
    drop_caches();
    let cold = reads_of_launch(root.path(), &cmd);
    assert!(cold > 20, "a cold launch makes {cold} reads");
    drop_caches();
    let report = prefetch(&root, "sandbox");
    assert!(report.skipped.is_empty(), "{report:?}");
    assert_eq!(reads_of_launch(root.path(), &cmd), 0, "of {cold}");
}

#[test]
fn the_paths_of_a_namespace_that_ends_at_once_are_resolved() {
    let Some((root, _turn)) = with_sandbox() else {
        return;
    };
    let needed = metadata_needed(&root);
    let gone = learn_warm(&root, &["/sandbox", "gone"], false);
    // It had no mounts but copies of ours: whether it was held or not, the same is found.
    let missing: Vec<_> = needed.difference(&gone.metadata).collect();
    assert!(missing.is_empty(), "{missing:?}: {}", gone.paths);
}

#[test]
fn bubblewraps_sandbox_is_seen_through() {
    let Some((root, _turn)) = with_sandbox() else {
        return;
    };
    if !Path::new("/bin/bwrap").exists() {
        common::skipped("this test needs bwrap (Debian package bubblewrap)");
        return;
    }
    let needed = metadata_needed(&root);
    install("bwrap", root.path());
    let mounted = ["proc", "dev", "tmp"].map(|name| root.path().join(name));
    mounted
        .iter()
        .for_each(|path| fs::create_dir(path).unwrap());
    let _proc = Mounted::new("proc", "proc", &mounted[0]);
    let _dev = Mounted::bind(Path::new("/dev"), &mounted[1]);
    let mut cmd = vec![
        "/bin/bwrap",
        "--unshare-pid",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ];
    for directory in [
        "/app", "/data", "/deep", "/looked", "/links", "/linked", "/listed", "/there",
    ] {
        cmd.extend(["--ro-bind", directory, directory]);
    }
    cmd.extend(["/app/sandbox", "none"]);
    let inside = learn_warm(&root, &cmd, true);
    assert_nothing_is_unresolved(&inside);
    // The rest is bubblewrap's own.
    let missing: Vec<_> = needed.difference(&inside.metadata).collect();
    assert!(missing.is_empty(), "{missing:?}: {}", inside.paths);
    assert_data_are_learned(&inside);
}
