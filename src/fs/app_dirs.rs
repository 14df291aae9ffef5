//! The file systems that apps and their files lie on, and which of them can be prefetched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::blockdev;
use super::kind::FsKind;
use super::mounts::{Mount, MountTable};
use super::support::Support;

/// Where packages, Flatpak, Snap, Nix and users keep apps and their files.
const APP_DIRS: [&str; 6] = [
    "/usr",
    "/opt",
    "/home",
    "/var/lib/flatpak",
    "/snap",
    "/nix/store",
];

/// A file system of apps that is supported.
#[derive(Debug)]
struct SupportedFs {
    /// The block device that it is on.
    below: u64,
    dirs: BTreeSet<PathBuf>,
}

/// The file systems that hold apps, with the app directories on them. Others, such as that of /boot, do not
/// count.
#[derive(Debug, Default)]
pub struct AppFileSystems {
    /// By kind and device (`st_dev`).
    supported: BTreeMap<(FsKind, u64), SupportedFs>,
    /// By type, such as `f2fs`.
    left_out: BTreeMap<String, BTreeSet<PathBuf>>,
}

impl AppFileSystems {
    /// The file systems of this system.
    pub fn of_system(table: &MountTable) -> Self {
        let dirs = APP_DIRS.iter().filter_map(|dir| {
            let dir = Path::new(dir);
            // A mount point is no link, and a network server behind it might not answer.
            let is_mount = table.mounts().iter().any(|mount| mount.mount_point == dir);
            match is_mount {
                true => Some(dir.to_owned()),
                false => dir.canonicalize().ok(),
            }
        });
        Self::holding(table, dirs)
    }

    fn holding(table: &MountTable, dirs: impl Iterator<Item = PathBuf>) -> Self {
        let mut found = AppFileSystems::default();
        for dir in dirs {
            if let Some(mount) = table.holding(&dir) {
                found.add(table, mount, &dir);
            }
            for mount in table.mounts() {
                if mount.mount_point == dir || !mount.mount_point.starts_with(&dir) {
                    continue;
                }
                // No app is missed on what users mount there over a network or by FUSE.
                match Support::of(&mount.fs_type) {
                    // Each snap is a mount of its own.
                    Support::Served(FsKind::Squashfs) | Support::NotYet => {
                        found.add(table, mount, &dir);
                    }
                    Support::Served(_) => found.add(table, mount, &mount.mount_point),
                    _ => {}
                }
            }
        }
        found
    }

    fn add(&mut self, table: &MountTable, mount: &Mount, dir: &Path) {
        let devices = match Support::of(&mount.fs_type) {
            Support::Served(_) => vec![mount.dev],
            // The layers of an overlay may lie on any of them.
            Support::Stacked => table.served_devices(|_| true),
            _ => Vec::new(),
        };
        if devices.is_empty() {
            let left_out = self.left_out.entry(mount.fs_type.clone()).or_default();
            left_out.insert(dir.to_owned());
        }
        for dev in devices {
            let Some(kind) = table.kind(dev) else {
                continue;
            };
            let supported = self.supported.entry((kind, dev));
            let supported = supported.or_insert_with(|| SupportedFs {
                below: blockdev::below(dev, table),
                dirs: BTreeSet::new(),
            });
            supported.dirs.insert(dir.to_owned());
        }
    }

    /// The devices (`st_dev`) of the supported ones.
    pub fn devices(&self) -> Vec<u64> {
        self.supported.keys().map(|&(_, dev)| dev).collect()
    }

    /// The devices with file systems of certain kinds.
    pub fn devices_of(&self, is_meant: impl Fn(FsKind) -> bool) -> Vec<u64> {
        let meant = self.supported.keys().filter(|(kind, _)| is_meant(*kind));
        meant.map(|&(_, dev)| dev).collect()
    }

    /// The supported ones, such as "ext4 on nvme0n1p2 (/opt, /usr)"; `None` if there are none.
    pub fn supported(&self) -> Option<String> {
        let kinds: BTreeSet<FsKind> = self.supported.keys().map(|&(kind, _)| kind).collect();
        let of_kind = |kind: FsKind| {
            let found = self.supported.iter().filter(|((of, _), _)| *of == kind);
            // Those that hold the same directories, as snaps do, together.
            let mut holding: Vec<(Vec<u64>, &BTreeSet<PathBuf>)> = Vec::new();
            for (_, fs) in found {
                match holding.iter_mut().find(|(_, dirs)| **dirs == fs.dirs) {
                    Some((devices, _)) => devices.push(fs.below),
                    None => holding.push((vec![fs.below], &fs.dirs)),
                }
            }
            let named = holding
                .iter()
                .map(|(devices, dirs)| format!("{} ({})", blockdev::names(devices), listed(dirs)));
            let named: Vec<String> = named.collect();
            format!("{} on {}", kind.description(), named.join(", "))
        };
        let named: Vec<String> = kinds.into_iter().map(of_kind).collect();
        (!named.is_empty()).then(|| named.join("; "))
    }

    /// The others, each with the reason, such as "/home: f2fs is not supported yet"; `None` if there are none.
    pub fn left_out(&self) -> Option<String> {
        let reason = |(fs_type, dirs): (&String, _)| {
            let why = Support::of(fs_type).reason().unwrap_or_default();
            format!("{}: {fs_type} {why}", listed(dirs))
        };
        let reasons: Vec<String> = self.left_out.iter().map(reason).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

fn listed(dirs: &BTreeSet<PathBuf>) -> String {
    let dirs: Vec<_> = dirs.iter().map(|dir| dir.to_string_lossy()).collect();
    dirs.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(mountinfo: &str) -> (Option<String>, Option<String>) {
        let table = MountTable::parse(mountinfo.as_bytes());
        let dirs = ["/usr", "/home", "/snap"].map(PathBuf::from);
        let found = AppFileSystems::holding(&table, dirs.into_iter());
        (found.supported(), found.left_out())
    }

    #[test]
    fn only_file_systems_that_hold_apps_count() {
        let f2fs = "1 0 0:30 / / rw - f2fs /dev/a rw\n";
        let boot = "2 1 4095:2 / /boot rw - ext4 /dev/b rw\n";
        let home = "3 1 4095:3 / /home rw - ext4 /dev/c rw\n";
        let (supported, left_out) = judged(&format!("{f2fs}{boot}"));
        assert_eq!(supported, None);
        let expected = "/home, /snap, /usr: f2fs is not supported yet";
        assert_eq!(left_out.as_deref(), Some(expected));
        let (supported, left_out) = judged(&format!("{f2fs}{boot}{home}"));
        assert_eq!(supported.as_deref(), Some("ext4 on 4095:3 (/home)"));
        let snap = "4 1 4095:4 / /snap rw - xfs /dev/d rw\n";
        let (several, _) = judged(&format!("{f2fs}{home}{snap}"));
        let expected =
            "ext4 on 4095:3 (/home); XFS (pages, and metadata by look-ups) on 4095:4 (/snap)";
        assert_eq!(several.as_deref(), Some(expected));
        let expected = "/snap, /usr: f2fs is not supported yet";
        assert_eq!(left_out.as_deref(), Some(expected));
    }

    #[test]
    fn mounts_below_count_unless_users_mount_them_over_a_network() {
        let table = "1 0 4095:1 / / rw - ext4 /dev/a rw\n\
            2 1 4095:8 / /snap/a/1 ro - squashfs /dev/loop1 ro\n\
            3 1 4095:9 / /snap/b/1 ro - squashfs /dev/loop2 ro\n\
            6 1 0:8 / /snap/c/1 ro - zfs pool/c ro\n\
            4 1 0:9 / /home/me/far rw - fuse.sshfs host: rw\n\
            5 1 4095:2 / /home/me rw - ext4 /dev/b rw\n";
        let (supported, left_out) = judged(table);
        let supported = supported.unwrap();
        let expected = "ext4 on 4095:1 (/home, /snap, /usr), 4095:2 (/home/me); squashfs (";
        assert!(supported.starts_with(expected), "{supported}");
        assert!(
            supported.ends_with(") on 4095:8, 4095:9 (/snap)"),
            "{supported}"
        );
        assert_eq!(left_out.as_deref(), Some("/snap: zfs is not supported yet"));
    }

    #[test]
    fn forty_snaps_take_a_line() {
        let snap = |number: u32| {
            format!(
                "{number} 1 7:{number} / /snap/s{number}/1 ro - squashfs /dev/loop{number} ro\n"
            )
        };
        let snaps: String = (2..42).map(snap).collect();
        let (supported, _) = judged(&format!("1 0 4095:1 / / rw - ext4 /dev/a rw\n{snaps}"));
        let kind = FsKind::Squashfs.description();
        let expected =
            format!("ext4 on 4095:1 (/home, /snap, /usr); {kind} on 40 loop devices (/snap)");
        assert_eq!(supported, Some(expected));
    }

    #[test]
    fn an_overlay_is_supported_if_its_layers_can_be() {
        let overlay = "1 0 0:30 / / rw - overlay overlay rw\n";
        assert_eq!(judged(overlay).0, None);
        let below = format!("{overlay}2 1 4095:1 / /mnt rw - ext4 /dev/a rw\n");
        let expected = "ext4 on 4095:1 (/home, /snap, /usr)";
        assert_eq!(judged(&below), (Some(expected.to_owned()), None));
    }
}
