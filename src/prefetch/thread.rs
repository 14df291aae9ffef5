//! The prefetch thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use super::cached::all_cached;
use super::devices::OpenDevice;
use super::files::Files;
use super::reader::read_schedule;
use super::report::Report;
use crate::device::{Memory, Sysfs};
use crate::profile::Profile;
use crate::resolve::mounts::MountTable;
use crate::schedule::Span;

/// Name of the prefetch thread, as `ps -L` and traces show it.
pub const THREAD_NAME: &str = "pf-prefetch";

/// How a prefetch may differ from the profile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Pages that are not prefetched: the completion block, when a launch is timed by it (paper
    /// §5.1).
    pub left_out: Option<Span>,
}

/// A prefetch under way.
pub struct Prefetch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Report>,
}

impl Prefetch {
    /// Starts the thread and returns.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(profile: Profile, options: Options) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || prefetch(&profile, options, &flag))?;
        Ok(Prefetch { stop, thread })
    }

    /// Ends the prefetch if it is still under way, and says what it did. `None` if the thread
    /// panicked, of which a message has then been printed.
    pub fn finish(self) -> Option<Report> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok()
    }

    /// Waits for the end of the schedule.
    pub fn wait(self) -> Option<Report> {
        self.thread.join().ok()
    }
}

fn prefetch(profile: &Profile, options: Options, stop: &AtomicBool) -> Report {
    let started = Instant::now();
    let mut report = Report {
        scheduled: profile.entries.len() as u64,
        ..Report::default()
    };
    let bytes = profile.entries.iter().map(|entry| entry.span.bytes()).sum();
    report.refused = Memory::read().refuses(bytes);
    if report.refused.is_none() {
        match MountTable::read() {
            Ok(mounts) => {
                let sysfs = Sysfs::default();
                let devices: Vec<Option<OpenDevice>> = profile
                    .devices
                    .iter()
                    .map(|device| OpenDevice::find(device, &mounts, &sysfs))
                    .collect();
                let mut files = Files::new(profile);
                report.warm = all_cached(profile, &devices, &mut files);
                if !report.warm {
                    read_schedule(
                        profile,
                        &devices,
                        &mut files,
                        options.left_out,
                        stop,
                        started,
                        &mut report,
                    );
                }
                report.stale_files = files.stale();
                report.changed_files = files.changed();
            }
            Err(error) => report.refused = Some(format!("cannot read the mount table: {error}")),
        }
    }
    report.duration = started.elapsed();
    report
}
