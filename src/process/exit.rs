//! How an app ended, and ending the same way.

use std::io::{self, Write};
use std::time::Duration;

use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit};

use super::signals;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppStatus {
    /// By itself, with this exit status (0 to 255).
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What a process used, and the descendants that it has waited for; see getrusage(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Page faults that waited for the drive.
    pub major_faults: u64,
    /// 512-byte sectors read from drives on its behalf.
    pub sectors_read: u64,
}

/// End of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// How it ended.
    pub status: AppStatus,
    /// What it used.
    pub usage: Usage,
}

/// A change of state that wait4(2) reported.
pub(super) enum ChildChange {
    Stopped,
    Ended(Exit),
}

impl Exit {
    /// Ends this process as the app ended: with the same exit status, or by the same signal,
    /// without a core dump of ours beside the app's.
    pub fn finish(self) -> ! {
        // The process ends here: there is no way left to report an error.
        let _ = io::stdout().flush();
        let signal = match self.status {
            AppStatus::Code(code) => std::process::exit(code),
            AppStatus::Signal(signal) => signal,
        };
        // A limit of 0 keeps core files from being written, but not from being piped to a handler.
        let no_core = Rlimit {
            current: Some(0),
            maximum: rustix::process::getrlimit(Resource::Core).maximum,
        };
        let harmless = rustix::process::setrlimit(Resource::Core, no_core).is_ok()
            && rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok();
        if harmless {
            // Returns, for instance, in a container's init, which no signal of its own can end.
            signals::die_by(signal);
        }
        std::process::exit(self.exit_code())
    }

    /// The exit status as shells report it: 128 + n for death by signal n.
    pub fn exit_code(self) -> i32 {
        match self.status {
            AppStatus::Code(code) => code,
            AppStatus::Signal(signal) => 128 + signal,
        }
    }
}

/// Looks, without waiting, whether the child `pid` has stopped or ended; reaps it if it has ended.
pub(super) fn look(pid: Pid) -> io::Result<Option<ChildChange>> {
    let mut status = 0;
    // SAFETY: an rusage is plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let flags = libc::WNOHANG | libc::WUNTRACED;
    let pid = pid.as_raw_nonzero().get();
    // SAFETY: both pointers are to live locals.
    let changed = unsafe { libc::wait4(pid, &mut status, flags, &mut usage) };
    match changed {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        },
        _ if libc::WIFSTOPPED(status) => Ok(Some(ChildChange::Stopped)),
        _ => Ok(Some(ChildChange::Ended(Exit {
            status: if libc::WIFSIGNALED(status) {
                AppStatus::Signal(libc::WTERMSIG(status))
            } else {
                AppStatus::Code(libc::WEXITSTATUS(status))
            },
            usage: Usage::new(&usage),
        }))),
    }
}

impl Usage {
    fn new(usage: &libc::rusage) -> Usage {
        // None of them is ever negative.
        let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
        let time = |time: libc::timeval| {
            Duration::from_secs(count(time.tv_sec)) + Duration::from_micros(count(time.tv_usec))
        };
        Usage {
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            major_faults: count(usage.ru_majflt),
            sectors_read: count(usage.ru_inblock),
        }
    }
}
