//! How user space tells the programs which launch to watch, and from when.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapFlags};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::abilities::TraceError;
use super::skel::learn::types::pf_role;

/// Makes the calling process's main thread the launcher: processes that it creates from now on are
/// the launch tree, threads that it creates are its helpers. `roles` is the task-storage map of that
/// name in `bpf/tree.bpf.h`, of any object that includes it.
///
/// # Errors
/// When the map refuses the mark.
pub fn mark_tree_root(roles: &impl MapCore) -> Result<(), TraceError> {
    // Task storage is addressed from user space by pidfd, which for a process means its main thread.
    let pidfd = pidfd_open(getpid(), PidfdFlags::empty())
        .map_err(|error| TraceError::system("opening a pidfd", error.into()))?;
    mark(roles, pidfd.as_fd(), pf_role::PF_ROLE_LAUNCHER)
}

/// Makes the main thread of another process the first of the launch tree: one that is about to execute
/// the app or has just done so.
///
/// # Errors
/// When the map refuses the mark.
pub fn mark_app(roles: &impl MapCore, pidfd: BorrowedFd<'_>) -> Result<(), TraceError> {
    mark(roles, pidfd, pf_role::PF_ROLE_STARTING)
}

/// Makes the main thread of another process a helper, and with it the threads that it creates from now on:
/// what they read is prefetched. Threads that it has already are not meant.
///
/// # Errors
/// When the map refuses the mark.
pub fn mark_helper(roles: &impl MapCore, pidfd: BorrowedFd<'_>) -> Result<(), TraceError> {
    mark(roles, pidfd, pf_role::PF_ROLE_HELPER)
}

fn mark(roles: &impl MapCore, pidfd: BorrowedFd<'_>, role: pf_role) -> Result<(), TraceError> {
    roles
        .update(
            &pidfd.as_raw_fd().to_ne_bytes(),
            &role.0.to_ne_bytes(),
            MapFlags::ANY,
        )
        .map_err(|error| TraceError::from_bpf("marking a launch's first task", error))
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
    /// The mark of an object that includes `bpf/tree.bpf.h`.
    ///
    /// # Safety
    /// `active_since_ns` must point into the mapping of a loaded object's .bss section, and the mark
    /// must not be used after the object is dropped. (A forked child has its own reference to the
    /// mapping: there it stays valid until execve.)
    pub unsafe fn new(active_since_ns: *mut u64) -> Self {
        StartMark(active_since_ns.cast_const().cast())
    }

    /// Writes the time of the start, which is now. Async-signal-safe.
    pub fn set(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        // SAFETY: as `new` demands, the mapping is alive, and u64 words of .bss are aligned.
        unsafe { (*self.0).store(ns, Ordering::Release) };
    }

    /// The time that was set, CLOCK_MONOTONIC in nanoseconds; 0 before.
    pub(super) fn get(&self) -> u64 {
        // SAFETY: as in `set`.
        unsafe { (*self.0).load(Ordering::Acquire) }
    }
}
