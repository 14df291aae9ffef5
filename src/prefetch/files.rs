//! The profile's files, opened by handle on first use.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::devices::OpenDevice;
use crate::fs::handle;
use crate::model::Skipped;
use crate::model::{File, Profile};
use crate::model::{PAGE_SIZE, Place};

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

/// A file's state.
enum OpenState {
    Unopened,
    Open { fd: OwnedFd, pages: u64 },
    Unusable(Skipped),
}

/// The open files of a running prefetch.
pub struct Files<'a> {
    table: &'a [File],
    states: Vec<OpenState>,
    /// For each file, the last entry of the schedule that needs it.
    last_use: Vec<usize>,
    verdicts: Vec<FileVerdict>,
}

/// A file compared with its state when it was learned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileVerdict {
    /// Not opened yet.
    Unknown,
    /// Size and modification time are the same.
    Same,
    /// Modified since, but not shorter: its entries are still prefetched.
    Changed,
    /// Gone, replaced or truncated.
    Stale,
}

impl<'a> Files<'a> {
    /// The table of a profile's files, none of them open yet.
    pub fn new(profile: &'a Profile) -> Self {
        let mut last_use = vec![0; profile.files.len()];
        for (index, entry) in profile.entries.iter().enumerate() {
            if let Place::Data { file } = entry.span.place {
                last_use[file as usize] = index;
            }
        }
        Files {
            table: &profile.files,
            states: profile.files.iter().map(|_| OpenState::Unopened).collect(),
            last_use,
            verdicts: vec![FileVerdict::Unknown; profile.files.len()],
        }
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
        if matches!(self.states[index], OpenState::Unopened) {
            let opened = match open(&self.table[index], device) {
                Err(Failed::TooMany) => {
                    self.close_all();
                    open(&self.table[index], device)
                }
                other => other,
            };
            self.states[index] = match opened {
                Ok((fd, size, mtime_ns)) => {
                    let learned = &self.table[index];
                    self.verdicts[index] = if size < learned.size {
                        FileVerdict::Stale
                    } else if mtime_ns != learned.mtime_ns {
                        FileVerdict::Changed
                    } else {
                        FileVerdict::Same
                    };
                    OpenState::Open {
                        fd,
                        pages: size.div_ceil(PAGE_SIZE),
                    }
                }
                Err(Failed::TooMany) => OpenState::Unusable(Skipped::Refused),
                Err(Failed::Skip(reason)) => {
                    if reason == Skipped::Gone {
                        self.verdicts[index] = FileVerdict::Stale;
                    }
                    OpenState::Unusable(reason)
                }
            };
        }
        match &self.states[index] {
            OpenState::Open { fd, pages } => Ok((fd.as_fd(), *pages)),
            OpenState::Unusable(reason) => Err(*reason),
            OpenState::Unopened => Err(Skipped::Refused),
        }
    }

    /// Closes the file if no later entry than `entry` needs it.
    pub fn done(&mut self, file: u32, entry: usize) {
        let index = file as usize;
        if self.last_use[index] <= entry && matches!(self.states[index], OpenState::Open { .. }) {
            // Only sampling looks files up out of order, and it is over by now.
            self.states[index] = OpenState::Unopened;
        }
    }

    /// Files that are gone, replaced or truncated.
    pub fn stale(&self) -> u64 {
        self.count(FileVerdict::Stale)
    }

    /// Files that were modified since.
    pub fn changed(&self) -> u64 {
        self.count(FileVerdict::Changed)
    }

    fn count(&self, verdict: FileVerdict) -> u64 {
        self.verdicts
            .iter()
            .filter(|&&found| found == verdict)
            .count() as u64
    }

    fn close_all(&mut self) {
        for state in &mut self.states {
            if matches!(state, OpenState::Open { .. }) {
                *state = OpenState::Unopened;
            }
        }
    }
}

/// Why a file was not opened.
enum Failed {
    /// The process has too many files open.
    TooMany,
    /// The file cannot be used.
    Skip(Skipped),
}

/// The file, its size in bytes and its time of modification in nanoseconds since the epoch.
fn open(file: &File, device: &OpenDevice) -> Result<(OwnedFd, u64, i64), Failed> {
    // The handle names the inode that was learned as a regular file: no other inode gets the same
    // number and generation. NONBLOCK and the check below guard against a forged profile.
    let flags = OFlags::RDONLY
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::NOATIME
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC;
    let fd =
        handle::open_by_ino(device.mount(), file.ino, file.generation, flags).map_err(|error| {
            match Errno::from_io_error(&error) {
                Some(Errno::MFILE) => Failed::TooMany,
                Some(Errno::STALE | Errno::NOENT) => Failed::Skip(Skipped::Gone),
                _ => Failed::Skip(Skipped::Refused),
            }
        })?;
    let refused = Failed::Skip(Skipped::Refused);
    let Ok(stat) = fstat(&fd) else {
        return Err(refused);
    };
    // A removed file that another process keeps open has no links.
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink == 0 {
        return Err(Failed::Skip(Skipped::Gone));
    }
    let size = u64::try_from(stat.st_size).map_err(|_| refused)?;
    let mtime_ns = stat.st_mtime * 1_000_000_000 + stat.st_mtime_nsec as i64;
    Ok((fd, size, mtime_ns))
}
