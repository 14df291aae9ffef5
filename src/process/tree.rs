//! Ending a launch tree, for benchmarks that stop an app when its launch is complete.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use super::processes::{self, ProcessEntry};

/// How long processes may take to go after SIGKILL: one in an uninterruptible wait goes only when
/// the drive has answered.
const AFTER_KILL: Duration = Duration::from_secs(30);

/// Longest wait for the processes known, before looking for those that they have started since.
const RESCAN: Duration = Duration::from_millis(100);

/// While it exists, orphans of the processes that we start become our children (see
/// PR_SET_CHILD_SUBREAPER in prctl(2)), so that a launch tree cannot get away by daemonising.
pub struct Subreaper {
    /// Processes outside the launch tree: children that we had before, and those of [`Self::spare`].
    spared: Vec<ProcessEntry>,
    was_subreaper: bool,
}

impl Subreaper {
    /// Makes this process a subreaper. Call it before starting the app; processes that descend from
    /// us now are never touched, as long as their parents live.
    pub fn new() -> io::Result<Subreaper> {
        let us = rustix::process::getpid();
        let was_subreaper = rustix::process::child_subreaper()?.is_some();
        rustix::process::set_child_subreaper(Some(us))?;
        Ok(Subreaper {
            spared: descendants(&[])?,
            was_subreaper,
        })
    }

    /// Excludes a child that was started since, and its descendants, from [`Self::terminate`].
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn spare(&mut self, child: Pid) -> io::Result<()> {
        self.spared
            .extend(processes::one(child.as_raw_nonzero().get())?);
        Ok(())
    }

    /// Ends all processes that descend from us and were started since [`Self::new`], except the spared
    /// ones: by SIGTERM, and after `grace` by SIGKILL. All are reaped, except `leader`, which is left to
    /// the [`super::Supervisor`] that started it.
    ///
    /// # Errors
    /// Of kind `TimedOut` if some are still there 30 seconds after SIGKILL.
    pub fn terminate(&self, leader: Option<Pid>, grace: Duration) -> io::Result<()> {
        // SIGCONT, since a stopped process cannot see SIGTERM.
        if self.end_all(&[Signal::TERM, Signal::CONT], grace, leader)?
            || self.end_all(&[Signal::KILL], AFTER_KILL, leader)?
        {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "some processes of the app are still running after SIGKILL",
        ))
    }

    /// Sends `signals` once to each process until none is left; whether that was so in time.
    fn end_all(&self, signals: &[Signal], time: Duration, leader: Option<Pid>) -> io::Result<bool> {
        let deadline = Instant::now() + time;
        let mut signalled: Vec<(ProcessEntry, OwnedFd)> = Vec::new();
        let mut was_empty = false;
        loop {
            let found = descendants(&self.spared)?;
            reap(&found, leader)?;
            let alive: Vec<ProcessEntry> = found.into_iter().filter(|p| !p.zombie).collect();
            signalled.retain(|(known, _)| alive.iter().any(|p| is_same(p, known)));
            for process in &alive {
                if !signalled.iter().any(|(known, _)| is_same(process, known))
                    && let Some(fd) = open(process)?
                {
                    for &signal in signals {
                        send(&fd, signal)?;
                    }
                    signalled.push((*process, fd));
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if alive.is_empty() {
                // A process whose parent ended while the table was read can be missing from it.
                if was_empty {
                    return Ok(true);
                }
                was_empty = true;
                continue;
            }
            was_empty = false;
            if left.is_zero() {
                return Ok(false);
            }
            wait_for_any(&signalled, left.min(RESCAN))?;
        }
    }
}

impl Drop for Subreaper {
    fn drop(&mut self) {
        if !self.was_subreaper {
            // Cannot fail where setting it has succeeded.
            let _ = rustix::process::set_child_subreaper(None);
        }
    }
}

fn descendants(spared: &[ProcessEntry]) -> io::Result<Vec<ProcessEntry>> {
    let us = rustix::process::getpid().as_raw_nonzero().get();
    Ok(processes::descendants(&processes::all()?, us, spared))
}

/// Whether it is one process, although its parent may have changed.
fn is_same(a: &ProcessEntry, b: &ProcessEntry) -> bool {
    (a.pid, a.start_time) == (b.pid, b.start_time)
}

/// A descriptor of a process found before; `None` if it is gone. Once we hold it, no other process
/// can be meant, so the id is checked after that.
fn open(process: &ProcessEntry) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return Ok(None);
    };
    let fd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => fd,
        Err(Errno::SRCH) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let still = processes::one(process.pid)?.is_some_and(|now| is_same(&now, process));
    Ok(still.then_some(fd))
}

fn send(fd: &OwnedFd, signal: Signal) -> io::Result<()> {
    match rustix::process::pidfd_send_signal(fd, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Reaps those of `found` that have ended. Zombies whose parent lives are the parent's to reap, and
/// become ours with its end.
fn reap(found: &[ProcessEntry], leader: Option<Pid>) -> io::Result<()> {
    for pid in found
        .iter()
        .filter(|process| process.zombie)
        .filter_map(|process| Pid::from_raw(process.pid))
        .filter(|&pid| Some(pid) != leader)
    {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        match rustix::process::waitid(WaitId::Pid(pid), options) {
            Ok(_) | Err(Errno::CHILD) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Waits until one of the processes has ended, or for `time`.
fn wait_for_any(processes: &[(ProcessEntry, OwnedFd)], time: Duration) -> io::Result<()> {
    let mut fds: Vec<PollFd<'_>> = processes
        .iter()
        .map(|(_, fd)| PollFd::new(fd, PollFlags::IN))
        .collect();
    let timeout = Timespec::try_from(time).map_err(io::Error::other)?;
    match rustix::event::poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
