//! Measuring a drive with fio(1).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Requests of one kind and size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// `randread`, `read`, `randwrite` or `write`, as fio names them.
    pub rw: &'static str,
    /// Size of each request in KiB.
    pub block_kib: u32,
    /// Requests in flight.
    pub depth: u32,
}

/// How long a load goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Seconds before it is measured.
    pub ramp: u32,
    /// Seconds at most.
    pub seconds: u32,
    /// Bytes at most; `None`: as many as these seconds allow.
    pub bytes: Option<u64>,
}

impl Load {
    /// Whether it changes the drive's content.
    pub(super) fn writes(&self) -> bool {
        self.rw.ends_with("write")
    }
}

/// The rate that fio measured.
#[derive(Deserialize)]
pub(super) struct Rate {
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bw_bytes: f64,
    /// Requests.
    pub total_ios: f64,
    /// Bytes.
    pub io_bytes: f64,
}

/// Puts the load on a block device, past the page cache. A load that writes destroys what is there.
///
/// # Errors
/// When fio cannot be started or fails.
pub(super) fn run(node: &Path, load: Load, extent: Extent) -> Result<Rate> {
    let mut fio = Command::new("fio");
    fio.arg(format!("--filename={}", node.display()))
        .arg(format!("--rw={}", load.rw))
        .arg(format!("--bs={}k", load.block_kib))
        .arg(format!("--iodepth={}", load.depth))
        .arg(format!("--runtime={}", extent.seconds))
        .arg(format!("--ramp_time={}", extent.ramp))
        .args(["--name=check", "--ioengine=libaio"])
        .args(["--direct=1", "--norandommap"])
        .arg("--output-format=json");
    match extent.bytes {
        Some(bytes) => fio.arg(format!("--io_size={bytes}")),
        None => fio.arg("--time_based"),
    };
    if !load.writes() {
        fio.arg("--readonly");
    }
    let output = fio.output().context("starting fio (Debian package fio)")?;
    ensure!(
        output.status.success(),
        "fio failed on {}: {}",
        node.display(),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    parse_fio(&output.stdout, load.writes())
}

fn parse_fio(json: &[u8], writes: bool) -> Result<Rate> {
    #[derive(Deserialize)]
    struct Job {
        read: Rate,
        write: Rate,
    }
    #[derive(Deserialize)]
    struct Report {
        jobs: Vec<Job>,
    }
    // Warnings may stand before the report.
    let start = json.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let report: Report = serde_json::from_slice(&json[start..]).context("fio's JSON output")?;
    let job = report.jobs.into_iter().next();
    let job = job.context("fio's JSON output has no job")?;
    Ok(if writes { job.write } else { job.read })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_reads_or_of_writes() {
        let rate =
            |iops| format!("{{\"iops\":{iops},\"bw_bytes\":1,\"total_ios\":2,\"io_bytes\":3}}");
        let report = format!(
            "note: x\n{{\"jobs\":[{{\"read\":{},\"write\":{}}}]}}",
            rate(5.5),
            rate(7.0)
        );
        assert_eq!(parse_fio(report.as_bytes(), false).unwrap().iops, 5.5);
        assert_eq!(parse_fio(report.as_bytes(), true).unwrap().iops, 7.0);
        assert!(parse_fio(b"{\"jobs\":[]}", true).is_err());
    }
}
