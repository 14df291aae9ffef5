//! Child processes that must not outlive us, nor keep us waiting.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// How long a killed child may take to end: it may be waiting for a drive that has much to write.
const AFTER_KILL: Duration = Duration::from_secs(300);

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

/// Waits for a child's end, for no longer than `limit`; `None` if it still runs then.
///
/// # Errors
/// When the child cannot be waited for.
pub fn ended_within(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let begun = Instant::now();
    loop {
        let left = Timespec::try_from(limit.saturating_sub(begun.elapsed()))?;
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(child.wait()?)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills a child and waits for its end.
///
/// # Errors
/// When it does not end within five minutes: something in the kernel holds it.
pub fn end(child: &mut Child) -> Result<ExitStatus> {
    child.kill()?;
    ended_within(child, AFTER_KILL)?
        .with_context(|| format!("process {} does not end, even killed", child.id()))
}
