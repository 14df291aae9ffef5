//! The executables that are marked for the exec gate. A process that executes one is held in execve, so that a recorder
//! can be attached before the app runs.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode as FileMode, OFlags, fstat};

use crate::kernel::{ExecGate, GateError, HeldExec};

/// Device and inode number of an executable.
type Inode = (u64, u64);

/// The executables whose execve is held.
pub struct MarkedExecutables {
    /// `None` where fanotify cannot be had.
    gate: Option<ExecGate>,
    /// Their apps. No descriptors: these would keep file systems from being unmounted.
    marked: HashMap<Inode, String>,
    /// Whether paths may lead to other files by now, or files may have lost their marks.
    invalid: bool,
}

impl MarkedExecutables {
    /// No executable is marked yet.
    pub fn new(gate: Option<ExecGate>) -> Self {
        MarkedExecutables {
            gate,
            marked: HashMap::new(),
            invalid: false,
        }
    }

    /// Readable when a program is held.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.gate.as_ref().map(ExecGate::fd)
    }

    /// The programs that are held now.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn waiting(&self) -> Result<Vec<HeldExec>, GateError> {
        self.gate
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), ExecGate::waiting)
    }

    /// The app of a marked executable.
    pub fn app(&self, inode: Inode) -> Option<&String> {
        self.marked.get(&inode)
    }

    /// Has the next [`MarkedExecutables::set`] look at all executables. Called when one that should have been
    /// held was not: its file was replaced, or its file system was unmounted for a while, which loses the
    /// marks.
    pub fn invalidate(&mut self) {
        self.invalid = true;
    }

    /// Marks these apps' executables and no others. Executables that are marked already are not looked at:
    /// they may be many, and on a drive. Returns what went wrong.
    pub fn set(&mut self, apps: impl IntoIterator<Item = String>) -> Vec<String> {
        let Some(gate) = &self.gate else {
            return Vec::new();
        };
        let apps: HashSet<String> = apps.into_iter().filter(|id| id.starts_with('/')).collect();
        let anew = std::mem::take(&mut self.invalid);
        let mut held = HashMap::new();
        for (inode, id) in self.marked.drain() {
            if !apps.contains(&id) {
                // A mark ends with its file. A file that was renamed keeps it, and programs that execute it are
                // let go at once.
                if let Some((_, file)) = open_executable(&id).filter(|(now, _)| *now == inode) {
                    // It may have no mark: its file system was unmounted for a while.
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
        self.marked = held;
        warnings
    }

    /// Closes the gate: programs that are held go on, and no more are held.
    pub fn close(&mut self) {
        self.marked.clear();
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
