//! Names for what waits are about: the path of a file that the waiting process has open, the name of a device.
//!
//! Nothing here may wait for a drive, a server or a FUSE daemon: links of /proc/PID/fd are read and not followed,
//! and the number of the inode comes from fdinfo, which is read of files alone.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use paralfetch::fs::mounts::MountTable;

use crate::{Wait, WaitedPlace};

/// Open files of one process that are looked at.
const MOST_FILES: usize = 256;

/// Bytes of a file of /proc/PID/fdinfo that are read; what is looked for stands at its beginning.
const MOST_INFO_BYTES: u64 = 4096;

/// Bytes of a process's mount table that are read.
const MOST_TABLE_BYTES: u64 = 1 << 20;

/// Looks into processes for one file before its name is given up.
const MOST_TRIES: u8 = 4;

/// Files, and devices, whose names are kept.
const MOST_NAMES: usize = 4096;

/// Names found so far.
#[derive(Debug)]
pub struct WaitNames {
    proc_dir: PathBuf,
    sys_dir: PathBuf,
    files: HashMap<WaitedPlace, FoundName>,
    devices: HashMap<u32, String>,
}

#[derive(Debug)]
enum FoundName {
    Path(Vec<u8>),
    /// Not found in this many looks.
    Tried(u8),
}

impl Default for WaitNames {
    /// Of the running system.
    fn default() -> Self {
        Self::below(Path::new("/proc"), Path::new("/sys"))
    }
}

impl WaitNames {
    fn below(proc_dir: &Path, sys_dir: &Path) -> Self {
        WaitNames {
            proc_dir: proc_dir.to_owned(),
            sys_dir: sys_dir.to_owned(),
            files: HashMap::new(),
            devices: HashMap::new(),
        }
    }

    /// Looks for the name of what the wait is about. The sooner after the wait, the better: a process that has
    /// closed the file or exited tells nothing any more. Looks at 256 open files at most, and at none if the name
    /// is known.
    pub fn look(&mut self, wait: &Wait) {
        let place = WaitedPlace::from(wait);
        if let Some(device) = place.device
            && self.devices.len() < MOST_NAMES
            && !self.devices.contains_key(&device)
        {
            self.devices.insert(device, self.find_device(device));
        }
        let Some(inode) = place.inode else {
            return;
        };
        let tried = match self.files.get(&place) {
            None if self.files.len() >= MOST_NAMES => return,
            None => 0,
            Some(FoundName::Tried(tries @ ..MOST_TRIES)) => *tries,
            Some(_) => return,
        };
        let found = match self.find_file(wait.task.pid, place.device, inode) {
            Some(path) => FoundName::Path(path),
            None => FoundName::Tried(tried + 1),
        };
        self.files.insert(place, found);
    }

    /// Path of the file, as the process saw it that had it open. The bytes may be anything but NUL.
    pub fn path(&self, place: WaitedPlace) -> Option<&[u8]> {
        match self.files.get(&place)? {
            FoundName::Path(path) => Some(path),
            FoundName::Tried(_) => None,
        }
    }

    /// Name of a device, such as `sda1`, or its numbers, such as `0:35` for a file system without a drive.
    pub fn device(&self, device: u32) -> String {
        let known = self.devices.get(&device).cloned();
        known.unwrap_or_else(|| numbers(device))
    }

    fn find_device(&self, device: u32) -> String {
        let link = self.sys_dir.join("dev/block").join(numbers(device));
        let target = fs::read_link(link).ok();
        let name = target.as_deref().and_then(Path::file_name);
        name.map_or_else(|| numbers(device), |name| name.to_string_lossy().into())
    }

    /// The path of an open file of a process, by its inode. `None` for whatever cannot be read: the process may
    /// have ended, and belongs to somebody.
    fn find_file(&self, pid: u32, device: Option<u32>, inode: u64) -> Option<Vec<u8>> {
        let device = device?;
        let dev = rustix::fs::makedev(device >> 20, device & 0xf_ffff);
        let process = self.proc_dir.join(pid.to_string());
        // Read once, and only if a file with this number is open.
        let mounts = LazyCell::new(|| {
            let table = read_beginning(&process.join("mountinfo"), MOST_TABLE_BYTES);
            MountTable::parse(&table.unwrap_or_default())
        });
        let open = fs::read_dir(process.join("fd")).ok()?;
        let open = open.take(MOST_FILES).filter_map(Result::ok);
        open.map(|entry| entry.path()).find_map(|link| {
            let path = fs::read_link(&link).ok().filter(|path| is_file(path))?;
            let info = process.join("fdinfo").join(link.file_name()?);
            let info = read_beginning(&info, MOST_INFO_BYTES).ok()?;
            let info = String::from_utf8_lossy(&info);
            let mount = u32::try_from(field(&info, "mnt_id:")?).ok()?;
            let is_it = field(&info, "ino:") == Some(inode)
                && mounts.by_id(mount).is_some_and(|mount| mount.dev == dev);
            is_it.then(|| path.as_os_str().as_bytes().to_vec())
        })
    }
}

/// Whether the link of a descriptor is that of a file, so that its fdinfo may be read. The fdinfo of an epoll descriptor
/// takes a lock that a user's process can hold for ever with the help of a FUSE daemon.
fn is_file(link: &Path) -> bool {
    link.is_absolute() && !link.starts_with("/dev") && !link.starts_with("/proc")
}

/// The first bytes of a file, at most so many.
fn read_beginning(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A number in a file of /proc/PID/fdinfo.
fn field(info: &str, name: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

fn numbers(device: u32) -> String {
    format!("{}:{}", device >> 20, device & 0xf_ffff)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::sync::mpsc::sync_channel;
    use std::thread;
    use std::time::Duration;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;
    use crate::{WaitCause, WaitTask};

    fn wait(pid: u32, device: u32, inode: Option<u64>) -> Wait {
        Wait {
            task: WaitTask {
                pid,
                tid: pid,
                comm: "app".to_owned(),
                uid: 0,
            },
            cause: WaitCause::Sync,
            start_ns: 0,
            duration_ns: 1,
            device: Some(device),
            inode,
            block: None,
            for_whom: None,
            under_way: false,
        }
    }

    /// A directory like /proc with one process that has a file open, and one like /sys.
    fn system() -> tempfile::TempDir {
        let system = tempfile::tempdir().unwrap();
        let process = system.path().join("7");
        for name in ["fd", "fdinfo"] {
            fs::create_dir_all(process.join(name)).unwrap();
        }
        symlink("/data/a b", process.join("fd/3")).unwrap();
        fs::write(
            process.join("fdinfo/3"),
            "pos:\t0\nflags:\t02\nmnt_id:\t24\nino:\t12\n",
        )
        .unwrap();
        let mounts = "24 1 8:1 / /data rw - ext4 /dev/sda1 rw\n";
        fs::write(process.join("mountinfo"), mounts).unwrap();
        let devices = system.path().join("dev/block");
        fs::create_dir_all(&devices).unwrap();
        symlink("../../devices/sda/sda1", devices.join("8:1")).unwrap();
        system
    }

    #[test]
    fn a_file_that_the_process_has_open_gets_its_path() {
        let system = system();
        let mut names = WaitNames::below(system.path(), system.path());
        let of_file = wait(7, 8 << 20 | 1, Some(12));
        // The same number on another device, another number, and a process that is gone.
        let others = [
            wait(7, 8 << 20 | 2, Some(12)),
            wait(7, 8 << 20 | 1, Some(13)),
            wait(8, 8 << 20 | 1, Some(14)),
        ];
        names.look(&of_file);
        others.iter().for_each(|wait| names.look(wait));
        assert_eq!(names.path((&of_file).into()), Some(&b"/data/a b"[..]));
        for other in &others {
            assert_eq!(names.path(other.into()), None);
        }
        assert_eq!(names.device(8 << 20 | 1), "sda1");
        assert_eq!(names.device(8 << 20 | 2), "8:2");
        // It stays known when the process has ended.
        fs::remove_dir_all(system.path().join("7")).unwrap();
        names.look(&of_file);
        assert!(names.path((&of_file).into()).is_some());
    }

    #[test]
    fn fdinfo_is_read_of_files_alone() {
        let system = system();
        let process = system.path().join("7");
        fs::remove_file(process.join("fd/3")).unwrap();
        let links = [
            "anon_inode:[eventpoll]",
            "socket:[12]",
            "pipe:[12]",
            "/dev/fuse",
            "/proc/7/maps",
        ];
        for (number, link) in (4..).zip(links) {
            symlink(link, process.join(format!("fd/{number}"))).unwrap();
            // Opening it to read would last for ever.
            let info = process.join(format!("fdinfo/{number}"));
            mkfifoat(CWD, &info, Mode::RUSR | Mode::WUSR).unwrap();
        }
        let mut names = WaitNames::below(system.path(), system.path());
        let (send, looked) = sync_channel(1);
        thread::spawn(move || {
            let of_file = wait(7, 8 << 20 | 1, Some(12));
            names.look(&of_file);
            send.send(names.path((&of_file).into()).is_some()).unwrap();
        });
        assert_eq!(looked.recv_timeout(Duration::from_secs(60)), Ok(false));
    }

    #[test]
    fn only_the_beginning_of_fdinfo_is_read() {
        let system = system();
        let info = system.path().join("7/fdinfo/3");
        let of_file = wait(7, 8 << 20 | 1, Some(12));
        let file = fs::read_to_string(&info).unwrap();
        let locks = "lock:\t1\n".repeat(9999);
        for (text, is_found) in [
            (format!("{file}{locks}"), true),
            (format!("{locks}{file}"), false),
        ] {
            fs::write(&info, text).unwrap();
            let mut names = WaitNames::below(system.path(), system.path());
            names.look(&of_file);
            assert_eq!(names.path((&of_file).into()).is_some(), is_found);
        }
    }

    #[test]
    fn a_name_is_given_up_after_some_tries() {
        let system = system();
        let mut names = WaitNames::below(system.path(), system.path());
        let of_file = wait(7, 8 << 20 | 1, Some(12));
        let descriptor = system.path().join("7/fd/3");
        fs::remove_file(&descriptor).unwrap();
        for _ in 0..MOST_TRIES {
            names.look(&of_file);
        }
        symlink("/data/a b", descriptor).unwrap();
        names.look(&of_file);
        assert_eq!(names.path((&of_file).into()), None);
    }

    #[test]
    fn an_open_file_of_this_process_is_found() {
        let file = File::open("/proc/self/exe").unwrap();
        let path = fs::read_link("/proc/self/exe").unwrap();
        let inode = file.metadata().unwrap().ino();
        let id = std::process::id();
        let info = fs::read_to_string(format!(
            "/proc/self/fdinfo/{}",
            std::os::fd::AsRawFd::as_raw_fd(&file)
        ));
        let mount = field(&info.unwrap(), "mnt_id:").unwrap();
        let table = MountTable::read().unwrap();
        let dev = table.by_id(mount as u32).unwrap().dev;
        let device = rustix::fs::major(dev) << 20 | rustix::fs::minor(dev);
        let mut names = WaitNames::default();
        let wait = wait(id, device, Some(inode));
        names.look(&wait);
        assert_eq!(
            names.path((&wait).into()),
            Some(path.as_os_str().as_bytes())
        );
    }
}
