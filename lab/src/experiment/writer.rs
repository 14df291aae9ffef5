//! The heavy background writer: a large file, rewritten with buffered writes (QASIO §3, scenario A).

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

/// Size of the file, in bytes.
const SIZE: u64 = 1 << 30;

/// Bytes a write.
const CHUNK: usize = 1 << 20;

/// How much the drive must have written before the writer counts as under way, in bytes.
const UNDER_WAY: u64 = 64 << 20;

/// Longest wait for that.
const PATIENCE: Duration = Duration::from_secs(60);

/// A writer at work; it ends when this is dropped.
pub struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    path: PathBuf,
}

impl Writer {
    /// Starts writing in `directory`, and returns once the drive, by its kernel name, is busy with it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn start(directory: &Path, drive: &str) -> Result<Self> {
        let path = directory.join("written-in-the-background");
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let before = written(drive)?;
        let thread = thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write(&mut file, &flag))?;
        let writer = Writer {
            stop,
            thread: Some(thread),
            path,
        };
        let begun = std::time::Instant::now();
        while written(drive)? < before + UNDER_WAY {
            if writer.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(writer
                    .end()
                    .err()
                    .unwrap_or_else(|| anyhow!("the background writer ended")));
            }
            if begun.elapsed() > PATIENCE {
                bail!(
                    "the drive has not written {} MiB within a minute",
                    UNDER_WAY >> 20
                );
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(writer)
    }

    /// Stops writing and removes the file.
    ///
    /// # Errors
    /// When a write failed.
    pub fn end(mut self) -> Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let done = thread
            .join()
            .map_err(|_| anyhow!("the background writer panicked"))?;
        std::fs::remove_file(&self.path)?;
        done.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("lab: {error:#}");
        }
    }
}

fn write(file: &mut File, stop: &AtomicBool) -> std::io::Result<()> {
    let chunk = vec![0x5a; CHUNK];
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) {
        if at >= SIZE {
            at = 0;
            file.seek(SeekFrom::Start(0))?;
        }
        file.write_all(&chunk)?;
        at += CHUNK as u64;
    }
    Ok(())
}

/// Bytes that a drive has written (Documentation/block/stat.rst).
fn written(drive: &str) -> Result<u64> {
    let path = format!("/sys/block/{drive}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let sectors: u64 = text
        .split_whitespace()
        .nth(6)
        .and_then(|field| field.parse().ok())
        .with_context(|| format!("cannot make sense of {path}"))?;
    Ok(sectors * 512)
}
