//! Processor time of a launch tree.

use std::collections::HashMap;
use std::fs;

use anyhow::{Context, Result};

/// What /proc/PID/stat says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    pid: u32,
    parent: u32,
    /// Of the process and of its children that have ended and were waited for, in clock ticks.
    ticks: u64,
}

/// Processor time that all processes that descend from this one have used, and those of them that
/// have ended, in seconds.
///
/// # Errors
/// When /proc cannot be read.
pub fn cpu_of_descendants() -> Result<f64> {
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
    let ticks = sum(&found, std::process::id());
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Processor time of one process, in seconds.
///
/// # Errors
/// When there is no such process.
pub fn cpu_of(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let stat = parse(&text).with_context(|| format!("cannot make sense of {path}"))?;
    Ok(stat.ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// From the text of /proc/PID/stat (proc(5)).
fn parse(text: &str) -> Option<Stat> {
    // The name is in parentheses and may hold any character.
    let (pid, rest) = text.split_once(' ')?;
    let fields: Vec<&str> = rest[rest.rfind(')')? + 1..].split_whitespace().collect();
    let times = fields.get(11..15)?;
    Some(Stat {
        pid: pid.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        ticks: times.iter().map(|time| time.parse().unwrap_or(0)).sum(),
    })
}

fn sum(processes: &[Stat], ancestor: u32) -> u64 {
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
        .map(|process| process.ticks)
        .sum()
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
                ticks: 124
            })
        );
        assert_eq!(parse("7 (x"), None);
    }

    #[test]
    fn descendants_are_summed() {
        let process = |pid, parent| Stat {
            pid,
            parent,
            ticks: u64::from(pid),
        };
        let all = [
            process(2, 1),
            process(10, 2),
            process(20, 10),
            process(30, 1),
            process(5, 5),
        ];
        assert_eq!(sum(&all, 2), 30);
        assert_eq!(sum(&all, 1), 62);
    }

    #[test]
    fn this_process_has_used_time() {
        assert!(cpu_of(std::process::id()).unwrap() >= 0.0);
        assert!(cpu_of_descendants().unwrap() >= 0.0);
    }
}
