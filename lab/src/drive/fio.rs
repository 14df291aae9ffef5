//! Measuring a drive's reads with fio(1).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Seconds of each measurement.
const RUNTIME: u32 = 2;

/// A read load.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadLoad {
    /// `randread` or `read`, as fio names them.
    pub rw: &'static str,
    /// Size of each request in KiB.
    pub block_kib: u32,
    /// Requests in flight.
    pub depth: u32,
}

/// The rate of reads that fio measured.
#[derive(Deserialize)]
pub(super) struct ReadRate {
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bw_bytes: f64,
    /// Requests.
    pub total_ios: f64,
}

/// Reads from a block device for 2 s, past the page cache.
///
/// # Errors
/// When fio cannot be started or fails.
pub(super) fn run(node: &Path, load: ReadLoad) -> Result<ReadRate> {
    let output = Command::new("fio")
        .arg(format!("--filename={}", node.display()))
        .arg(format!("--rw={}", load.rw))
        .arg(format!("--bs={}k", load.block_kib))
        .arg(format!("--iodepth={}", load.depth))
        .arg(format!("--runtime={RUNTIME}"))
        .args(["--name=check", "--readonly", "--ioengine=libaio"])
        .args(["--direct=1", "--time_based", "--norandommap"])
        .arg("--output-format=json")
        .output()
        .context("starting fio (Debian package fio)")?;
    ensure!(
        output.status.success(),
        "fio failed on {}: {}",
        node.display(),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    parse_fio(&output.stdout)
}

fn parse_fio(json: &[u8]) -> Result<ReadRate> {
    #[derive(Deserialize)]
    struct Job {
        read: ReadRate,
    }
    #[derive(Deserialize)]
    struct Report {
        jobs: Vec<Job>,
    }
    // Warnings may stand before the report.
    let start = json.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let report: Report = serde_json::from_slice(&json[start..]).context("fio's JSON output")?;
    let job = report.jobs.into_iter().next();
    Ok(job.context("fio's JSON output has no job")?.read)
}
