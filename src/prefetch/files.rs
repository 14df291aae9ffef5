//! The profile's files, opened on first use.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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

/// The open files of a running prefetch.
pub struct Files<'a> {
    table: &'a [File],
    states: Vec<PrefetchedFile>,
    /// Looks for a program that has to be asked before a file is opened.
    opens: DelayedOpens,
}

impl<'a> Files<'a> {
    /// The table of a profile's files, none of them open yet.
    pub fn new(profile: &'a Profile) -> Self {
        let mut states: Vec<PrefetchedFile> = Vec::new();
        states.resize_with(profile.files.len(), PrefetchedFile::default);
        for (index, entry) in profile.entries.iter().enumerate() {
            if let Place::Data { file } = entry.span.place {
                states[file as usize].last_use = index;
            }
        }
        Files {
            table: &profile.files,
            states,
            opens: DelayedOpens::default(),
        }
    }

    /// How long another program typically delays each open; `None` while none seems to.
    pub fn delay(&self) -> Option<Duration> {
        self.opens.delay()
    }

    /// Index of the file's device.
    pub fn device(&self, file: u32) -> usize {
        usize::from(self.table[file as usize].device)
    }

    /// The file's descriptor and its current size in 4 KiB pages; opens it on first use.
    ///
    /// # Errors
    /// Why the file's entries must be skipped.
    pub fn get(
        &mut self,
        file: u32,
        device: &OpenDevice,
    ) -> Result<(BorrowedFd<'_>, u64), Skipped> {
        let index = file as usize;
        if self.states[index].opened.is_none() {
            self.open(index, device);
        }
        match &self.states[index].opened {
            Some(Ok((fd, pages))) => Ok((fd.as_fd(), *pages)),
            Some(Err(reason)) => Err(*reason),
            None => Err(Skipped::Refused),
        }
    }

    fn open(&mut self, index: usize, device: &OpenDevice) {
        let learned = &self.table[index];
        let is_errno = |error: &io::Error, errno| Errno::from_io_error(error) == Some(errno);
        let begun = Instant::now();
        let opened = open(learned, device);
        if opened.is_ok() && self.opens.asks_again(begun.elapsed()) {
            let (again, time) = OpenTime::of(|| open(learned, device));
            if again.is_ok() {
                self.opens.opened_again(&time);
            }
        }
        let opened = opened.or_else(|error| {
            if !is_errno(&error, Errno::MFILE) {
                return Err(error);
            }
            for state in &mut self.states {
                state.opened.take_if(|opened| opened.is_ok());
            }
            open(learned, device)
        });
        let state = &mut self.states[index];
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

    /// Closes the file if no later entry than `entry` needs it.
    pub fn done(&mut self, file: u32, entry: usize) {
        let state = &mut self.states[file as usize];
        if state.last_use <= entry {
            // Only sampling looks files up out of order, and it is over by now.
            state.opened.take_if(|opened| opened.is_ok());
        }
    }

    /// Files that are gone, replaced or truncated.
    pub fn stale(&self) -> u64 {
        self.states.iter().filter(|state| state.is_stale).count() as u64
    }

    /// Files that were modified since.
    pub fn changed(&self) -> u64 {
        self.states.iter().filter(|state| state.is_changed).count() as u64
    }
}

/// Opens the inode that was learned as a regular file: no other gets the same number and generation.
fn open(file: &File, device: &OpenDevice) -> io::Result<CachedFile> {
    open_known_file(&device.mount, file)
}
