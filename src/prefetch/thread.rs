//! The prefetch thread.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::cached::is_warm;
use super::devices::OpenDevice;
use super::files::Files;
use super::free_room::{FreeRoom, NoRoom};
use super::headroom::Headroom;
use super::reader::{Requests, ScheduleEnd, ScheduleReader};
use super::sys::{raise_io_priority, take_idle_priority, thread_use};
use crate::drive::{Elevators, HeldKnobs, Memory, MemoryLimits, Sysfs, VmCounters};
use crate::fs::mounts::MountTable;
use crate::fs::present::{present_devices, unclear};
use crate::model::{DriveClass, PrefetchReport, Profile, Skipped, Span};
use crate::process::limited_reads;

/// Name of the prefetch thread, as `ps -L` and traces show it.
pub const THREAD_NAME: &str = "pf-prefetch";

/// The same of one that reads before a launch.
const BEFORE_LAUNCH_NAME: &str = "pf-warm-up";

/// How long [`Prefetch::finish`] waits for the thread after asking it to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Options of a prefetch.
#[derive(Clone, Default)]
pub struct PrefetchOptions {
    /// Pages that are not prefetched: the completion block of a launch that is timed by it (paper §5.1).
    pub left_out: Option<Span>,
    /// How much memory it may fill.
    pub memory: MemoryLimits,
    /// The elevators of disks, which are to favour nobody meanwhile.
    pub elevators: Option<Arc<Elevators>>,
    /// The process that is launched, if the I/O limits of its cgroup are to hold: where it has any, the thread reads nothing.
    pub launched: Option<i32>,
    /// If no launch has begun, and nobody waits.
    pub before_launch: Option<BeforeLaunch>,
}

/// Reading ahead before a launch: behind everybody else, one small request after the other, only what is not cached, and
/// only into memory that is free.
#[derive(Clone, Debug, Default)]
pub struct BeforeLaunch {
    /// Bytes that may be read.
    pub budget: u64,
    /// Drives, whole disks encoded as `st_rdev`, that may be asleep: they are left alone.
    pub asleep: Vec<u64>,
}

/// What ends a schedule in the middle, told how many bytes of it were read ahead.
type Room<'a> = Box<dyn FnMut(u64) -> Option<ScheduleEnd> + 'a>;

/// A prefetch under way.
pub struct Prefetch {
    stop: Arc<AtomicBool>,
    report: Receiver<PrefetchReport>,
}

impl Prefetch {
    /// Starts the thread and returns. The thread calls `load` for the profile, so that the app does not
    /// wait for that either. If `load` returns `None`, which it reports itself, nothing is prefetched.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub fn start(
        load: impl FnOnce() -> Option<Profile> + Send + 'static,
        options: PrefetchOptions,
    ) -> io::Result<Self> {
        Self::start_then(load, options, || ())
    }

    /// As [`Prefetch::start`]; the thread calls `done` when it ends, after the report is available.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub fn start_then(
        load: impl FnOnce() -> Option<Profile> + Send + 'static,
        options: PrefetchOptions,
        done: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let (send, report) = sync_channel(1);
        // Never joined: a drive or a file system may block the thread for any time.
        let name = match options.before_launch {
            Some(_) => BEFORE_LAUNCH_NAME,
            None => THREAD_NAME,
        };
        Builder::new().name(name.to_owned()).spawn(move || {
            let started = Instant::now();
            if let Some(profile) = load() {
                // The receiver is gone if `finish` timed out.
                let _ = send.send(prefetch(&profile, options, started, &flag));
            }
            done();
        })?;
        Ok(Prefetch { stop, report })
    }

    /// The report, if the prefetch has ended by now.
    pub fn poll(&self) -> Option<PrefetchReport> {
        self.report.try_recv().ok()
    }

    /// Asks the thread to end soon.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the prefetch if it is still under way and returns its report. `None` if there was no profile,
    /// if the thread does not end within a second because the drive does not answer, or if it panicked,
    /// which prints a message.
    pub fn finish(self) -> Option<PrefetchReport> {
        self.stop();
        self.report.recv_timeout(PATIENCE).ok()
    }

    /// Waits up to `limit` for the end of the schedule, then ends the prefetch as [`Prefetch::finish`] does.
    pub fn finish_within(self, limit: Duration) -> Option<PrefetchReport> {
        match self.report.recv_timeout(limit) {
            Ok(report) => Some(report),
            Err(RecvTimeoutError::Timeout) => self.finish(),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }
}

fn prefetch(
    profile: &Profile,
    options: PrefetchOptions,
    started: Instant,
    stop: &AtomicBool,
) -> PrefetchReport {
    let report = read_ahead(profile, options, started, stop);
    let mut report = report.unwrap_or_else(|why| PrefetchReport {
        refused: Some(why),
        ..PrefetchReport::default()
    });
    report.scheduled = profile.entries.len() as u64;
    report.duration = started.elapsed();
    report
}

/// Reads the schedule ahead. The error says why the state of the system does not allow it.
fn read_ahead(
    profile: &Profile,
    options: PrefetchOptions,
    started: Instant,
    stop: &AtomicBool,
) -> Result<PrefetchReport, String> {
    let bytes = profile.entries.iter().map(|entry| entry.span.bytes()).sum();
    let favouring_nobody = OnceCell::new();
    let look = || {
        // Should it fail, the keeper is gone, and the end of the prefetch restores the elevator.
        let _ = favouring_nobody.get().map(HeldKnobs::renew);
        Memory::read()
    };
    let used = thread_use();
    let own_bytes = || thread_use().read_bytes_since(&used);
    let before_launch = options.before_launch.as_ref();
    let room: Room<'_> = match before_launch {
        Some(before) => {
            let mut room = FreeRoom::new(before.budget, total_memory(), VmCounters::read)?;
            Box::new(move |_| {
                room.read(own_bytes()).map(|end| match end {
                    NoRoom::Full(why) => ScheduleEnd::MemoryShort(why),
                    NoRoom::Disturbed(why) => ScheduleEnd::Disturbed(why),
                })
            })
        }
        None => {
            let mut headroom = Headroom::new(bytes, options.memory, look)?;
            Box::new(move |bytes| headroom.read(bytes).map(ScheduleEnd::MemoryShort))
        }
    };
    let mounts =
        MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
    let limited = options.launched.and_then(|pid| limited_reads(&mounts, pid));
    if let Some(cgroup) = limited {
        return Err(format!(
            "the I/O of its cgroup {} is limited (io.max), and reading ahead would not keep to that",
            cgroup.display()
        ));
    }
    let sysfs = Sysfs::default();
    let present = present_devices(profile, &mounts);
    let devices: Vec<Result<OpenDevice, Skipped>> = present
        .iter()
        .map(|presence| match before_launch {
            Some(before) => OpenDevice::open_awake(presence, &mounts, &sysfs, &before.asleep),
            None => OpenDevice::open(presence, &mounts, &sysfs),
        })
        .collect();
    match before_launch {
        Some(_) => take_idle_priority().map_err(|error| format!("no idle priority: {error}"))?,
        // A prefetch at the ordinary priority is only slower.
        None => drop(raise_io_priority()),
    }
    let mut reader = ScheduleReader {
        devices: &devices,
        files: Files::new(profile),
        requests: Requests {
            one_by_one: before_launch.is_some(),
            ..Requests::new(options.left_out, stop)
        },
        room,
        report: PrefetchReport::default(),
    };
    let warm = is_warm(profile, &devices, &mut reader.files);
    let end = match warm {
        true => ScheduleEnd::Complete,
        false => {
            if let Some(held) = options
                .elevators
                .and_then(|elevators| favour_nobody(&elevators, profile, &devices))
            {
                let _ = favouring_nobody.set(held);
            }
            reader.read(profile)
        }
    };
    let mut report = reader.report;
    report.warm = warm;
    report.unclear = unclear(&present, &mounts);
    match end {
        ScheduleEnd::Complete => {}
        ScheduleEnd::Stopped => report.cut_short = true,
        ScheduleEnd::MemoryShort(why) => report.ran_short = Some(why),
        ScheduleEnd::Disturbed(why) => report.disturbed = Some(why),
        ScheduleEnd::OpensDelayed(delay) => report.slow_opens = Some(delay),
    }
    let numbers = devices.iter().map(|device| Some(device.as_ref().ok()?.dev));
    report.devices = numbers.collect();
    report.stale_files = reader.files.stale();
    report.changed_files = reader.files.changed();
    report.calls = reader.requests.calls;
    report.read_bytes = own_bytes();
    report.until_first = reader.requests.first.map(|first| first - started);
    Ok(report)
}

/// The system's memory, in bytes.
fn total_memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}

/// Has the elevators of the profile's disks with heads favour nobody. Without that, the prefetch is only slower.
fn favour_nobody(
    elevators: &Elevators,
    profile: &Profile,
    devices: &[Result<OpenDevice, Skipped>],
) -> Option<HeldKnobs> {
    let disks = profile.devices.iter().zip(devices);
    let disks = disks.filter(|(device, _)| device.class == DriveClass::Rotational);
    let below = disks.filter_map(|(_, open)| Some(open.as_ref().ok()?.below));
    let held = elevators.favour_nobody(below);
    held.unwrap_or_else(|error| {
        tracing::warn!("the elevator stays as it is: {error}");
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::generate::sample;

    /// Prefetches under any memory pressure.
    const ANY_MEMORY: PrefetchOptions = PrefetchOptions {
        left_out: None,
        memory: MemoryLimits {
            available_percent: 100,
            pressure_percent: 100.0,
        },
        elevators: None,
        launched: None,
        before_launch: None,
    };

    /// A schedule whose device is not mounted anywhere.
    fn unmounted() -> Profile {
        let mut profile = sample("/usr/bin/app");
        for device in &mut profile.devices {
            device.fs_uuid = *b"not mounted here";
        }
        profile
    }

    // Must also run in release builds: rustc 1.95 once optimised the flag to constant true.
    #[test]
    fn a_prefetch_that_reaches_the_end_of_its_schedule_is_not_cut_short() {
        let profile = unmounted();
        let scheduled = profile.entries.len() as u64;
        let prefetch = Prefetch::start(move || Some(profile), ANY_MEMORY).unwrap();
        let report = prefetch.finish_within(Duration::from_secs(60)).unwrap();
        assert_eq!(report.scheduled, scheduled);
        assert_eq!(report.skipped[&Skipped::DeviceGone].entries, scheduled);
        assert!(!report.cut_short, "{report:?}");
        assert_eq!(report.ran_short, None);
    }

    #[test]
    fn a_prefetch_that_is_stopped_is_cut_short() {
        let stop = AtomicBool::new(true);
        let report = prefetch(&unmounted(), ANY_MEMORY, Instant::now(), &stop);
        assert!(report.cut_short, "{report:?}");
        assert!(report.skipped.is_empty());
    }
}
