//! The microbenchmarks M1 to M5 (QASIO §6.1).

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use super::calls::{close, create, truncate, write};
use super::{ALL, Prepared};
use crate::noise::noise;
use crate::writes::latencies::Stopwatch;

/// M1, M2 and M5: a file of the same name is created, written with one call, synced and closed.
pub(super) struct Synced {
    path: PathBuf,
    bytes: Vec<u8>,
    times: u32,
}

impl Synced {
    /// 4 KiB, 500 times.
    pub(super) fn m1(directory: &Path) -> Self {
        Self::new(directory, 4 << 10, 500)
    }

    /// 1 MiB, 200 times.
    pub(super) fn m2(directory: &Path) -> Self {
        Self::new(directory, 1 << 20, 200)
    }

    /// 4 KiB, once; the other task is the writer.
    pub(super) fn m5(directory: &Path) -> Self {
        Self::new(directory, 4 << 10, 1)
    }

    fn new(directory: &Path, bytes: usize, times: u32) -> Self {
        Synced {
            path: directory.join("file"),
            bytes: noise(bytes, 1),
            times,
        }
    }
}

impl Prepared for Synced {
    fn run(&mut self, watch: &mut Stopwatch) -> Result<()> {
        for done in 0..self.times {
            if done > 0 && watch.is_over() {
                return Ok(());
            }
            let begun = Instant::now();
            let file = watch.time("creat", || create(&self.path))?;
            watch.time("write", || write(&file, &self.bytes))?;
            watch.time("fsync", || file.sync_all().context("cannot sync"))?;
            watch.time("close", || close(file))?;
            watch.note(ALL, begun.elapsed());
        }
        Ok(())
    }
}

/// M3: a new file grows by 1 KiB at a time, four writes to a page.
pub(super) struct Appended {
    path: PathBuf,
    times: u32,
}

/// Bytes of each of M3's writes.
const APPENDED: usize = 1 << 10;

impl Appended {
    /// Up to 300 MiB.
    pub(super) fn new(directory: &Path) -> Self {
        Appended {
            path: directory.join("file"),
            times: 300 << 10,
        }
    }
}

impl Prepared for Appended {
    fn run(&mut self, watch: &mut Stopwatch) -> Result<()> {
        let bytes = noise(APPENDED, 3);
        let file = watch.time("creat", || create(&self.path))?;
        for _ in 0..self.times {
            watch.time("write", || write(&file, &bytes))?;
            if watch.is_over() {
                break;
            }
        }
        watch.time("close", || close(file))
    }
}

/// M4: a file loses its content and gets it again.
pub(super) struct Truncated {
    path: PathBuf,
    bytes: Vec<u8>,
    times: u32,
}

impl Truncated {
    /// 2 MiB, 500 times; the first file is made here.
    pub(super) fn new(directory: &Path) -> Result<Self> {
        let truncated = Truncated {
            path: directory.join("file"),
            bytes: noise(2 << 20, 4),
            times: 500,
        };
        write(&create(&truncated.path)?, &truncated.bytes)?;
        Ok(truncated)
    }
}

impl Prepared for Truncated {
    fn run(&mut self, watch: &mut Stopwatch) -> Result<()> {
        for done in 0..self.times {
            if done > 0 && watch.is_over() {
                return Ok(());
            }
            let begun = Instant::now();
            watch.time("truncate", || truncate(&self.path))?;
            let file = watch.time("open", || {
                let opened = std::fs::OpenOptions::new().write(true).open(&self.path);
                opened.with_context(|| format!("cannot open {}", self.path.display()))
            })?;
            watch.time("write", || write(&file, &self.bytes))?;
            watch.time("close", || close(file))?;
            watch.note(ALL, begun.elapsed());
        }
        Ok(())
    }
}
