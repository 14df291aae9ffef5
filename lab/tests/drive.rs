//! An emulated drive as the kernel sees it, and that nothing is left of it.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lab::drive::{Drive, DriveProfile, Scheduler, built_in};

/// Whether tests that need root can run. If not, says so loudly; where CI forbids that, fails.
fn privileged() -> bool {
    let there = ["/dev/loop-control", "/dev/fuse", "/sbin/mke2fs"];
    let missing = there.iter().find(|path| !Path::new(path).exists());
    let why = match missing {
        Some(path) => format!("this test needs {path}"),
        None if !rustix::process::geteuid().is_root() => "this test needs root".to_owned(),
        None => return true,
    };
    common::skipped(&why);
    false
}

fn profile(name: &str) -> DriveProfile {
    let mut drives = built_in().unwrap();
    drives.retain(|drive| drive.name == name);
    drives.remove(0)
}

fn run(program: &str, args: &[&Path]) {
    let status = Command::new(program).args(args).status().unwrap();
    assert!(status.success(), "{program} {args:?}: {status}");
}

fn attach(name: &str, image: &Path, work: &Path) -> Drive {
    let lab = Path::new(env!("CARGO_BIN_EXE_lab"));
    Drive::attach(&profile(name), image, work, lab).unwrap()
}

fn image(work: &Path) -> PathBuf {
    let image = work.join("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    run("mke2fs", &["-qFtext4".as_ref(), &image]);
    image
}

/// A mount, gone at the end also when a test fails.
struct Mounted(PathBuf);

impl Mounted {
    fn new(node: &Path, on: PathBuf) -> Mounted {
        fs::create_dir(&on).unwrap();
        run("mount", &[node, &on]);
        Mounted(on)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &[&self.0]);
    }
}

fn attribute(drive: &Drive, name: &str) -> String {
    let path = format!("/sys/block/{}/queue/{name}", drive.name());
    fs::read_to_string(path).unwrap().trim().to_owned()
}

/// What a loop device is over; `None` if it is not.
fn backing(name: &str) -> Option<String> {
    fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()
}

/// A number that a loop device has until something else is attached to it.
fn disk_sequence(name: &str) -> String {
    fs::read_to_string(format!("/sys/block/{name}/diskseq")).unwrap()
}

/// Whether what was attached to the loop device under this number is so no longer. Another test may have the device by now.
fn is_detached(name: &str, sequence: &str) -> bool {
    backing(name).is_none() || disk_sequence(name) != sequence
}

#[test]
fn a_drive_holds_a_file_system_and_leaves_nothing() {
    if !privileged() {
        return;
    }
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = image(work.path());
    let original = fs::read(&image).unwrap();
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();

    let drive = attach("qlc-sata", &image, work.path());
    let (name, emulator) = (drive.name().to_owned(), drive.emulator().unwrap());
    assert_eq!(attribute(&drive, "rotational"), "0");
    assert_eq!(attribute(&drive, "nr_requests"), "32");
    assert_eq!(attribute(&drive, "read_ahead_kb"), "128");
    assert!(attribute(&drive, "scheduler").contains("[none]"));
    {
        let mounted = Mounted::new(drive.node(), work.path().join("mnt"));
        let path = mounted.0.join("file");
        fs::write(&path, &content).unwrap();
        fs::File::open(&path).unwrap().sync_all().unwrap();
        rustix::fs::sync();
        fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    let sequence = disk_sequence(&name);
    drop(drive);

    assert!(is_detached(&name, &sequence));
    assert!(!Path::new(&format!("/proc/{emulator}")).exists());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(work.path().to_str().unwrap()), "{mounts}");
    assert_eq!(fs::read(&image).unwrap(), original);
    // The image, and the directory that the file system was mounted on.
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 2);
}

#[test]
fn a_disk_with_heads_looks_like_one() {
    if !privileged() {
        return;
    }
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = image(work.path());
    let drive = attach("hdd", &image, work.path());
    assert_eq!(attribute(&drive, "rotational"), "1");
    let mut superblock = [0; 1024];
    let node = fs::File::open(drive.node()).unwrap();
    node.read_exact_at(&mut superblock, 1024).unwrap();
    // The magic number of ext4.
    assert_eq!(superblock[56..58], [0x53, 0xEF]);
}

#[test]
fn schedulers_keep_the_drives_depth() {
    if !privileged() {
        return;
    }
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = image(work.path());
    for (name, tags, queued) in [("qlc-sata", "32", "64"), ("emmc", "4", "128")] {
        let drive = attach(name, &image, work.path());
        for scheduler in [Scheduler::MqDeadline, Scheduler::None] {
            drive.set_scheduler(scheduler).unwrap();
            let chosen = attribute(&drive, "scheduler");
            assert!(chosen.contains(&format!("[{scheduler}]")), "{chosen}");
            let depth = match scheduler {
                Scheduler::None => tags,
                _ => queued,
            };
            assert_eq!(
                attribute(&drive, "nr_requests"),
                depth,
                "{name}, {scheduler}"
            );
        }
    }
}

#[test]
fn what_is_discarded_is_gone_and_flushes_are_answered() {
    if !privileged() {
        return;
    }
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = image(work.path());
    let drive = attach("qlc-sata", &image, work.path());
    let node = fs::File::options()
        .read(true)
        .write(true)
        .open(drive.node())
        .unwrap();
    node.write_all_at(&[7; 3 << 20], 0).unwrap();
    node.sync_all().unwrap();
    let status = Command::new("blkdiscard")
        .args(["--force", "--offset", "1048576", "--length", "1048576"])
        .arg(drive.node())
        .status();
    assert!(status.unwrap().success());
    let mut content = vec![0; 3 << 20];
    node.read_exact_at(&mut content, 0).unwrap();
    let (kept, discarded) = (&content[..1 << 20], &content[1 << 20..2 << 20]);
    assert!(kept.iter().all(|byte| *byte == 7));
    assert!(discarded.iter().all(|byte| *byte == 0));
    assert!(content[2 << 20..].iter().all(|byte| *byte == 7));
}

#[test]
fn the_hosts_own_drive_is_written_through() {
    if !privileged() {
        return;
    }
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = image(work.path());
    let drive = attach("nvme", &image, work.path());
    assert_eq!(drive.emulator(), None);
    assert_eq!(
        backing(drive.name()).unwrap().trim(),
        image.to_str().unwrap()
    );
    let name = drive.name().to_owned();
    {
        let mounted = Mounted::new(drive.node(), work.path().join("mnt"));
        fs::write(mounted.0.join("file"), "kept").unwrap();
    }
    let sequence = disk_sequence(&name);
    drop(drive);
    assert!(is_detached(&name, &sequence));

    let drive = attach("nvme", &image, work.path());
    fs::remove_dir(work.path().join("mnt")).unwrap();
    let mounted = Mounted::new(drive.node(), work.path().join("mnt"));
    assert_eq!(fs::read(mounted.0.join("file")).unwrap(), b"kept");
    drop(mounted);
}

#[test]
fn what_cannot_be_attached_is_named() {
    if !privileged() {
        return;
    }
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let lab = Path::new(env!("CARGO_BIN_EXE_lab"));
    for (name, complaint) in [("qlc-sata", "emulator of 'qlc-sata'"), ("nvme", "/missing")] {
        let missing = work.path().join("missing");
        let error = Drive::attach(&profile(name), &missing, work.path(), lab).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains(complaint), "{text}");
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
    }
}

/// Directory in which [`a_killed_session`] is to work.
const SESSION: &str = "LAB_TEST_SESSION";

/// The session that another test kills: a drive with a mounted file system that was just written to.
#[test]
fn a_killed_session() {
    let Some(work) = std::env::var_os(SESSION).map(PathBuf::from) else {
        return;
    };
    let drive = attach("microsd", &work.join("image"), &work);
    let mounted = Mounted::new(drive.node(), work.join("mnt"));
    fs::write(mounted.0.join("file"), vec![7; 1 << 20]).unwrap();
    fs::write(work.join("ready"), "").unwrap();
    loop {
        std::thread::park();
    }
}

/// The emulator must not be the last to hold the file system on its own drive: it would wait for itself,
/// and every sync(2) on the machine for it.
#[test]
fn a_killed_session_leaves_nothing_that_waits_for_itself() {
    if !privileged() {
        return;
    }
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    image(work.path());
    let mut session = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_session"])
        .env(SESSION, work.path())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while !work.path().join("ready").exists() {
        assert!(Instant::now() < until, "the session does not begin");
        assert_eq!(session.try_wait().unwrap(), None, "the session has ended");
        std::thread::yield_now();
    }
    session.kill().unwrap();
    session.wait().unwrap();
    let sync = Command::new("timeout").args(["30", "sync"]).status();
    assert!(sync.unwrap().success(), "sync does not return");
}
