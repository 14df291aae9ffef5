//! How user space tells the programs which launch to watch, and from when.

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapFlags};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

use super::abilities::TraceError;
use super::skel::types::{pf_member, pf_role};

/// Makes the calling process's main thread the launcher of the launch with this number: processes that it
/// creates from now on are the launch tree, threads that it creates are its prefetchers. `members` is the
/// task-storage map of that name in `bpf/tree.h`, of any object that includes it.
///
/// # Errors
/// When the map refuses the mark.
pub(super) fn mark_tree_root(members: &impl MapCore, launch: u64) -> Result<(), TraceError> {
    // Task storage is addressed from user space by pidfd, which for a process means its main thread.
    let pidfd = pidfd_open(getpid(), PidfdFlags::empty())
        .map_err(|error| TraceError::system("opening a pidfd", error.into()))?;
    mark_task(members, pidfd.as_fd(), launch, pf_role::PF_ROLE_LAUNCHER)
}

/// Gives the main thread of a process a role in the launch. What it creates from now on gets its role by
/// that; threads and child processes that it has already get none.
///
/// # Errors
/// When the process has ended, or the map has no memory for the mark.
pub(super) fn mark_task(
    members: &impl MapCore,
    pidfd: BorrowedFd<'_>,
    launch: u64,
    role: pf_role,
) -> Result<(), TraceError> {
    members
        .update(
            &pidfd.as_raw_fd().to_ne_bytes(),
            &member(launch, role),
            MapFlags::ANY,
        )
        .map_err(|error| TraceError::from_bpf("marking a task of a launch", error))
}

/// The launch that the main thread of a process is or was part of; 0: none.
///
/// # Errors
/// When the process has ended.
pub(super) fn launch_of_task(
    members: &impl MapCore,
    pidfd: BorrowedFd<'_>,
) -> Result<u64, TraceError> {
    let found = members
        .lookup(&pidfd.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| TraceError::from_bpf("looking a task up", error))?;
    Ok(found.as_deref().and_then(launch_of).unwrap_or(0))
}

/// The launch in a task's storage.
fn launch_of(member: &[u8]) -> Option<u64> {
    let bytes = member.get(offset_of!(pf_member, launch)..)?;
    Some(u64::from_ne_bytes(*bytes.first_chunk()?))
}

/// A task's storage; all other fields are 0.
fn member(launch: u64, role: pf_role) -> [u8; size_of::<pf_member>()] {
    let mut bytes = [0; size_of::<pf_member>()];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(offset_of!(pf_member, launch), &launch.to_ne_bytes());
    put(offset_of!(pf_member, role), &role.0.to_ne_bytes());
    bytes
}

/// The time now, CLOCK_MONOTONIC in nanoseconds.
pub(super) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Starts the recording: called in the child as its last act before execve. It reaches the BPF
/// programs through memory that they share with this process and all that it forks.
#[derive(Clone, Copy)]
pub struct StartMark(*const AtomicU64);

// SAFETY: the pointer is to an atomic in a shared mapping; see `new` for its lifetime.
unsafe impl Send for StartMark {}
// SAFETY: as above; an atomic may be written from several threads.
unsafe impl Sync for StartMark {}

impl StartMark {
    /// The mark of a launch in an object that includes `bpf/tree.h`.
    ///
    /// # Safety
    /// `start_ns` must point to the word of that name of the launch's slot, in the mapping of a loaded
    /// object's .bss section, and the mark must not be used after the object is dropped. (A forked child
    /// has its own reference to the mapping: there it stays valid until execve.)
    pub unsafe fn new(start_ns: *mut u64) -> Self {
        StartMark(start_ns.cast_const().cast())
    }

    /// Writes the time of the start, which is now. Async-signal-safe.
    pub fn set(&self) {
        // SAFETY: as `new` demands, the mapping is alive, and u64 words of .bss are aligned.
        unsafe { (*self.0).store(monotonic_ns(), Ordering::Release) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_storage_names_its_launch() {
        let member = member(7, pf_role::PF_ROLE_STARTING);
        assert_eq!(launch_of(&member), Some(7));
        assert_eq!(launch_of(&[]), None);
    }
}
