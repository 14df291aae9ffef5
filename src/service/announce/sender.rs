//! Who may announce which process.

use std::os::fd::OwnedFd;
use std::{fs, io, str};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{AnnounceError, Refusal};

/// How many generations lie at most between a sender and the process that it announces.
const MAX_GENERATIONS: usize = 64;

/// A process that may be announced.
struct AnnouncedProcess {
    pidfd: OwnedFd,
    facts: Facts,
}

impl AnnouncedProcess {
    /// Opens a process and reads about it. A thread is refused as well as a process that does not exist.
    fn look(pid: Pid) -> Result<Self, AnnounceError> {
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            // A thread gives EINVAL, and ENOENT since Linux 6.9.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => return Err(Refusal::Gone.into()),
            pidfd => pidfd?,
        };
        let facts = Facts::read(pid.as_raw_nonzero().get())?.ok_or(Refusal::Gone)?;
        Ok(AnnouncedProcess { pidfd, facts })
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

/// Checks the process that root announces through the file. Its id is in our pid namespace.
///
/// # Errors
/// When it is refused, or cannot be looked at, for a reason on our side.
pub(super) fn by_root(pid: Pid) -> Result<Pid, AnnounceError> {
    AnnouncedProcess::look(pid)?.check_alive()?;
    Ok(pid)
}

/// The process that a sender announces: itself, or the one of id `asked` in its pid namespace. The kernel
/// says that the sender had the id `pid` and the user id `uid` when it sent; if it has ended, its id may be
/// another process's by now, and that one is taken for the sender if it is of the same user.
///
/// # Errors
/// When it is refused, or cannot be looked at, for a reason on our side.
pub(super) fn by_sender((pid, uid): (Pid, u32), asked: Option<Pid>) -> Result<Pid, AnnounceError> {
    let sender = AnnouncedProcess::look(pid)?;
    if asked.is_some() && sender.facts.nested {
        return Err(Refusal::Namespace.into());
    }
    let announced = asked.unwrap_or(pid);
    let process = AnnouncedProcess::look(announced)?;
    if uid != 0 && process.facts.real_uid != uid {
        return Err(Refusal::NotTheirs.into());
    }
    let ancestor = (pid.as_raw_nonzero().get(), sender.facts.start_time);
    let is_family = uid == 0 || announced == pid || descends(process.facts, ancestor, Facts::read)?;
    sender.check_alive()?;
    if !is_family {
        return Err(Refusal::NotDescendant.into());
    }
    process.check_alive()?;
    Ok(announced)
}

/// What /proc/PID/status and /proc/PID/stat say of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    /// 0 for a process whose parent is outside of this pid namespace.
    parent: i32,
    real_uid: u32,
    /// In a pid namespace below this one, where its process ids mean something else.
    nested: bool,
    /// Clock ticks since boot.
    start_time: u64,
}

impl Facts {
    /// `None` if no process has that id.
    fn read(pid: i32) -> io::Result<Option<Facts>> {
        let (Some(status), Some(stat)) = (slurp(pid, "status")?, slurp(pid, "stat")?) else {
            return Ok(None);
        };
        Facts::parse(&status, &stat).map(Some).ok_or_else(|| {
            let text = format!("/proc/{pid}/status or stat is not as proc(5) describes it");
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }

    fn parse(status: &[u8], stat: &[u8]) -> Option<Facts> {
        let field = |name: &str| {
            let line = status
                .split(|&byte| byte == b'\n')
                .find_map(|line| line.strip_prefix(name.as_bytes()))?;
            Some(str::from_utf8(line).ok()?.split_ascii_whitespace())
        };
        // The name may hold anything, further parentheses included; the third field follows the last one.
        let close = stat.iter().rposition(|&byte| byte == b')')?;
        let rest = str::from_utf8(&stat[close + 1..]).ok()?;
        Some(Facts {
            parent: field("PPid:")?.next()?.parse().ok()?,
            real_uid: field("Uid:")?.next()?.parse().ok()?,
            // One id for each namespace from ours to its own. Without the line there are no namespaces.
            nested: field("NSpid:").is_some_and(|ids| ids.count() > 1),
            start_time: rest.split_ascii_whitespace().nth(19)?.parse().ok()?,
        })
    }
}

fn slurp(pid: i32, name: &str) -> io::Result<Option<Vec<u8>>> {
    match fs::read(format!("/proc/{pid}/{name}")) {
        Ok(text) => Ok(Some(text)),
        // It ended between open and read.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a process descends from `ancestor` (id and start time), by the parents that `look_up` finds now.
/// A process whose parent has ended belongs to another family since.
fn descends(
    process: Facts,
    ancestor: (i32, u64),
    mut look_up: impl FnMut(i32) -> io::Result<Option<Facts>>,
) -> io::Result<bool> {
    let mut child = process;
    for _ in 0..MAX_GENERATIONS {
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
        if (child.parent, parent.start_time) == ancestor {
            return Ok(true);
        }
        child = parent;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] = b"7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 1 2 3\n";

    #[test]
    fn facts_come_from_status_and_stat() {
        let status = b"Name:\ta\nPPid:\t5\nUid:\t1000\t0\t0\t0\nNSpid:\t7\n";
        let expected = Facts {
            parent: 5,
            real_uid: 1000,
            nested: false,
            start_time: 4242,
        };
        assert_eq!(Facts::parse(status, STAT), Some(expected));
        let nested = Facts::parse(b"PPid:\t5\nUid:\t1\t0\nNSpid:\t7\t1\n", STAT);
        assert!(nested.unwrap().nested);
        // The kernel writes a newline in a name as \n, in two characters.
        let faked = b"Name:\t\\nUid:\t0\nPPid:\t5\nUid:\t1000\t0\t0\t0\n";
        assert_eq!(Facts::parse(faked, STAT).unwrap().real_uid, 1000);
        for (status, stat) in [
            (&b""[..], STAT),
            (b"PPid:\tx\nUid:\t1", STAT),
            (status, b""),
            (status, b"7 (a) S 1"),
        ] {
            assert_eq!(Facts::parse(status, stat), None);
        }
    }

    fn facts(parent: i32, start_time: u64) -> Facts {
        Facts {
            parent,
            real_uid: 0,
            nested: false,
            start_time,
        }
    }

    /// The process of an id started at that tick, and its parent has the id below.
    fn chain(pid: i32) -> io::Result<Option<Facts>> {
        Ok(Some(facts(pid - 1, pid as u64)))
    }

    #[test]
    fn descendants_of_any_generation_are_family() {
        assert!(descends(facts(9, 10), (9, 9), chain).unwrap());
        assert!(descends(facts(9, 10), (1, 1), chain).unwrap());
        assert!(!descends(facts(9, 10), (10, 10), chain).unwrap());
        assert!(!descends(facts(9, 10), (5, 6), chain).unwrap(), "reused");
        let gone = |pid| if pid == 5 { Ok(None) } else { chain(pid) };
        assert!(!descends(facts(9, 10), (2, 2), gone).unwrap());
        let younger = |pid| match pid {
            5 => Ok(Some(facts(4, 100))),
            _ => chain(pid),
        };
        assert!(!descends(facts(9, 10), (2, 2), younger).unwrap());
    }

    #[test]
    fn loops_and_long_families_end() {
        let own_parent = |pid| Ok(Some(facts(pid, 1)));
        assert!(!descends(facts(9, 10), (2, 1), own_parent).unwrap());
        assert!(descends(facts(999, 1000), (1000 - 64, 936), chain).unwrap());
        assert!(!descends(facts(999, 1000), (1000 - 65, 935), chain).unwrap());
    }
}
