//! The app that the new user has, on a slow disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use paralfetch::drive::drop_caches;

use common::guest::journal::{Entry, Journal};
use common::guest::system::{as_user, output};

/// The disk, and where it is mounted at each boot.
const DISK: &str = "/dev/vdc";
const MOUNT_POINT: &str = "/opt/slow";

/// The program, as the host has sent it, and where it is installed.
const SCRIPT: &str = "app.py";
const APP: &str = "/opt/slow/app";
const DATA: &str = "/opt/slow/data";
const MENU_ENTRY: &str = "/usr/share/applications/slow.desktop";

/// How many files of each kind there are. The mapped ones have two times what the kernel reads around a page.
const FILES: usize = 48;
const MAPPED_BYTES: usize = 256 << 10;
const READ_BYTES: usize = 12 << 10;

/// So often the app is launched at least, and until it is prefetched at most: some of its first launches are learned, too.
const LEAST: usize = 3;
const MOST: usize = 8;

/// Has it on the disk and in the menus, as packages of the distribution do.
pub fn install() {
    output(&["mkfs.ext4", "-q", "-J", "size=4", DISK]);
    fs::create_dir_all(MOUNT_POINT).unwrap();
    let mut mounts = fs::read_to_string("/etc/fstab").unwrap_or_default();
    mounts.push_str(&format!("{DISK} {MOUNT_POINT} ext4 defaults 0 0\n"));
    fs::write("/etc/fstab", mounts).unwrap();
    // Its unit is made of the line.
    output(&["systemctl", "daemon-reload"]);
    output(&["mount", MOUNT_POINT]);
    fs::create_dir(DATA).unwrap();
    for n in 0..FILES {
        fs::write(format!("{DATA}/{n:02}.bin"), vec![b'x'; MAPPED_BYTES]).unwrap();
        fs::write(format!("{DATA}/{n:02}.txt"), vec![b'x'; READ_BYTES]).unwrap();
    }
    fs::copy(SCRIPT, APP).unwrap();
    fs::set_permissions(APP, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all("/usr/share/applications").unwrap();
    let entry = format!("[Desktop Entry]\nType=Application\nName=Slow\nExec={APP}\n");
    fs::write(MENU_ENTRY, entry).unwrap();
    rustix::fs::sync();
}

/// Launches the app until it has become faster, by something to compare with: the very first launch.
pub fn becomes_faster(service: &Journal) {
    let first = launch_until_prefetched(service);
    let note = first.field("F_NOTE");
    assert!(!note.contains("not recorded"), "{note}");
}

/// Launches the app until it is prefetched and nothing more is learned. Returns what the service says of the first launch.
fn launch_until_prefetched(service: &Journal) -> Entry {
    let mut first = None;
    let mut kinds = Vec::new();
    while kinds.len() < LEAST || kinds.last().is_none_or(|kind| kind != "Prefetched") {
        assert!(kinds.len() < MOST, "never prefetched alone: {kinds:?}");
        let entry = launch_cold(service);
        let is_first = kinds.is_empty();
        assert_eq!(is_prefetched(&entry), !is_first, "{}", entry.fields());
        kinds.push(entry.field("F_KIND").to_owned());
        first.get_or_insert(entry);
    }
    assert_eq!(kinds[0], "Learned");
    first.expect("it was launched")
}

/// Launches it once more, with the profile that there is.
pub fn is_still_fast(service: &Journal) {
    let entry = launch_cold(service);
    assert!(is_prefetched(&entry), "{}", entry.fields());
}

fn is_prefetched(entry: &Entry) -> bool {
    entry.number("F_PREFETCHED_BYTES") > 0
}

/// Launches it as the ordinary user does, with nothing cached; what the service says of the launch.
fn launch_cold(service: &Journal) -> Entry {
    rustix::fs::sync();
    drop_caches().unwrap();
    let argv = as_user(&[APP]);
    let status = Command::new(argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let entry = service.launch_of(APP);
    println!("        {}", entry.fields());
    entry
}
