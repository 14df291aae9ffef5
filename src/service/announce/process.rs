//! What /proc says of a process.

use std::os::fd::OwnedFd;
use std::{fs, io, str};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// How many generations lie at most between a sender and the process that it announces.
const MAX_GENERATIONS: usize = 64;

/// What is needed of /proc/PID/status and /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnnouncedProcess {
    /// 0 for one whose parent is outside this pid namespace.
    pub parent: i32,
    pub real_uid: u32,
    /// In a pid namespace below this one, where its process ids mean something else.
    pub nested: bool,
    /// Clock ticks since boot.
    pub start_time: u64,
}

/// Opens a process; `None` if there is none, or it is a thread.
pub(super) fn open(pid: Pid) -> io::Result<Option<OwnedFd>> {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok(Some(pidfd)),
        Err(error) => match is_gone(&error.into()) {
            true => Ok(None),
            false => Err(error.into()),
        },
    }
}

/// What the kernel says to whoever asks for a pidfd of a process that is gone, or of a thread
/// (EINVAL, ENOENT since Linux 6.9).
pub(super) fn is_gone(error: &io::Error) -> bool {
    [libc::ESRCH, libc::EINVAL, libc::ENOENT]
        .map(Some)
        .contains(&error.raw_os_error())
}

/// Whether a process has not ended. If not even now, then its id was its own all the time since the
/// pidfd was opened, and what was read under that id is about it.
pub(super) fn is_alive(pidfd: &OwnedFd) -> io::Result<bool> {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    Ok(poll(&mut fds, Some(&at_once))? == 0)
}

/// Reads about a process; `None` if there is none of that id.
pub(super) fn read(pid: i32) -> io::Result<Option<AnnouncedProcess>> {
    let (Some(status), Some(stat)) = (slurp(pid, "status")?, slurp(pid, "stat")?) else {
        return Ok(None);
    };
    parse(&status, &stat).map(Some).ok_or_else(|| {
        let text = format!("/proc/{pid}/status or stat is not as proc(5) describes it");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
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

fn parse(status: &[u8], stat: &[u8]) -> Option<AnnouncedProcess> {
    let field = |name: &str| {
        let line = status
            .split(|&byte| byte == b'\n')
            .find_map(|line| line.strip_prefix(name.as_bytes()))?;
        Some(str::from_utf8(line).ok()?.split_ascii_whitespace())
    };
    // The name may hold anything, further parentheses included. Behind it: fields from the third on.
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = str::from_utf8(&stat[close + 1..]).ok()?;
    Some(AnnouncedProcess {
        parent: field("PPid:")?.next()?.parse().ok()?,
        real_uid: field("Uid:")?.next()?.parse().ok()?,
        // One id for each namespace from ours to its own. Without the line there are no namespaces.
        nested: field("NSpid:").is_some_and(|ids| ids.count() > 1),
        start_time: rest.split_ascii_whitespace().nth(19)?.parse().ok()?,
    })
}

/// Whether `process` descends from the process `ancestor`, as the parents that `look_up` finds say
/// now. A process whose parent ended belongs to another one's family since.
pub(super) fn descends(
    process: AnnouncedProcess,
    ancestor: (i32, u64),
    mut look_up: impl FnMut(i32) -> io::Result<Option<AnnouncedProcess>>,
) -> io::Result<bool> {
    let mut child = process;
    for _ in 0..MAX_GENERATIONS {
        if child.parent == 0 {
            return Ok(false);
        }
        let Some(parent) = look_up(child.parent)? else {
            return Ok(false);
        };
        // Nobody is older than its parent: the id belongs to another process since we asked.
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
    fn reads_status_and_stat() {
        let status = b"Name:\ta\nPPid:\t5\nUid:\t1000\t0\t0\t0\nNSpid:\t7\n";
        let process = parse(status, STAT).unwrap();
        let expected = AnnouncedProcess {
            parent: 5,
            real_uid: 1000,
            nested: false,
            start_time: 4242,
        };
        assert_eq!(process, expected);
        let status = b"PPid:\t5\nUid:\t1000\t0\t0\t0\nNSpid:\t7\t1\n";
        assert!(parse(status, STAT).unwrap().nested);
        assert!(!parse(b"PPid:\t5\nUid:\t0\t", STAT).unwrap().nested);
    }

    #[test]
    fn a_name_cannot_fake_a_line() {
        // The kernel writes a newline in a name as \n, in two characters.
        let status = b"Name:\t\\nUid:\t0\nPPid:\t5\nUid:\t1000\t0\t0\t0\n";
        assert_eq!(parse(status, STAT).unwrap().real_uid, 1000);
    }

    #[test]
    fn nonsense_is_no_process() {
        let status = b"PPid:\t5\nUid:\t1000\t0\t0\t0\n";
        assert_eq!(parse(b"", STAT), None);
        assert_eq!(parse(b"PPid:\tx\nUid:\t1", STAT), None);
        assert_eq!(parse(status, b""), None);
        assert_eq!(parse(status, b"7 (a) S 1"), None);
    }

    #[test]
    fn this_process_and_one_that_cannot_be() {
        let own = rustix::process::getpid();
        let process = read(own.as_raw_nonzero().get()).unwrap().unwrap();
        assert_eq!(process.real_uid, rustix::process::getuid().as_raw());
        assert!(is_alive(&open(own).unwrap().unwrap()).unwrap());
        assert_eq!(read(i32::MAX).unwrap(), None);
        assert!(open(Pid::from_raw(i32::MAX).unwrap()).unwrap().is_none());
    }

    fn process(parent: i32, start_time: u64) -> AnnouncedProcess {
        AnnouncedProcess {
            parent,
            real_uid: 0,
            nested: false,
            start_time,
        }
    }

    /// The process of an id started at that tick, and its parent has the id below.
    fn chain(pid: i32) -> io::Result<Option<AnnouncedProcess>> {
        Ok(Some(process(pid - 1, pid as u64)))
    }

    #[test]
    fn descendants_of_any_generation() {
        assert!(descends(process(9, 10), (9, 9), chain).unwrap());
        assert!(descends(process(9, 10), (1, 1), chain).unwrap());
        assert!(!descends(process(9, 10), (10, 10), chain).unwrap());
        assert!(!descends(process(9, 10), (5, 6), chain).unwrap(), "reused");
        let gone = |pid| if pid == 5 { Ok(None) } else { chain(pid) };
        assert!(!descends(process(9, 10), (2, 2), gone).unwrap());
    }

    #[test]
    fn a_younger_parent_is_another_process() {
        let reused = |pid| {
            Ok(Some(process(
                pid - 1,
                if pid == 5 { 100 } else { pid as u64 },
            )))
        };
        assert!(!descends(process(9, 10), (2, 2), reused).unwrap());
    }

    #[test]
    fn loops_and_long_families_end() {
        let own_parent = |pid| Ok(Some(process(pid, 1)));
        assert!(!descends(process(9, 10), (2, 1), own_parent).unwrap());
        assert!(descends(process(999, 1000), (1000 - 64, 936), chain).unwrap());
        assert!(!descends(process(999, 1000), (1000 - 65, 935), chain).unwrap());
    }
}
