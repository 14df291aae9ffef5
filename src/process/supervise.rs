//! Supervising an app: signals reach it, and the shell sees its stops and its exit as ours.
//!
//! A terminal sends its signals to the whole foreground process group. The app belongs to that group
//! and has received them already. Signals that were sent to our process alone are passed on to the
//! app. When the app stops, we stop, so that the shell sees a stopped job; the SIGCONT that wakes us
//! is passed on like any other signal.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};

use libc::c_int;
use nix::sys::signalfd::{SignalFd, siginfo};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::ClockId;

use super::exit::{self, ChildChange, Exit};
use super::processes;
use super::signals::Inherited;
use super::spawn::{Spawn, SpawnError};

/// Signals passed on to the app. SIGTTIN and SIGTTOU are left alone: they reach the app with us, and
/// stop both.
const PASSED_ON: [c_int; 10] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGWINCH,
];

/// Signals that the kernel sends to whole process groups.
const FROM_TERMINAL: [c_int; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGWINCH,
];

/// Signals that ask a program to end.
const TO_END: [c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// An app that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Process id of the app.
    pub pid: Pid,
    /// CLOCK_MONOTONIC just before it was forked, in nanoseconds.
    pub time_ns: u64,
}

/// Supervises one app at a time.
///
/// While it exists, the signals that it deals with are blocked in its thread and SIGCHLD is not
/// ignored; dropping it restores both. Make it before any other thread, so that all inherit the
/// mask: a signal goes to any thread that does not block it.
pub struct Supervisor {
    inherited: Inherited,
    signals: SignalFd,
    child: Option<SupervisedChild>,
    asked_to_end: Option<c_int>,
    /// Whether this process goes on for now when the app stops.
    goes_on: bool,
    /// Whether the app has stopped meanwhile.
    has_stopped: bool,
    /// Masks belong to threads, so it must stay in its own.
    _thread: PhantomData<*const ()>,
}

#[derive(Clone, Copy)]
struct SupervisedChild {
    pid: Pid,
    own_session: bool,
}

impl Supervisor {
    /// Takes over the signals of this thread.
    pub fn new() -> io::Result<Supervisor> {
        let mut handled = PASSED_ON.to_vec();
        handled.push(libc::SIGCHLD);
        let (inherited, signals) = Inherited::replace(&handled)?;
        Ok(Supervisor {
            inherited,
            signals,
            child: None,
            asked_to_end: None,
            goes_on: false,
            has_stopped: false,
            _thread: PhantomData,
        })
    }

    /// Starts an app; returns once execve(2) has succeeded. If a signal that asks to end came before,
    /// the app is not started: it could not get that signal any more.
    pub fn start(&mut self, spawn: Spawn) -> Result<Started, SpawnError> {
        if self.child.is_some() {
            return Err(SpawnError::busy());
        }
        while let Some(received) = self.next_signal().map_err(SpawnError::signals)? {
            if TO_END.contains(&signal_of(&received)) {
                return Err(SpawnError::interrupted(signal_of(&received)));
            }
        }
        let own_session = spawn.new_session;
        let now = rustix::time::clock_gettime(ClockId::Monotonic);
        let pid = spawn.start(self.inherited)?;
        self.child = Some(SupervisedChild { pid, own_session });
        Ok(Started {
            pid,
            time_ns: now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs(),
        })
    }

    /// The next pending signal; notes it if it asks to end.
    fn next_signal(&mut self) -> io::Result<Option<siginfo>> {
        let received = self.signals.read_signal()?;
        let asked = received.as_ref().map(signal_of);
        self.asked_to_end = asked
            .filter(|signal| TO_END.contains(signal))
            .or(self.asked_to_end);
        Ok(received)
    }

    /// Becomes readable (POLLIN) when [`Self::on_signals`] has something to do.
    pub fn signal_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    /// From now on this process goes on when the app stops: it has something to put in order first.
    pub fn go_on(&mut self) {
        self.goes_on = true;
    }

    /// Whether the app has stopped since [`Self::go_on`], as far as [`Self::on_signals`] has seen.
    pub fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// From now on this process stops with the app again: at once, if the app is still stopped.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn stop_with_app(&mut self) -> io::Result<()> {
        self.goes_on = false;
        if std::mem::take(&mut self.has_stopped)
            && let Some(child) = self.child
            && let Some(app) = processes::one(child.pid.as_raw_nonzero().get())?
            && app.state == b'T'
        {
            kill_process(rustix::process::getpid(), Signal::STOP)?;
        }
        Ok(())
    }

    /// Passes on signals, stops with the app, and reaps it once it has ended. Never waits, except
    /// while the app is stopped. `None` while the app runs, and when none was started.
    pub fn on_signals(&mut self) -> io::Result<Option<Exit>> {
        let Some(child) = self.child else {
            return Ok(None);
        };
        // Before looking at the child: of several things that have happened it is SIGCONT that must
        // not come too late, or we would stop for a child that goes on.
        while let Some(received) = self.next_signal()? {
            if child.is_to_get(&received) {
                child.send(signal_of(&received))?;
            }
        }
        loop {
            match exit::look(child.pid)? {
                None => return Ok(None),
                Some(ChildChange::Stopped) if self.goes_on => self.has_stopped = true,
                Some(ChildChange::Stopped) => {
                    kill_process(rustix::process::getpid(), Signal::STOP)?
                }
                Some(ChildChange::Ended(exit)) => {
                    self.child = None;
                    return Ok(Some(exit));
                }
            }
        }
    }

    /// Whether an app was started that has not ended, as far as [`Self::on_signals`] has seen.
    pub fn is_supervising(&self) -> bool {
        self.child.is_some()
    }

    /// The last signal seen so far that asks a program to end, from whomever: for benchmarks, which
    /// have more to end than the app.
    pub fn asked_to_end(&self) -> Option<i32> {
        self.asked_to_end
    }

    /// Supervises the app until it has ended, for callers without an event loop of their own. An
    /// error if none was started.
    pub fn wait(&mut self) -> io::Result<Exit> {
        if self.child.is_none() {
            return Err(io::Error::other("no app was started to wait for"));
        }
        loop {
            if let Some(exit) = self.on_signals()? {
                return Ok(exit);
            }
            let mut fds = [PollFd::new(&self.signals, PollFlags::IN)];
            match rustix::event::poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Both calls only fail for arguments that are no signals or sets of them.
        let _ = self.inherited.restore();
    }
}

impl SupervisedChild {
    /// Whether a signal that we got is for the child, and has not reached it by itself.
    fn is_to_get(&self, received: &siginfo) -> bool {
        let signal = signal_of(received);
        if signal == libc::SIGCHLD {
            return false;
        }
        // `si_code` of sigaction(2): above 0 if the kernel has sent it.
        if received.ssi_code <= 0 {
            // A child that signals its whole process group has signalled itself.
            return received.ssi_pid != self.pid.as_raw_nonzero().get().unsigned_abs();
        }
        // When a terminal hangs up, the kernel signals the session's leader alone.
        let leader_only = matches!(signal, libc::SIGHUP | libc::SIGCONT) && is_session_leader();
        self.own_session || leader_only || !FROM_TERMINAL.contains(&signal)
    }

    /// The process id still names the child: only we reap it, and we have not done so.
    fn send(&self, signal: c_int) -> io::Result<()> {
        let Some(signal) = Signal::from_named_raw(signal) else {
            return Ok(());
        };
        match kill_process(self.pid, signal) {
            // A set-user-id program may be out of our reach, as it would be out of the sender's.
            Ok(()) | Err(Errno::PERM) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn signal_of(received: &siginfo) -> c_int {
    received.ssi_signo as c_int
}

fn is_session_leader() -> bool {
    rustix::process::getsid(None) == Ok(rustix::process::getpid())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SI_USER: c_int = 0;
    const SI_QUEUE: c_int = -1;
    const SI_KERNEL: c_int = 0x80;

    fn is_to_get(own_session: bool, signal: c_int, code: c_int, sender: u32) -> bool {
        // SAFETY: a siginfo is plain integers.
        let mut received: siginfo = unsafe { std::mem::zeroed() };
        received.ssi_signo = signal as u32;
        received.ssi_code = code;
        received.ssi_pid = sender;
        let pid = Pid::from_raw(1000).unwrap();
        SupervisedChild { pid, own_session }.is_to_get(&received)
    }

    #[test]
    fn signals_are_passed_on_unless_they_are_there_already() {
        for signal in PASSED_ON {
            assert!(is_to_get(false, signal, SI_USER, 1));
            assert!(is_to_get(false, signal, SI_QUEUE, 1));
            assert!(!is_to_get(false, signal, SI_USER, 1000));
        }
        assert!(!is_to_get(false, libc::SIGCHLD, SI_USER, 1));
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGWINCH] {
            assert!(!is_to_get(false, signal, SI_KERNEL, 0));
            assert!(is_to_get(true, signal, SI_KERNEL, 0));
        }
        // An alarm(2) that was set before we were executed.
        assert!(is_to_get(false, libc::SIGALRM, SI_KERNEL, 0));
    }
}
