//! The process table, from /proc.

use std::collections::HashSet;
use std::io;
use std::{fs, str};

use crate::fs::virtual_file;

/// A process or thread, as /proc/PID/stat tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskState {
    /// Id of the process or thread.
    pub pid: i32,
    /// Id of its parent process.
    pub parent: i32,
    /// `R` runs, or is ready to; `D` sleeps uninterruptibly, as in a wait for a drive; `Z` has ended and waits
    /// to be reaped; and others.
    pub state: u8,
    /// Processor time that it has had, in clock ticks.
    pub ticks: u64,
    /// Clock ticks since boot. With the process id it names this very process.
    pub start_time: u64,
}

impl TaskState {
    /// Whether it is one process, although its parent may have changed.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.pid, self.start_time) == (other.pid, other.start_time)
    }

    /// Whether it has ended.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// All processes. Those that start or end meanwhile may be missing.
pub(super) fn all() -> io::Result<Vec<TaskState>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
            processes.extend(one(pid)?);
        }
    }
    Ok(processes)
}

/// The process or thread with this id; `None` if it does not exist.
pub(crate) fn one(pid: i32) -> io::Result<Option<TaskState>> {
    match virtual_file::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => parse_stat(&stat).map(Some).ok_or_else(|| {
            let text = format!("/proc/{pid}/stat is not as proc(5) describes it");
            io::Error::new(io::ErrorKind::InvalidData, text)
        }),
        // A process that ends between open and read gives ESRCH.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Parses /proc/PID/stat. The process's name stands in parentheses and may hold anything, further ones included.
pub fn parse_stat(stat: &[u8]) -> Option<TaskState> {
    let open = stat.iter().position(|&byte| byte == b'(')?;
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let pid = str::from_utf8(&stat[..open]).ok()?.trim().parse().ok()?;
    let rest = str::from_utf8(stat.get(close + 1..)?).ok()?;
    // From here on: state, parent, 12th and 13th the time as user and in the kernel, 20th the start time.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some(TaskState {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        state: *fields.first()?.as_bytes().first()?,
        ticks: number(11)?.saturating_add(number(12)?),
        start_time: number(19)?,
    })
}

/// The ones of `processes` that descend from `ancestor`, without the `spared` and their descendants.
pub(super) fn descendants(
    processes: &[TaskState],
    ancestor: i32,
    spared: &[TaskState],
) -> Vec<TaskState> {
    let is_spared = |process: &TaskState| spared.iter().any(|spared| spared.is_same(process));
    let mut found: Vec<TaskState> = Vec::new();
    let mut parents = vec![ancestor];
    // Each process has one parent, so none can be found twice, whatever the table holds.
    while let Some(parent) = parents.pop() {
        for &process in processes {
            let known = process.pid == ancestor || found.iter().any(|f| f.pid == process.pid);
            if process.parent == parent && !known && !is_spared(&process) {
                parents.push(process.pid);
                found.push(process);
            }
        }
    }
    found
}

/// This process, its ancestors and its descendants.
#[derive(Clone, Debug)]
pub struct Kin(HashSet<i32>);

impl Kin {
    /// As they are now.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn of_this_process() -> io::Result<Self> {
        let own = rustix::process::getpid();
        Ok(Kin::of(&all()?, own.as_raw_pid()))
    }

    fn of(processes: &[TaskState], own: i32) -> Self {
        let below = descendants(processes, own, &[]).into_iter();
        let mut kin: HashSet<i32> = below.map(|process| process.pid).collect();
        let mut next = own;
        // Pids come round again: the table may have a loop where it was read while they did.
        while kin.insert(next) {
            let found = processes.iter().find(|process| process.pid == next);
            let Some(process) = found else { break };
            next = process.parent;
        }
        Kin(kin)
    }

    /// Whether a process is one of them.
    pub fn contains(&self, pid: i32) -> bool {
        self.0.contains(&pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> TaskState {
        TaskState {
            pid,
            parent,
            state: b'S',
            ticks: 0,
            start_time: 5,
        }
    }

    #[test]
    fn names_cannot_confuse_the_parser() {
        let names: [&[u8]; 6] = [
            b"sh",
            b"a b",
            b") Z 1 (",
            "\u{e4}".as_bytes(),
            b"",
            b"\xff\xfe",
        ];
        for (name, state) in names.into_iter().zip(*b"RDZSRD") {
            let fields = format!(
                ") {} 7 1 1 0 -1 0 0 0 0 0 10 20 7 7 20 0 1 0 4711 0 0\n",
                state as char
            );
            let expected = TaskState {
                state,
                ticks: 30,
                start_time: 4711,
                ..process(42, 7)
            };
            let found = parse_stat(&[b"42 (", name, fields.as_bytes()].concat()).unwrap();
            assert_eq!(found, expected);
            assert_eq!(found.is_zombie(), state == b'Z');
        }
        for damaged in [
            "",
            "42",
            "42 (sh",
            "42 (sh)",
            "x (sh) R 7",
            ")(",
            "42 (sh) R 7 1",
        ] {
            assert_eq!(parse_stat(damaged.as_bytes()), None, "{damaged:?}");
        }
    }

    #[test]
    fn kin_are_those_above_and_below() {
        let table = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 2), (6, 1)];
        let kin = Kin::of(&table.map(|(pid, parent)| process(pid, parent)), 3);
        let found: Vec<i32> = (1..=6).filter(|&pid| kin.contains(pid)).collect();
        assert_eq!(found, [1, 2, 3, 4]);
        let looped = [process(7, 8), process(8, 7)];
        assert!(Kin::of(&looped, 7).contains(8));
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let table = [(9, 8), (8, 3), (3, 1), (4, 1), (2, 2)];
        let table = table.map(|(pid, parent)| process(pid, parent));
        let pids = |spared: &[TaskState]| {
            let found = descendants(&table, 1, spared);
            let mut pids: Vec<i32> = found.iter().map(|process| process.pid).collect();
            pids.sort_unstable();
            pids
        };
        assert_eq!(pids(&[]), [3, 4, 8, 9]);
        assert_eq!(pids(&[process(8, 3)]), [3, 4]);
        // The id of a spared process that has passed to another is not spared.
        let earlier = TaskState {
            start_time: 4,
            ..process(8, 3)
        };
        assert_eq!(pids(&[earlier]), [3, 4, 8, 9]);
    }

    #[test]
    fn we_are_in_the_table() {
        let us = rustix::process::getpid().as_raw_pid();
        let table = all().unwrap();
        let found = table.iter().find(|process| process.pid == us).unwrap();
        assert!(!found.is_zombie() && one(us).unwrap().unwrap().is_same(found));
    }
}
