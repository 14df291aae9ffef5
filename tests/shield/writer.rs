//! A buffered writer, and a drive that it keeps busy.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};

/// Rewrites one file again and again, from memory. The kernel writes it back meanwhile.
pub struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Size of the file, in bytes.
const SIZE: u64 = 96 << 20;
/// What it writes at a time.
const STEP: usize = 1 << 20;

impl Writer {
    /// Begins to write below this directory. What fails once the drive has gone ends it.
    pub fn start(directory: &Path) -> Writer {
        let mut file = File::create(directory.join("written")).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = spawn(move || {
            let data = vec![7; STEP];
            let mut at = 0;
            while !stopped.load(Ordering::Relaxed) {
                let written = file
                    .seek(SeekFrom::Start(at))
                    .and_then(|_| file.write_all(&data));
                if written.is_err() || start_writeback(&file).is_err() {
                    return;
                }
                at = (at + STEP as u64) % SIZE;
            }
        });
        Writer {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Has the kernel write back what is dirty, without waiting for it.
fn start_writeback(file: &File) -> std::io::Result<()> {
    // SAFETY: the call takes a descriptor, which is open, and numbers.
    let done =
        unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    match done {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// A drive that writes slowly, as cheap flash does, by the block layer's own limit. Where there is none, the drive
/// is as fast as the machine's.
pub struct SlowDrive(Option<(PathBuf, String)>);

/// Bytes per second.
const SLOW: u64 = 40 << 20;

impl SlowDrive {
    /// Slows the device of this number ("7:0") down.
    pub fn new(device: &str) -> SlowDrive {
        let limit = Path::new("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device");
        let set = fs::write(limit, format!("{device} {SLOW}"));
        match set {
            Ok(()) => SlowDrive(Some((limit.to_owned(), device.to_owned()))),
            Err(error) => {
                eprintln!("the drive is as fast as the machine's: {error}");
                SlowDrive(None)
            }
        }
    }
}

impl Drop for SlowDrive {
    fn drop(&mut self) {
        if let Some((limit, device)) = &self.0
            && let Err(error) = fs::write(limit, format!("{device} 0"))
        {
            eprintln!("{} keeps its limit: {error}", limit.display());
        }
    }
}
