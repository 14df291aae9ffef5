//! Which program a command line names: the look-up of execvp(3), inside a root directory if asked.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::{env, fs, io};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::spawn::{NOT_EXECUTABLE, NOT_FOUND, SpawnError};
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

impl Command {
    /// Finds the program that `argv[0]` names, as execvp(3) would with our PATH and our working
    /// directory, for the user of [`User::invoking`]. With `root`, everything is looked
    /// up as after chroot(2) into it and chdir("/").
    pub fn find(argv: &[OsString], root: Option<&Path>) -> Result<Command, SpawnError> {
        Self::find_for(argv, root, User::invoking().as_ref())
    }

    /// Finds the program for a given user, or for ourselves.
    pub fn find_for(
        argv: &[OsString],
        root: Option<&Path>,
        user: Option<&User>,
    ) -> Result<Command, SpawnError> {
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
    fn new(root: Option<&Path>, user: Option<&User>) -> Result<Search, SpawnError> {
        let root = root.map(open_root).transpose()?;
        let base = match &root {
            Some(_) => PathBuf::from("/"),
            // A working directory that was removed has no path; absolute ones do not need it.
            None => env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
        };
        let (uid, gid, mut groups) = match user {
            Some(user) => (user.uid, user.gid, user.groups.clone()),
            None => {
                // A process always may ask for its own groups; without them the check below is
                // merely stricter.
                let groups = rustix::process::getgroups().unwrap_or_default();
                let groups = groups.into_iter().map(|gid| gid.as_raw()).collect();
                let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
                (uid.as_raw(), gid.as_raw(), groups)
            }
        };
        groups.push(gid);
        Ok(Search {
            root,
            base,
            uid,
            groups,
        })
    }

    fn find(self, argv: &[OsString], path: &OsStr) -> Result<Command, SpawnError> {
        let name = argv
            .first()
            .ok_or_else(|| SpawnError::new(125, "no command given".to_owned()))?;
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
    fn find_in_path(&self, name: &OsStr, path: &OsStr) -> Result<(PathBuf, Stat), SpawnError> {
        if name.is_empty() {
            return Err(not_found(name));
        }
        let mut refused = None;
        for directory in path.as_bytes().split(|&byte| byte == b':') {
            // An empty element means the working directory. "./" keeps a slash in the path, so that
            // PATH is not searched again.
            let directory = match directory {
                b"" => b".",
                directory => directory,
            };
            let file = Path::new(OsStr::from_bytes(directory)).join(name);
            match self.check(&file, name) {
                Ok(stat) => return Ok((file, stat)),
                Err(error) if error.exit_code() == NOT_FOUND => {}
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| not_found(name)))
    }

    /// Looks at one candidate; `name` is for the error.
    fn check(&self, file: &Path, name: &OsStr) -> Result<Stat, SpawnError> {
        let path = self.base.join(file);
        let shown = plain(&path);
        let shown = shown.display();
        let refuse =
            |reason| SpawnError::new(NOT_EXECUTABLE, format!("cannot execute {shown}: {reason}"));
        let fail = |errno: Errno| match errno {
            Errno::NOENT | Errno::NOTDIR => not_found(name),
            Errno::ACCESS => refuse("permission denied"),
            errno => {
                let errno = io::Error::from(errno);
                SpawnError::new(NOT_EXECUTABLE, format!("cannot look up {shown}: {errno}"))
            }
        };
        let found = self.open(&path).map_err(fail)?;
        let stat = rustix::fs::fstat(&found).map_err(fail)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if self.may_execute(&stat) || has_acl(&found) => Ok(stat),
            FileType::RegularFile => Err(refuse("permission denied")),
            FileType::Directory => Err(refuse("it is a directory")),
            _ => Err(refuse("it is not a regular file")),
        }
    }

    fn open(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let Some((_, root)) = &self.root else {
            return rustix::fs::openat(CWD, path, flags, Mode::empty());
        };
        // The kernel cannot tell whether ".." left the root while something was being renamed.
        for _ in 1..ATTEMPTS {
            match rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
                Err(Errno::AGAIN) => {}
                found => return found,
            }
        }
        Err(Errno::AGAIN)
    }

    /// The permission bits that apply to the user; root needs any one of them.
    fn may_execute(&self, stat: &Stat) -> bool {
        let bits = match self.uid {
            0 => 0o111,
            uid if uid == stat.st_uid => 0o100,
            _ if self.groups.contains(&stat.st_gid) => 0o010,
            _ => 0o001,
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

fn not_found(name: &OsStr) -> SpawnError {
    SpawnError::new(NOT_FOUND, format!("command not found: {}", name.display()))
}

fn open_root(root: &Path) -> Result<(PathBuf, OwnedFd), SpawnError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |path: PathBuf| {
        let fd = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok((path, fd))
    };
    let opened = fs::canonicalize(root).and_then(open);
    opened.map_err(|error| {
        let root = root.display();
        SpawnError::new(125, format!("cannot use {root} as root directory: {error}"))
    })
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
