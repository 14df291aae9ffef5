//! Tasks that have inherited an I/O priority.
//!
//! A task gives its I/O priority to whatever it starts (`__copy_io` in block/blk-ioc.c), for good, and shares it with
//! those that share its io_context. A thread that executes a program takes the id and the start time of its process. So
//! neither id nor age tells who has the priority from us: everybody who has exactly this one and did not have it before.
//! It is of a class that only root can give, at a level that tools do not choose by themselves.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use super::io_priority::{get, set};
use crate::process::task_state;

/// Walks in a row that have to find nothing: a task that was being started during one of them is found by the next.
const CLEAN_WALKS: u32 = 2;
/// Most walks.
const MOST_WALKS: u32 = 16;
/// Most tasks that may have the priority by others.
const MOST_OTHERS: usize = 256;

/// Who may have inherited a priority of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Heirs {
    /// The user of the task that it was given.
    pub uid: u32,
    /// Tasks that had it before, as ids and start times: they keep it.
    others: Vec<(i32, u64)>,
}

impl Heirs {
    /// Those of a task that is about to be given this priority. `in_force` are those of tasks that have it from us already.
    ///
    /// # Errors
    /// When /proc cannot be read, the task has ended, or too many have the priority already.
    pub fn of(tid: i32, priority: u16, in_force: Option<&Heirs>) -> io::Result<Self> {
        let uid = owner(tid)?;
        // What has it by now has it from us.
        let others = match in_force {
            Some(known) => known.others.clone(),
            None => {
                let having = tasks_with(priority)?.into_iter();
                let states = having.filter_map(|tid| task_state(tid).ok().flatten());
                states.map(|task| (task.pid, task.start_time)).collect()
            }
        };
        match others.len() > MOST_OTHERS {
            true => Err(io::Error::other(
                "many tasks have this I/O priority already",
            )),
            false => Ok(Heirs { uid, others }),
        }
    }

    /// Gives all who have inherited the priority the old one. `kept` are tasks that have it by other changes, with the
    /// users of these: what those have started is left to them.
    ///
    /// # Errors
    /// When a priority cannot be set, or the tasks start others faster than they are found.
    pub fn set_back(&self, priority: u16, old: u16, kept: &[(i32, u32)]) -> io::Result<()> {
        if kept.iter().any(|(_, uid)| *uid == self.uid) {
            return Ok(());
        }
        let mut clean = 0;
        for _ in 0..MOST_WALKS {
            clean = if self.walk(priority, old, kept)? {
                0
            } else {
                clean + 1
            };
            if clean == CLEAN_WALKS {
                return Ok(());
            }
        }
        Err(io::Error::other(
            "what it has started keeps its I/O priority for now",
        ))
    }

    /// Walks through all tasks once. Whether one was found.
    fn walk(&self, priority: u16, old: u16, kept: &[(i32, u32)]) -> io::Result<bool> {
        let (mut found, mut failed) = (false, Ok(()));
        for tid in tasks_with(priority)? {
            match self.set_back_task(tid, old, kept) {
                Ok(is_heir) => found |= is_heir,
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed.map(|()| found)
    }

    /// Whether the task had inherited it.
    fn set_back_task(&self, tid: i32, old: u16, kept: &[(i32, u32)]) -> io::Result<bool> {
        let Some(task) = task_state(tid)? else {
            return Ok(false);
        };
        let is_kept = self.others.contains(&(tid, task.start_time))
            || kept.iter().any(|(other, _)| *other == tid)
            || (!kept.is_empty() && is_owned_by(tid, kept));
        if is_kept {
            return Ok(false);
        }
        match set(tid, old) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
            _ => Ok(true),
        }
    }
}

fn is_owned_by(tid: i32, kept: &[(i32, u32)]) -> bool {
    owner(tid).is_ok_and(|owner| kept.iter().any(|(_, uid)| *uid == owner))
}

/// The effective user of a task; root of one that may not be traced (proc(5)).
///
/// # Errors
/// ESRCH if it has ended.
fn owner(tid: i32) -> io::Result<u32> {
    match fs::metadata(format!("/proc/{tid}")) {
        Err(error) if is_gone(&error) => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        found => Ok(found?.uid()),
    }
}

/// All tasks with this priority.
///
/// # Errors
/// When /proc cannot be read.
fn tasks_with(priority: u16) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for process in ids("/proc")? {
        // It may have ended.
        let threads = match ids(&format!("/proc/{process}/task")) {
            Err(error) if is_gone(&error) => Vec::new(),
            threads => threads?,
        };
        let has_it = |tid: &i32| matches!(get(*tid), Ok(other) if other == priority);
        found.extend(threads.into_iter().filter(has_it));
    }
    Ok(found)
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The numbers in a directory of /proc.
fn ids(directory: &str) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        match entry {
            Ok(entry) => found.extend(
                entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse::<i32>().ok()),
            ),
            Err(error) if is_gone(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
