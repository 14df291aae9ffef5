//! Which drive this is, whatever name the kernel gives it today.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::sysfs::{Sysfs, read};
use crate::fs::blockdev::of_file_system;
use crate::fs::mounts::{MountTable, fs_uuid};
use crate::fs::support::Support;

/// Longest identity, in bytes.
pub const MOST_IDENTITY_BYTES: usize = 256;

/// Most mounted file systems of a drive whose UUIDs are asked for.
const MOST_FILE_SYSTEMS: usize = 16;

/// Names a drive. Printable ASCII.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DriveIdentity(String);

impl DriveIdentity {
    /// From text that the drive, or a file, gives. What is not printable becomes `?`; runs of blanks become one.
    /// `None` if nothing is left, or if it is too long.
    pub fn new(text: &str) -> Option<DriveIdentity> {
        let words: Vec<String> = text
            .split(|c: char| c.is_whitespace() || c == '\0')
            .filter(|word| !word.is_empty())
            .map(|word| word.replace(|c: char| !c.is_ascii_graphic(), "?"))
            .collect();
        let text = words.join(" ");
        (1..=MOST_IDENTITY_BYTES)
            .contains(&text.len())
            .then_some(DriveIdentity(text))
    }

    /// Text of the identity.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The identities of a drive (whole disk, encoded as `st_rdev`): what the drive says of itself, with its size, since
/// makers of virtual drives give all of them one serial number. A drive that says nothing is known by the UUIDs of the
/// file systems that are mounted from it, but for those that another mounted one has, too: its drive is a copy. Empty if
/// there are none.
pub fn identities(sysfs: &Sysfs, drive: u64, mounts: &MountTable) -> Vec<DriveIdentity> {
    if let Some(own) = sysfs.disk(drive).and_then(|disk| own_identity(&disk)) {
        return vec![own];
    }
    let mounted = file_systems_on(sysfs, drive, mounts).into_iter();
    let uuids = mounted.filter_map(|dev| {
        let root = mounts.open_root(dev).ok()?;
        let uuid = fs_uuid(root.fd.as_fd()).ok()?;
        if mounts.with_uuid(&uuid).len() > 1 {
            return None;
        }
        let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        DriveIdentity::new(&format!("uuid {hex}"))
    });
    let mut found: Vec<DriveIdentity> = uuids.collect();
    found.sort();
    found
}

/// The mounted file systems (`st_dev`) that the kernel itself reads from a drive, each once.
fn file_systems_on(sysfs: &Sysfs, drive: u64, mounts: &MountTable) -> Vec<u64> {
    let mut found: Vec<u64> = Vec::new();
    for mount in mounts.mounts() {
        let is_known = found.contains(&mount.dev) || found.len() == MOST_FILE_SYSTEMS;
        if is_known || !Support::is_read_from_drive(&mount.fs_type) {
            continue;
        }
        let below = sysfs.drives_below(of_file_system(mount.dev, Some(mount)));
        // A file system in a file on the drive comes and goes.
        if (below.iter()).any(|below| below.dev == drive && below.backing_file.is_none()) {
            found.push(mount.dev);
        }
    }
    found
}

/// What the drive says of itself.
fn own_identity(disk: &Path) -> Option<DriveIdentity> {
    let attribute = |name: &str| read(&disk.join(name)).filter(|text| !text.is_empty());
    let unique = attribute("wwid")
        .or_else(|| attribute("device/wwid"))
        .or_else(|| attribute("device/cid"))
        .or_else(|| attribute("device/serial"))
        .or_else(|| attribute("serial"))
        .or_else(|| unit_serial(disk))?;
    let name = attribute("device/model").or_else(|| attribute("device/name"));
    let size = attribute("size").unwrap_or_default();
    DriveIdentity::new(&format!("{} {unique} {size}", name.unwrap_or_default()))
}

/// The serial number in the SCSI unit serial number page (SPC, page 80h): four bytes of header before it.
fn unit_serial(disk: &Path) -> Option<String> {
    let page = fs::read(disk.join("device/vpd_pg80")).ok()?;
    let serial = String::from_utf8_lossy(page.get(4..)?).trim().to_owned();
    Some(serial).filter(|serial| !serial.is_empty())
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::*;
    use crate::drive::sysfs::tests::fake;

    fn identity(files: &[(&str, &str)]) -> Vec<String> {
        let (_root, sysfs) = fake(&[("8:0", "sda")], files);
        let none = MountTable::parse(b"");
        let found = identities(&sysfs, makedev(8, 0), &none).into_iter();
        found.map(|identity| identity.as_str().to_owned()).collect()
    }

    #[test]
    fn drives_are_known_by_what_they_say() {
        let model = ("devices/sda/device/model", "Samsung SSD 860 QVO   \n");
        let size = ("devices/sda/size", "1953525168\n");
        let wwid = ("devices/sda/device/wwid", "t10.ATA     Samsung  S4CZ\n");
        assert_eq!(
            identity(&[model, size, wwid]),
            ["Samsung SSD 860 QVO t10.ATA Samsung S4CZ 1953525168"]
        );
        let nvme = ("devices/sda/wwid", "eui.0025385");
        assert_eq!(identity(&[nvme, wwid]), ["eui.0025385"]);
        let serial = ("devices/sda/serial", "vd\u{e9}1");
        assert_eq!(identity(&[serial, size]), ["vd?1 1953525168"]);
        let page = ("devices/sda/device/vpd_pg80", "\0\u{80}\0\u{4}WX12");
        assert_eq!(identity(&[model, page]).len(), 1);
        assert!(identity(&[model, page])[0].ends_with("WX12"));
        // A model alone is of many drives.
        assert_eq!(identity(&[model, size]).len(), 0);
        assert_eq!(identity(&[("devices/sda/serial", "\n")]).len(), 0);
    }

    #[test]
    fn only_file_systems_that_the_kernel_reads_from_the_drive_are_asked() {
        // A node that every system has stands for that of the drive.
        let (_root, sysfs) = fake(&[("1:3", "sda")], &[]);
        let mounts = MountTable::parse(
            b"30 1 1:3 / / rw - ext4 /dev/null rw\n\
              31 30 1:3 /a /a rw - ext4 /dev/null rw\n\
              32 30 0:40 / /b rw - btrfs /dev/null rw\n\
              33 30 0:41 / /c rw - fuse.any /dev/null rw\n\
              34 30 0:42 / /d rw - nfs4 /dev/null rw\n\
              35 30 0:43 / /e rw - proc /dev/null rw\n",
        );
        assert_eq!(
            file_systems_on(&sysfs, makedev(1, 3), &mounts),
            [makedev(1, 3), makedev(0, 40)]
        );
        let served = MountTable::parse(b"30 1 1:3 / / rw - fuseblk /dev/null rw\n");
        assert!(file_systems_on(&sysfs, makedev(1, 3), &served).is_empty());
    }

    #[test]
    fn identities_are_short_and_printable() {
        assert_eq!(
            DriveIdentity::new(" a \0 b\x1b \n").unwrap().as_str(),
            "a b?"
        );
        assert_eq!(DriveIdentity::new(" \n"), None);
        assert_eq!(DriveIdentity::new(&"a".repeat(257)), None);
        assert!(DriveIdentity::new(&"a".repeat(256)).is_some());
    }
}
