//! A program made for the purpose (`known.c`) is learned exactly: every page and every block of metadata that
//! it needs and no other, whatever is cached.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::set_up;
use common::cold::Cold;
use common::root::{Root, pages_of};
use common::succeed;

/// What the program reads of its files, in 4 KiB pages; nothing of holes.
pub const READ: [(&str, &[u64]); 7] = [
    ("/data/plain", &[2, 3, 9]),
    ("/data/mapped", &[3, 140, 377]),
    ("/data/sparse", &[10]),
    ("/data/fragmented", &[0, 15, 31]),
    ("/deep/a/b/c/d/e/file", &[0]),
    ("/there/below/file", &[0]),
    ("/data/child", &[5]),
];

/// Where the long link leads.
const LINKED: &str =
    "/linked/to/a/directory/of/which/the/path/is/longer/than/an/inode/has/room/for";

/// Everything that its look-ups find on their way.
const FOUND: [&str; 23] = [
    "/",
    "/known",
    "/data",
    "/data/plain",
    "/data/mapped",
    "/data/sparse",
    "/data/fragmented",
    "/data/child",
    "/deep",
    "/deep/a",
    "/deep/a/b",
    "/deep/a/b/c",
    "/deep/a/b/c/d",
    "/deep/a/b/c/d/e",
    "/deep/a/b/c/d/e/file",
    "/looked",
    "/looked/only",
    "/links",
    "/links/short",
    "/links/long",
    "/there",
    "/there/below",
    "/there/below/file",
];

/// How far a fault on a cached page maps at most: a window of 16 pages and a folio of a whole readahead
/// (128 KiB), of which a page is in the window.
const AROUND: u64 = 16 + 32;

/// The largest hole that infill merge reads along, in pages.
const HOLE: u64 = 2;

#[test]
fn what_a_cold_launch_needs_is_learned_exactly() {
    let Some((root, _turn)) = known() else {
        return;
    };
    root.learn(&[], &["/known"]);
    let profile = root.show("known");
    for (path, pages) in data() {
        assert_same(path, &pages, &pages_of(&profile, path), &BTreeSet::new());
    }
    let metadata = metadata_of(&profile);
    assert_same(
        "metadata",
        &metadata_needed(&root),
        &metadata,
        &BTreeSet::new(),
    );
}

#[test]
fn what_a_warm_launch_needs_is_learned_live() {
    let Some((root, _turn)) = known() else {
        return;
    };
    // Once to have everything cached.
    root.learn(&["--live"], &["/known"]);
    root.learn(&["--live"], &["/known"]);
    let profile = root.show("known");
    assert_eq!(profile["learned"], "live");
    assert_found(&root, &profile);
}

/// Live learning alone cannot tell the touched page from those that fault-around mapped with it. A launch
/// that was learned exactly can, and later ones use its result.
#[test]
fn pages_mapped_by_fault_around_are_left_out_after_an_exact_launch() {
    let Some((root, _turn)) = known() else {
        return;
    };
    root.learn(&["--live"], &["/known"]);
    let windows = pages_of(&root.show("known"), "/data/mapped");
    root.learn(&[], &["/known"]);
    let mapped = &data()["/data/mapped"];
    for _ in 0..2 {
        root.learn(&["--live"], &["/known"]);
        let profile = root.show("known");
        assert_eq!(profile["learned"], "live");
        let pages = pages_of(&profile, "/data/mapped");
        assert_same("/data/mapped", mapped, &pages, &BTreeSet::new());
        assert!(pages.len() <= windows.len(), "{pages:?}, {windows:?}");
    }
}

#[test]
fn what_others_hold_in_the_caches_is_learned_too() {
    let Some((root, _turn)) = known() else {
        return;
    };
    let _holders: Vec<Holder> = (0..12).map(|_| Holder::of(&root)).collect();
    root.learn(&[], &["/known"]);
    assert_found(&root, &root.show("known"));
}

#[test]
fn what_one_program_has_mapped_is_read_anew() {
    let Some((root, _turn)) = known() else {
        return;
    };
    let _holder = Holder::of(&root);
    let report = root.state.path().with_extension("json");
    root.learn(&[&format!("--json={}", report.display())], &["/known"]);
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    // The pages that the holder has written to are its own, and what it has mapped there stays.
    let cached = report["resolved"]["window_pages"].as_u64().unwrap();
    assert!(cached <= AROUND, "{report}");
    let profile = root.show("known");
    for (path, pages) in data() {
        assert_same(path, &pages, &pages_of(&profile, path), &BTreeSet::new());
    }
}

#[test]
fn with_the_learned_metadata_the_launch_finds_its_paths_without_the_drive() {
    let Some((root, _turn)) = known() else {
        return;
    };
    root.learn(&[], &["/known"]);
    let metadata: BTreeSet<u64> = metadata_of(&root.show("known")).into_iter().collect();
    let cold = Cold::new(&root.image);
    let walk = || find_all(&root);
    // Something else on the machine may look into the image now and then.
    let fewest = (0..5)
        .map(|_| cold.reads(&metadata, walk))
        .find(|&reads| reads == 0);
    assert_eq!(
        fewest,
        Some(0),
        "{metadata:?} is not all that the paths need"
    );
    assert!(cold.reads(&BTreeSet::new(), walk) > 20);
}

/// Looks up every path that the program does, as it would in its root.
fn find_all(root: &Root) {
    let directory = File::open(root.path()).unwrap();
    let linked = format!("{LINKED}/linked");
    let present = FOUND
        .iter()
        .copied()
        .chain([linked.as_str(), "/links/long/linked", "/listed"]);
    for path in present {
        find(&directory, path).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    for absent in ["/deep/a/absent", "/deep/none/of/these"] {
        assert_eq!(
            find(&directory, absent).unwrap_err(),
            Errno::NOENT,
            "{absent}"
        );
    }
    fs::read_dir(root.path().join("listed"))
        .unwrap()
        .for_each(drop);
}

fn find(directory: &File, path: &str) -> Result<rustix::fd::OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(directory, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
}

/// All that is needed is in the profile, and nothing else but what was mapped around a touched page of
/// a mapped file: the window of 16 pages, and large folios in it as a whole.
fn assert_found(root: &Root, profile: &serde_json::Value) {
    for (path, pages) in data() {
        let around: BTreeSet<u64> = match path {
            "/data/mapped" => pages
                .iter()
                .flat_map(|page| page.saturating_sub(AROUND)..page + AROUND)
                .collect(),
            _ => BTreeSet::new(),
        };
        assert_same(path, &pages, &pages_of(profile, path), &around);
    }
    let metadata = metadata_of(profile);
    assert_same(
        "metadata",
        &metadata_needed(root),
        &metadata,
        &BTreeSet::new(),
    );
}

/// `learned` holds all of `needed`, and beside it only pages of `allowed` and holes that are read along.
pub fn assert_same(what: &str, needed: &BTreeSet<u64>, learned: &[u64], allowed: &BTreeSet<u64>) {
    let learned: BTreeSet<u64> = learned.iter().copied().collect();
    let missing: Vec<_> = needed.difference(&learned).collect();
    assert!(
        missing.is_empty(),
        "{what}: {missing:?} of {needed:?} missing in {learned:?}"
    );
    let wanted = |page: u64| needed.contains(&page) || allowed.contains(&page);
    let is_hole = |page: u64| {
        let before = (1..=HOLE).any(|by| page.checked_sub(by).is_some_and(wanted));
        before && (1..=HOLE).any(|by| wanted(page + by))
    };
    let excess: Vec<_> = learned
        .iter()
        .filter(|&&page| !wanted(page) && !is_hole(page))
        .collect();
    assert!(
        excess.is_empty(),
        "{what}: {excess:?} learned beside {needed:?}"
    );
}

fn data() -> BTreeMap<&'static str, BTreeSet<u64>> {
    READ.iter()
        .map(|(path, pages)| (*path, pages.iter().copied().collect()))
        .collect()
}

/// Blocks of metadata, which are pages: inodes, directories, the long link, the extent tree of the
/// fragmented file. As debugfs(8) tells.
pub fn metadata_needed(root: &Root) -> BTreeSet<u64> {
    root.image.sync();
    let mut blocks = BTreeSet::new();
    let linked: Vec<String> = LINKED
        .match_indices('/')
        .skip(1)
        .map(|(end, _)| LINKED[..end].to_owned())
        .chain([LINKED.to_owned(), format!("{LINKED}/linked")])
        .collect();
    let found = FOUND.iter().map(|path| (*path).to_owned());
    for path in found.chain(linked).chain(["/listed".to_owned()]) {
        let imap = debugfs(root, &format!("imap {path}"));
        let block = imap
            .split_once("located at block ")
            .and_then(|(_, rest)| rest.split(',').next());
        blocks.insert(
            block
                .unwrap_or_else(|| panic!("{path}: {imap}"))
                .parse()
                .unwrap(),
        );
        if is_block_holder(&root.path().join(&path[1..])) {
            let own = debugfs(root, &format!("blocks {path}"));
            blocks.extend(
                own.split_whitespace()
                    .map(|block| block.parse::<u64>().unwrap()),
            );
        }
    }
    let stat = debugfs(root, "stat /data/fragmented");
    let (_, rest) = stat
        .split_once("(ETB0):")
        .expect("the file has an extent tree");
    let node = rest.split([',', '\n']).next().unwrap();
    blocks.insert(node.trim().parse().unwrap());
    blocks
}

/// Whether the inode's own blocks are metadata: of directories, and of links that do not fit into it.
fn is_block_holder(path: &Path) -> bool {
    let metadata = fs::symlink_metadata(path).unwrap();
    metadata.is_dir() || (metadata.is_symlink() && metadata.len() > 59)
}

fn debugfs(root: &Root, request: &str) -> String {
    let mut debugfs = Command::new("debugfs");
    debugfs.args(["-R", request]).arg(root.image.device());
    succeed(&mut debugfs)
}

pub fn metadata_of(profile: &serde_json::Value) -> Vec<u64> {
    let entries = profile["entries"].as_array().unwrap();
    entries
        .iter()
        .filter(|entry| entry["kind"] == "metadata")
        .flat_map(|entry| {
            let start = entry["start"].as_u64().unwrap();
            start..start + entry["pages"].as_u64().unwrap()
        })
        .collect()
}

/// An image with the program and its files.
pub fn known() -> Option<(Root, std::sync::MutexGuard<'static, ()>)> {
    let (root, turn) = set_up()?;
    let at = |path: &str| root.path().join(&path[1..]);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/pipeline/known.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-static", "-O1", "-Wall", "-Werror", "-o"]);
    succeed(compiler.arg(at("/known")).arg(source));

    for directory in [
        "/deep/a/b/c/d/e",
        "/looked",
        "/links",
        "/listed",
        "/there/below",
        LINKED,
    ] {
        fs::create_dir_all(at(directory)).unwrap();
    }
    for path in ["/data/plain", "/data/mapped", "/data/child"] {
        fs::write(at(path), vec![7; 400 * 4096]).unwrap();
    }
    for path in ["/deep/a/b/c/d/e/file", "/looked/only", "/there/below/file"] {
        fs::write(at(path), vec![7; 4096]).unwrap();
    }
    fs::write(at(&format!("{LINKED}/linked")), vec![7; 4096]).unwrap();
    for entry in 0..5 {
        fs::write(at(&format!("/listed/{entry}")), "").unwrap();
    }
    symlink("plain", at("/links/short")).unwrap();
    symlink(LINKED, at("/links/long")).unwrap();

    let sparse = File::create(at("/data/sparse")).unwrap();
    sparse.set_len(64 * 4096).unwrap();
    for page in [10, 50] {
        sparse.write_all_at(&[7; 4096], page * 4096).unwrap();
    }
    // Every other page, so that there are more extents than an inode has room for.
    let fragmented = File::create(at("/data/fragmented")).unwrap();
    for page in (0..32).step_by(2).chain((1..32).step_by(2)) {
        fragmented.write_all_at(&[7; 4096], page * 4096).unwrap();
        fragmented.sync_all().unwrap();
    }
    // Files that were written a moment ago are cached in folios as large as the writes: let them be read.
    common::drop_caches();
    Some((root, turn))
}

/// The program itself, which keeps what it has mapped, and so the inodes and the names that lead to
/// them.
struct Holder(Child);

impl Holder {
    fn of(root: &Root) -> Holder {
        let mut child = Command::new("chroot")
            .arg(root.path())
            .args(["/known", "stay"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Holder(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // In a failing test it may be gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
