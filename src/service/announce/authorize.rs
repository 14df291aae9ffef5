//! Who may announce which process.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::Pid;

use super::process::{self, AnnouncedProcess};
use super::refused::Refusal;

/// Who announces.
#[derive(Debug)]
pub(super) struct Sender {
    pub pid: Pid,
    /// Real, effective or saved user id: what the kernel lets a sender choose from.
    pub uid: u32,
    /// From the kernel with the announcement; opened afterwards where it gives none.
    pub pidfd: Option<OwnedFd>,
}

/// A process that may be announced.
#[derive(Debug)]
pub(super) struct Announcer {
    pub pid: Pid,
    pub pidfd: OwnedFd,
    pub start_time: u64,
}

/// The process that root announces through the file. Its id is in our pid namespace.
///
/// # Errors
/// When a process cannot be looked at, for a reason on our side.
pub(super) fn any(pid: Pid) -> io::Result<Result<Announcer, Refusal>> {
    let Some((pidfd, found)) = look(pid, None)? else {
        return Ok(Err(Refusal::Gone));
    };
    finish(pid, pidfd, found)
}

/// The process that `sender` announces: itself, or the one of id `asked` in its pid namespace.
///
/// # Errors
/// When a process cannot be looked at, for a reason on our side.
pub(super) fn announced(
    sender: Sender,
    asked: Option<Pid>,
) -> io::Result<Result<Announcer, Refusal>> {
    let from_kernel = sender.pidfd.is_some();
    let Some((sender_pidfd, sending)) = look(sender.pid, sender.pidfd)? else {
        return Ok(Err(Refusal::Gone));
    };
    // Without a pidfd from the kernel, the id may be another process's by now. What remains possible
    // is that it is one of the same user's.
    if !from_kernel && sending.real_uid != sender.uid {
        return Ok(Err(Refusal::Gone));
    }
    let is_theirs = |process: AnnouncedProcess| sender.uid == 0 || process.real_uid == sender.uid;
    let Some(pid) = asked else {
        if !is_theirs(sending) {
            return Ok(Err(Refusal::NotTheirs));
        }
        return finish(sender.pid, sender_pidfd, sending);
    };
    if sending.nested {
        return Ok(Err(Refusal::Namespace));
    }
    let Some((pidfd, found)) = look(pid, None)? else {
        return Ok(Err(Refusal::Gone));
    };
    if !is_theirs(found) {
        return Ok(Err(Refusal::NotTheirs));
    }
    let parent = sender.pid.as_raw_nonzero().get();
    let is_family = sender.uid == 0
        || pid == sender.pid
        || process::descends(found, (parent, sending.start_time), process::read)?;
    if !process::is_alive(&sender_pidfd)? {
        return Ok(Err(Refusal::Gone));
    }
    if !is_family {
        return Ok(Err(Refusal::NotDescendant));
    }
    finish(pid, pidfd, found)
}

fn look(pid: Pid, pidfd: Option<OwnedFd>) -> io::Result<Option<(OwnedFd, AnnouncedProcess)>> {
    let pidfd = match pidfd {
        Some(pidfd) => Some(pidfd),
        None => process::open(pid)?,
    };
    let found = process::read(pid.as_raw_nonzero().get())?;
    Ok(pidfd.zip(found))
}

/// A process that is alive only now has been the one of its id all the time.
fn finish(
    pid: Pid,
    pidfd: OwnedFd,
    found: AnnouncedProcess,
) -> io::Result<Result<Announcer, Refusal>> {
    if !process::is_alive(&pidfd)? {
        return Ok(Err(Refusal::Gone));
    }
    Ok(Ok(Announcer {
        pid,
        pidfd,
        start_time: found.start_time,
    }))
}

#[cfg(test)]
mod tests {
    use rustix::process::{getpid, getuid};

    use super::*;

    fn announce(uid: u32) -> Result<Announcer, Refusal> {
        let sender = Sender {
            pid: getpid(),
            uid,
            pidfd: None,
        };
        announced(sender, None).unwrap()
    }

    #[test]
    fn kernels_without_a_pidfd_of_the_sender() {
        let own = getuid().as_raw();
        assert_eq!(announce(own).unwrap().pid, getpid());
        // The sender was another user's, and has ended.
        assert_eq!(announce(own ^ 1).unwrap_err(), Refusal::Gone);
    }
}
