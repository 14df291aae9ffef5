//! Who may announce which process.

use std::os::fd::OwnedFd;
use std::{fs, io};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{AnnounceError, Refusal};
use crate::process::{TaskState, task_state};
use crate::service::roots::has_our_users;

/// How many generations lie at most between a sender and the process that it announces.
const MAX_GENERATIONS: usize = 64;

/// A process that may be announced.
struct AnnouncedProcess {
    pidfd: OwnedFd,
    task: TaskState,
    real_uid: u32,
    /// In a pid namespace below this one, where its process ids mean something else.
    is_nested: bool,
    has_our_users: bool,
}

impl AnnouncedProcess {
    /// Opens a process and reads about it. A thread is refused as well as a process that does not exist.
    fn look(pid: Pid) -> Result<Self, AnnounceError> {
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            // A thread gives EINVAL, and ENOENT since Linux 6.9.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => return Err(Refusal::Gone.into()),
            pidfd => pidfd?,
        };
        let pid = pid.as_raw_nonzero();
        let task = task_state(pid.get())?.ok_or(Refusal::Gone)?;
        let status = match fs::read(format!("/proc/{pid}/status")) {
            // Before open(2), or between that and read(2).
            Err(error)
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::NOENT | Errno::SRCH)
                ) =>
            {
                return Err(Refusal::Gone.into());
            }
            status => status?,
        };
        let parsed = user_and_nesting(&String::from_utf8_lossy(&status)).ok_or_else(|| {
            let text = format!("/proc/{pid}/status is not as proc(5) describes it");
            io::Error::new(io::ErrorKind::InvalidData, text)
        });
        let (real_uid, is_nested) = parsed?;
        Ok(AnnouncedProcess {
            pidfd,
            task,
            has_our_users: has_our_users(pid.get() as u32),
            real_uid,
            is_nested,
        })
    }

    /// Checks that it has not ended. As long as that is so, its id is its own, and what was read under that
    /// id after the pidfd was opened is about it.
    fn check_alive(&self) -> Result<(), AnnounceError> {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec::default()))? {
            0 => Ok(()),
            _ => Err(Refusal::Gone.into()),
        }
    }
}

/// The real user id of a process, and whether it is in a pid namespace below this one, from
/// /proc/PID/status.
pub fn user_and_nesting(status: &str) -> Option<(u32, bool)> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_ascii_whitespace())
    };
    let real_uid = field("Uid:")?.next()?.parse().ok()?;
    // One id for each namespace from ours to its own. Without the line there are no namespaces.
    Some((real_uid, field("NSpid:").is_some_and(|ids| ids.count() > 1)))
}

/// Checks the process that root announces through the file, and tells its real user id. Its id is in our pid namespace.
pub(super) fn by_root(pid: Pid) -> Result<(Pid, u32), AnnounceError> {
    let process = AnnouncedProcess::look(pid)?;
    process.check_alive()?;
    Ok((pid, process.real_uid))
}

/// The process that a sender announces, and its real user id: itself, or the one of id `asked` in its pid namespace. The kernel
/// says that the sender had the id `pid` and the user id `uid` when it sent; if it has ended, its id may be
/// another process's by now, and that one is taken for the sender if it is of the same user.
pub(super) fn by_sender(
    (pid, uid): (Pid, u32),
    asked: Option<Pid>,
) -> Result<(Pid, u32), AnnounceError> {
    let sender = AnnouncedProcess::look(pid)?;
    // In a user namespace of his own, a user has thousands of ids, each with apps of its own.
    let is_foreign = asked.is_some() && sender.is_nested || uid != 0 && !sender.has_our_users;
    if is_foreign {
        return Err(Refusal::Namespace.into());
    }
    let announced = asked.unwrap_or(pid);
    let process = AnnouncedProcess::look(announced)?;
    if uid != 0 && process.real_uid != uid {
        return Err(Refusal::NotTheirs.into());
    }
    let is_family =
        uid == 0 || announced == pid || descends(process.task, sender.task, task_state)?;
    sender.check_alive()?;
    if !is_family {
        return Err(Refusal::NotDescendant.into());
    }
    process.check_alive()?;
    Ok((announced, process.real_uid))
}

/// Whether a process descends from `ancestor`, by the parents that `look_up` finds now. A process whose
/// parent has ended belongs to another family since.
fn descends(
    process: TaskState,
    ancestor: TaskState,
    mut look_up: impl FnMut(i32) -> io::Result<Option<TaskState>>,
) -> io::Result<bool> {
    let mut child = process;
    for _ in 0..MAX_GENERATIONS {
        // 0: the parent is outside of this pid namespace.
        if child.parent == 0 {
            return Ok(false);
        }
        let Some(parent) = look_up(child.parent)? else {
            return Ok(false);
        };
        // A parent is older than its child: the id belongs to another process by now.
        if parent.start_time > child.start_time {
            return Ok(false);
        }
        if parent.is_same(&ancestor) {
            return Ok(true);
        }
        child = parent;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_nesting_come_from_status() {
        let status = "Name:\ta\nPPid:\t5\nUid:\t1000\t0\t0\t0\nNSpid:\t7\n";
        assert_eq!(user_and_nesting(status), Some((1000, false)));
        assert_eq!(
            user_and_nesting("Uid:\t1\t0\nNSpid:\t7\t1\n"),
            Some((1, true))
        );
        // The kernel writes a newline in a name as \n, in two characters.
        let faked = "Name:\t\\nUid:\t0\nUid:\t1000\t0\t0\t0\n";
        assert_eq!(user_and_nesting(faked), Some((1000, false)));
        assert_eq!(user_and_nesting("Name:\ta\n"), None);
    }

    fn task(pid: i32, parent: i32, start_time: u64) -> TaskState {
        TaskState {
            pid,
            parent,
            state: b'S',
            ticks: 0,
            start_time,
        }
    }

    /// The process of an id started at that tick, and its parent has the id below.
    fn chain(pid: i32) -> io::Result<Option<TaskState>> {
        Ok(Some(task(pid, pid - 1, pid as u64)))
    }

    #[test]
    fn descendants_of_up_to_64_generations_are_family() {
        let is_family = |pid: i32, ancestor: i32, started: i32| {
            let ancestor = task(ancestor, 0, started as u64);
            descends(task(pid, pid - 1, pid as u64), ancestor, chain).unwrap()
        };
        assert!(is_family(10, 9, 9) && is_family(10, 1, 1));
        assert!(!is_family(10, 10, 10));
        assert!(!is_family(10, 5, 6), "the id was given away");
        assert!(is_family(1000, 1000 - 64, 936));
        assert!(!is_family(1000, 1000 - 65, 935));
    }

    #[test]
    fn a_family_with_a_member_that_has_ended_is_none() {
        for found in [None, Some(task(5, 4, 100)), Some(task(5, 5, 5))] {
            let look_up = |pid| if pid == 5 { Ok(found) } else { chain(pid) };
            assert!(!descends(task(10, 9, 10), task(2, 1, 2), look_up).unwrap());
        }
    }
}
