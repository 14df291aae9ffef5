//! Which program a command line names: the look-up of execvp(3), inside a root directory if asked.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::{env, fs, io};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::user::User;

/// Where programs are looked for when the environment has no PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How often a look-up inside a root is repeated when a rename elsewhere has disturbed it.
const ATTEMPTS: usize = 16;

/// A program that was found, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    path: PathBuf,
    file: PathBuf,
    argv: Vec<OsString>,
    root: Option<PathBuf>,
    dev: u64,
    ino: u64,
}

/// Why a command line cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no argv\[0\].
    #[error("no command given")]
    Empty,
    /// Nothing of that name, neither at that path nor in PATH.
    #[error("command not found: {}", .0.display())]
    NotFound(PathBuf),
    /// There is something of that name, but nothing that the user may execute.
    #[error("cannot execute {}: {reason}", path.display())]
    NotExecutable {
        /// What was found, inside the root.
        path: PathBuf,
        /// Why it cannot be executed.
        reason: &'static str,
    },
    /// The root directory is not a directory, or cannot be opened.
    #[error("cannot use {} as root directory: {source}", path.display())]
    RootNotADirectory {
        /// The directory as given.
        path: PathBuf,
        /// What open(2) said.
        source: io::Error,
    },
    /// The look-up failed for another reason, such as a loop of symbolic links.
    #[error("cannot look up {}: {source}", path.display())]
    LookUp {
        /// What was looked up, inside the root.
        path: PathBuf,
        /// What openat2(2) or fstat(2) said.
        source: io::Error,
    },
}

impl CommandError {
    /// Exit status that a shell or env(1) gives for it: 127 for a command that does not exist, 126
    /// for one that cannot be executed, 125 for a call that makes no sense.
    pub fn exit_code(&self) -> i32 {
        match self {
            CommandError::NotFound(_) => 127,
            CommandError::NotExecutable { .. } | CommandError::LookUp { .. } => 126,
            CommandError::Empty | CommandError::RootNotADirectory { .. } => 125,
        }
    }
}

impl Command {
    /// Finds the program that `argv[0]` names, as execvp(3) would with our PATH and our working
    /// directory, for the user of [`User::invoking`]. With `root`, everything is looked
    /// up as after chroot(2) into it and chdir("/").
    pub fn find(argv: &[OsString], root: Option<&Path>) -> Result<Command, CommandError> {
        Self::find_for(argv, root, User::invoking().as_ref())
    }

    /// The same for a given user, or for ourselves.
    pub fn find_for(
        argv: &[OsString],
        root: Option<&Path>,
        user: Option<&User>,
    ) -> Result<Command, CommandError> {
        let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        Search::new(root, user)?.find(argv, &path)
    }

    /// Absolute path inside the root as it was asked for: a final symbolic link is not followed, for
    /// it is the link that names the app.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What execve(2) is given: the path as typed, or as put together from PATH. Scripts see it as
    /// their `$0`.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The arguments as given, `argv[0]` included; never empty.
    pub fn argv(&self) -> &[OsString] {
        &self.argv
    }

    /// Directory that the app is to be chrooted into, absolute and free of symbolic links.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Device (as `st_dev` of stat(2)) and inode number of the program, behind symbolic links.
    pub fn inode(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }
}

/// The circumstances of a look-up.
struct Search {
    root: Option<(PathBuf, OwnedFd)>,
    /// Where relative paths start.
    base: PathBuf,
    uid: u32,
    /// Primary and supplementary groups.
    groups: Vec<u32>,
}

impl Search {
    fn new(root: Option<&Path>, user: Option<&User>) -> Result<Search, CommandError> {
        let root = root.map(open_root).transpose()?;
        let base = match &root {
            Some(_) => PathBuf::from("/"),
            // A working directory that was removed has no path; absolute ones do not need it.
            None => env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
        };
        let (uid, groups) = match user {
            Some(user) => {
                let groups = [user.gid].iter().chain(&user.groups).copied().collect();
                (user.uid, groups)
            }
            None => {
                let mut groups = vec![rustix::process::getegid().as_raw()];
                // A process always may ask for its own groups; without them the check below is
                // merely stricter.
                let others = rustix::process::getgroups().unwrap_or_default();
                groups.extend(others.iter().map(|gid| gid.as_raw()));
                (rustix::process::geteuid().as_raw(), groups)
            }
        };
        Ok(Search {
            root,
            base,
            uid,
            groups,
        })
    }

    fn find(self, argv: &[OsString], path: &OsStr) -> Result<Command, CommandError> {
        let name = argv.first().ok_or(CommandError::Empty)?;
        let (file, stat) = if name.as_bytes().contains(&b'/') {
            let file = PathBuf::from(name);
            let stat = self.check(&file, name)?;
            (file, stat)
        } else {
            self.find_in_path(name, path)?
        };
        Ok(Command {
            path: plain(&self.base.join(&file)),
            file,
            argv: argv.to_vec(),
            root: self.root.map(|(path, _)| path),
            dev: stat.st_dev,
            ino: stat.st_ino,
        })
    }

    /// Searches PATH as execvp(3) does: a file that cannot be executed is skipped, and is the error only
    /// if no later directory has an executable one.
    fn find_in_path(&self, name: &OsStr, path: &OsStr) -> Result<(PathBuf, Stat), CommandError> {
        let mut refused = None;
        if name.is_empty() {
            return Err(CommandError::NotFound(name.into()));
        }
        for directory in path.as_bytes().split(|&byte| byte == b':') {
            // An empty element means the working directory. "./" keeps a slash in the path, so that
            // PATH is not searched again.
            let directory: &[u8] = if directory.is_empty() {
                b"."
            } else {
                directory
            };
            let file = Path::new(OsStr::from_bytes(directory)).join(name);
            match self.check(&file, name) {
                Ok(stat) => return Ok((file, stat)),
                Err(CommandError::NotFound(_)) => {}
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| CommandError::NotFound(name.into())))
    }

    /// Looks at one candidate; `name` is for the error.
    fn check(&self, file: &Path, name: &OsStr) -> Result<Stat, CommandError> {
        let path = self.base.join(file);
        let refuse = |reason| CommandError::NotExecutable {
            path: plain(&path),
            reason,
        };
        let fail = |errno: Errno| match errno {
            Errno::NOENT | Errno::NOTDIR => CommandError::NotFound(name.into()),
            Errno::ACCESS => refuse("permission denied"),
            errno => CommandError::LookUp {
                path: plain(&path),
                source: errno.into(),
            },
        };
        let found = self.open(&path).map_err(fail)?;
        let stat = rustix::fs::fstat(&found).map_err(fail)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(refuse("it is a directory")),
            _ => return Err(refuse("it is not a regular file")),
        }
        if self.may_execute(&stat) || has_acl(&found) {
            Ok(stat)
        } else {
            Err(refuse("permission denied"))
        }
    }

    fn open(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let Some((_, root)) = &self.root else {
            return rustix::fs::openat(CWD, path, flags, Mode::empty());
        };
        let open = || {
            rustix::fs::openat2(
                root.as_fd(),
                path,
                flags,
                Mode::empty(),
                ResolveFlags::IN_ROOT,
            )
        };
        // The kernel cannot tell whether ".." left the root while something was being renamed.
        let mut found = open();
        for _ in 1..ATTEMPTS {
            if !matches!(found, Err(Errno::AGAIN)) {
                break;
            }
            found = open();
        }
        found
    }

    /// The permission bits that apply to the user; root needs any one of them.
    fn may_execute(&self, stat: &Stat) -> bool {
        let bits = if self.uid == 0 {
            0o111
        } else if stat.st_uid == self.uid {
            0o100
        } else if self.groups.contains(&stat.st_gid) {
            0o010
        } else {
            0o001
        };
        stat.st_mode & bits != 0
    }
}

/// Whether the file has a POSIX access control list, which may allow what the bits do not; execve
/// has the last word on it.
fn has_acl(file: &OwnedFd) -> bool {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::getxattr_query(link, "system.posix_acl_access").is_ok_and(|size| size > 0)
}

fn open_root(root: &Path) -> Result<(PathBuf, OwnedFd), CommandError> {
    let fail = |source: io::Error| CommandError::RootNotADirectory {
        path: root.into(),
        source,
    };
    let path = fs::canonicalize(root).map_err(fail)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd =
        rustix::fs::openat(CWD, &path, flags, Mode::empty()).map_err(|errno| fail(errno.into()))?;
    Ok((path, fd))
}

/// The path without "." components and doubled slashes. ".." stays: behind a symbolic link it does
/// not mean the component before it.
fn plain(path: &Path) -> PathBuf {
    path.components()
        .filter(|component| *component != Component::CurDir)
        .collect()
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
