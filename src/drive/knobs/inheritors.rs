//! Tasks that have inherited an I/O priority.
//!
//! A task gives its I/O priority to whatever it starts (`copy_io` in kernel/fork.c), for good. So what a task has started
//! while its priority was changed is looked for when the change is undone: it has exactly that priority, and is younger
//! than the change. The class is one that only root can give, at a level that tools do not choose by themselves.

use std::fs;
use std::io;

use rustix::param::clock_ticks_per_second;

use super::io_priority::{get, set};
use crate::process::{Clocks, task_state};

/// Walks in a row that have to find nothing: a task that was being started during one of them is found by the next.
const CLEAN_WALKS: u32 = 2;
/// Most walks.
const MOST_WALKS: u32 = 16;

const NS_PER_S: u64 = 1_000_000_000;

/// A priority that tasks may have inherited.
pub(super) struct InheritedPriority<'a> {
    /// As the kernel has it.
    pub priority: u16,
    /// What they would have inherited otherwise.
    pub old: u16,
    /// Since when, in clock ticks since boot.
    pub since: u64,
    /// Tasks that were given the priority themselves.
    pub kept: &'a [i32],
}

/// Now, in clock ticks since boot, as the start times of tasks are given.
pub(super) fn now() -> u64 {
    Clocks::now().boottime_ns / (NS_PER_S / clock_ticks_per_second())
}

impl InheritedPriority<'_> {
    /// Gives all of them the old priority.
    ///
    /// # Errors
    /// When a priority cannot be set, or the tasks start others faster than they are found.
    pub fn set_back(&self) -> io::Result<()> {
        let mut clean = 0;
        for _ in 0..MOST_WALKS {
            clean = if self.walk()? { 0 } else { clean + 1 };
            if clean == CLEAN_WALKS {
                return Ok(());
            }
        }
        Err(io::Error::other(
            "what it has started keeps its I/O priority for now",
        ))
    }

    /// Walks through all tasks once. Whether one was found.
    fn walk(&self) -> io::Result<bool> {
        let mut found = false;
        for process in ids("/proc") {
            for tid in ids(&format!("/proc/{process}/task")) {
                found |= self.set_back_task(tid)?;
            }
        }
        Ok(found)
    }

    /// Whether the task had inherited it.
    fn set_back_task(&self, tid: i32) -> io::Result<bool> {
        // Most tasks have another priority: their start times are not read.
        let has_it = |tid| matches!(get(tid), Ok(priority) if priority == self.priority);
        if self.kept.contains(&tid) || !has_it(tid) {
            return Ok(false);
        }
        let task = task_state(tid)?;
        if task.is_none_or(|task| task.start_time < self.since) {
            return Ok(false);
        }
        match set(tid, self.old) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
            _ => Ok(true),
        }
    }
}

/// The numbers in a directory of /proc; none if its process has ended.
fn ids(directory: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
