//! The profile's files, opened on first use.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::delayed_opens::{DelayedOpens, OpenTime};
use super::devices::{OpenDevice, outdated_images};
use crate::fs::handle::open_known_file;
use crate::model::{File, PAGE_SIZE, Place, Profile, Skipped};

/// Raises this process's limit on open files to its maximum, since a prefetch keeps hundreds open.
/// Returns the former limit, which the app must get.
pub fn raise_open_files() -> Rlimit {
    let was = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: was.maximum,
        ..was
    };
    // A failure does not matter: at the limit, a prefetch closes files and goes on.
    let _ = setrlimit(Resource::Nofile, raised);
    was
}

/// A file of the profile during a prefetch.
#[derive(Default)]
struct PrefetchedFile {
    /// The open file and its size in pages, or why its entries are skipped; `None` while it is closed.
    opened: Option<Result<(OwnedFd, u64), Skipped>>,
    /// The last entry of the schedule that needs it.
    last_use: usize,
    /// Whether the file is gone, or was replaced or truncated since it was learned.
    is_stale: bool,
    /// Whether the file was modified since, but is not shorter: its entries are still prefetched.
    is_changed: bool,
}

/// The open files of a running prefetch, which several threads may use.
pub struct Files<'a> {
    table: &'a [File],
    /// Who reads a file ahead keeps it from being closed meanwhile.
    states: Vec<RwLock<PrefetchedFile>>,
    /// See [`outdated_images`].
    outdated_images: Vec<(u64, u64)>,
    /// Looks for a program that has to be asked before a file is opened.
    opens: Mutex<DelayedOpens>,
}

/// A file that stays open for as long as this value lives.
pub struct FileInUse<'a>(RwLockReadGuard<'a, PrefetchedFile>);

impl FileInUse<'_> {
    /// The file's descriptor and its current size in 4 KiB pages.
    ///
    /// # Errors
    /// Why the file's entries must be skipped.
    pub fn opened(&self) -> Result<(BorrowedFd<'_>, u64), Skipped> {
        match &self.0.opened {
            Some(Ok((fd, pages))) => Ok((fd.as_fd(), *pages)),
            Some(Err(reason)) => Err(*reason),
            None => Err(Skipped::Refused),
        }
    }
}

impl<'a> Files<'a> {
    /// The table of a profile's files, none of them open yet; `devices` are the profile's.
    pub fn new(profile: &'a Profile, devices: &[Result<OpenDevice, Skipped>]) -> Self {
        let mut states: Vec<RwLock<PrefetchedFile>> = Vec::new();
        states.resize_with(profile.files.len(), RwLock::default);
        for (index, entry) in profile.entries.iter().enumerate() {
            if let Place::Data { file } = entry.span.place {
                let state = states[file as usize].get_mut();
                state.unwrap_or_else(PoisonError::into_inner).last_use = index;
            }
        }
        Files {
            table: &profile.files,
            states,
            outdated_images: outdated_images(devices),
            opens: Mutex::default(),
        }
    }

    /// How long another program typically delays each open; `None` while none seems to.
    pub fn delay(&self) -> Option<Duration> {
        self.opens().delay()
    }

    fn opens(&self) -> MutexGuard<'_, DelayedOpens> {
        self.opens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Index of the file's device.
    pub fn device(&self, file: u32) -> usize {
        usize::from(self.table[file as usize].device)
    }

    /// The file, which is opened on first use.
    pub fn get(&self, file: u32, device: &OpenDevice) -> FileInUse<'_> {
        let index = file as usize;
        loop {
            let state = self.state(index);
            if state.opened.is_some() {
                return FileInUse(state);
            }
            drop(state);
            self.open(index, device);
        }
    }

    fn state(&self, index: usize) -> RwLockReadGuard<'_, PrefetchedFile> {
        let state = self.states[index].read();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file, unless another thread has.
    fn open(&self, index: usize, device: &OpenDevice) {
        let learned = &self.table[index];
        let state = self.states[index].write();
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.opened.is_some() {
            return;
        }
        let is_errno = |error: &io::Error, errno| Errno::from_io_error(error) == Some(errno);
        let begun = Instant::now();
        let open = || match self.is_outdated(learned, device) {
            true => Err(Errno::STALE.into()),
            // No other inode gets the same number and generation.
            false => open_known_file(&device.mount, learned),
        };
        let opened = open();
        if opened.is_ok() && self.opens().asks_again(begun.elapsed()) {
            let (again, time) = OpenTime::of(open);
            if again.is_ok() {
                self.opens().opened_again(&time);
            }
        }
        let opened = opened.or_else(|error| {
            if !is_errno(&error, Errno::MFILE) {
                return Err(error);
            }
            self.close_unused();
            open()
        });
        state.opened = Some(match opened {
            Ok(found) => {
                state.is_stale = found.size < learned.size;
                state.is_changed = !state.is_stale && found.mtime_ns != learned.mtime_ns;
                Ok((found.fd, found.size.div_ceil(PAGE_SIZE)))
            }
            Err(error) if is_errno(&error, Errno::STALE) || is_errno(&error, Errno::NOENT) => {
                state.is_stale = true;
                Err(Skipped::Gone)
            }
            Err(_) => Err(Skipped::Refused),
        });
    }

    /// Whether an update has put another file system in the place of that in which a file lies, or whose image it is.
    fn is_outdated(&self, file: &File, device: &OpenDevice) -> bool {
        device.is_outdated || self.outdated_images.contains(&(device.dev, file.ino))
    }

    /// Closes all files that no thread uses at the moment.
    pub fn close_unused(&self) {
        for state in &self.states {
            if let Ok(mut state) = state.try_write() {
                state.opened.take_if(|opened| opened.is_ok());
            }
        }
    }

    /// Closes the file if no later entry than `entry` needs it, and no other thread uses it.
    pub fn done(&self, file: u32, entry: usize) {
        if let Ok(mut state) = self.states[file as usize].try_write()
            && state.last_use <= entry
        {
            // Only sampling looks files up out of order, and it is over by now.
            state.opened.take_if(|opened| opened.is_ok());
        }
    }

    /// Files that are gone, replaced or truncated.
    pub fn stale(&self) -> u64 {
        self.count(|state| state.is_stale)
    }

    /// Files that were modified since.
    pub fn changed(&self) -> u64 {
        self.count(|state| state.is_changed)
    }

    /// A file that is still being opened, for which nobody waits, counts as unchanged.
    fn count(&self, is_it: impl Fn(&PrefetchedFile) -> bool) -> u64 {
        let states = self.states.iter().filter_map(|state| state.try_read().ok());
        states.filter(|state| is_it(state)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::{OFlags, major, minor};

    use super::*;
    use crate::fs::mounts::{MountTable, OpenMount};
    use crate::profile::generate::sample;

    #[test]
    fn neither_what_is_inside_of_an_outdated_image_nor_the_image_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        fs::write(&path, "content").unwrap();
        let image = fs::metadata(&path).unwrap();
        let (major, minor) = (major(image.dev()), minor(image.dev()));
        // Its files have no generations, which not every file system that this may run on has.
        let line = format!("1 0 {major}:{minor} / / rw - erofs none rw\n");
        let mounts = MountTable::parse(line.as_bytes());
        let device = |image, is_outdated| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let fd = rustix::fs::open(dir.path(), flags, rustix::fs::Mode::empty()).unwrap();
            let mount = mounts.mounts()[0].clone();
            Ok(OpenDevice {
                dev: mount.dev,
                below: 0,
                mount: OpenMount { mount, fd },
                node: None,
                image,
                is_outdated,
                readahead_limit: 0,
            })
        };
        let mut profile = sample("/usr/bin/app");
        profile.files = vec![File {
            device: 0,
            ino: image.ino(),
            generation: 0,
            size: image.size(),
            mtime_ns: image.mtime() * 1_000_000_000 + image.mtime_nsec(),
            path: Some(b"/image".to_vec()),
        }];
        let inode = (image.dev(), image.ino());
        for (inside, is_gone) in [
            (device(Some(inode), false), false),
            (device(Some((inode.0, inode.1 + 1)), true), false),
            (device(None, true), false),
            (device(Some(inode), true), true),
        ] {
            let devices = [device(None, false), inside];
            let files = Files::new(&profile, &devices);
            let found = files.get(0, devices[0].as_ref().unwrap());
            let expected = if is_gone { Err(Skipped::Gone) } else { Ok(1) };
            assert_eq!(found.opened().map(|(_, pages)| pages), expected);
            drop(found);
            assert_eq!(files.stale(), u64::from(is_gone));
        }
        let devices = [device(None, true)];
        let files = Files::new(&profile, &devices);
        let found = files.get(0, devices[0].as_ref().unwrap());
        assert_eq!(found.opened().err(), Some(Skipped::Gone));
    }
}
