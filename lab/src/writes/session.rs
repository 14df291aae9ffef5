//! A session of `lab writes`: an empty file system on a drive, and one run after the other.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use paralfetch::drive::{checkpoint_journal, total_memory};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::background::Background;
use super::benchmark::Benchmark;
use super::dirty::{self, Dirty};
use super::measures::{InForce, Measure, Target, waited};
use super::plan::{self, Task};
use super::run::{BenchmarkJob, Running};
use super::tables;
use super::writer::{Kind, WriterJob};
use crate::drive::{Drive, DriveProfile, Scheduler};
use crate::image::{MountPoint, Workplace};
use crate::journal::Journal;
use crate::machine::{self, Awake, now};
use crate::namespace::private_namespace;
use crate::record::{Record, Session, Written};

/// A backlog that has become smaller by less than one part of so many in [`WritesOptions::settle`] has settled.
const SETTLED: u64 = 40;
/// Longest wait for that.
const LONGEST_SETTLING: Duration = Duration::from_secs(300);

/// Room on the drive for the benchmarks, in bytes.
const ROOM: u64 = 2 << 30;

/// The options of a session.
#[derive(Clone, Debug)]
pub struct WritesOptions {
    /// The drive.
    pub drive: DriveProfile,
    /// The I/O scheduler of the drive.
    pub scheduler: Scheduler,
    /// What is measured, in this order.
    pub benchmarks: Vec<Benchmark>,
    /// What writes meanwhile.
    pub writer: Kind,
    /// Bytes of its file; `None`: by memory and dirty limits.
    pub writer_bytes: Option<u64>,
    /// What is done against waits, in this order.
    pub measures: Vec<Measure>,
    /// Turns.
    pub runs: u32,
    /// After so many seconds a benchmark ends with the call under way.
    pub limit: u64,
    /// How long the writer's backlog is watched for having settled before a benchmark, and the writer after it: what
    /// was held back for the benchmark's sake is written then.
    pub settle: Duration,
    /// Whether to see who waits in every run.
    pub waits: bool,
    /// Directory of images and of the session's own files.
    pub image_dir: PathBuf,
    /// Where results go; `None`: nowhere but to standard output.
    pub out: Option<PathBuf>,
    /// Whether records go to standard output, a line each, and not tables.
    pub json: bool,
}

/// Performs a session. Belongs to a process without other threads.
///
/// # Errors
/// What prevented it from beginning or from going on.
pub fn run(asked: &WritesOptions) -> Result<()> {
    let mut journal = None;
    let mut records = Vec::new();
    if let Some(out) = &asked.out {
        fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
        let (opened, found) = Journal::open(out)?;
        journal = Some(opened);
        records = found;
    }
    let mut done: Vec<Written> = records.into_iter().filter_map(written).collect();
    done.retain(|record| is_of(record, asked));
    let tasks = plan::tasks(&asked.benchmarks, asked.writer, &asked.measures, asked.runs);
    let missing = plan::missing(tasks, &done.iter().collect::<Vec<_>>());
    if !missing.is_empty() {
        measure(asked, &missing, &mut done, journal.as_mut())?;
    }
    if !asked.json {
        print!("{}", tables::page(&done));
    }
    Ok(())
}

fn written(record: Record) -> Option<Written> {
    match record {
        Record::Written(written) => Some(written),
        _ => None,
    }
}

/// Whether a record is of this drive and scheduler.
fn is_of(record: &Written, asked: &WritesOptions) -> bool {
    record.device == asked.drive.name && record.scheduler == asked.scheduler.name()
}

fn measure(
    asked: &WritesOptions,
    tasks: &[Task],
    done: &mut Vec<Written>,
    mut journal: Option<&mut Journal>,
) -> Result<()> {
    let awake = Awake::set()?;
    private_namespace()?;
    fs::create_dir_all(&asked.image_dir)?;
    let work = Workplace::new(&asked.image_dir)?;
    let lab = std::env::current_exe().context("cannot tell where this program is")?;
    let dirty = Dirty::read()?;
    let bytes = asked
        .writer_bytes
        .unwrap_or_else(|| dirty::file_size(&dirty, total_memory()));
    // Half as much again: blocks are free only once the journal says so.
    let drive = empty_drive(asked, bytes + bytes / 2 + ROOM, work.path(), &lab)?;
    let point = MountPoint::new(work.path())?;
    let place = Place::mount(&drive, point.path())?;
    let session = conditions(asked, bytes, &dirty)?;
    if let Some(journal) = &mut journal {
        journal.add(&Record::Session(session))?;
    }
    let site = Site {
        asked,
        root: point.path(),
        drive: drive.name(),
        target: Target {
            dev: fs::metadata(point.path())?.dev(),
            class: asked.drive.class(),
        },
        bytes,
        lab: &lab,
    };
    for (index, task) in tasks.iter().enumerate() {
        let record = site.perform(task)?;
        eprintln!(
            "lab: {} of {}: {}",
            index + 1,
            tasks.len(),
            tables::line(&record)
        );
        let line = Record::Written(record.clone());
        if asked.json {
            println!("{}", serde_json::to_string(&line)?);
        }
        if let Some(journal) = &mut journal {
            journal.add(&line)?;
        }
        done.push(record);
    }
    drop(place);
    drop(point);
    drop(drive);
    awake.restore()
}

/// A drive of so many bytes with an empty file system, over an image in `work`.
fn empty_drive(asked: &WritesOptions, bytes: u64, work: &Path, lab: &Path) -> Result<Drive> {
    let image = work.join("writes");
    File::create(&image)
        .and_then(|file| file.set_len(bytes))
        .with_context(|| format!("cannot make {}", image.display()))?;
    make_file_system(&image)?;
    let drive = Drive::attach(&asked.drive, &image, work, lab)?;
    drive.set_scheduler(asked.scheduler)?;
    Ok(drive)
}

/// Makes an empty ext4 whose tables are written now, and not by a thread of the kernel later.
fn make_file_system(image: &Path) -> Result<()> {
    let status = Command::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-i", "65536"])
        .args(["-E", "lazy_itable_init=0,lazy_journal_init=0"])
        .arg(image)
        .status()
        .context("cannot run mke2fs(8)")?;
    if !status.success() {
        bail!("mke2fs(8): {status}");
    }
    Ok(())
}

fn conditions(asked: &WritesOptions, bytes: u64, dirty: &Dirty) -> Result<Session> {
    let mib = |bytes: u64| bytes >> 20;
    let drive = format!(
        "{}; I/O scheduler {}; files of the writer {} MiB, background writes from {} MiB dirty, writers wait at {} MiB",
        asked.drive.title,
        asked.scheduler,
        mib(bytes),
        mib(dirty.background),
        mib(dirty.limit),
    );
    machine::session(&asked.drive.name, drive)
}

/// The mounted file system; unmounted when this is dropped.
struct Place(PathBuf);

impl Place {
    fn mount(drive: &Drive, at: &Path) -> Result<Self> {
        mount(drive.node(), at, "ext4", MountFlags::empty(), None)
            .with_context(|| format!("cannot mount {}", drive.node().display()))?;
        Ok(Place(at.to_owned()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if unmount(&self.0, UnmountFlags::empty()).is_ok() {
            return;
        }
        // A busy mount goes away with its last user.
        if let Err(error) = unmount(&self.0, UnmountFlags::DETACH) {
            eprintln!("lab: cannot unmount {}: {error}", self.0.display());
        }
    }
}

/// Where runs are made.
struct Site<'a> {
    asked: &'a WritesOptions,
    root: &'a Path,
    drive: &'a str,
    target: Target,
    bytes: u64,
    lab: &'a Path,
}

impl Site<'_> {
    fn perform(&self, task: &Task) -> Result<Written> {
        let what = || format!("{} with {}", task.benchmark, task.measure);
        let mut running = Running::start(&self.job(task), self.lab)?;
        // What preparing has written is not to be waited for.
        self.write_back()?;
        let mut writer = task.writer.map(|kind| self.writer(kind)).transpose()?;
        let root = running.pid().context("it has ended")?;
        let in_force = InForce::start(task.measure, self.asked.waits, root, self.target, self.lab)?;
        if writer.is_some() {
            let_backlog_settle(self.asked.settle)?;
        }
        let started = now();
        let mark = writer.as_mut().map(Background::mark).transpose()?;
        let measured = running.finish().with_context(what)?;
        let throughput = match (&mut writer, mark) {
            (Some(writer), Some(mark)) => {
                std::thread::sleep(self.asked.settle);
                Some(writer.since(mark)?)
            }
            _ => None,
        };
        let ended = in_force.end().with_context(what)?;
        writer.map(Background::end).transpose()?;
        drop(running);
        self.write_back()?;
        let seen = ended.seen.unwrap_or_default();
        for missing in &seen.missing {
            eprintln!("lab: the detector: {missing}");
        }
        Ok(Written {
            device: self.asked.drive.name.clone(),
            scheduler: self.asked.scheduler.name().to_owned(),
            benchmark: task.benchmark.name().to_owned(),
            writer: task.writer.map(|kind| kind.name().to_owned()),
            measure: task.measure.name().to_owned(),
            turn: task.turn,
            started,
            seconds: measured.seconds,
            cut: measured.cut,
            operations: measured.operations,
            throughput,
            waits: waited(&seen.totals),
            lost_waits: seen.lost,
            done: ended.done,
        })
    }

    fn job(&self, task: &Task) -> BenchmarkJob {
        BenchmarkJob {
            benchmark: task.benchmark,
            directory: self.root.join("benchmark"),
            limit: self.asked.limit,
        }
    }

    fn writer(&self, kind: Kind) -> Result<Background> {
        let job = WriterJob {
            kind,
            directory: self.root.join("writer"),
            bytes: self.bytes,
        };
        Background::start(&job, self.drive, self.lab)
    }

    /// Has everything written.
    fn write_back(&self) -> Result<()> {
        let root = File::open(self.root)?;
        checkpoint_journal(root.as_fd()).context("cannot write the journal back")
    }
}

/// Waits until no less becomes dirty any more: a measure that limits the writer does so after some time, in which the
/// drive writes what there is. What is compared are writers that have been at it for long.
fn let_backlog_settle(time: Duration) -> Result<()> {
    let begun = Instant::now();
    let mut before = Dirty::read()?.now;
    while begun.elapsed() < LONGEST_SETTLING {
        std::thread::sleep(time);
        let now = Dirty::read()?.now;
        if now >= before - before / SETTLED {
            break;
        }
        before = now;
    }
    Ok(())
}
