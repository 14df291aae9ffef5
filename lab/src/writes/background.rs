//! The writer as whoever measures beside it sees it: started until it is under way, its throughput, ended.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Pid;

use super::dirty::Dirty;
use super::writer::{Kind, WriterJob};
use crate::child::{die_with_parent, end};
use crate::record::Throughput;

/// How much the drive must have written before a writer counts as under way, in bytes.
const UNDER_WAY: u64 = 64 << 20;
/// Bytes that a writer with many small fsyncs must have written.
const UNDER_WAY_FSYNCS: u64 = 2 << 20;

/// Longest wait for that.
const PATIENCE: Duration = Duration::from_secs(120);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Where systemd says that it manages the system (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
/// There with cgroups of version 2 alone.
const CGROUP_2: &str = "/sys/fs/cgroup/cgroup.controllers";

/// A writer at work, in a process and, where systemd manages cgroups of version 2, in a scope of its own. It
/// ends, and its files go, when this is dropped.
#[derive(Debug)]
pub struct Background {
    child: Child,
    directory: PathBuf,
    drive: String,
}

/// What had been written at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    at: Instant,
    drive: u64,
    writer: u64,
}

impl Background {
    /// Starts writing, and returns once the drive, by its kernel name, is busy with it and as much is dirty as
    /// the kernel lets be: from then on it takes what the drive writes. `lab` is the program whose
    /// subcommand writes.
    ///
    /// # Errors
    /// When the files cannot be written, or the drive does not become busy within two minutes.
    pub fn start(job: &WriterJob, drive: &str, lab: &Path) -> Result<Self> {
        let mut command = command(lab, serde_json::to_string(job)?);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        die_with_parent(&mut command, &[]);
        let before = written(drive)?;
        let mut writer = Background {
            child: command.spawn().context("cannot start the writer")?,
            directory: job.directory.clone(),
            drive: drive.to_owned(),
        };
        let begun = Instant::now();
        while !is_under_way(job, written(drive)? - before)? {
            writer.check()?;
            if begun.elapsed() > PATIENCE {
                bail!(
                    "the drive is not busy {} s after the writer began",
                    PATIENCE.as_secs()
                );
            }
            thread::sleep(LOOK);
        }
        Ok(writer)
    }

    /// Process id of the writer.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// What has been written so far.
    ///
    /// # Errors
    /// When the writer has ended.
    pub fn mark(&mut self) -> Result<Mark> {
        self.check()?;
        Ok(Mark {
            at: Instant::now(),
            drive: written(&self.drive)?,
            writer: handed_over(self.child.id())?,
        })
    }

    /// What has been written since.
    ///
    /// # Errors
    /// When the writer has ended.
    pub fn since(&mut self, before: Mark) -> Result<Throughput> {
        let now = self.mark()?;
        Ok(throughput(before, now))
    }

    fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the background writer has ended: {status}"),
        }
    }

    /// Ends it and removes its files: with them goes what has not been written yet.
    ///
    /// # Errors
    /// When it had ended by itself, withstands, or the files cannot be removed.
    pub fn end(mut self) -> Result<()> {
        let checked = self.check();
        self.clear()?;
        checked
    }

    fn clear(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            end(&mut self.child).context("the background writer")?;
        }
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.directory.display()))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            eprintln!("lab: {error:#}");
        }
    }
}

/// The command that runs this program as a writer. A scope's command keeps its process id: systemd-run(1) executes it.
fn command(lab: &Path, job: String) -> Command {
    let work: [OsString; 3] = [lab.into(), "background-writer".into(), job.into()];
    if Path::new(SYSTEMD).exists() && Path::new(CGROUP_2).exists() {
        let mut command = Command::new("systemd-run");
        command
            .args(["--scope", "--quiet", "--collect", "--"])
            .args(work);
        return command;
    }
    let mut command = Command::new(&work[0]);
    command.args(&work[1..]);
    command
}

/// Whether the drive has written enough, and as much is dirty as will be.
fn is_under_way(job: &WriterJob, written: u64) -> Result<bool> {
    let enough = match job.kind {
        Kind::Fsyncs => UNDER_WAY_FSYNCS,
        _ => UNDER_WAY,
    };
    if written < enough {
        return Ok(false);
    }
    let dirty = Dirty::read()?;
    Ok(is_full(job, &dirty))
}

/// Whether so much is dirty that the kernel slows the writer down, or all that it would ever leave dirty.
fn is_full(job: &WriterJob, dirty: &Dirty) -> bool {
    let most = match job.kind {
        Kind::Fsyncs => 0,
        _ => dirty.slows_down().min(job.bytes / 2),
    };
    // The kernel's own count goes up and down by what is being written.
    dirty.now >= most / 10 * 9
}

fn throughput(before: Mark, now: Mark) -> Throughput {
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / 1e6 / seconds.max(1e-9);
    Throughput {
        seconds,
        drive_mb_s: rate(before.drive, now.drive),
        writer_mb_s: rate(before.writer, now.writer),
    }
}

/// Bytes that a drive has written (Documentation/block/stat.rst).
fn written(drive: &str) -> Result<u64> {
    let path = format!("/sys/block/{drive}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let sectors: u64 = text
        .split_whitespace()
        .nth(6)
        .and_then(|field| field.parse().ok())
        .with_context(|| format!("cannot make sense of {path}"))?;
    Ok(sectors * 512)
}

/// Bytes that a process has handed to write(2) (`wchar` of proc_pid_io(5)).
fn handed_over(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/io");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("wchar: "))
        .and_then(|bytes| bytes.parse().ok())
        .with_context(|| format!("cannot make sense of {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_under_way_when_the_kernel_slows_it_down() {
        let mib = |mib: u64| mib << 20;
        let job = |kind, bytes| WriterJob {
            kind,
            directory: PathBuf::from("/nowhere"),
            bytes,
        };
        let dirty = |now| Dirty {
            now,
            background: mib(100),
            limit: mib(200),
        };
        let large = job(Kind::Create, mib(400));
        assert!(!is_full(&large, &dirty(mib(130))));
        assert!(is_full(&large, &dirty(mib(140))));
        // Never as much as the limits allow.
        assert!(is_full(&job(Kind::Rewrite, mib(20)), &dirty(mib(10))));
        assert!(is_full(&job(Kind::Fsyncs, mib(400)), &dirty(0)));
    }

    #[test]
    fn throughput_is_a_rate() {
        let at = Instant::now();
        let before = Mark {
            at,
            drive: 5,
            writer: 0,
        };
        let now = Mark {
            at: at + Duration::from_secs(4),
            drive: 100_000_005,
            writer: 40_000_000,
        };
        let found = throughput(before, now);
        assert_eq!(
            (found.seconds, found.drive_mb_s, found.writer_mb_s),
            (4.0, 25.0, 10.0)
        );
    }
}
