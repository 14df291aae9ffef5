//! A session: the image on a drive, a display, and one process for each job.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use paralfetch::drive::Sysfs;
use paralfetch::model::DriveCosts;
use paralfetch::process::{AppStatus, Command, Spawn, Supervisor};
use paralfetch::schedule::formula;

use super::job::Job;
use crate::apps::{self, App};
use crate::display::Display;
use crate::drive::{self, Drive, DriveProfile, Scheduler};
use crate::image::{self, Lock, MountPoint, Mounted, Workplace};
use crate::journal::Journal;
use crate::machine::{self, Awake};
use crate::namespace::private_namespace;
use crate::record::{Record, Session};
use crate::report;
use crate::scenarios::Scenario;

/// The options of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The drive.
    pub drive: DriveProfile,
    /// The I/O scheduler of the drive.
    pub scheduler: Scheduler,
    /// The image with the apps.
    pub image: PathBuf,
    /// The apps, in the order in which they are measured.
    pub apps: Vec<App>,
    /// What runs in the background where a scenario asks for it.
    pub background: Option<App>,
    /// Scenarios of each app, as [`crate::scenarios::Scenario::parse_list`] reads them; may be empty.
    pub scenarios: String,
    /// How many apps to launch at once, from the first on; each number an experiment.
    pub together: Vec<usize>,
    /// How often to learn each app in the same way, to see what lessons have in common; 0: not at all.
    pub lessons: u32,
    /// Turns.
    pub runs: u32,
    /// Launches of each round with the service on.
    pub launches: u32,
    /// Whether to watch a prefetched launch of each app, for its misses.
    pub misses: bool,
    /// Whether to check the drive against its claims first.
    pub check: bool,
    /// Longest launch, in seconds.
    pub timeout: u64,
    /// Where results go.
    pub out: PathBuf,
}

/// How a session ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything that was asked for is there.
    Complete,
    /// A signal ended it; started again, it goes on.
    Interrupted(i32),
    /// Some jobs failed; what they are was said when it happened.
    Incomplete(Vec<String>),
}

/// Performs a session. Belongs to the process's main thread, before any other is started.
///
/// # Errors
/// What prevented it from beginning or from going on.
pub fn run(asked: &SessionOptions) -> Result<Ended> {
    let mut supervisor = Supervisor::new().context("cannot take over signals")?;
    fs::create_dir_all(&asked.out)
        .with_context(|| format!("cannot make {}", asked.out.display()))?;
    let out = asked.out.canonicalize()?;
    // Before the namespace: what puts the knob back must not keep the mounts.
    let awake = Awake::set()?;
    // Everything that is mounted here goes with the last process of this namespace.
    private_namespace()?;
    let directory = asked.image.parent().unwrap_or(Path::new("/"));
    let work = Workplace::new(directory)?;
    let lock = Lock::shared(&asked.image)?;
    // Launches write: the image itself must stay as it is. Emulated drives have a copy in memory.
    let file = if asked.drive.is_emulated() {
        asked.image.clone()
    } else {
        let copy = work.path().join("image");
        eprintln!("lab: copying {}", asked.image.display());
        image::copy(&asked.image, &copy)?;
        copy
    };
    let lab = std::env::current_exe().context("cannot tell where this program is")?;
    let drive = Drive::attach(&asked.drive, &file, work.path(), &lab)?;
    // The copy is made.
    drop(lock);
    drive.set_scheduler(asked.scheduler)?;
    let costs = probe(asked, &drive)?;
    // After the drive has taken its memory, and before launches take theirs.
    awake.back_memory()?;
    let (mut journal, _) = Journal::open(&out)?;
    journal.add(&Record::Session(Session {
        costs,
        ..conditions(&drive, asked)?
    }))?;
    drop(journal);

    let point = MountPoint::new(work.path())?;
    let mounted = Mounted::mount(drive.node(), point.path())?;
    let display = Display::start()?;
    let ended = jobs(
        asked,
        &out,
        (&drive, costs),
        point.path(),
        &display,
        &lab,
        &mut supervisor,
    );
    drop(display);
    drop(mounted);
    drop(point);
    drop(drive);
    awake.restore()?;
    let ended = ended?;
    report::write(&out)?;
    Ok(ended)
}

/// What reads from the drive cost as the product measures it, if a scenario needs it.
fn probe(asked: &SessionOptions, drive: &Drive) -> Result<Option<DriveCosts>> {
    let scenarios = match asked.scenarios.as_str() {
        "" => Vec::new(),
        list => Scenario::parse_list(list)?,
    };
    if !scenarios.iter().any(|scenario| scenario.needs_costs()) {
        return Ok(None);
    }
    let probed = paralfetch::drive::probe(drive.node(), &Sysfs::default(), true, |_, _| ())
        .with_context(|| format!("probing {}", drive.node().display()))?;
    let costs = probed.into_iter().next().map(|probed| probed.costs);
    if let Some(costs) = &costs {
        eprintln!("lab: {}: {}", asked.drive.name, formula::describe(costs));
    }
    Ok(costs)
}

fn jobs(
    asked: &SessionOptions,
    out: &Path,
    (drive, costs): (&Drive, Option<DriveCosts>),
    root: &Path,
    display: &Display,
    lab: &Path,
    supervisor: &mut Supervisor,
) -> Result<Ended> {
    let job = |apps: Vec<App>, scenarios: &str| Job {
        device: asked.drive.name.clone(),
        drive: drive.name().to_owned(),
        class: asked.drive.class(),
        costs,
        emulator: drive.emulator(),
        root: root.to_owned(),
        out: out.to_owned(),
        apps,
        background: asked.background.clone(),
        scenarios: scenarios.to_owned(),
        lessons: 0,
        runs: asked.runs,
        launches: asked.launches,
        misses: asked.misses,
        timeout: asked.timeout,
    };
    let mut all = Vec::new();
    if !asked.scenarios.is_empty() {
        all.extend(
            asked
                .apps
                .iter()
                .map(|app| job(vec![app.clone()], &asked.scenarios)),
        );
    }
    for &count in &asked.together {
        let Some(apps) = asked.apps.get(..count) else {
            bail!(
                "{count} apps cannot be launched at once: {} are named",
                asked.apps.len()
            );
        };
        all.push(job(apps.to_vec(), ""));
    }
    if asked.lessons > 0 {
        all.extend(asked.apps.iter().map(|app| Job {
            lessons: asked.lessons,
            ..job(vec![app.clone()], "")
        }));
    }
    let mut failed = Vec::new();
    for (index, job) in all.iter().enumerate() {
        eprintln!(
            "lab: {} on {} ({} of {})",
            job.name(),
            job.device,
            index + 1,
            all.len()
        );
        match run_job(job, display, lab, supervisor)? {
            AppStatus::Code(0) => {}
            status => failed.push(format!("{} on {}: {status:?}", job.name(), job.device)),
        }
        if let Some(signal) = supervisor.asked_to_end() {
            return Ok(Ended::Interrupted(signal));
        }
    }
    Ok(if failed.is_empty() {
        Ended::Complete
    } else {
        Ended::Incomplete(failed)
    })
}

/// Runs a job in a process of its own, with the environment that the apps are to have.
fn run_job(
    job: &Job,
    display: &Display,
    lab: &Path,
    supervisor: &mut Supervisor,
) -> Result<AppStatus> {
    let environment = apps::environment(&job.apps, display.name());
    let mut argv: Vec<OsString> = vec!["env".into(), "-i".into()];
    argv.extend(
        environment
            .iter()
            .map(|(name, value)| format!("{name}={value}").into()),
    );
    argv.extend([lab.into(), "job".into(), serde_json::to_string(job)?.into()]);
    let command = Command::find_for(&argv, None, None)?;
    supervisor.start(Spawn::new(command))?;
    Ok(supervisor.wait()?.status)
}

/// Describes the drive, and checks it against its claims if asked for.
fn describe(drive: &Drive, asked: &SessionOptions) -> Result<String> {
    let mut words = asked.drive.title.clone();
    if asked.scheduler != Scheduler::None {
        words.push_str(&format!("; I/O scheduler {}", asked.scheduler));
    }
    if asked.check {
        eprintln!("lab: checking {} against its claims", asked.drive.name);
        for checked in drive::check(drive)? {
            words.push_str(&format!("; {checked}"));
        }
    }
    Ok(words)
}

/// Under which conditions launches are made; the drive is checked for that if it is asked for.
fn conditions(drive: &Drive, asked: &SessionOptions) -> Result<Session> {
    let queue = format!("/sys/block/{}/queue/read_ahead_kb", drive.name());
    let read_ahead = fs::read_to_string(&queue).with_context(|| format!("cannot read {queue}"))?;
    let read_ahead = read_ahead.trim().parse();
    Ok(Session {
        read_ahead_kb: read_ahead.context("read_ahead_kb is no number")?,
        ..machine::session(&asked.drive.name, describe(drive, asked)?)?
    })
}
