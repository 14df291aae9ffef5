//! Ending a launch tree, for benchmarks that stop an app when its launch is complete.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use super::launch_end::process_threads;
use super::processes::{self, TaskState};

/// How long processes may take to go after SIGKILL: one in an uninterruptible wait goes only when
/// the drive has answered.
const AFTER_KILL: Duration = Duration::from_secs(30);

/// Time between two looks at which processes are left.
const RESCAN: Duration = Duration::from_millis(30);

/// While it exists, orphans of the processes that we start become our children (see
/// PR_SET_CHILD_SUBREAPER in prctl(2)), so that a launch tree cannot get away by daemonising.
pub struct Subreaper {
    /// Processes outside the launch tree: children that we had before, and those of [`Self::spare`].
    spared: Vec<TaskState>,
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
        self.spared.extend(processes::one(child.as_raw_pid())?);
        Ok(())
    }

    /// Ids of the threads of the launch tree.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn threads(&self) -> io::Result<impl Iterator<Item = i32>> {
        let found = descendants(&self.spared)?.into_iter();
        Ok(found.flat_map(|process| process_threads(process.pid.unsigned_abs())))
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
        let mut signalled: Vec<TaskState> = Vec::new();
        let mut was_empty = false;
        loop {
            let found = descendants(&self.spared)?;
            reap(&found, leader)?;
            let mut is_empty = true;
            for process in found.iter().filter(|process| !process.is_zombie()) {
                is_empty = false;
                if !signalled.iter().any(|known| known.is_same(process)) {
                    send(process, signals)?;
                    signalled.push(*process);
                }
            }
            // A process whose parent ended while the table was read can be missing from it.
            if is_empty && was_empty {
                return Ok(true);
            }
            if !is_empty && Instant::now() >= deadline {
                return Ok(false);
            }
            was_empty = is_empty;
            if !is_empty {
                std::thread::sleep(RESCAN);
            }
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

fn descendants(spared: &[TaskState]) -> io::Result<Vec<TaskState>> {
    let us = rustix::process::getpid().as_raw_pid();
    Ok(processes::descendants(&processes::all()?, us, spared))
}

/// Sends signals to a process found before, unless it is gone. The descriptor keeps its id from passing to
/// another process, so the process is compared after it was opened.
fn send(process: &TaskState, signals: &[Signal]) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return Ok(());
    };
    let is_gone = |errno| match errno {
        Errno::SRCH => Ok(()),
        errno => Err(errno.into()),
    };
    let fd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => fd,
        Err(errno) => return is_gone(errno),
    };
    if processes::one(process.pid)?.is_some_and(|now| now.is_same(process)) {
        for &signal in signals {
            rustix::process::pidfd_send_signal(&fd, signal).or_else(is_gone)?;
        }
    }
    Ok(())
}

/// Reaps those of `found` that have ended. Zombies whose parent lives are the parent's to reap, and
/// become ours with its end.
fn reap(found: &[TaskState], leader: Option<Pid>) -> io::Result<()> {
    let zombies = found.iter().filter(|process| process.is_zombie());
    let pids = zombies.filter_map(|process| Pid::from_raw(process.pid));
    for pid in pids.filter(|&pid| Some(pid) != leader) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        match rustix::process::waitid(WaitId::Pid(pid), options) {
            Ok(_) | Err(Errno::CHILD) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
