//! Attaching a drive: the emulator's process, its file, and the loop device over it.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::control::{OK, Overhead, Pace};
use super::loopdev::LoopDevice;
use super::profile::DriveProfile;
use super::server::FILE;
use super::sysfs::{self, Scheduler};

/// How long the emulator may take to end once nothing uses its file, before it is killed.
const PATIENCE: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// The delay at which the overhead is measured: as long as a flash read.
const CALIBRATION: Duration = Duration::from_micros(150);

/// Reads of each size from which the overhead is the median.
const CALIBRATION_READS: usize = 500;

/// Sizes of the reads, in bytes.
const SMALL: usize = 4096;
const LARGE: usize = 128 << 10;

/// A drive that can be used: a block device, and what is behind it. Dropping it detaches everything;
/// unmount first what is mounted from it. Everything vanishes also when this process is killed.
#[derive(Debug)]
pub struct Drive {
    profile: DriveProfile,
    // In this order: the emulator ends by itself when the device lets go of its file.
    device: LoopDevice,
    emulator: Option<Emulator>,
}

impl Drive {
    /// A drive with the content of `image`. An emulated one never writes to the image; the host's own
    /// does. `work` is a directory for the session's files; `lab` is the program whose subcommand
    /// `flashsim` emulates.
    ///
    /// The emulator is killed when the calling *thread* ends (PR_SET_PDEATHSIG): attach from one that
    /// stays.
    pub fn attach(profile: &DriveProfile, image: &Path, work: &Path, lab: &Path) -> Result<Drive> {
        let (device, emulator) = if profile.is_emulated() {
            let place = tempfile::tempdir_in(work)
                .with_context(|| format!("a directory in {}", work.display()))?;
            let emulator = Emulator::start(profile, image, place.path(), lab)
                .with_context(|| format!("starting the emulator of '{}'", profile.name))?;
            (emulator.attach(place.path())?, Some(emulator))
        } else {
            (LoopDevice::attach(&open_file(image)?)?, None)
        };
        let drive = Drive {
            profile: profile.clone(),
            device,
            emulator,
        };
        sysfs::describe(drive.name(), profile)?;
        if let Some(emulator) = &drive.emulator {
            emulator.calibrate(drive.node())?;
        }
        Ok(drive)
    }

    /// The block device, such as `/dev/loop3`.
    pub fn node(&self) -> &Path {
        self.device.node()
    }

    /// The block device's name, such as `loop3`.
    pub fn name(&self) -> &str {
        let name = self.node().file_name().and_then(|name| name.to_str());
        name.unwrap_or_default()
    }

    /// The emulator's process id; `None` if the drive is not emulated.
    pub fn emulator(&self) -> Option<u32> {
        self.emulator.as_ref().map(|emulator| emulator.child.id())
    }

    /// Has the kernel schedule the drive's requests so, with the queue that it gives to such a drive. A
    /// drive is attached without a scheduler. The choice goes with the loop device.
    ///
    /// # Errors
    /// When the kernel does not have it, or does not keep the depth of the queue.
    pub fn set_scheduler(&self, scheduler: Scheduler) -> Result<()> {
        sysfs::schedule(self.name(), &self.profile, scheduler)
            .with_context(|| format!("choosing the I/O scheduler {scheduler}"))
    }

    /// What the drive is meant to be.
    pub fn profile(&self) -> &DriveProfile {
        &self.profile
    }

    /// The time that a request to an emulated drive spends on its way in any case, measured when it was
    /// attached; what the model computes is shortened by it.
    pub fn overhead(&self) -> Option<Overhead> {
        let emulator = self.emulator.as_ref()?;
        Some(emulator.pipes().overhead)
    }

    /// Runs `work`, whose requests are of this size in bytes, while the emulator has each take `latency`, overhead
    /// included, whatever the model would say.
    pub(super) fn with_latency<T>(
        &self,
        latency: Duration,
        bytes: u64,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(emulator) = &self.emulator else {
            return work();
        };
        let overhead = Duration::from_nanos(emulator.pipes().overhead.of(bytes));
        let delay = latency.saturating_sub(overhead);
        emulator.tell(Pace::Fixed(delay.as_nanos() as u64))?;
        let result = work();
        emulator.tell(emulator.model_pace())?;
        result
    }
}

/// The emulator's process.
#[derive(Debug)]
struct Emulator {
    child: Child,
    pipes: Mutex<Pipes>,
}

#[derive(Debug)]
struct Pipes {
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    overhead: Overhead,
}

impl Emulator {
    /// Returns when it serves its file.
    fn start(profile: &DriveProfile, image: &Path, place: &Path, lab: &Path) -> Result<Emulator> {
        let mut child = Command::new(lab)
            .arg("flashsim")
            .args([image, place])
            .arg(serde_json::to_string(profile).context("the profile as JSON")?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C at the terminal is for the session, which still needs its drive to unmount.
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", lab.display()))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (commands, answers) = pipes.context("pipes to the emulator")?;
        let emulator = Emulator {
            child,
            pipes: Mutex::new(Pipes {
                commands,
                answers: BufReader::new(answers),
                overhead: Overhead::default(),
            }),
        };
        emulator.pipes().await_ok()?;
        Ok(emulator)
    }

    /// A loop device over its file. Then the mount goes: the device keeps the file system alive, and
    /// nothing is left in the mount table whatever becomes of us.
    fn attach(&self, place: &Path) -> Result<LoopDevice> {
        let device = open_file(&place.join(FILE)).and_then(|file| LoopDevice::attach(&file));
        unmount(place, UnmountFlags::DETACH)
            .with_context(|| format!("unmounting {}", place.display()))?;
        device
    }

    fn pipes(&self) -> std::sync::MutexGuard<'_, Pipes> {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, pace: Pace) -> Result<()> {
        let mut pipes = self.pipes();
        writeln!(pipes.commands, "{pace}").context("telling the emulator: did it end?")?;
        pipes.await_ok()
    }

    fn model_pace(&self) -> Pace {
        Pace::Model(self.pipes().overhead)
    }

    /// Measures the overhead, and lets the model begin.
    fn calibrate(&self, node: &Path) -> Result<()> {
        self.tell(Pace::Fixed(CALIBRATION.as_nanos() as u64))?;
        let beyond = |bytes| -> Result<u64> {
            let latency = median_read(node, bytes)?.saturating_sub(CALIBRATION);
            Ok(latency.as_nanos() as u64)
        };
        // Idle processors learn how long to poll before they halt: the first reads are for that.
        beyond(SMALL)?;
        let (small, large) = (beyond(SMALL)?, beyond(LARGE)?);
        self.pipes().overhead = Overhead {
            request: small,
            page: large.saturating_sub(small) / (LARGE / SMALL - 1) as u64,
        };
        self.tell(self.model_pace())
    }
}

impl Pipes {
    fn await_ok(&mut self) -> Result<()> {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .context("listening to the emulator")?;
        ensure!(
            line.trim_end() == OK,
            "the emulator ended: see its message above"
        );
        Ok(())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // The device has let go of the file: that ends the file system, and so the process.
        if !self.ends_by_itself()
            && let Err(error) = self.child.kill()
        {
            eprintln!("lab: killing the emulator: {error}");
        }
        if let Err(error) = self.child.wait() {
            eprintln!("lab: waiting for the emulator's end: {error}");
        }
    }
}

impl Emulator {
    fn ends_by_itself(&self) -> bool {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let Some(Ok(process)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
            return false;
        };
        let mut polled = [PollFd::new(&process, PollFlags::IN)];
        poll(&mut polled, Some(&PATIENCE)).is_ok_and(|ready| ready > 0)
    }
}

fn open_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .with_context(|| format!("opening {}", path.display()))
}

/// The median latency of reads of so many bytes at random places, one after another, past the page cache.
fn median_read(node: &Path, bytes: usize) -> Result<Duration> {
    let device = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(node)
        .with_context(|| format!("opening {}", node.display()))?;
    let places = rustix::fs::seek(&device, rustix::fs::SeekFrom::End(0))? / bytes as u64;
    ensure!(places > 0, "{} is too small for a drive", node.display());
    let mut memory = vec![0; bytes + 4096];
    let aligned = memory.as_ptr().align_offset(4096);
    let buffer = &mut memory[aligned..aligned + bytes];
    let mut latencies = Vec::with_capacity(CALIBRATION_READS);
    for index in 0..CALIBRATION_READS as u64 {
        // As good as random for this: no two near each other.
        let place = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % places;
        let start = Instant::now();
        device
            .read_exact_at(buffer, place * bytes as u64)
            .with_context(|| format!("reading {}", node.display()))?;
        latencies.push(start.elapsed());
    }
    latencies.sort_unstable();
    Ok(latencies[CALIBRATION_READS / 2])
}
