//! Starting an app as if the caller had executed it.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::{env, io, process};

use rustix::fs::{Gid, Uid};
use rustix::process::{Pid, Resource, Rlimit};
use rustix::thread::CapabilitySet;

use super::signals::Inherited;
use super::{Command, User};

/// What [`Spawn::before_exec`] holds.
pub type BeforeExec = Box<dyn FnMut() + Send>;

/// What the app's standard streams are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdio {
    /// Ours.
    #[default]
    Inherit,
    /// /dev/null, all three: for benchmarks.
    Null,
}

/// Everything about how an app is started. [`super::Supervisor::start`] does it.
pub struct Spawn {
    /// What to execute.
    pub command: Command,
    /// In whose name, with that user's environment; `None` for our own.
    pub user: Option<User>,
    /// Its standard streams.
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
pub enum SpawnError {
    /// The supervisor has a child already.
    #[error("cannot start another app before the last one has ended")]
    Busy,
    /// A signal asked us to end before the app was started.
    #[error("interrupted by signal {0} before the app was started")]
    Interrupted(i32),
    /// Pending signals cannot be read.
    #[error("cannot read pending signals: {0}")]
    Signals(#[source] io::Error),
    /// We may not use chroot(2).
    #[error("cannot use {} as root directory without CAP_SYS_CHROOT: run as root", .0.display())]
    MayNotChroot(PathBuf),
    /// A path with a NUL byte in it.
    #[error("{} has a NUL byte in it", .0.display())]
    Nul(PathBuf),
    /// The new process could not be prepared.
    #[error("cannot {step} for {}: {source}", path.display())]
    Prepare {
        /// What failed.
        step: &'static str,
        /// The program, inside the root.
        path: PathBuf,
        /// What the system call said.
        source: io::Error,
    },
    /// The program is there, but what it needs to run is not.
    #[error("cannot execute {}: its interpreter or dynamic loader does not exist", .0.display())]
    NoInterpreter(PathBuf),
    /// fork(2) or execve(2) failed.
    #[error("cannot execute {}: {source}", path.display())]
    Execute {
        /// The program, inside the root.
        path: PathBuf,
        /// What the system call said.
        source: io::Error,
    },
}

impl SpawnError {
    /// Exit status that a shell or env(1) gives for it: 127 and 126 for what execve(2) refuses, 125
    /// for what we could not do.
    pub fn exit_code(&self) -> i32 {
        match self {
            SpawnError::NoInterpreter(_) => 127,
            SpawnError::Execute { .. } | SpawnError::Nul(_) => 126,
            SpawnError::Interrupted(signal) => 128 + signal,
            SpawnError::Busy
            | SpawnError::Signals(_)
            | SpawnError::MayNotChroot(_)
            | SpawnError::Prepare { .. } => 125,
        }
    }
}

/// What the new process does before execve(2), in this order.
#[derive(Clone, Copy)]
enum SpawnStep {
    Session = 1,
    OpenFiles,
    Root,
    Groups,
    Group,
    User,
    Signals,
}

impl SpawnStep {
    const ALL: [(SpawnStep, &'static str); 7] = [
        (SpawnStep::Session, "start a session"),
        (SpawnStep::OpenFiles, "set the limit on open files"),
        (SpawnStep::Root, "change the root directory"),
        (SpawnStep::Groups, "set the supplementary groups"),
        (SpawnStep::Group, "set the group"),
        (SpawnStep::User, "set the user"),
        (SpawnStep::Signals, "restore the signal dispositions"),
    ];

    /// The one number that reaches the parent when preparing fails: the error's own in the lower
    /// half, as Linux has none above 4095, and the step in the upper.
    fn failed(self, source: io::Error) -> io::Error {
        let errno = source.raw_os_error().unwrap_or(libc::EINVAL);
        io::Error::from_raw_os_error((self as i32) << 16 | errno)
    }

    /// Takes the number apart again; `None` for an error that is not from preparing.
    fn of(error: &io::Error) -> Option<(&'static str, io::Error)> {
        let number = error.raw_os_error()?;
        let (_, what) = SpawnStep::ALL
            .into_iter()
            .find(|(step, _)| *step as i32 == number >> 16)?;
        Some((what, io::Error::from_raw_os_error(number & 0xffff)))
    }
}

/// All that [`Step`]s need, made before fork: the new process must not allocate.
struct Preparation {
    new_session: bool,
    open_files: Option<Rlimit>,
    root: Option<CString>,
    credentials: Option<(Uid, Gid, Vec<Gid>)>,
    inherited: Inherited,
    /// The mutex is never locked. It only makes the type `Sync`.
    before_exec: Option<Mutex<BeforeExec>>,
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
        let path = self.command.path().to_path_buf();
        let mut child = process::Command::new(self.command.file());
        if let [name, arguments @ ..] = self.command.argv() {
            child.arg0(name).args(arguments);
        }
        if self.stdio == Stdio::Null {
            child.stdin(process::Stdio::null());
            child.stdout(process::Stdio::null());
            child.stderr(process::Stdio::null());
        }
        if let Some(environment) = self.environment() {
            child.env_clear().envs(environment);
        }
        let mut preparation = self.prepare(inherited)?;
        // SAFETY: `run` makes system calls on memory prepared here, allocates nothing and takes no
        // lock; the caller's hook is bound to the same by its documentation.
        unsafe { child.pre_exec(move || preparation.run()) };
        // Dropped without being waited for: that is the supervisor's part.
        let child = child
            .spawn()
            .map_err(|source| match SpawnStep::of(&source) {
                Some((step, source)) => SpawnError::Prepare {
                    step,
                    path: path.clone(),
                    source,
                },
                None if source.kind() == io::ErrorKind::NotFound => {
                    SpawnError::NoInterpreter(path.clone())
                }
                None => SpawnError::Execute {
                    path: path.clone(),
                    source,
                },
            })?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pid.ok_or_else(|| SpawnError::Execute {
            path,
            source: io::Error::other("the kernel gave it an impossible process id"),
        })
    }

    fn environment(&self) -> Option<Vec<(OsString, OsString)>> {
        let user = self.user.as_ref()?;
        Some(user.environment(env::vars_os()))
    }

    fn prepare(self, inherited: Inherited) -> Result<Preparation, SpawnError> {
        let root = self.command.root().map(|root| {
            if !may_chroot() {
                return Err(SpawnError::MayNotChroot(root.into()));
            }
            CString::new(root.as_os_str().as_bytes()).map_err(|_| SpawnError::Nul(root.into()))
        });
        let credentials = self.user.map(|user| {
            let groups = user.groups.into_iter().map(Gid::from_raw).collect();
            (Uid::from_raw(user.uid), Gid::from_raw(user.gid), groups)
        });
        Ok(Preparation {
            new_session: self.new_session,
            open_files: self.open_files,
            root: root.transpose()?,
            credentials,
            inherited,
            before_exec: self.before_exec.map(Mutex::new),
        })
    }
}

impl Preparation {
    /// Runs in the new process. Root's privileges go last but for signals, which need none.
    fn run(&mut self) -> io::Result<()> {
        let at = |step: SpawnStep| move |error: rustix::io::Errno| step.failed(error.into());
        if self.new_session {
            rustix::process::setsid().map_err(at(SpawnStep::Session))?;
        }
        if let Some(limit) = self.open_files {
            rustix::process::setrlimit(Resource::Nofile, limit)
                .map_err(at(SpawnStep::OpenFiles))?;
        }
        if let Some(root) = &self.root {
            rustix::process::chroot(root.as_c_str()).map_err(at(SpawnStep::Root))?;
            rustix::process::chdir(c"/").map_err(at(SpawnStep::Root))?;
        }
        if let Some((uid, gid, groups)) = &self.credentials {
            // The plain system calls change one thread; there is only one here.
            rustix::thread::set_thread_groups(groups).map_err(at(SpawnStep::Groups))?;
            rustix::thread::set_thread_res_gid(*gid, *gid, *gid).map_err(at(SpawnStep::Group))?;
            rustix::thread::set_thread_res_uid(*uid, *uid, *uid).map_err(at(SpawnStep::User))?;
        }
        let restored = self.inherited.restore_for_exec();
        restored.map_err(|error| SpawnStep::Signals.failed(error))?;
        if let Some(hook) = &mut self.before_exec {
            match hook.get_mut() {
                Ok(hook) => hook(),
                Err(poisoned) => poisoned.into_inner()(),
            }
        }
        Ok(())
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
        for (step, what) in SpawnStep::ALL {
            let sent = step.failed(io::Error::from_raw_os_error(libc::EPERM));
            let (told, source) = SpawnStep::of(&sent).unwrap();
            assert_eq!(told, what);
            assert_eq!(source.raw_os_error(), Some(libc::EPERM));
        }
        assert!(SpawnStep::of(&io::Error::from_raw_os_error(libc::ENOENT)).is_none());
        assert!(SpawnStep::of(&io::Error::other("no number")).is_none());
    }
}
