//! A small system on an image: a few programs with their libraries, and data to read.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use tempfile::TempDir;

use crate::{LoopFs, Mounted, succeed};

/// The image, what is on it, and a directory for profiles.
pub struct Root {
    /// Ends before what it lies on.
    overlay: Option<Overlay>,
    pub image: LoopFs,
    pub state: TempDir,
}

/// An overlay whose upper layer is in memory, as that of a system that was started from a medium.
struct Overlay {
    merged: Mounted,
    _upper: Mounted,
    _directory: TempDir,
}

impl Overlay {
    fn on(lower: &Path) -> Overlay {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        for name in ["memory", "merged"] {
            fs::create_dir(at(name)).unwrap();
        }
        let upper = Mounted::new("tmpfs", "tmpfs", at("memory").as_ref());
        for name in ["memory/upper", "memory/work"] {
            fs::create_dir(at(name)).unwrap();
        }
        let (lower, changes, work) = (lower.display(), at("memory/upper"), at("memory/work"));
        let layers = format!("lowerdir={lower},upperdir={changes},workdir={work}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "overlay", "-o", &layers, "overlay"]);
        succeed(mount.arg(at("merged")));
        Overlay {
            merged: Mounted(at("merged").into()),
            _upper: upper,
            _directory: directory,
        }
    }
}

/// Size of the image.
const SIZE_MB: u64 = 256;

/// Blocks as large as pages, as mke2fs(8) chooses by itself for anything large enough for an app.
/// Smaller ones share pages, and where ext4 keeps one of them for itself (the orphan file's), the
/// others of its page cannot be evicted, so no learning run sees them read.
const BLOCK_SIZE: [&str; 2] = ["-b", "4096"];

/// Files that [`Root::READ_ALL`] reads, and the size of each in 4 KiB pages.
pub const FILES: usize = 120;
pub const PAGES: usize = 16;

/// All pages of such a file.
pub const WHOLE: Range<u64> = 0..PAGES as u64;

impl Root {
    /// A command that reads all of the data.
    pub const READ_ALL: [&str; 3] = ["/bin/sh", "-c", "cat /data/*"];

    pub fn new() -> Root {
        Root::on(LoopFs::new(SIZE_MB, &BLOCK_SIZE))
    }

    /// The system of [`Root::new`] on an empty file system, of 256 MiB at least.
    pub fn on(image: LoopFs) -> Root {
        fill(image.mount_point());
        Root::with(image)
    }

    /// On a file system with programs and data.
    fn with(image: LoopFs) -> Root {
        let state = tempfile::tempdir().unwrap();
        Root {
            overlay: None,
            image,
            state,
        }
    }

    /// On an image of this type that cannot be written, with what `fill` puts into a directory.
    pub fn read_only(fs_type: &'static str, mkfs_args: &[&str], fill: impl FnOnce(&Path)) -> Root {
        Root::with(LoopFs::read_only(fs_type, mkfs_args, fill))
    }

    /// From now on, what is on the image is used through an overlay.
    pub fn overlay(&mut self) {
        self.overlay = Some(Overlay::on(self.image.mount_point()));
    }

    /// Puts another file system with the same content in the place of the image.
    pub fn replace(&mut self) {
        self.image.replace(SIZE_MB, &BLOCK_SIZE);
        fill(self.image.mount_point());
    }

    pub fn path(&self) -> &Path {
        let overlay = self.overlay.as_ref();
        overlay.map_or(self.image.mount_point(), |overlay| &overlay.merged.0)
    }

    /// `paralfetch --state-dir … COMMAND --root … OPTIONS -- CMD`, ready to be started.
    pub fn paralfetch(&self, command: &[&str], cmd: &[&str]) -> Command {
        let mut program = Command::new(crate::program());
        program
            .arg("--state-dir")
            .arg(self.state.path())
            .args(command);
        if !cmd.is_empty() {
            program.arg("--root").arg(self.path()).arg("--").args(cmd);
        }
        program.stdin(Stdio::null());
        program
    }

    pub fn learn(&self, options: &[&str], cmd: &[&str]) -> Output {
        let output = self
            .paralfetch(&[&["learn"], options].concat(), cmd)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        output
    }

    /// The profile as `show --json` prints it.
    pub fn show(&self, app: &str) -> serde_json::Value {
        let output = self
            .paralfetch(&["show", "--json", app], &[])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The one profile file. The launch sequence lies beside it.
    pub fn profile_file(&self) -> PathBuf {
        let mut files: Vec<PathBuf> = fs::read_dir(self.state.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "pf"))
            .collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }
}

/// Puts an executable script into a root directory.
pub fn write_script(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Puts programs and data into a root directory.
pub fn fill(root: &Path) {
    for program in ["sh", "cat", "dd", "sleep"] {
        install(program, root);
    }
    fs::create_dir(root.join("data")).unwrap();
    fs::create_dir(root.join("sparse")).unwrap();
    for file in 0..FILES {
        fs::write(root.join(format!("data/{file}")), content(file, PAGES)).unwrap();
    }
    fs::write(root.join("sparse/big"), content(0, 512)).unwrap();
}

/// What is in a data file.
pub fn content(file: usize, pages: usize) -> Vec<u8> {
    (0..pages * 4096)
        .map(|i| (i / 7 + i * file) as u8)
        .collect()
}

/// Pages of a file, by its path in the image, that a profile has.
pub fn pages_of(profile: &serde_json::Value, path: &str) -> Vec<u64> {
    let mut pages: Vec<u64> = profile["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["path"] == path)
        .flat_map(|entry| {
            let start = entry["start"].as_u64().unwrap();
            start..start + entry["pages"].as_u64().unwrap()
        })
        .collect();
    pages.sort_unstable();
    pages
}

/// Lines on standard error that are ours.
pub fn our_lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.starts_with("paralfetch: "))
        .map(str::to_owned)
        .collect()
}

/// Copies a program of the system to its own path below `root`.
pub fn install(program: &str, root: &Path) {
    let file = Path::new("/bin").join(program);
    install_as(&file, &file, root);
}

/// Copies a program to the path `inside` below `root`, and the libraries that it needs to their own.
pub fn install_as(program: &Path, inside: &Path, root: &Path) {
    let libraries = libraries(program);
    let libraries = libraries.iter().map(|path| (&**path, &**path));
    for (file, inside) in libraries.chain([(program, inside)]) {
        let inside = root.join(inside.strip_prefix("/").unwrap());
        fs::create_dir_all(inside.parent().unwrap()).unwrap();
        if !inside.exists() {
            crate::copy_program(file, &inside);
        }
    }
}

/// The libraries of a program that ldd(1) names. It is asked once: it takes longer than copying them.
fn libraries(program: &Path) -> Vec<PathBuf> {
    static KNOWN: Mutex<BTreeMap<PathBuf, Vec<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap();
    let found = known.entry(program.to_owned()).or_insert_with(|| {
        let named = Command::new("ldd").arg(program).output().unwrap();
        assert!(named.status.success(), "{named:?}");
        let text = String::from_utf8(named.stdout).unwrap();
        let words = text.split_whitespace();
        let paths = words.filter(|word| word.starts_with('/'));
        paths.map(PathBuf::from).collect()
    });
    found.clone()
}
