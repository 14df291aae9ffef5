//! Child processes that must not outlive us.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the kernel kill the child when the thread that starts it ends, however that happens; `inherit`
/// are descriptors that the child is to get.
pub fn die_with_parent(command: &mut Command, inherit: &[RawFd]) {
    let inherit = inherit.to_vec();
    let prepare = move || {
        // SAFETY: both are plain system calls on numbers; F_SETFD on a descriptor that the child does
        // not have fails and changes nothing.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0
                || inherit
                    .iter()
                    .any(|&fd| libc::fcntl(fd, libc::F_SETFD, 0) < 0)
        };
        if failed {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    };
    // SAFETY: between fork and exec it only makes system calls; it allocates nothing.
    unsafe { command.pre_exec(prepare) };
}
