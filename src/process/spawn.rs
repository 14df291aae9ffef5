//! Starting an app as if the caller had executed it.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::{env, io, process};

use rustix::fs::{Gid, Uid};
use rustix::process::{Pid, Resource, Rlimit};
use rustix::thread::CapabilitySet;

use super::signals::Inherited;
use super::{Command, User};

/// What [`Spawn::before_exec`] holds.
pub type BeforeExec = Box<dyn FnMut() + Send + Sync>;

/// What the app's standard streams are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdio {
    /// Ours.
    #[default]
    Inherit,
    /// /dev/null, all three: for benchmarks.
    Null,
    /// /dev/null, and our standard error for what it prints: our standard output belongs to results.
    OnError,
}

/// Everything about how an app is started. [`super::Supervisor::start`] does it.
pub struct Spawn {
    /// What to execute.
    pub command: Command,
    /// In whose name, with that user's environment; `None` for our own.
    pub user: Option<User>,
    /// Standard streams of the app.
    pub stdio: Stdio,
    /// In a session of its own, out of the terminal's reach: for benchmarks.
    pub new_session: bool,
    /// The limits on open files (RLIMIT_NOFILE) that we were started with, if ours were raised.
    pub open_files: Option<Rlimit>,
    /// Called in the new process as the last thing before execve(2), to note the time in shared
    /// memory, say. It runs between fork and exec of a process that may have had other threads, so
    /// it must do nothing but async-signal-safe calls: no allocation, no lock, no panic.
    pub before_exec: Option<BeforeExec>,
}

/// Why an app was not started.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct SpawnError {
    text: String,
    exit_code: i32,
}

/// The exit status that shells and env(1) give for a command that does not exist.
pub(super) const NOT_FOUND: i32 = 127;

/// The exit status for a command that cannot be executed.
pub(super) const NOT_EXECUTABLE: i32 = 126;

/// The exit status for what we, and not the command, could not do.
const OWN_FAILURE: i32 = 125;

impl SpawnError {
    pub(super) fn new(exit_code: i32, text: String) -> Self {
        SpawnError { text, exit_code }
    }

    /// The supervisor has a child already.
    pub(super) fn busy() -> Self {
        let text = "cannot start another app before the last one has ended";
        SpawnError::new(OWN_FAILURE, text.to_owned())
    }

    /// A signal asked us to end before the app was started.
    pub(super) fn interrupted(signal: i32) -> Self {
        let text = format!("interrupted by signal {signal} before the app was started");
        SpawnError::new(128 + signal, text)
    }

    /// Pending signals cannot be read.
    pub(super) fn signals(error: io::Error) -> Self {
        SpawnError::new(OWN_FAILURE, format!("cannot read pending signals: {error}"))
    }

    /// Exit status that a shell or env(1) gives for it: 127 for a command that does not exist, 126 for one
    /// that cannot be executed, 125 for what we could not do, and 128 + n for a signal.
    pub fn exit_code(&self) -> i32 {
        self.exit_code
    }
}

/// What the new process does before execve(2).
const STEPS: [&str; 7] = [
    "start a session",
    "set the limit on open files",
    "change the root directory",
    "set the supplementary groups",
    "set the group",
    "set the user",
    "restore the signal dispositions",
];

/// The one number that reaches the parent when a step of [`STEPS`] fails: the error's own in the lower half, as
/// Linux has none above 4095, and the step, counted from 1, in the upper.
fn failed<E: Into<io::Error>>(step: usize) -> impl Fn(E) -> io::Error {
    move |error| {
        let errno = error.into().raw_os_error().unwrap_or(libc::EINVAL);
        io::Error::from_raw_os_error((step as i32 + 1) << 16 | errno)
    }
}

/// Takes the number apart again; `None` for an error that is not from preparing.
fn failed_step(error: &io::Error) -> Option<(&'static str, io::Error)> {
    let number = error.raw_os_error()?;
    let step = usize::try_from(number >> 16).ok()?.checked_sub(1)?;
    Some((
        STEPS.get(step)?,
        io::Error::from_raw_os_error(number & 0xffff),
    ))
}

impl Spawn {
    /// Starts `command` in our own name, with our standard streams, in our session.
    pub fn new(command: Command) -> Spawn {
        Spawn {
            command,
            user: None,
            stdio: Stdio::Inherit,
            new_session: false,
            open_files: None,
            before_exec: None,
        }
    }

    /// Starts the app and returns as soon as execve(2) has succeeded.
    pub(super) fn start(self, inherited: Inherited) -> Result<Pid, SpawnError> {
        let path = self.command.path().display().to_string();
        let mut child = process::Command::new(self.command.file());
        if let [name, arguments @ ..] = self.command.argv() {
            child.arg0(name).args(arguments);
        }
        match self.stdio {
            Stdio::Inherit => {}
            Stdio::Null => {
                child.stdin(process::Stdio::null());
                child.stdout(process::Stdio::null());
                child.stderr(process::Stdio::null());
            }
            Stdio::OnError => {
                child.stdin(process::Stdio::null());
                child.stdout(io::stderr());
            }
        }
        if let Some(user) = &self.user {
            child.env_clear().envs(user.environment(env::vars_os()));
        }
        let steps = self.steps(inherited)?;
        // SAFETY: the steps are system calls on memory prepared here, which allocate nothing and take no
        // lock; the caller's hook is bound to the same by its documentation.
        unsafe { child.pre_exec(steps) };
        // Dropped without being waited for: that is the supervisor's part.
        let child = child.spawn().map_err(|source| {
            if let Some((step, source)) = failed_step(&source) {
                SpawnError::new(OWN_FAILURE, format!("cannot {step} for {path}: {source}"))
            } else if source.kind() == io::ErrorKind::NotFound {
                let reason = "its interpreter or dynamic loader does not exist";
                SpawnError::new(NOT_FOUND, format!("cannot execute {path}: {reason}"))
            } else {
                SpawnError::new(NOT_EXECUTABLE, format!("cannot execute {path}: {source}"))
            }
        })?;
        Ok(Pid::from_child(&child))
    }

    /// The [`STEPS`], to be run in the new process. Root's privileges go last but for signals, which need none.
    fn steps(
        self,
        inherited: Inherited,
    ) -> Result<impl FnMut() -> io::Result<()> + Send + Sync, SpawnError> {
        let root = self.command.root().map(|root| {
            let shown = root.display();
            if !may_chroot() {
                let text = format!(
                    "cannot use {shown} as root directory without CAP_SYS_CHROOT: run as root"
                );
                return Err(SpawnError::new(OWN_FAILURE, text));
            }
            CString::new(root.as_os_str().as_bytes())
                .map_err(|_| SpawnError::new(OWN_FAILURE, format!("{shown} has a NUL byte in it")))
        });
        let root = root.transpose()?;
        let credentials = self.user.map(|user| {
            let groups: Vec<Gid> = user.groups.into_iter().map(Gid::from_raw).collect();
            (Uid::from_raw(user.uid), Gid::from_raw(user.gid), groups)
        });
        let (new_session, open_files) = (self.new_session, self.open_files);
        let mut before_exec = self.before_exec;
        Ok(move || {
            if new_session {
                rustix::process::setsid().map_err(failed(0))?;
            }
            if let Some(limit) = open_files {
                rustix::process::setrlimit(Resource::Nofile, limit).map_err(failed(1))?;
            }
            if let Some(root) = &root {
                rustix::process::chroot(root.as_c_str()).map_err(failed(2))?;
                rustix::process::chdir(c"/").map_err(failed(2))?;
            }
            if let Some((uid, gid, groups)) = &credentials {
                // The plain system calls change one thread; there is only one here.
                rustix::thread::set_thread_groups(groups).map_err(failed(3))?;
                rustix::thread::set_thread_res_gid(*gid, *gid, *gid).map_err(failed(4))?;
                rustix::thread::set_thread_res_uid(*uid, *uid, *uid).map_err(failed(5))?;
            }
            inherited.restore_for_exec().map_err(failed(6))?;
            if let Some(hook) = &mut before_exec {
                hook();
            }
            Ok(())
        })
    }
}

fn may_chroot() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_CHROOT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_errors_survive_the_way_to_the_parent() {
        for (step, what) in STEPS.into_iter().enumerate() {
            let sent = failed(step)(io::Error::from_raw_os_error(libc::EPERM));
            let (told, source) = failed_step(&sent).unwrap();
            assert_eq!((told, source.raw_os_error()), (what, Some(libc::EPERM)));
        }
        assert!(failed_step(&io::Error::from_raw_os_error(libc::ENOENT)).is_none());
        assert!(failed_step(&io::Error::other("no number")).is_none());
    }
}
