//! Control groups of version 2: which one a process is in, which systemd unit has it, and how much memory it uses.
//! On a machine with version 1, or a mixed one, memory is not counted here.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::fs::mounts::MountTable;
use crate::fs::virtual_file;

/// Longest file that is read, in bytes. memory.stat has 2 KiB.
const MAX_FILE: u64 = 64 << 10;

/// Most processes whose users are looked at.
const MOST_OWNED: usize = 256;

/// A cgroup that is not the root of the hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    path: PathBuf,
    directory: PathBuf,
}

/// A service or scope of systemd's, and its cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupUnit {
    /// Such as `backup.service` or `app-gimp-7.scope`.
    pub name: String,
    /// Whose it is.
    pub manager: UnitManager,
    /// Cgroup of the unit. A process may be in one below it.
    pub cgroup: Cgroup,
}

/// The systemd that a unit belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitManager {
    /// The system's.
    System,
    /// The systemd of a user, by uid. root cannot reach it by the system bus: set the cgroup's own files.
    User(u32),
}

/// The memory that a cgroup uses, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupMemory {
    /// All of it.
    pub current: u64,
    /// Of no file: it can only be given up to swap.
    pub anonymous: u64,
    /// Shared memory and tmpfs: the same.
    pub shared: u64,
    /// Changed pages of files that no one has begun to write.
    pub dirty: u64,
    /// Pages of files that are being written.
    pub writeback: u64,
}

impl Cgroup {
    /// The cgroup of a process or thread. `None` if that is the root of the hierarchy, as for kernel threads, or
    /// has been removed, if no hierarchy of version 2 is mounted, and if the process has ended.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn of(mounts: &MountTable, pid: i32) -> io::Result<Option<Self>> {
        let cgroups = match read(Path::new(&format!("/proc/{pid}/cgroup"))) {
            Err(error) if is_gone(&error) => return Ok(None),
            cgroups => cgroups?,
        };
        let found = unified(&cgroups).and_then(|path| {
            Some(Cgroup {
                path: path.to_owned(),
                directory: directory(mounts, path)?,
            })
        });
        Ok(found.filter(|cgroup| cgroup.directory.is_dir()))
    }

    /// The cgroup's place in the hierarchy, such as `/system.slice/backup.service`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The cgroup's directory in the mounted hierarchy.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The innermost service or scope that it belongs to. `None` if systemd has none for it.
    pub fn unit(&self) -> Option<CgroupUnit> {
        let (name, manager, depth) = unit(&self.path)?;
        let below = self.path.iter().count() - depth;
        let up = |path: &Path| path.ancestors().nth(below).map(Path::to_owned);
        Some(CgroupUnit {
            name,
            manager,
            cgroup: Cgroup {
                path: up(&self.path)?,
                directory: up(&self.directory)?,
            },
        })
    }

    /// The user on whose account its processes run: the one whose slice it is in (`user-1000.slice`), or else the
    /// real user of all of its processes. `None` if there are several users, no process, or more than 256.
    ///
    /// # Errors
    /// When the cgroup has been removed.
    pub fn owner(&self) -> io::Result<Option<u32>> {
        if let Some(uid) = user_of(&self.path) {
            return Ok(Some(uid));
        }
        let processes = read(&self.directory.join("cgroup.procs"))?;
        Ok(common_user(
            &String::from_utf8_lossy(&processes),
            super::real_uid,
        ))
    }

    /// The memory that it uses with all below it. `None` if its memory is not counted, or it has been removed.
    ///
    /// # Errors
    /// As read(2), and when a file is not as the kernel documents it.
    pub fn memory(&self) -> io::Result<Option<CgroupMemory>> {
        let text = |name: &str| match read(&self.directory.join(name)) {
            Err(error) if is_gone(&error) => Ok(None),
            text => text.map(|text| Some(String::from_utf8_lossy(&text).into_owned())),
        };
        let (Some(current), Some(stat)) = (text("memory.current")?, text("memory.stat")?) else {
            return Ok(None);
        };
        CgroupMemory::parse(&current, &stat)
            .map(Some)
            .ok_or_else(|| {
                let directory = self.directory.display();
                let why = format!("memory.stat in {directory} is not as the kernel documents it");
                io::Error::new(io::ErrorKind::InvalidData, why)
            })
    }

    /// `memory.high`: bytes above which its processes are slowed down and give memory up, or `max`. `None` if its memory
    /// is not limited.
    pub fn memory_high(&self) -> Option<PathBuf> {
        self.knob("memory.high")
    }

    /// `io.weight`, its share of a drive, from 1 to 10000, where the kernel's iocost controller honours it. `None` if
    /// there is none.
    pub fn io_weight(&self) -> Option<PathBuf> {
        self.knob("io.weight")
    }

    /// `io.bfq.weight`, its share of drives whose scheduler is bfq, from 1 to 1000. `None` if there is none.
    pub fn bfq_weight(&self) -> Option<PathBuf> {
        self.knob("io.bfq.weight")
    }

    fn knob(&self, name: &str) -> Option<PathBuf> {
        Some(self.directory.join(name)).filter(|knob| knob.exists())
    }
}

impl CgroupMemory {
    /// From the contents of memory.current and memory.stat.
    pub fn parse(current: &str, stat: &str) -> Option<Self> {
        let bytes = |name: &str| -> Option<u64> {
            let mut lines = stat.lines();
            lines
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?
                .trim()
                .parse()
                .ok()
        };
        Some(CgroupMemory {
            current: current.trim().parse().ok()?,
            anonymous: bytes("anon")?,
            shared: bytes("shmem")?,
            dirty: bytes("file_dirty")?,
            writeback: bytes("file_writeback")?,
        })
    }
}

/// The user of all of these processes, a line each.
fn common_user(processes: &str, user_of: impl Fn(i32) -> Option<u32>) -> Option<u32> {
    let pids: Vec<i32> = processes
        .lines()
        .take(MOST_OWNED + 1)
        .filter_map(|line| line.parse().ok())
        .collect();
    let first = user_of(*pids.first()?)?;
    let is_his = |&pid: &i32| user_of(pid) == Some(first);
    (pids.len() <= MOST_OWNED && pids.iter().all(is_his)).then_some(first)
}

/// The process's place in the unified hierarchy, from the contents of /proc/PID/cgroup; `None` at its
/// root, for one that has been removed, and for one outside of this process's cgroup namespace.
pub(crate) fn unified(cgroups: &[u8]) -> Option<&Path> {
    let path = cgroups
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"0::"))?;
    let path = (path != b"/" && !path.ends_with(b" (deleted)"))
        .then(|| Path::new(OsStr::from_bytes(path)))?;
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    (path.is_absolute() && path.components().all(is_plain)).then_some(path)
}

/// Where a cgroup's directory is mounted.
pub(crate) fn directory(mounts: &MountTable, cgroup: &Path) -> Option<PathBuf> {
    let mut mounts = mounts.mounts().iter();
    mounts.find_map(|mount| {
        let root = Path::new(OsStr::from_bytes(&mount.root));
        let below = cgroup.strip_prefix(root).ok()?;
        (mount.fs_type == "cgroup2").then(|| mount.mount_point.join(below))
    })
}

/// The innermost unit on a path, its manager, and how many parts of the path lead to it. A unit's cgroup lies in those
/// of its slices; below `user@UID.service` is what that user's systemd manages, in the same way. What a unit makes
/// below its own cgroup is its own affair.
fn unit(path: &Path) -> Option<(String, UnitManager, usize)> {
    let parts: Vec<&str> = path
        .iter()
        .map(OsStr::to_str)
        .collect::<Option<Vec<&str>>>()?;
    let (outer, at) = first_unit(&parts, 1)?;
    let system = (outer.to_owned(), UnitManager::System, at + 1);
    let Some(uid) = numbered(outer, "user@", ".service") else {
        return Some(system);
    };
    Some(match first_unit(&parts, at + 1) {
        Some((inner, at)) => (inner.to_owned(), UnitManager::User(uid), at + 1),
        None => system,
    })
}

/// The first part of a path from this one on that is no slice, if it is a service or scope.
fn first_unit<'a>(parts: &[&'a str], from: usize) -> Option<(&'a str, usize)> {
    let mut rest = parts.iter().enumerate().skip(from);
    let (at, part) = rest.find(|(_, part)| !part.ends_with(".slice"))?;
    // systemd puts this in front of names that could be those of the kernel's files.
    let name = part.strip_prefix('_').unwrap_or(part);
    let is_unit = [".service", ".scope"]
        .iter()
        .any(|kind| name.strip_suffix(kind).is_some_and(|name| !name.is_empty()));
    is_unit.then_some((name, at))
}

/// The user in whose slice a path is.
fn user_of(path: &Path) -> Option<u32> {
    let mut parts = path.iter().filter_map(OsStr::to_str).skip(1);
    match parts.next()? {
        "user.slice" => numbered(parts.next()?, "user-", ".slice"),
        _ => None,
    }
}

fn numbered(name: &str, before: &str, after: &str) -> Option<u32> {
    name.strip_prefix(before)?.strip_suffix(after)?.parse().ok()
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ESRCH))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    virtual_file::read_at_most(path, MAX_FILE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_directory_of_a_cgroup_is_below_the_mount_of_the_unified_hierarchy() {
        let cgroups = b"9:name=systemd:/x\n1:cpu:/\n0::/box/app-gimp-7.scope\n";
        let own = unified(cgroups).unwrap();
        for other in [
            &b"0::/\n"[..],
            b"4:memory:/a\n",
            b"",
            b"0::/a.scope (deleted)\n",
            b"0::/../a.scope\n",
            b"0::a\n",
        ] {
            assert_eq!(unified(other), None);
        }
        for (root, expected) in [
            ("/", Some("/sys/fs/cgroup/unified/box/app-gimp-7.scope")),
            ("/box", Some("/sys/fs/cgroup/unified/app-gimp-7.scope")),
            ("/other", None),
        ] {
            let table = format!(
                "30 20 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                 31 30 0:27 {root} /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
            );
            let table = MountTable::parse(table.as_bytes());
            assert_eq!(
                directory(&table, own),
                expected.map(PathBuf::from),
                "{root}"
            );
        }
    }

    #[test]
    fn a_unit_belongs_to_the_system_or_to_a_user() {
        use UnitManager::{System, User};
        const USER: &str = "/user.slice/user-1000.slice";
        let manager = format!("{USER}/user@1000.service");
        for (path, expected) in [
            (
                "/system.slice/backup.service".to_owned(),
                Some(("backup.service", System, 3)),
            ),
            (
                "/system.slice/a-b.slice/a-b-c.service/payload".into(),
                Some(("a-b-c.service", System, 4)),
            ),
            (
                "/system.slice/_cpu.service".into(),
                Some(("cpu.service", System, 3)),
            ),
            (
                format!("{USER}/session-3.scope"),
                Some(("session-3.scope", System, 4)),
            ),
            (manager.clone(), Some(("user@1000.service", System, 4))),
            (
                format!("{manager}/app.slice/app-gimp-7.scope"),
                Some(("app-gimp-7.scope", User(1000), 6)),
            ),
            (
                format!("{manager}/init.scope"),
                Some(("init.scope", User(1000), 5)),
            ),
            (
                format!("{manager}/app.slice/a.service/x.scope"),
                Some(("a.service", User(1000), 6)),
            ),
            ("/docker/0123".into(), None),
            ("/machine.slice".into(), None),
            ("/.service".into(), None),
        ] {
            let found = unit(Path::new(&path));
            let expected = expected.map(|(name, manager, depth)| (name.to_owned(), manager, depth));
            assert_eq!(found, expected, "{path}");
        }
        let inside = Cgroup {
            path: "/system.slice/a.service/b/c".into(),
            directory: "/mnt/system.slice/a.service/b/c".into(),
        };
        let found = inside.unit().unwrap().cgroup;
        assert_eq!(found.path(), Path::new("/system.slice/a.service"));
        assert_eq!(found.directory(), Path::new("/mnt/system.slice/a.service"));
    }

    #[test]
    fn the_owner_is_the_user_of_the_slice() {
        let owner = |path: &str| user_of(Path::new(path));
        assert_eq!(
            owner("/user.slice/user-1000.slice/session-3.scope"),
            Some(1000)
        );
        for other in [
            "/user.slice",
            "/system.slice/user-1000.slice",
            "/user.slice/user-x.slice",
        ] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[test]
    fn a_cgroup_is_a_users_if_all_of_its_processes_are() {
        let user = |pid| (pid < 100).then_some(pid as u32 / 10);
        assert_eq!(common_user("10\n11\n19\n", user), Some(1));
        for other in ["", "10\n20\n", "10\n100\n", "100\n"] {
            assert_eq!(common_user(other, user), None, "{other}");
        }
        assert_eq!(common_user(&"10\n".repeat(MOST_OWNED), user), Some(1));
        assert_eq!(common_user(&"10\n".repeat(MOST_OWNED + 1), user), None);
    }

    #[test]
    fn memory_is_read_from_the_cgroups_files() {
        let directory = tempfile::tempdir().unwrap();
        let cgroup = Cgroup {
            path: "/a".into(),
            directory: directory.path().to_owned(),
        };
        assert_eq!(cgroup.memory().unwrap(), None);
        assert_eq!(cgroup.memory_high(), None);
        let write = |name, text| std::fs::write(directory.path().join(name), text).unwrap();
        write("memory.current", "700\n");
        write(
            "memory.stat",
            "anon 100\nfile 500\nanon_thp 9\nshmem 40\nfile_mapped 3\nfile_dirty 20\nfile_writeback 10\n",
        );
        write("memory.high", "max\n");
        let memory = CgroupMemory {
            current: 700,
            anonymous: 100,
            shared: 40,
            dirty: 20,
            writeback: 10,
        };
        assert_eq!(cgroup.memory().unwrap(), Some(memory));
        assert!(cgroup.memory_high().is_some() && cgroup.io_weight().is_none());
        write("memory.stat", "anon x\n");
        assert!(cgroup.memory().is_err());
    }

    #[test]
    fn a_process_that_has_ended_has_none() {
        let mounts = MountTable::read().unwrap();
        assert_eq!(Cgroup::of(&mounts, i32::MAX).unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_path_has_a_unit_on_it_or_none(path in "(/[a-z_]{0,3}(\\.slice|\\.scope|\\.service|@1\\.service)?){1,6}") {
            if let Some((name, _, depth)) = unit(Path::new(&path)) {
                let part = Path::new(&path).iter().nth(depth - 1).unwrap();
                prop_assert!(part.to_str().unwrap().ends_with(&name));
            }
        }
    }
}
