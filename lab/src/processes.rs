//! Processor time of processes and launch trees, from proc(5).

use std::collections::HashMap;
use std::fs;
use std::ops::{Add, Sub};

use anyhow::{Context, Result};

/// What /proc/PID/stat says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    pid: u32,
    parent: u32,
    /// In user mode, of the process and of its children that have ended and were waited for, in clock ticks.
    user: u64,
    /// Processor time of theirs in the kernel.
    system: u64,
}

/// Processor time, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

impl CpuTime {
    /// Of both kinds.
    pub fn total(self) -> f64 {
        self.user + self.system
    }

    fn of_ticks(user: u64, system: u64) -> CpuTime {
        let seconds = |ticks| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        CpuTime {
            user: seconds(user),
            system: seconds(system),
        }
    }
}

impl Add for CpuTime {
    type Output = CpuTime;

    fn add(self, other: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user + other.user,
            system: self.system + other.system,
        }
    }
}

impl Sub for CpuTime {
    type Output = CpuTime;

    fn sub(self, other: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user - other.user,
            system: self.system - other.system,
        }
    }
}

/// Processor time that all processes that descend from this one have used, and those of them that
/// have ended.
///
/// # Errors
/// When /proc cannot be read.
pub fn cpu_of_descendants() -> Result<CpuTime> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("cannot read /proc")? {
        let name = entry?.file_name();
        if name
            .to_string_lossy()
            .bytes()
            .all(|byte| byte.is_ascii_digit())
        {
            // A process that has ended meanwhile has no file any more.
            let text = fs::read_to_string(format!("/proc/{}/stat", name.to_string_lossy()));
            found.extend(text.ok().as_deref().and_then(parse));
        }
    }
    let (user, system) = sum(&found, std::process::id());
    Ok(CpuTime::of_ticks(user, system))
}

/// Processor time of one process.
///
/// # Errors
/// When there is no such process.
pub fn cpu_of(pid: u32) -> Result<CpuTime> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let stat = parse(&text).with_context(|| format!("cannot make sense of {path}"))?;
    Ok(CpuTime::of_ticks(stat.user, stat.system))
}

/// From the text of /proc/PID/stat (proc(5)).
fn parse(text: &str) -> Option<Stat> {
    // The name is in parentheses and may hold any character.
    let (pid, rest) = text.split_once(' ')?;
    let fields: Vec<&str> = rest[rest.rfind(')')? + 1..].split_whitespace().collect();
    let times = fields.get(11..15)?;
    // utime, stime, cutime, cstime; the last two may be negative on old kernels.
    let ticks = |index: usize| times[index].parse::<u64>().unwrap_or(0);
    Some(Stat {
        pid: pid.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        user: ticks(0) + ticks(2),
        system: ticks(1) + ticks(3),
    })
}

fn sum(processes: &[Stat], ancestor: u32) -> (u64, u64) {
    let parents: HashMap<u32, u32> = processes.iter().map(|p| (p.pid, p.parent)).collect();
    let descends = |mut pid: u32| {
        // No chain is longer than the table, whatever it holds.
        for _ in 0..processes.len() {
            match parents.get(&pid) {
                Some(&parent) if parent == ancestor => return true,
                Some(&parent) => pid = parent,
                None => return false,
            }
        }
        false
    };
    processes
        .iter()
        .filter(|process| descends(process.pid))
        .fold((0, 0), |(user, system), process| {
            (user + process.user, system + process.system)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let text = "7 (a) b (c) S 3 7 7 0 -1 4 1 2 3 4 100 20 3 1 20 0 1 0 55 0 0";
        assert_eq!(
            parse(text),
            Some(Stat {
                pid: 7,
                parent: 3,
                user: 103,
                system: 21
            })
        );
        assert_eq!(parse("7 (x"), None);
    }

    #[test]
    fn descendants_are_summed() {
        let process = |pid, parent| Stat {
            pid,
            parent,
            user: u64::from(pid),
            system: u64::from(pid) / 10,
        };
        let all = [
            process(2, 1),
            process(10, 2),
            process(20, 10),
            process(30, 1),
            process(5, 5),
        ];
        assert_eq!(sum(&all, 2), (30, 3));
        assert_eq!(sum(&all, 1), (62, 6));
    }

    #[test]
    fn this_process_has_used_time() {
        assert!(cpu_of(std::process::id()).unwrap().total() >= 0.0);
        assert!(cpu_of_descendants().unwrap().total() >= 0.0);
    }
}
