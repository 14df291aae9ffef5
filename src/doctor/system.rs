//! Drives, file systems and memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

use super::AbilityCheck;
use crate::drive::{KnownDrive, MeasuredDrives, Memory, MemoryLimits, Sysfs, known_drives};
use crate::fs::app_dirs::AppFileSystems;
use crate::fs::blockdev;
use crate::fs::kind::FsKind;
use crate::fs::mounts::MountTable;

/// The file systems that hold apps, and the settings of their drives.
pub fn drives() -> Vec<AbilityCheck> {
    let mounts = match MountTable::read() {
        Ok(mounts) => mounts,
        Err(error) => {
            return vec![AbilityCheck::needed(
                "file systems",
                Err(format!("cannot read the mount table: {error}")),
                "nothing can be learned or prefetched: mount /proc",
            )];
        }
    };
    let app_file_systems = AppFileSystems::of_system(&mounts);
    let [supported, left_out] = judge_file_systems(&app_file_systems);
    let mut devices = app_file_systems.devices();
    if devices.is_empty() {
        return vec![supported];
    }
    for dev in &mut devices {
        *dev = blockdev::below(*dev, &mounts);
    }
    devices.sort_unstable();
    devices.dedup();
    let with_metadata = app_file_systems.devices_of(FsKind::has_metadata);
    let with_layout = app_file_systems.devices_of(FsKind::has_layout);
    let sysfs = Sysfs::default();
    let is_root = rustix::process::geteuid().is_root();
    let mut checks = vec![supported, left_out];
    if !with_metadata.is_empty() {
        checks.push(judge_nodes(&with_metadata, is_root, |dev| {
            let node = blockdev::node(dev, &mounts);
            node.map(|node| (can_read(&node), node))
        }));
    }
    if !with_layout.is_empty() {
        checks.push(judge_devices(
            &with_layout,
            "inode_readahead_blks",
            |dev| sysfs.inode_readahead_knob(dev).is_some(),
            "ext4 reads inodes ahead while learning: inode tables that nobody needs are learned",
        ));
    }
    checks.push(judge_devices(
        &devices,
        "read_ahead_kb",
        |dev| sysfs.read_ahead_knob(dev).is_some(),
        "readahead stays on while learning: pages that nobody touches are learned",
    ));
    checks
}

/// What reads from the drives that hold apps cost, each in words.
pub fn drive_costs(state_dir: &Path) -> Vec<AbilityCheck> {
    const NAME: &str = "measured drives";
    // That it cannot be read is another check.
    let Ok(mounts) = MountTable::read() else {
        return Vec::new();
    };
    let sysfs = Sysfs::default();
    let (kept, mut checks) = match MeasuredDrives::load(state_dir) {
        Ok(kept) => (kept, Vec::new()),
        Err(error) => {
            let cost = "drives are judged by their class: run doctor with sudo, or measure them by `paralfetch probe`";
            let check = AbilityCheck::useful(NAME, Err(error.to_string()), cost);
            (MeasuredDrives::default(), vec![check])
        }
    };
    let devices = AppFileSystems::of_system(&mounts).devices();
    let known = known_drives(devices.iter().copied(), &sysfs, &mounts, &kept);
    let check = |drive: &KnownDrive| {
        let how = match drive.measured {
            Some(_) => String::new(),
            None => format!(" (measure it: paralfetch probe /dev/{})", drive.name),
        };
        AbilityCheck::ok(format!("drive {}", drive.name), drive.describe() + &how)
    };
    checks.extend(known.iter().map(check));
    checks
}

/// What is said where the mount table shows none that holds apps.
const NONE_FOUND: &str = "none was found below /usr, /opt, /home and the like";

/// The file systems that are supported, and those that are not.
fn judge_file_systems(found: &AppFileSystems) -> [AbilityCheck; 2] {
    let left_out = found.left_out();
    [
        AbilityCheck::needed(
            "file systems",
            found
                .supported()
                .ok_or_else(|| left_out.clone().unwrap_or_else(|| NONE_FOUND.to_owned())),
            "nothing can be learned or prefetched: no apps lie on ext4 (ext3, ext2), XFS, btrfs, EROFS or squashfs",
        ),
        AbilityCheck::useful(
            "other file systems",
            left_out.map_or_else(|| Ok("none".to_owned()), Err),
            "apps and files there are neither learned nor prefetched",
        ),
    ]
}

/// Whether an ability is there on every device.
fn judge_devices(
    devices: &[u64],
    name: &str,
    is_there: impl Fn(u64) -> bool,
    cost: &str,
) -> AbilityCheck {
    let mut lacking = devices.to_vec();
    lacking.retain(|&dev| !is_there(dev));
    let found = match lacking[..] {
        [] => Ok(format!("there ({})", blockdev::names(devices))),
        _ => Err(format!("missing for {}", blockdev::names(&lacking))),
    };
    AbilityCheck::useful(name, found, cost)
}

/// Whether metadata can be read from the devices. `look` gives a device's node, if it has one, and whether it can be read.
fn judge_nodes(
    devices: &[u64],
    is_root: bool,
    look: impl Fn(u64) -> Option<(io::Result<()>, PathBuf)>,
) -> AbilityCheck {
    const NAME: &str = "block device nodes";
    let (mut found, mut lacking, mut is_denied) = (Vec::new(), Vec::new(), true);
    for &dev in devices {
        match look(dev) {
            None => {
                is_denied = false;
                lacking.push(format!("{} has none", blockdev::name(dev)));
            }
            Some((Ok(()), _)) => found.push(dev),
            Some((Err(error), node)) => {
                is_denied &= error.kind() == io::ErrorKind::PermissionDenied;
                lacking.push(format!("{} cannot be read: {error}", node.display()));
            }
        }
    }
    if lacking.is_empty() {
        return AbilityCheck::ok(NAME, format!("there ({})", blockdev::names(&found)));
    }
    if is_denied && !is_root {
        let cost = "the service reads them as root: sudo paralfetch doctor";
        return AbilityCheck::unknown(NAME, "root alone may read them", cost);
    }
    let cost = "its metadata is prefetched by looking paths up, which gains less";
    AbilityCheck::useful(NAME, Err(lacking.join("; ")), cost)
}

fn can_read(node: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    open(node, flags, Mode::empty())?;
    Ok(())
}

/// Whether a launch would be prefetched now.
pub fn memory() -> AbilityCheck {
    let memory = Memory::read();
    let (found, cost) = match (
        memory.refuses(0, &MemoryLimits::default()),
        memory.available,
    ) {
        (Some(why), _) => (Err(why), "nothing is prefetched while that is so"),
        (None, Some(available)) => (Ok(format!("{} MiB available", available >> 20)), ""),
        (None, None) => (
            Err("the kernel does not say how much is available".to_owned()),
            "a schedule larger than memory would not be noticed",
        ),
    };
    AbilityCheck::useful("memory", found, cost)
}

/// The memory cgroup of this process, which prefetched pages are charged to.
pub fn memory_cgroup() -> AbilityCheck {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    judge_cgroup(&own, &|group| {
        let group = Path::new("/sys/fs/cgroup").join(group);
        fs::read_to_string(group.join("memory.max")).ok()
    })
}

/// `own` is /proc/self/cgroup; `limit` gives the content of a group's `memory.max`, by the group's
/// path below the root group.
fn judge_cgroup(own: &str, limit: &dyn Fn(&Path) -> Option<String>) -> AbilityCheck {
    const NAME: &str = "memory cgroup";
    let Some(path) = own.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return AbilityCheck::ok(NAME, "none (no unified hierarchy)");
    };
    let limits = Path::new(path)
        .ancestors()
        .filter_map(|group| Some((limit(group)?.trim().parse::<u64>().ok()?, group)));
    let found = match limits.min() {
        None => Ok(format!("/{path}, no limit")),
        Some((bytes, group)) => Err(format!(
            "/{} is limited to {} MiB",
            group.display(),
            bytes >> 20
        )),
    };
    AbilityCheck::useful(
        NAME,
        found,
        "prefetched pages count against this limit and may be dropped before they are used: \
         start paralfetch outside of that group",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::AbilityLevel;

    #[test]
    fn a_node_that_is_there_is_not_called_missing_and_what_root_alone_reads_is_unknown_to_others() {
        let dev = rustix::fs::makedev(4095, 7);
        let judge = |is_root, errno: Option<i32>| {
            let look = |_| {
                let read = errno.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)));
                Some((read, PathBuf::from("/dev/vda")))
            };
            judge_nodes(&[dev], is_root, look)
        };
        let refused = judge(true, Some(libc::EPERM));
        assert_eq!(refused.level, AbilityLevel::Less);
        assert!(
            refused.found.starts_with("/dev/vda cannot be read: "),
            "{}",
            refused.found
        );
        assert_eq!(
            judge(false, Some(libc::EACCES)).level,
            AbilityLevel::Unknown
        );
        assert_eq!(judge(true, None).level, AbilityLevel::Ok);
        let none = judge_nodes(&[dev], false, |_| None);
        assert_eq!(
            (none.level, &*none.found),
            (AbilityLevel::Less, "4095:7 has none")
        );
    }

    #[test]
    fn forty_loop_devices_take_a_line() {
        let devices: Vec<u64> = (0..40).map(|minor| rustix::fs::makedev(7, minor)).collect();
        let judge = |lacking: usize| {
            let is_there = |dev| !devices[..lacking].contains(&dev);
            judge_devices(&devices, "read_ahead_kb", is_there, "pages")
        };
        assert_eq!(judge(0).found, "there (40 loop devices)");
        assert_eq!(judge(20).found, "missing for 20 loop devices");
        assert_eq!(judge(20).level, AbilityLevel::Less);
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let limit = |group: &Path| {
            let text = match group.to_str()? {
                "a/b" => "max",
                "a" => "1073741824\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let limited = judge_cgroup("1:name=x:/y\n0::/a/b\n", &limit);
        assert_eq!(limited.level, AbilityLevel::Less);
        assert_eq!(limited.found, "/a is limited to 1024 MiB");
        for own in ["0::/c\n", "0::/\n", ""] {
            assert_eq!(judge_cgroup(own, &limit).level, AbilityLevel::Ok, "{own}");
        }
    }
}
