//! One benchmark in a process of its own, so that cgroups, priorities and the detector can have it alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::benchmark::Benchmark;
use super::latencies::Stopwatch;
use super::work;
use crate::dialogue::{self, Dialogue, READY};
use crate::record::Operation;

/// Longest preparation: some write tens of megabytes.
const PREPARATION: Duration = Duration::from_secs(300);

/// Longest time after its limit: a single call may wait for a drive that has much to write.
const PATIENCE: Duration = Duration::from_secs(600);

/// The work of a benchmark's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchmarkJob {
    /// What is measured.
    pub benchmark: Benchmark,
    /// A directory of its own on the drive.
    pub directory: PathBuf,
    /// After so many seconds it ends with the call under way.
    pub limit: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Whether the limit came before everything was done.
    pub cut: bool,
    /// Operations of the benchmark, by name.
    pub operations: Vec<Operation>,
}

impl BenchmarkJob {
    /// Prepares, says that it is ready, runs when it is told to, and says what it measured.
    ///
    /// # Errors
    /// What could not be written or run.
    pub fn run(&self) -> Result<()> {
        let mut prepared = work::prepare(self.benchmark, &self.directory)?;
        dialogue::say(READY)?;
        if dialogue::hear()?.is_none() {
            return Ok(());
        }
        let begun = Instant::now();
        let mut watch = Stopwatch::new(Duration::from_secs(self.limit));
        prepared.run(&mut watch)?;
        dialogue::say(&serde_json::to_string(&Measured {
            seconds: begun.elapsed().as_secs_f64(),
            cut: watch.was_cut(),
            operations: watch.operations(),
        })?)
    }
}

/// A benchmark that is ready; it ends, and its directory goes, when this is dropped.
#[derive(Debug)]
pub struct Running {
    // Ended before its directory is removed: see `drop`.
    child: Option<Dialogue>,
    directory: PathBuf,
    limit: Duration,
}

impl Running {
    /// Makes the directory, and starts the process, which prepares.
    ///
    /// # Errors
    /// When it cannot prepare.
    pub fn start(job: &BenchmarkJob, lab: &Path) -> Result<Self> {
        fs::create_dir_all(&job.directory)?;
        let mut running = Running {
            child: None,
            directory: job.directory.clone(),
            limit: Duration::from_secs(job.limit) + PATIENCE,
        };
        let mut command = Command::new(lab);
        command.arg("benchmark").arg(serde_json::to_string(job)?);
        let child = Dialogue::start(command, PREPARATION)
            .with_context(|| format!("cannot prepare {}", job.benchmark))?;
        running.child = Some(child);
        Ok(running)
    }

    /// Process id of the benchmark; `None` before it was started and after it ended.
    pub fn pid(&self) -> Option<Pid> {
        self.child.as_ref().map(Dialogue::pid)
    }

    /// Lets it run, and waits until it has.
    ///
    /// # Errors
    /// When it fails, or takes ten minutes longer than its limit.
    pub fn finish(&mut self) -> Result<Measured> {
        let mut child = self.child.take().context("it has run already")?;
        child.say("go")?;
        let said = child.hear(self.limit)?;
        child.end()?;
        serde_json::from_str(&said).context("a benchmark's result makes no sense")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child = None;
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("lab: cannot remove {}: {error}", self.directory.display());
        }
    }
}
