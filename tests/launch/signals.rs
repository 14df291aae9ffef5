//! Signals and job control reach the app.

use std::io::{BufRead, BufReader};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command};

use rustix::io::FdFlags;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, waitpid,
};

use crate::Test;
use crate::roles::{pipe, run, run_target};

pub const TESTS: &[Test] = &[
    ("signals::passed_on", passed_on),
    ("signals::not_echoed", not_echoed),
    ("signals::terminal_signals", terminal_signals),
    ("signals::ignored_stays_ignored", ignored_stays_ignored),
    ("signals::stop_and_continue", stop_and_continue),
    ("signals::stopped_job", stopped_job),
];

/// A supervised target in a process group of its own, and what it says.
struct Job {
    child: Child,
    said: BufReader<ChildStdout>,
    target: Pid,
}

impl Job {
    fn start(mut command: Command) -> Job {
        command.process_group(0);
        Job::spawn(command)
    }

    /// In the foreground of a terminal of its own, leading the session.
    fn start_on_terminal(mut command: Command) -> (Job, OwnedFd) {
        let (keyboard, terminal) = terminal();
        let take_terminal = || {
            rustix::process::setsid()?;
            Ok(rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?)
        };
        // SAFETY: the closure makes system calls only.
        unsafe { command.stdin(terminal).pre_exec(take_terminal) };
        (Job::spawn(command), keyboard)
    }

    fn spawn(mut command: Command) -> Job {
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let pid = line.trim_end().strip_prefix("ready ").unwrap();
        Job {
            child,
            said,
            target: Pid::from_raw(pid.parse().unwrap()).unwrap(),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn send(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn hear(&mut self) -> i32 {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().parse().unwrap()
    }

    fn wait(&self, options: WaitOptions) -> WaitStatus {
        waitpid(Some(self.pid()), options).unwrap().unwrap().1
    }
}

/// A pseudo-terminal: the end to type at, and the end for programs.
fn terminal() -> (OwnedFd, OwnedFd) {
    use std::ptr::{null, null_mut};

    let (mut keyboard, mut terminal) = (-1, -1);
    // SAFETY: the first two pointers are to live locals, and the others may be null.
    let result = unsafe { libc::openpty(&mut keyboard, &mut terminal, null_mut(), null(), null()) };
    assert_eq!(result, 0);
    // SAFETY: they were just made, and nobody else has them.
    let fds = unsafe { [keyboard, terminal].map(|fd| OwnedFd::from_raw_fd(fd)) };
    for fd in &fds {
        rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC).unwrap();
    }
    fds.into()
}

impl Drop for Job {
    fn drop(&mut self) {
        // For failed tests; otherwise both are gone, and the first is reaped.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn passed_on() {
    let mut job = Job::start(run_target());
    for signal in [
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::CONT,
        Signal::TSTP,
        Signal::WINCH,
        Signal::TERM,
    ] {
        job.send(signal);
        assert_eq!(job.hear(), signal.as_raw());
    }
    assert_eq!(job.child.wait().unwrap().code(), Some(0));
}

/// An app that signals its process group does not get the signal back from us.
fn not_echoed() {
    let mut command = run_target();
    command.arg("--signal-group");
    let mut job = Job::start(command);
    assert_eq!(job.hear(), libc::SIGUSR1);
    // We have both signals to deal with, the app's own first; only one is to come through.
    job.send(Signal::CONT);
    assert_eq!(job.hear(), libc::SIGCONT);
    job.send(Signal::TERM);
    assert_eq!(job.hear(), libc::SIGTERM);
    assert_eq!(job.child.wait().unwrap().code(), Some(0));
}

/// What is typed at the terminal comes once; when it hangs up, the app hears of it through us.
fn terminal_signals() {
    let (mut job, keyboard) = Job::start_on_terminal(run_target());
    for (key, signal) in [
        (b"\x1a", libc::SIGTSTP),
        (b"\x03", libc::SIGINT),
        (b"\x1c", libc::SIGQUIT),
    ] {
        rustix::io::write(&keyboard, key).unwrap();
        assert_eq!(job.hear(), signal);
        // Were the signal passed on as well, it would come with this one.
        job.send(Signal::USR2);
        assert_eq!(job.hear(), libc::SIGUSR2);
    }
    drop(keyboard);
    assert_eq!(job.hear(), libc::SIGHUP);
    assert_eq!(job.hear(), libc::SIGCONT);
    job.send(Signal::TERM);
    assert_eq!(job.hear(), libc::SIGTERM);
    assert_eq!(job.child.wait().unwrap().code(), Some(0));
}

/// As under nohup(1): SIGHUP does nothing to us, and nothing to an app that does not care for it.
fn ignored_stays_ignored() {
    let mut command = run(&[], "sh");
    command.args(["-c", "echo ready $$; read line; exit 9"]);
    let (stdin, writer) = pipe().unwrap();
    command.stdin(stdin).stdout(std::process::Stdio::piped());
    let ignore = || {
        // SAFETY: signal(2) with SIG_IGN is async-signal-safe and has no conditions.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        Ok(())
    };
    // SAFETY: the closure makes a system call only.
    unsafe { command.pre_exec(ignore) };
    let mut job = Job::start(command);
    job.send(Signal::HUP);
    kill_process(job.target, Signal::HUP).unwrap();
    drop(writer);
    assert_eq!(job.child.wait().unwrap().code(), Some(9));
}

/// The app stops by itself: so do we, and SIGCONT for us continues it.
fn stop_and_continue() {
    let mut job = Job::start(run_target());
    for _ in 0..20 {
        kill_process(job.target, Signal::STOP).unwrap();
        let stopped = job.wait(WaitOptions::UNTRACED);
        assert_eq!(stopped.stopping_signal(), Some(libc::SIGSTOP));
        job.send(Signal::CONT);
        assert!(job.wait(WaitOptions::CONTINUED).continued());
        assert_eq!(job.hear(), libc::SIGCONT);
    }
    job.send(Signal::TERM);
    assert_eq!(job.hear(), libc::SIGTERM);
    assert_eq!(job.child.wait().unwrap().code(), Some(0));
}

/// What a shell does with a job: signals for the whole process group.
fn stopped_job() {
    let mut command = run(&[], "sh");
    command.args(["-c", "echo ready $$; exec sleep 1000"]);
    command.stdout(std::process::Stdio::piped());
    let mut job = Job::start(command);
    for _ in 0..20 {
        kill_process_group(job.pid(), Signal::TSTP).unwrap();
        assert!(job.wait(WaitOptions::UNTRACED).stopped());
        kill_process_group(job.pid(), Signal::CONT).unwrap();
        assert!(job.wait(WaitOptions::CONTINUED).continued());
    }
    kill_process_group(job.pid(), Signal::TERM).unwrap();
    assert_eq!(job.child.wait().unwrap().signal(), Some(libc::SIGTERM));
}
