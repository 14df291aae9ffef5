//! The profile's files, opened on first use.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::delayed_opens::{DelayedOpens, OpenTime};
use super::devices::OpenDevice;
use crate::fs::handle::{CachedFile, open_known_file};
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
    /// It is gone, replaced or truncated since it was learned.
    is_stale: bool,
    /// It was modified since, but is not shorter: its entries are still prefetched.
    is_changed: bool,
}

/// The open files of a running prefetch, which several threads may use.
pub struct Files<'a> {
    table: &'a [File],
    /// Who reads a file ahead keeps it from being closed meanwhile.
    states: Vec<RwLock<PrefetchedFile>>,
    /// Looks for a program that has to be asked before a file is opened.
    opens: Mutex<DelayedOpens>,
}

/// A file that stays open for as long as this value lives.
pub struct FileInUse<'a>(RwLockReadGuard<'a, PrefetchedFile>);

impl FileInUse<'_> {
    /// Its descriptor and its current size in 4 KiB pages.
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
    /// The table of a profile's files, none of them open yet.
    pub fn new(profile: &'a Profile) -> Self {
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
        let opened = open(learned, device);
        if opened.is_ok() && self.opens().asks_again(begun.elapsed()) {
            let (again, time) = OpenTime::of(|| open(learned, device));
            if again.is_ok() {
                self.opens().opened_again(&time);
            }
        }
        let opened = opened.or_else(|error| {
            if !is_errno(&error, Errno::MFILE) {
                return Err(error);
            }
            self.close_unused();
            open(learned, device)
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

/// Opens the inode that was learned as a regular file: no other gets the same number and generation.
fn open(file: &File, device: &OpenDevice) -> io::Result<CachedFile> {
    if device.is_outdated {
        return Err(Errno::STALE.into());
    }
    open_known_file(&device.mount, file)
}
