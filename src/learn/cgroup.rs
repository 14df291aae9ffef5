//! The cgroup that belongs to a launch alone, such as the scope that systemd makes for an app. Every process
//! in it belongs to the launch, whichever process started it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::param::clock_ticks_per_second;

use crate::fs::mounts::{Mount, MountTable};
use crate::process::{Clocks, Kin, TaskState, task_state};

/// Number of this process's cgroup (`bpf_get_current_cgroup_id`), if it contains only this process, its
/// ancestors and its children. The launch will be in it, too. `None` if it is shared with others, is the root
/// of the hierarchy, or cannot be examined: then only the launch tree counts.
pub fn own(mounts: &MountTable) -> Option<u64> {
    let kin = Kin::of_this_process().ok()?;
    let cgroups = fs::read("/proc/self/cgroup").ok()?;
    number(mounts, &cgroups, |pid| kin.contains(pid))
}

/// Number of the cgroup of a launch that somebody else has started, if no process in it is older than the launch's
/// execve, but for the launch's own. A desktop may move an app into a scope of its own only when it runs: ask
/// again. `threads` are those of the launch; `start_ns` is the time of its execve, CLOCK_MONOTONIC in nanoseconds.
pub fn of_launch(mounts: &MountTable, threads: &[i32], start_ns: u64) -> Option<u64> {
    let now = Clocks::now();
    let suspended_ns = now.boottime_ns.saturating_sub(now.monotonic_ns);
    let start_ticks = (start_ns + suspended_ns) / (NS_PER_S / clock_ticks_per_second());
    let belongs = |pid| {
        let is_younger = |task: TaskState| task.start_time >= start_ticks;
        threads.contains(&pid) || matches!(task_state(pid), Ok(Some(task)) if is_younger(task))
    };
    // A wrapper may be in another cgroup than the app that it starts.
    let mut known = HashSet::new();
    let cgroups = threads
        .iter()
        .filter_map(|thread| fs::read(format!("/proc/{thread}/cgroup")).ok());
    let mut cgroups = cgroups.filter(|cgroups| known.insert(cgroups.clone()));
    cgroups.find_map(|cgroups| number(mounts, &cgroups, belongs))
}

const NS_PER_S: u64 = 1_000_000_000;

/// Number of the cgroup of these contents of /proc/PID/cgroup, if all processes in it belong to the launch.
fn number(mounts: &MountTable, cgroups: &[u8], belongs: impl Fn(i32) -> bool) -> Option<u64> {
    let directory = directory(mounts.mounts(), unified(cgroups)?)?;
    let members = fs::read_to_string(directory.join("cgroup.procs")).ok()?;
    let mut members = members.lines().filter_map(|pid| pid.parse().ok());
    if !members.all(belongs) {
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
