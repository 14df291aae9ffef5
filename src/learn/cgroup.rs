//! The cgroup that belongs to a launch alone, such as the scope that systemd makes for an app. Every process
//! in it belongs to the launch, whichever process started it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::fs::mounts::{Mount, MountTable};
use crate::process::Kin;

/// Number of this process's cgroup (`bpf_get_current_cgroup_id`), if it contains only this process, its
/// ancestors and its children. The launch will be in it, too. `None` if it is shared with others, is the root
/// of the hierarchy, or cannot be examined: then only the launch tree counts.
pub fn own(mounts: &MountTable) -> Option<u64> {
    let cgroups = fs::read("/proc/self/cgroup").ok()?;
    let directory = directory(mounts.mounts(), unified(&cgroups)?)?;
    let members = fs::read_to_string(directory.join("cgroup.procs")).ok()?;
    let kin = Kin::of_this_process().ok()?;
    let is_shared = members
        .lines()
        .any(|pid| pid.parse().is_ok_and(|pid| !kin.contains(pid)));
    if is_shared {
        return None;
    }
    // The number of a cgroup is the inode number of its directory (kernfs).
    Some(fs::metadata(directory).ok()?.ino())
}

/// The process's place in the unified hierarchy, from the contents of /proc/PID/cgroup; `None` at its
/// root.
fn unified(cgroups: &[u8]) -> Option<&Path> {
    let path = cgroups
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"0::"))?;
    (path != b"/").then(|| Path::new(OsStr::from_bytes(path)))
}

/// Where a cgroup's directory is mounted.
fn directory(mounts: &[Mount], cgroup: &Path) -> Option<PathBuf> {
    mounts
        .iter()
        .filter(|mount| mount.fs_type == "cgroup2")
        .find_map(|mount| {
            let below = cgroup.strip_prefix(OsStr::from_bytes(&mount.root)).ok()?;
            Some(mount.mount_point.join(below))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_cgroup_is_below_the_mount_of_the_unified_hierarchy() {
        let cgroups = b"9:name=systemd:/x\n1:cpu:/\n0::/box/app-gimp-7.scope\n";
        let own = unified(cgroups).unwrap();
        for other in [&b"0::/\n"[..], b"4:memory:/a\n", b""] {
            assert_eq!(unified(other), None);
        }
        for (root, expected) in [
            ("/", Some("/sys/fs/cgroup/unified/box/app-gimp-7.scope")),
            ("/box", Some("/sys/fs/cgroup/unified/app-gimp-7.scope")),
            ("/other", None),
        ] {
            let table = format!(
                "30 20 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                 31 30 0:27 {root} /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
            );
            let table = MountTable::parse(table.as_bytes());
            let found = directory(table.mounts(), own);
            assert_eq!(found, expected.map(PathBuf::from), "{root}");
        }
    }
}
