//! Where the file systems of a profile are now.
//!
//! A drive may have another device number each time that it is attached, so a file system is known by its UUID. A copy of a
//! drive, made block by block, has the same UUID and the same files. While both are mounted, one of them is known to be
//! the one that was learned if the app itself lies on it, and was launched from it then. Of others nothing tells which it
//! is, and whichever is read may be the wrong one: these are left alone until one of the two is unmounted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::fstatvfs;

use super::kind::FsKind;
use super::mounts::MountTable;
use super::node::{OpenNode, open_cached};
use super::uuid::fs_id;
use crate::model::{App, Device, Profile, shown};

/// Where a file system of a profile is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// On the device with this number (`st_dev`).
    On(u64),
    /// Nowhere.
    Away,
    /// On one of these devices: their file systems have one UUID.
    Unclear(Vec<u64>),
}

impl Presence {
    /// The number (`st_dev`) of the device; `None` if it is away, or not known.
    pub fn dev(&self) -> Option<u64> {
        match self {
            Presence::On(dev) => Some(*dev),
            Presence::Away | Presence::Unclear(_) => None,
        }
    }
}

/// Where a profile's file systems are mounted, in the order of its device table.
pub fn present_devices(profile: &Profile, mounts: &MountTable) -> Vec<Presence> {
    let (app, devices) = (&profile.app, &profile.devices);
    let present = |device: &Device| {
        let found = mounts.with_uuid(&device.fs_uuid);
        decide(device, devices, found, app.dev, || own_device(app, mounts))
    };
    devices.iter().map(present).collect()
}

/// The file system that one of a profile's devices was, of those `found` by its UUID. The app itself lay on the device
/// `learned_dev` then, and lies on the one that `own` says now.
fn decide(
    device: &Device,
    devices: &[Device],
    found: Vec<u64>,
    learned_dev: u64,
    own: impl FnOnce() -> Option<u64>,
) -> Presence {
    match found[..] {
        [] => return Presence::Away,
        [dev] => return Presence::On(dev),
        _ => {}
    }
    let same = |other: &&Device| other.fs_uuid == device.fs_uuid;
    // The numbers in a profile are of one moment.
    let is_apps_own = device.dev == learned_dev && devices.iter().filter(same).count() == 1;
    match own().filter(|own| is_apps_own && found.contains(own)) {
        Some(own) => Presence::On(own),
        None => Presence::Unclear(found),
    }
}

/// The device (`st_dev`) that the mount table has for the app's path.
fn own_device(app: &App, mounts: &MountTable) -> Option<u64> {
    let path = Path::new(OsStr::from_bytes(&app.path));
    let inside = path.strip_prefix("/").ok()?;
    let root = app.root.as_deref().unwrap_or(b"/");
    let mount = mounts.holding(&Path::new(OsStr::from_bytes(root)).join(inside))?;
    Some(mount.dev)
}

/// The device (`st_dev`) that a file system is probably on, for what costs no read if it is another one, such as choosing
/// a drive's model.
pub fn probable_device(device: &Device, mounts: &MountTable) -> Option<u64> {
    let found = mounts.with_uuid(&device.fs_uuid);
    let is_same = found.contains(&device.dev);
    is_same
        .then_some(device.dev)
        .or_else(|| found.first().copied())
}

/// One line on file systems of which it is unclear where they are; `None` if it is of none.
pub fn unclear(present: &[Presence], mounts: &MountTable) -> Option<String> {
    let found = present.iter().find_map(|presence| match presence {
        Presence::Unclear(found) => Some(found),
        Presence::On(_) | Presence::Away => None,
    })?;
    let places = found.iter().filter_map(|&dev| mounts.place_of(dev));
    // Two are enough to look at.
    let places: Vec<String> = places.take(2).map(shown_path).collect();
    Some(format!(
        "the file systems at {} have the same UUID, and either may be the one that was learned: unmount one, or give it a \
         UUID of its own (tune2fs -U random)",
        places.join(" and ")
    ))
}

fn shown_path(path: &Path) -> String {
    path.to_string_lossy().chars().map(shown).collect()
}

/// Where a file system was mounted, so that it can be asked for at once whether it still is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedFs {
    dev: u64,
    id: u64,
    place: PathBuf,
}

impl MountedFs {
    /// The file system of a profile's device, on the device with the present number `dev` (`st_dev`); `None` if that is not
    /// mounted, or if statfs(2) does not tell its UUID.
    pub fn new(device: &Device, dev: u64, mounts: &MountTable) -> Option<Self> {
        let kind = FsKind::of(&device.fs).filter(|kind| *kind == FsKind::Ext4)?;
        Some(MountedFs {
            dev,
            id: fs_id(kind, &device.fs_uuid),
            place: mounts.place_of(dev)?.to_owned(),
        })
    }

    /// Whether it is there now. Never waits: what the kernel does not know by heart is not there.
    pub fn is_there(&self) -> bool {
        let Some(found) = open_cached(&self.place) else {
            return false;
        };
        // The device first: of another file system, nothing else is asked.
        OpenNode::of(&found).is_ok_and(|node| node.dev == self.dev)
            && fstatvfs(&found).is_ok_and(|found| found.f_fsid == self.id)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::model::DriveClass;

    const UUID: [u8; 16] = *b"of both of them.";

    /// The devices of a profile.
    fn devices(second: [u8; 16]) -> [Device; 2] {
        [(7, UUID), (8, second)].map(|(dev, fs_uuid)| Device {
            dev,
            name: String::new(),
            fs: "ext4".to_owned(),
            fs_uuid,
            class: DriveClass::CommandQueuing,
        })
    }

    #[test]
    fn of_a_file_system_and_its_copy_the_one_with_the_app_is_meant_and_otherwise_none() {
        let others = devices([1; 16]);
        let decided = |device: usize, found: &[u64], own: Option<u64>| {
            decide(&others[device], &others, found.to_vec(), 7, || own)
        };
        let unclear = Presence::Unclear(vec![3, 4]);
        assert_eq!(decided(0, &[], Some(4)), Presence::Away);
        assert_eq!(decided(0, &[3], Some(4)), Presence::On(3));
        assert_eq!(decided(0, &[3, 4], Some(4)), Presence::On(4));
        assert_eq!(decided(0, &[3, 4], Some(5)), unclear);
        assert_eq!(decided(0, &[3, 4], None), unclear);
        assert_eq!(decided(1, &[3, 4], Some(4)), unclear, "it lay elsewhere");
        let unknown = decide(&others[0], &others, vec![3, 4], 0, || Some(4));
        assert_eq!(unknown, unclear, "nobody knows where it lay");
        // The launch was read from a file system and its copy.
        let both = devices(UUID);
        for device in &both {
            assert_eq!(decide(device, &both, vec![3, 4], 7, || Some(4)), unclear);
        }
    }

    const TABLE: &[u8] = b"\
        30 25 8:1 / / rw - ext4 /dev/sda1 rw\n\
        31 30 8:2 / /media/a\\012b rw - ext4 /dev/sdb1 rw\n\
        32 30 8:3 / /image rw - ext4 /dev/sdc1 rw\n";

    #[test]
    fn an_app_lies_where_its_path_leads_below_its_root_directory() {
        let table = MountTable::parse(TABLE);
        let own = |path: &str, root: Option<&str>| {
            let app = App {
                path: path.into(),
                root: root.map(Into::into),
                ..App::default()
            };
            own_device(&app, &table).map(rustix::fs::minor)
        };
        assert_eq!(own("/usr/bin/app", None), Some(1));
        assert_eq!(own("/image/app", None), Some(3));
        assert_eq!(own("/app", Some("/image")), Some(3));
        assert_eq!(own("flatpak:org.any.App", None), None);
    }

    #[test]
    fn both_places_are_named_in_one_line() {
        let table = MountTable::parse(TABLE);
        let [root, copy] = [1, 2].map(|minor| rustix::fs::makedev(8, minor));
        let present = [
            Presence::On(root),
            Presence::Unclear(vec![root, copy]),
            Presence::Away,
        ];
        let line = unclear(&present, &table).unwrap();
        assert!(line.contains("at / and /media/a\u{fffd}b have"), "{line}");
        assert_eq!(line.lines().count(), 1);
        assert_eq!(unclear(&[Presence::On(root), Presence::Away], &table), None);
    }

    #[test]
    fn a_file_system_is_there_under_its_number_with_its_id() {
        let dev = std::fs::metadata("/").unwrap().dev();
        let id = fstatvfs(open_cached(Path::new("/")).unwrap())
            .unwrap()
            .f_fsid;
        let root = MountedFs {
            dev,
            id,
            place: "/".into(),
        };
        assert!(root.is_there());
        let others = [
            MountedFs {
                dev: dev + 1,
                ..root.clone()
            },
            MountedFs {
                id: id + 1,
                ..root.clone()
            },
            MountedFs {
                place: "/proc".into(),
                ..root.clone()
            },
            MountedFs {
                place: "/nowhere".into(),
                ..root
            },
        ];
        for other in others {
            assert!(!other.is_there(), "{other:?}");
        }
    }
}
