//! The cgroup that belongs to a launch alone, such as the scope that systemd makes for an app. Every process
//! in it belongs to the launch, whichever process started it.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::param::clock_ticks_per_second;

use crate::fs::mounts::MountTable;
use crate::process::{Clocks, Kin, TaskState, cgroup_directory, task_state, unified_cgroup};

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
    let directory = cgroup_directory(mounts, unified_cgroup(cgroups)?)?;
    let members = fs::read_to_string(directory.join("cgroup.procs")).ok()?;
    let mut members = members.lines().filter_map(|pid| pid.parse().ok());
    if !members.all(belongs) {
        return None;
    }
    // The number of a cgroup is the inode number of its directory (kernfs).
    Some(fs::metadata(directory).ok()?.ino())
}
