//! Having the kernel measure how long BPF programs run.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{BPF_STATS_RUN_TIME, bpf_enable_stats};
use paralfetch::kernel::TraceError;

/// While it exists, the kernel measures how long the system's BPF programs run, as with the sysctl
/// kernel.bpf_stats_enabled, at some tens of nanoseconds a run.
#[derive(Debug)]
pub struct RunTimeStats {
    _enabled: OwnedFd,
}

impl RunTimeStats {
    /// Begins to measure, from Linux 5.8 on.
    ///
    /// # Errors
    /// When the kernel refuses, as it does without CAP_SYS_ADMIN.
    pub fn enable() -> Result<Self, TraceError> {
        // SAFETY: takes a number and returns a new descriptor, or a negative error.
        let fd = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
        if fd < 0 {
            let error = io::Error::from_raw_os_error(-fd);
            return Err(TraceError::system("measuring BPF programs", error));
        }
        // SAFETY: it is open, and nobody else's.
        let _enabled = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(RunTimeStats { _enabled })
    }
}
