//! Attributes of a loop device's request queue, so that software sees the drive that is emulated.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::profile::DriveProfile;

/// read_ahead_kb of every drive: the kernel's own default, which distributions leave as it is.
const READ_AHEAD_KB: u32 = 128;

/// An I/O scheduler of the kernel (`queue/scheduler`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Requests go to the drive as they come.
    #[default]
    None,
    /// Reads before writes, each in order of their sectors, with deadlines.
    MqDeadline,
    /// A budget for each process, with priorities and weights.
    Bfq,
}

impl Scheduler {
    /// All of them.
    pub const ALL: [Scheduler; 3] = [Scheduler::None, Scheduler::MqDeadline, Scheduler::Bfq];

    /// As the kernel calls it.
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::None => "none",
            Scheduler::MqDeadline => "mq-deadline",
            Scheduler::Bfq => "bfq",
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scheduler {
    type Err = Error;

    fn from_str(name: &str) -> Result<Scheduler> {
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        found.with_context(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no I/O scheduler '{name}' here; there are {names}")
        })
    }
}

/// Sets what the kernel lets be set, without a scheduler. A loop device has no queue depth of its own to
/// set: there is no `device/queue_depth`, and `nr_requests` is the host's queue and at least 4.
pub(super) fn describe(name: &str, profile: &DriveProfile) -> Result<()> {
    let queue = queue(name);
    schedule(name, profile, Scheduler::None)?;
    if profile.is_emulated() {
        let rotational = if profile.heads.is_some() { "1" } else { "0" };
        set(&queue.join("rotational"), rotational)?;
    }
    set(&queue.join("read_ahead_kb"), &READ_AHEAD_KB.to_string())
}

/// Chooses the scheduler, and the depth of its queue as the kernel chooses it for such a drive.
///
/// Two depths hide behind the one attribute. Without a scheduler, `nr_requests` is the number of tags,
/// that is of requests that the drive is given at a time; with one, it is the length of the scheduler's
/// queue, while the tags stay what they were. Each choice of a scheduler, of `none` as well, sets the
/// attribute to the kernel's default. So the tags are set first, without a scheduler.
pub(super) fn schedule(name: &str, profile: &DriveProfile, scheduler: Scheduler) -> Result<()> {
    choose(name, Scheduler::None.name())?;
    if let Some(tags) = profile.nr_requests {
        set_requests(name, tags)?;
    }
    if scheduler == Scheduler::None {
        return Ok(());
    }
    choose(name, scheduler.name())?;
    match profile.queued_requests() {
        Some(queued) => set_requests(name, queued),
        None => Ok(()),
    }
}

/// Chooses the scheduler alone, by the kernel's name.
pub(super) fn choose(name: &str, scheduler: &str) -> Result<()> {
    let path = queue(name).join("scheduler");
    set(&path, scheduler)?;
    let in_force = chosen(name)?;
    ensure!(
        in_force == scheduler,
        "{} says '{in_force}' after {scheduler} was chosen",
        path.display()
    );
    Ok(())
}

/// The scheduler in force, by the kernel's name.
pub(super) fn chosen(name: &str) -> Result<String> {
    Ok(in_brackets(&read(&queue(name).join("scheduler"))?).to_owned())
}

/// The one in force stands in brackets; where there is no other, it may stand alone.
fn in_brackets(offered: &str) -> &str {
    let mut words = offered.split_whitespace();
    let found = words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    found.unwrap_or(offered)
}

fn set_requests(name: &str, requests: u32) -> Result<()> {
    let path = queue(name).join("nr_requests");
    set(&path, &requests.to_string())?;
    let in_force = read(&path)?;
    if in_force != requests.to_string() {
        bail!(
            "{} is {in_force} after {requests} was written to it",
            path.display()
        );
    }
    Ok(())
}

fn queue(name: &str) -> PathBuf {
    PathBuf::from("/sys/block").join(name).join("queue")
}

fn set(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value).with_context(|| format!("writing {value} to {}", path.display()))
}

fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_in_force_stands_in_brackets_or_alone() {
        assert_eq!(in_brackets("none [mq-deadline] bfq"), "mq-deadline");
        assert_eq!(in_brackets("none"), "none");
    }

    #[test]
    fn schedulers_have_the_kernels_names() {
        for scheduler in Scheduler::ALL {
            assert_eq!(
                scheduler.to_string().parse::<Scheduler>().unwrap(),
                scheduler
            );
        }
        let error = "cfq".parse::<Scheduler>().unwrap_err().to_string();
        assert!(
            error.contains("'cfq'") && error.contains("mq-deadline"),
            "{error}"
        );
    }
}
