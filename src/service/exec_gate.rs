//! Which executables are held at their execve, so that learning can begin before the app runs.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode as FileMode, OFlags, fstat};

use crate::kernel::{ExecGate, GateError, HeldExec};

/// Device and inode number of an executable.
type Inode = (u64, u64);

/// The executables that are held.
pub(super) struct Holding {
    /// `None` where fanotify cannot be had.
    gate: Option<ExecGate>,
    /// Whose they are. No descriptors: they would keep file systems from being unmounted.
    held: HashMap<Inode, String>,
    /// Whether executables may be other files by now, or have lost their marks.
    doubted: bool,
}

impl Holding {
    /// Nothing is held yet.
    pub fn new(gate: Option<ExecGate>) -> Self {
        Holding {
            gate,
            held: HashMap::new(),
            doubted: false,
        }
    }

    /// Readable when somebody waits.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.gate.as_ref().map(ExecGate::fd)
    }

    /// Those who wait now.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn waiting(&self) -> Result<Vec<HeldExec>, GateError> {
        self.gate
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), ExecGate::waiting)
    }

    /// The app that is held for this executable.
    pub fn app(&self, inode: Inode) -> Option<&String> {
        self.held.get(&inode)
    }

    /// The next [`Holding::set`] looks at all executables: one that should have been held was not. Its file
    /// was replaced, or its file system was unmounted for a while, which loses the marks.
    pub fn invalidate(&mut self) {
        self.doubted = true;
    }

    /// Holds these apps' executables and no others. Those that are held already are not looked at: they
    /// may be many, and on a drive. Returns what went wrong.
    pub fn set(&mut self, apps: impl IntoIterator<Item = String>) -> Vec<String> {
        let Some(gate) = &self.gate else {
            return Vec::new();
        };
        let apps: HashSet<String> = apps.into_iter().filter(|id| id.starts_with('/')).collect();
        let anew = std::mem::take(&mut self.doubted);
        let mut held = HashMap::new();
        for (inode, id) in self.held.drain() {
            if !apps.contains(&id) {
                // A mark goes with its file. One that was only renamed keeps it, and whoever executes it is
                // let go at once.
                if let Some((_, file)) = open_executable(&id).filter(|(now, _)| *now == inode) {
                    // With its file system unmounted for a while, it may have none.
                    let _ = gate.remove(file.as_fd());
                }
            } else if !anew {
                held.insert(inode, id);
            }
        }
        let mut warnings = Vec::new();
        let known: HashSet<&String> = held.values().collect();
        let unknown: Vec<&String> = apps.iter().filter(|id| !known.contains(id)).collect();
        for id in unknown {
            let Some((inode, file)) = open_executable(id) else {
                continue;
            };
            match gate.add(file.as_fd()) {
                Ok(()) => drop(held.insert(inode, id.clone())),
                Err(error) => warnings.push(format!("{id}: {error}")),
            }
        }
        self.held = held;
        warnings
    }

    /// Holds nothing any more: programs that wait go on.
    pub fn end(&mut self) {
        self.held.clear();
        self.gate = None;
    }
}

/// An app's executable, if there is one, and its device and inode number.
fn open_executable(id: &str) -> Option<(Inode, OwnedFd)> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = rustix::fs::open(id, flags, FileMode::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then_some(((stat.st_dev, stat.st_ino), file))
}
