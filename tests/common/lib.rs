//! What the test programs share: real file systems on loop devices, which are gone afterwards whatever happens; the program
//! that is tested; waiting for events.

#![expect(
    clippy::new_without_default,
    reason = "what mounts file systems is no default"
)]

pub mod cold;
pub mod fake_bus;
pub mod guest;
pub mod harness;
pub mod machine;
pub mod package;
pub mod reads;
pub mod root;
pub mod scheduler;
pub mod slowed;
pub mod wait_rig;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::panic;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Once, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use paralfetch::drive::drop_clean_caches;
use paralfetch::fs::mounts::{Mount, MountTable};
use tempfile::TempDir;

/// The source tree.
pub const TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Longest wait for something that is sure to come unless it is broken: several times what a busy host needs.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The program that is tested, `target/release/paralfetch`.
///
/// # Panics
/// If a source of it is newer: cargo does not build it together with the test programs.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| up_to_date("paralfetch"))
}

/// The wait detector's program, `target/release/paralfetch-waits`.
///
/// # Panics
/// As [`program`].
pub fn waits_program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| up_to_date("paralfetch-waits"))
}

fn up_to_date(name: &str) -> String {
    let program = built().join(name);
    newer_than_sources(&program);
    program.into_os_string().into_string().unwrap()
}

/// A directory for images on the drive that the build is on: tmpfs has no direct I/O.
pub fn scratch() -> PathBuf {
    let directory = built().join("../tmp");
    fs::create_dir_all(&directory).unwrap();
    fs::canonicalize(directory).unwrap()
}

/// Where cargo puts programs. It puts test programs into a directory `deps` there.
fn built() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    deps.parent().unwrap().parent().unwrap().to_owned()
}

/// Cargo lists the sources of a program beside it, in a rule for make(1): `PROGRAM: SOURCE SOURCE …`.
fn newer_than_sources(program: &Path) {
    let how = "run 'cargo build --release --workspace --bins'";
    let changed = |path: &Path| fs::metadata(path).and_then(|found| found.modified());
    let built = changed(program).unwrap_or_else(|error| panic!("{program:?}: {error}; {how}"));
    let rule = fs::read_to_string(program.with_extension("d")).unwrap();
    let sources = rule.split_once(": ").unwrap().1.split_whitespace();
    let newer = sources
        .map(Path::new)
        .find(|source| changed(source).is_ok_and(|changed| changed > built));
    assert_eq!(newer, None, "the program is older than its source; {how}");
}

/// Waits for something that is sure to come unless it is broken, and that no event reports.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < limit, "waited in vain until {what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// Empties the disk caches. Before, what is to be written to the tests' own file systems is written, since the kernel drops no
/// dirty page; and nothing else is: a build beside the tests may have gigabytes to write to the machine's drive.
pub fn drop_caches() {
    write_back();
    drop_clean_caches().unwrap();
}

/// Writes dirty pages of all of the tests' own file systems back.
pub fn write_back() {
    let (table, scratch) = (MountTable::read().unwrap(), scratch());
    let is_ours =
        |mount: &&Mount| mount.kind().is_some() && mount.mount_point.starts_with(&scratch);
    for mount in table.mounts().iter().filter(is_ours) {
        // One whose drive has been pulled out fails, as it is to.
        let _ = File::open(&mount.mount_point).map(rustix::fs::syncfs);
    }
}

/// Says why a test is left out. Fails where CI forbids that.
pub fn skipped(why: &str) {
    assert!(
        std::env::var_os("PARALFETCH_REQUIRE_PRIVILEGED").is_none_or(|value| value != "1"),
        "{why}"
    );
    lacking(why);
}

/// Says which ability of the running kernel a test lacks, so that it is left out. No privilege gives that.
pub fn lacking(why: &str) {
    // The harness keeps what eprintln prints in a test that passes, and not what is written to the stream itself.
    let _ = writeln!(io::stderr(), "SKIPPED: {why}");
}

/// Whether this is root; otherwise the test is left out.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped("this test needs root");
    }
    is_root
}

/// Whether tests that need root can run. If not, says so loudly; where CI forbids that, fails.
pub fn privileged() -> bool {
    tell_panics_at_once();
    if rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists() {
        return true;
    }
    skipped("this test needs root and loop devices");
    false
}

/// Has panics told when they happen. The test harness keeps what a test prints until all have ended: a program that is
/// ended at its time limit would take the reasons of its failures along.
fn tell_panics_at_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // The harness keeps what eprintln prints, and not what is written to the stream itself.
            let _ = writeln!(io::stderr(), "{info}");
            usual(info);
        }));
    });
}

/// A file system on a loop device with direct I/O, but for squashfs, and a readahead of 128 KiB.
pub struct LoopFs {
    /// As mount(8) takes it.
    fs_type: &'static str,
    directory: TempDir,
    device: PathBuf,
    mounted: Option<Mounted>,
}

/// One of ext4, which nearly all tests use.
pub type LoopExt4 = LoopFs;

/// The subvolume of btrfs that is mounted.
const SUBVOLUME: &str = "@";

impl LoopFs {
    /// An ext4 file system of `size_mb` MiB, made by mke2fs(8) with further arguments, and mounted.
    pub fn new(size_mb: u64, mke2fs_args: &[&str]) -> LoopFs {
        LoopFs::of_type("ext4", size_mb, mke2fs_args)
    }

    /// A file system of this type, made by its mkfs with further arguments, and mounted; of btrfs a subvolume, as
    /// distributions do.
    pub fn of_type(fs_type: &'static str, size_mb: u64, mkfs_args: &[&str]) -> LoopFs {
        let mut image = LoopFs::without_image(fs_type);
        make(fs_type, &image.file(), size_mb, mkfs_args);
        image.attach();
        image
    }

    /// A place for an image and its mount.
    fn without_image(fs_type: &'static str) -> LoopFs {
        let directory = tempfile::tempdir_in(scratch()).unwrap();
        fs::create_dir(directory.path().join("mnt")).unwrap();
        LoopFs {
            fs_type,
            directory,
            device: PathBuf::new(),
            mounted: None,
        }
    }

    /// Whether what is read of the image goes through the cache of its file, as snaps are mounted.
    fn is_cached(&self) -> bool {
        self.fs_type == "squashfs"
    }

    /// The image's file.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    /// An image that cannot be written, of this type and what `fill` puts into its root directory; made by its mkfs with
    /// further arguments, and mounted.
    pub fn read_only(
        fs_type: &'static str,
        mkfs_args: &[&str],
        fill: impl FnOnce(&Path),
    ) -> LoopFs {
        let mut image = LoopFs::without_image(fs_type);
        image.pack(mkfs_args, fill);
        image.attach();
        image
    }

    /// Makes the image's file anew.
    fn pack(&self, mkfs_args: &[&str], fill: impl FnOnce(&Path)) {
        let content = tempfile::tempdir_in(scratch()).unwrap();
        fill(content.path());
        if self.is_cached() {
            let mut mksquashfs = Command::new("mksquashfs");
            mksquashfs
                .args([content.path(), &self.file()])
                .arg("-quiet");
            succeed(mksquashfs.args(mkfs_args));
            // Blocks that are not written yet would stay in the cache when it is emptied.
            File::open(self.file()).unwrap().sync_all().unwrap();
            return;
        }
        let mut mkfs = Command::new(format!("mkfs.{}", self.fs_type));
        succeed(mkfs.args(mkfs_args).arg(self.file()).arg(content.path()));
    }

    /// Mounts another image that cannot be written in the place of this one.
    pub fn replace_read_only(&mut self, mkfs_args: &[&str], fill: impl FnOnce(&Path)) {
        self.mounted = None;
        detach(&std::mem::take(&mut self.device));
        fs::remove_file(self.file()).unwrap();
        self.pack(mkfs_args, fill);
        self.attach();
    }

    /// A copy of the whole drive, as dd(1) makes one, mounted elsewhere; on this loop device, once it is free, if one is given.
    pub fn copy(&self, device: Option<&Path>) -> LoopFs {
        self.sync();
        let mut copy = LoopFs::without_image(self.fs_type);
        succeed(
            Command::new("cp")
                .arg("--sparse=always")
                .args([self.file(), copy.file()]),
        );
        match device {
            None => copy.attach(),
            Some(device) => {
                until("the loop device is free", || {
                    let mut losetup = Command::new("losetup");
                    losetup.arg("--direct-io=on").arg(device);
                    let tried = losetup.arg(copy.file()).output().unwrap();
                    tried.status.success()
                });
                copy.device = device.to_owned();
                copy.mount();
            }
        }
        copy
    }

    /// Where it is mounted; no symbolic links on the way.
    pub fn mount_point(&self) -> &Path {
        &self.mounted.as_ref().unwrap().0
    }

    /// The loop device's node.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Unmounts the file system and mounts it again, on another loop device if there is one.
    pub fn reattach(&mut self) {
        self.mounted = None;
        // Attach the new device first, so that it gets another number.
        let old = std::mem::take(&mut self.device);
        self.attach();
        detach(&old);
        assert_ne!(old, self.device);
    }

    /// Unmounts the file system, for [`LoopFs::reattach`] to mount it again. Nothing may keep it busy for long: a
    /// thread may be about to close a file of it.
    pub fn unmount(&mut self) {
        let mounted = self.mounted.take().unwrap();
        let limit = Instant::now() + Duration::from_secs(30);
        while Instant::now() < limit {
            let tried = Command::new("umount").arg(&mounted.0).output().unwrap();
            if tried.status.success() {
                // It has ended.
                std::mem::forget(mounted);
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        succeed(Command::new("umount").arg(&mounted.0));
        // It has ended.
        std::mem::forget(mounted);
    }

    /// Takes the drive away while it is in use, as somebody does who pulls out a plug: reads and writes fail from
    /// now on.
    pub fn pull_out(&self) {
        let image = File::options().write(true).open(self.file());
        image.unwrap().set_len(0).unwrap();
    }

    /// Mounts another, empty file system at the same place.
    pub fn replace(&mut self, size_mb: u64, mkfs_args: &[&str]) {
        self.mounted = None;
        detach(&std::mem::take(&mut self.device));
        let image = self.file();
        fs::remove_file(&image).unwrap();
        make(self.fs_type, &image, size_mb, mkfs_args);
        self.attach();
    }

    /// Writes the tests' own file systems back and empties what is cached of the device itself, which libext2fs and
    /// debugfs(8) read.
    pub fn sync(&self) {
        write_back();
        succeed(
            Command::new("blockdev")
                .arg("--flushbufs")
                .arg(&self.device),
        );
    }

    /// Mounts a subvolume of btrfs, named by its path in the whole.
    pub fn mount_subvolume(&self, subvolume: &str, target: &Path) -> Mounted {
        let option = format!("subvol={subvolume}");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "btrfs", "-o", &option])
            .args([&self.device, target]);
        succeed(&mut mount);
        Mounted(target.to_owned())
    }

    /// Makes a snapshot of what is mounted of btrfs, at this name in it. Returns its path in the whole.
    pub fn snapshot(&self, name: &str) -> String {
        let at = self.mount_point();
        let mut btrfs = Command::new("btrfs");
        btrfs.args(["subvolume", "snapshot"]).arg(at);
        succeed(btrfs.arg(at.join(name)));
        format!("{SUBVOLUME}/{name}")
    }

    fn attach(&mut self) {
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show"]);
        if !self.is_cached() {
            losetup.arg("--direct-io=on");
        }
        losetup.arg(self.file());
        self.device = PathBuf::from(succeed(&mut losetup).trim());
        self.mount();
    }

    fn mount(&mut self) {
        let name = self.device.file_name().unwrap().to_str().unwrap();
        fs::write(format!("/sys/block/{name}/queue/read_ahead_kb"), "128").unwrap();
        settle();
        let mount_point = fs::canonicalize(self.directory.path().join("mnt")).unwrap();
        let device = self.device.to_str().unwrap();
        self.mounted = Some(match self.fs_type {
            "ext4" => mount_quietly(device, &mount_point),
            "btrfs" => self.mount_subvolume(SUBVOLUME, &mount_point),
            other => Mounted::new(other, device, &mount_point),
        });
    }
}

impl Drop for LoopFs {
    fn drop(&mut self) {
        self.mounted = None;
        detach(&self.device);
    }
}

/// Makes a file with a file system in it.
fn make(fs_type: &str, image: &Path, size_mb: u64, mkfs_args: &[&str]) {
    let file = File::create(image).unwrap();
    file.set_len(size_mb << 20).unwrap();
    let mut mkfs = Command::new(format!("mkfs.{fs_type}"));
    mkfs.arg("-q");
    if fs_type == "ext4" {
        mkfs.arg("-F")
            // Nothing is left for the kernel to do in the background, where tests count reads.
            .args(["-E", "lazy_itable_init=0,lazy_journal_init=0"]);
    }
    succeed(mkfs.args(mkfs_args).arg(image));
    if fs_type == "btrfs" {
        let whole = image.with_file_name("mnt");
        let mut mount = Command::new("mount");
        succeed(mount.args(["-o", "loop"]).args([image, &whole]));
        let mut btrfs = Command::new("btrfs");
        btrfs.args(["subvolume", "create"]);
        succeed(btrfs.arg(whole.join(SUBVOLUME)));
        succeed(Command::new("umount").arg(&whole));
    }
}

/// Mounts ext4 so that the kernel reads nothing of its own accord.
fn mount_quietly(device: &str, target: &Path) -> Mounted {
    let mut with_options = Command::new("mount");
    with_options
        .args([
            "-t",
            "ext4",
            "-o",
            "noinit_itable,no_prefetch_block_bitmaps",
        ])
        .arg(device)
        .arg(target);
    // Kernels that do not prefetch block bitmaps may not know the option.
    if with_options.output().unwrap().status.success() {
        return Mounted(target.to_owned());
    }
    Mounted::new("ext4", device, target)
}

/// Waits until udev, where it runs, has looked at the devices that appeared.
fn settle() {
    match Command::new("udevadm").arg("settle").status() {
        Ok(status) => assert!(status.success(), "udevadm settle: {status}"),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
    }
}

/// A mount that ends with this value.
pub struct Mounted(PathBuf);

impl Mounted {
    /// Mounts `source`, a file system of this type.
    pub fn new(fs_type: &str, source: &str, target: &Path) -> Mounted {
        succeed(
            Command::new("mount")
                .args(["-t", fs_type, source])
                .arg(target),
        );
        Mounted(target.to_owned())
    }

    /// What was mounted there by other means.
    pub fn already(target: &Path) -> Mounted {
        Mounted(target.to_owned())
    }

    /// Shows `source` at `target` too.
    pub fn bind(source: &Path, target: &Path) -> Mounted {
        succeed(Command::new("mount").arg("--bind").arg(source).arg(target));
        Mounted(target.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily, so that a process which a failed test left behind does not keep it.
        run(Command::new("umount").arg("--lazy").arg(&self.0));
    }
}

fn detach(device: &Path) {
    run(Command::new("losetup").arg("--detach").arg(device));
}

/// Gives a file the time of modification of another, as files of one package have it wherever they are installed.
pub fn copy_time(from: &Path, to: &Path) {
    let time = fs::metadata(from).unwrap().modified().unwrap();
    let file = File::options().write(true).open(to).unwrap();
    file.set_modified(time).unwrap();
}

/// Copies a program that is to be executed, with its permissions. A process of its own does: a child that another test forks
/// meanwhile would keep the copy open to be written, and execve(2) refuses such a file.
pub fn copy_program(from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) {
    let mut cp = Command::new("cp");
    succeed(cp.args(["--preserve=mode", "--"]).arg(from).arg(to));
}

/// What a program printed; it must succeed.
pub fn succeed(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// For cleaning up, where a panic would hide the failure of the test.
fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        other => eprintln!("{command:?}: {other:?}"),
    }
}
