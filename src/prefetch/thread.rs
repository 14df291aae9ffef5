//! The prefetch thread.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use super::cached::is_warm;
use super::devices::OpenDevice;
use super::free_room::{FreeRoom, NoRoom};
use super::headroom::Headroom;
use super::operations::ScheduledOperations;
use super::reader::{Requests, ScheduleEnd, ScheduleReader};
use super::sys::{raise_io_priority, take_idle_priority, thread_use};
use super::threads::{HelpingThreads, ThreadNotice};
use crate::drive::{Elevators, HeldKnobs, Memory, MemoryLimits, Sysfs, VmCounters, total_memory};
use crate::fs::kind::FsKind;
use crate::fs::mounts::MountTable;
use crate::fs::present::{present_devices, unclear};
use crate::model::{DriveClass, PrefetchReport, Profile, Skipped, Span};
use crate::process::limited_reads;

/// Name of the prefetch thread, as `ps -L` and traces show it.
pub const THREAD_NAME: &str = "pf-prefetch";

/// The name of a thread that reads before a launch.
const BEFORE_LAUNCH_NAME: &str = "pf-warm-up";

/// Threads that carry operations out: with twice as many, they take a tenth less time at best.
const OPERATION_THREADS: usize = 8;

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
    /// Called by each thread that helps the prefetch thread. It is dropped when all of them have ended.
    pub helping: Option<ThreadNotice>,
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
type Room<'a> = Box<dyn FnMut(u64) -> Option<ScheduleEnd> + Send + 'a>;

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

    /// As [`Prefetch::start`]; the thread calls `done` in the end, after the report is available.
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
            let Some(profile) = load() else {
                return done();
            };
            prefetch(&profile, options, started, &flag, |report| {
                // The receiver is gone if `finish` timed out.
                let _ = send.send(report);
                done();
            });
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

/// Carries the schedule out, and tells the report before it waits for threads that were given up.
fn prefetch(
    profile: &Profile,
    options: PrefetchOptions,
    started: Instant,
    stop: &AtomicBool,
    tell: impl FnOnce(PrefetchReport),
) {
    let tell = |report| {
        tell(PrefetchReport {
            scheduled: profile.entries.len() as u64,
            duration: started.elapsed(),
            ..report
        });
    };
    let bytes = profile.entries.iter().map(|entry| entry.span.bytes()).sum();
    let favouring_nobody: Mutex<Option<HeldKnobs>> = Mutex::new(None);
    let favour = || {
        let favouring = favouring_nobody.lock();
        favouring.unwrap_or_else(PoisonError::into_inner)
    };
    let look = || {
        // Should it fail, the keeper is gone, and the end of the prefetch restores the elevator.
        let _ = favour().as_ref().map(HeldKnobs::renew);
        Memory::read()
    };
    let used = thread_use();
    let own_bytes = || thread_use().read_bytes_since(&used);
    let allowed = room(&options, bytes, look, own_bytes)
        .and_then(|room| Ok((room, mounts_if_allowed(&options)?)))
        .and_then(|allowed| take_priority(&options).map(|()| allowed));
    let (room, mounts) = match allowed {
        Ok(allowed) => allowed,
        Err(why) => {
            return tell(PrefetchReport {
                refused: Some(why),
                ..PrefetchReport::default()
            });
        }
    };
    let sysfs = Sysfs::default();
    let present = present_devices(profile, &mounts);
    let opened = present.iter().map(|presence| match &options.before_launch {
        Some(before) => OpenDevice::open_awake(presence, &mounts, &sysfs, &before.asleep),
        None => OpenDevice::open(presence, &mounts, &sysfs),
    });
    let devices: Vec<Result<OpenDevice, Skipped>> = opened.collect();
    let requests = Requests {
        one_by_one: options.before_launch.is_some(),
        ..Requests::new(options.left_out, stop)
    };
    let reader = ScheduleReader::new(profile, &devices, requests, room);
    let warm = is_warm(profile, &devices, &reader.files);
    if !warm && let Some(elevators) = &options.elevators {
        *favour() = favour_nobody(elevators, profile, &devices);
    }
    let tell = |done: StepsDone| {
        // Restores the elevators.
        drop(favour().take());
        tell(PrefetchReport {
            warm,
            unclear: unclear(&present, &mounts),
            read_bytes: own_bytes(),
            ..report(&reader, done, started)
        });
        reader.files.close_unused();
    };
    if warm {
        tell(StepsDone::default());
    } else if options.before_launch.is_some() {
        do_steps_alone(profile, &reader, tell);
    } else {
        do_steps(profile, &reader, options.helping.as_ref(), tell);
    }
}

/// The room that a schedule of so many bytes has: `look` reads how memory is, and `own_bytes` what drives have read for this
/// thread.
///
/// # Errors
/// Why there is none.
fn room<'a>(
    options: &PrefetchOptions,
    bytes: u64,
    look: impl FnMut() -> Memory + Send + 'a,
    own_bytes: impl Fn() -> u64 + Send + 'a,
) -> Result<Room<'a>, String> {
    let Some(before) = &options.before_launch else {
        let mut headroom = Headroom::new(bytes, options.memory, look)?;
        return Ok(Box::new(move |bytes| {
            headroom.read(bytes).map(ScheduleEnd::MemoryShort)
        }));
    };
    let mut room = FreeRoom::new(before.budget, total_memory(), VmCounters::read)?;
    Ok(Box::new(move |_| {
        room.read(own_bytes()).map(|end| match end {
            NoRoom::Full(why) => ScheduleEnd::MemoryShort(why),
            NoRoom::Disturbed(why) => ScheduleEnd::Disturbed(why),
        })
    }))
}

/// Before launches, the thread reads behind everybody else; at one, before the others.
///
/// # Errors
/// When it cannot read behind others. A launch's prefetch at the ordinary priority is only slower.
fn take_priority(options: &PrefetchOptions) -> Result<(), String> {
    match options.before_launch {
        Some(_) => take_idle_priority().map_err(|error| format!("no idle priority: {error}")),
        None => {
            let _ = raise_io_priority();
            Ok(())
        }
    }
}

/// The mounts, unless the I/O limits of the launched process's cgroup forbid to read ahead.
///
/// # Errors
/// Why nothing is to be read.
fn mounts_if_allowed(options: &PrefetchOptions) -> Result<MountTable, String> {
    let mounts =
        MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
    let limited = options.launched.and_then(|pid| limited_reads(&mounts, pid));
    match limited {
        Some(cgroup) => Err(format!(
            "the I/O of its cgroup {} is limited (io.max), and reading ahead would not keep to that",
            cgroup.display()
        )),
        None => Ok(mounts),
    }
}

/// What was done beside reading entries.
#[derive(Default)]
struct StepsDone {
    /// Operations carried out.
    operations: u64,
    /// Threads that were given up.
    given_up: u64,
}

/// Has the steps of the schedule done by as many threads as it asks for; `tell` is called when all are done, or the rest
/// is given up.
fn do_steps<R: FnMut(u64) -> Option<ScheduleEnd> + Send>(
    profile: &Profile,
    reader: &ScheduleReader<'_, R>,
    notice: Option<&ThreadNotice>,
    tell: impl FnOnce(StepsDone),
) {
    let readers = page_threads(reader.devices);
    if profile.operations.is_empty() && readers == 1 {
        reader.read();
        return tell(StepsDone::default());
    }
    let operations =
        ScheduledOperations::new(&profile.operations, reader.devices, reader.requests.stop);
    let threads = HelpingThreads::default();
    let askers = OPERATION_THREADS.min(profile.operations.len());
    let work = |number| match number < askers {
        true => operations.carry_out(|| reader.is_cut_short()),
        false => reader.read(),
    };
    thread::scope(|scope| {
        threads.start(scope, askers + readers - 1, notice, work);
        reader.read();
        let is_over = || reader.is_cut_short();
        let given_up = threads.wait(|| operations.taken() + reader.taken(), is_over);
        // Those that were given up go no further if they come back.
        operations.give_up();
        reader.give_up();
        tell(StepsDone {
            operations: operations.done(),
            given_up: given_up as u64,
        });
    });
}

/// Carries out all steps in this thread, the operations first. While it waits for one, nothing else of it is in the
/// drive.
fn do_steps_alone<R: FnMut(u64) -> Option<ScheduleEnd>>(
    profile: &Profile,
    reader: &ScheduleReader<'_, R>,
    tell: impl FnOnce(StepsDone),
) {
    let operations =
        ScheduledOperations::new(&profile.operations, reader.devices, reader.requests.stop);
    operations.carry_out(|| reader.is_cut_short());
    reader.read();
    tell(StepsDone {
        operations: operations.done(),
        given_up: 0,
    });
}

/// How many threads read pages ahead: one, unless a file system of the profile gains from several.
fn page_threads(devices: &[Result<OpenDevice, Skipped>]) -> usize {
    let kinds = devices.iter().flatten();
    let kinds = kinds.filter_map(|device| device.mount.mount.kind());
    kinds.map(FsKind::page_threads).max().unwrap_or(1)
}

/// The report of what was done since the prefetch thread has started.
fn report<R: FnMut(u64) -> Option<ScheduleEnd>>(
    reader: &ScheduleReader<'_, R>,
    done: StepsDone,
    started: Instant,
) -> PrefetchReport {
    let (end, mut report) = reader.end();
    match end {
        ScheduleEnd::Complete => {}
        ScheduleEnd::Stopped => report.cut_short = true,
        ScheduleEnd::MemoryShort(why) => report.ran_short = Some(why),
        ScheduleEnd::Disturbed(why) => report.disturbed = Some(why),
        ScheduleEnd::OpensDelayed(delay) => report.slow_opens = Some(delay),
    }
    let devices = reader.devices.iter();
    let numbers = devices.map(|device| Some(device.as_ref().ok()?.dev));
    report.devices = numbers.collect();
    report.operations = done.operations;
    report.given_up = done.given_up;
    report.stale_files = reader.files.stale();
    report.changed_files = reader.files.changed();
    report.calls = reader.requests.calls.load(Ordering::Relaxed);
    report.until_first = reader.requests.first.get().map(|first| *first - started);
    report
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
        helping: None,
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
        let mut told = None;
        prefetch(&unmounted(), ANY_MEMORY, Instant::now(), &stop, |report| {
            told = Some(report);
        });
        let report = told.unwrap();
        assert!(report.cut_short, "{report:?}");
        assert!(report.skipped.is_empty());
    }
}
