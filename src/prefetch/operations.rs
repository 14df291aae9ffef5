//! Asking file systems ahead of a launch what it will ask them: the reads of metadata where these are no blocks of a
//! device.
//!
//! An operation waits for its reads, one after the other, so that threads side by side keep the drive's queue filled:
//! eight of them take half of the time of one, and more gain next to nothing on flash. They have nothing to wait for
//! among the pages, and so go ahead of them as fast as they can: whatever the metadata shift is, it lets them pass.
//!
//! What users can change is between here and the learned launch. So no operation follows a link, leaves the mount
//! that it begins in, or opens anything but a directory; none changes a time of access; and what it finds is of no
//! consequence.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{OFlags, RawDir};

use super::devices::OpenDevice;
use crate::fs::handle::below_root;
use crate::fs::safe_open::{beneath, directory_beneath};
use crate::model::{Operation, OperationKind, Skipped};

/// Most names that are read of one directory: as many as a large one of icons has.
const MOST_NAMES: usize = 1 << 14;

/// The operations of a schedule, of which each thread takes the next.
pub struct ScheduledOperations<'a> {
    operations: &'a [Operation],
    /// The profile's devices; or why nothing is asked of them.
    devices: &'a [Result<OpenDevice, Skipped>],
    /// Set by another thread to end the prefetch.
    stop: &'a AtomicBool,
    next: AtomicUsize,
    done: AtomicU64,
}

impl<'a> ScheduledOperations<'a> {
    /// Before the first one.
    pub fn new(
        operations: &'a [Operation],
        devices: &'a [Result<OpenDevice, Skipped>],
        stop: &'a AtomicBool,
    ) -> Self {
        ScheduledOperations {
            operations,
            devices,
            stop,
            next: AtomicUsize::new(0),
            done: AtomicU64::new(0),
        }
    }

    /// Carries operations out until none is left, `stop` is set, or `is_cut_short` says so.
    pub fn carry_out(&self, is_cut_short: impl Fn() -> bool) {
        while !is_cut_short()
            && let Some(operation) = self.next()
        {
            let device = &self.devices[usize::from(operation.device)];
            if let Ok(device) = device {
                carry_out(operation, device, self.stop);
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn next(&self) -> Option<&Operation> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.operations.get(next)
    }

    /// Has all threads end after the operation that they carry out.
    pub fn give_up(&self) {
        self.next.store(self.operations.len(), Ordering::Relaxed);
    }

    /// How many the threads have taken, or tried to.
    pub fn taken(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// How many have been carried out, whatever they found.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

/// Whatever the answer is, the launch asks itself, and gets it from memory.
fn carry_out(operation: &Operation, device: &OpenDevice, stop: &AtomicBool) {
    let Some(path) = below_root(&device.mount, &operation.path) else {
        return;
    };
    match operation.kind {
        OperationKind::LookUp => drop(beneath(&device.mount.fd, path)),
        OperationKind::List => {
            // NOATIME: reading it would count as an access.
            if let Ok(directory) = directory_beneath(&device.mount.fd, path, OFlags::NOATIME) {
                read_names(&directory, stop);
            }
        }
    }
}

/// Reads the names in a directory, up to a bound.
fn read_names(directory: &OwnedFd, stop: &AtomicBool) {
    let mut buffer = [MaybeUninit::uninit(); 16 << 10];
    let mut names = RawDir::new(directory, &mut buffer);
    let mut left = MOST_NAMES;
    while left > 0
        && !stop.load(Ordering::Relaxed)
        && let Some(Ok(_)) = names.next()
    {
        left -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::fs::mounts::{Mount, OpenMount};

    /// A device whose file system has this directory as its root.
    fn device(root: &Path) -> OpenDevice {
        let table = crate::fs::mounts::MountTable::parse(b"1 0 8:1 / / rw - xfs /dev/sda1 rw\n");
        let mount: Mount = table.mounts()[0].clone();
        let fd = rustix::fs::open(root, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        OpenDevice {
            dev: 0,
            below: 0,
            mount: OpenMount { mount, fd },
            node: None,
            image: None,
            is_outdated: false,
            readahead_limit: 0,
        }
    }

    fn operation(device: u16, path: &[u8], kind: OperationKind) -> Operation {
        Operation {
            device,
            path: path.to_vec(),
            kind,
            time_us: 0,
        }
    }

    #[test]
    fn each_operation_is_carried_out_once_and_none_of_a_device_that_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let devices = [Ok(device(root.path())), Err(Skipped::DeviceGone)];
        let all: Vec<Operation> = (0..200)
            .map(|number| operation(number % 2, b"/x", OperationKind::LookUp))
            .collect();
        let stop = AtomicBool::new(false);
        let operations = ScheduledOperations::new(&all, &devices, &stop);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| operations.carry_out(|| false));
            }
        });
        assert_eq!(operations.done(), 100);
        assert!(operations.taken() >= all.len());
        // Nothing is taken once the prefetch is over.
        let operations = ScheduledOperations::new(&all, &devices, &stop);
        operations.carry_out(|| true);
        assert_eq!(operations.taken(), 0);
    }

    /// A FIFO would keep whoever opens it for reading.
    #[test]
    fn no_time_of_access_changes_and_nothing_but_a_directory_is_opened() {
        let root = tempfile::tempdir().unwrap();
        let inside = root.path().join("inside");
        fs::create_dir_all(inside.join("below")).unwrap();
        fs::write(inside.join("file"), "content").unwrap();
        mknodat(CWD, inside.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        symlink("file", inside.join("link")).unwrap();
        // As if it had not been read since it was changed: the kernel would note the next access.
        let names = [".", "below", "file", "fifo", "link"];
        let times = || {
            let stat = |name: &&str| rustix::fs::lstat(inside.join(name)).unwrap();
            let stats = names.iter().map(stat);
            stats
                .map(|stat| (stat.st_atime, stat.st_atime_nsec))
                .collect::<Vec<_>>()
        };
        let before = times();
        let device = device(&inside);
        let stop = AtomicBool::new(false);
        for name in [
            "/", "/below", "/file", "/fifo", "/link", "/link/x", "/..", "", "/absent",
        ] {
            for kind in [OperationKind::LookUp, OperationKind::List] {
                carry_out(&operation(0, name.as_bytes(), kind), &device, &stop);
            }
        }
        assert_eq!(times(), before);
    }
}
