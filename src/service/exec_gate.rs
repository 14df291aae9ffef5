//! The executables that are marked for the exec gate. A process that executes one is held in execve, so that a recorder
//! can be attached before the app runs, or what it begins with can be read.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;

use super::executables::{ExecutableFinder, MarkedInodes};
use super::roots::Inode;
use crate::kernel::{ExecGate, HeldExec};

/// The executables whose execve is held.
pub struct MarkedExecutables {
    /// `None` where fanotify cannot be had.
    gate: Option<ExecGate>,
    /// As the thread that marks them has said last.
    marked: MarkedInodes,
    /// The apps whose executables are to be marked.
    wanted: HashSet<String>,
    /// Whether paths may lead to other files by now, or files may have lost their marks.
    invalid: bool,
    /// Requests to the thread that it has not answered.
    pending: u64,
}

impl MarkedExecutables {
    /// No executable is marked yet.
    pub fn new(gate: Option<ExecGate>) -> Self {
        MarkedExecutables {
            gate,
            marked: MarkedInodes::new(),
            wanted: HashSet::new(),
            invalid: false,
            pending: 0,
        }
    }

    /// The gate, unless fanotify cannot be had or it is closed.
    pub fn gate(&self) -> Option<&ExecGate> {
        self.gate.as_ref()
    }

    /// Readable when a program is held.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.gate.as_ref().map(ExecGate::fd)
    }

    /// The programs that were held since the last call.
    pub fn waiting(&self) -> Vec<HeldExec> {
        let gate = self.gate.as_ref();
        gate.map_or_else(Vec::new, |gate| gate.waiting().collect())
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

    /// Has these apps' executables marked and no others. Executables that are marked already are not looked at:
    /// they may be many, and on a drive.
    pub fn set(&mut self, apps: impl IntoIterator<Item = String>, finder: &ExecutableFinder) {
        let apps: HashSet<String> = apps.into_iter().filter(|id| id.starts_with('/')).collect();
        let anew = std::mem::take(&mut self.invalid);
        if self.gate.is_some() && (anew || apps != self.wanted) {
            self.wanted.clone_from(&apps);
            self.pending += 1;
            finder.mark(apps, anew);
        }
    }

    /// These executables are marked now, as an earlier [`MarkedExecutables::set`] has asked for.
    pub fn set_marked(&mut self, marked: MarkedInodes) {
        self.marked = marked;
        self.pending -= 1;
    }

    /// Whether all that are to be marked are marked.
    pub fn is_settled(&self) -> bool {
        self.pending == 0
    }

    /// Closes the gate: programs that are held go on, and no more are held.
    pub fn close(&mut self) {
        self.marked.clear();
        self.gate = None;
    }
}
