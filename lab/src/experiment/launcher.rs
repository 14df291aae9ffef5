//! One launch: started, watched until it is over, ended.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use paralfetch::bench::completion::FoundCompletion;
use paralfetch::drive::{checkpoint_journal, drop_caches};
use paralfetch::kernel::{DeviceReads, Meter, Metered, StartMark};
use paralfetch::model::PrefetchReport;
use paralfetch::process::{Command, Spawn, Stdio, Subreaper, Supervisor};
use rustix::process::{Pid, Rlimit};

use super::disturbance::Counters;
use super::effort::EffortMeter;
use super::live::LiveLearning;
use super::one_processor::OneProcessor;
use super::service::Service;
use super::wait::Wait;
use crate::apps::SessionBus;
use crate::clock::monotonic_ns;
use crate::display::Watch;
use crate::methods::{Plan, Running};
use crate::processes::{CpuTime, cpu_of, cpu_of_descendants};
use crate::record::Effort;
use crate::writes::shielding::ShieldProcess;

/// Time that an app has to comply when it is asked to end.
const GRACE: Duration = Duration::from_secs(2);

/// Performs launches, one after the other. Belongs to the process's main thread.
pub struct Launcher {
    /// Signals to this process and the end of the app.
    pub supervisor: Supervisor,
    /// Ends what a launch leaves running.
    pub subreaper: Subreaper,
    /// The limit on open files that apps are to have.
    pub open_files: Rlimit,
    /// Where the image is mounted.
    pub root: PathBuf,
    /// Kernel name of the drive that it is on.
    pub drive: String,
    /// Longest duration of a launch.
    pub timeout: Duration,
    /// Children that are no part of a launch: what writes beside it, and the shield.
    pub aside: Vec<Pid>,
}

/// The app to launch, and the events that end its launch.
pub struct Request<'a> {
    /// The command, in the image.
    pub command: &'a Command,
    /// The windows that must be mapped; empty for a program that ends by exit.
    pub windows: Vec<Watch>,
    /// The completion block, if launches are timed by one.
    pub completion: Option<&'a FoundCompletion>,
    /// The plans to prefetch.
    pub plans: &'a [&'a Plan],
    /// The session bus that the app is started with; it ends with the launch.
    pub bus: Option<SessionBus>,
    /// Who else is notified of the execve.
    pub mark: Option<StartMark>,
    /// What learns the launch live meanwhile; told by `mark`, too.
    pub live: Option<LiveLearning>,
    /// The service that sees the launch by itself. The app runs on until it has written that down.
    pub service: Option<&'a mut Service>,
    /// The shield that learns of the launch.
    pub shield: Option<&'a mut ShieldProcess>,
    /// The app and its prefetchers share a processor.
    pub one_processor: bool,
    /// Everything is cached, so that prefetchers find nothing to do.
    pub warm: bool,
}

impl<'a> Request<'a> {
    /// A launch that nobody prefetches or watches and that nothing times.
    pub fn of(command: &'a Command) -> Request<'a> {
        Request {
            command,
            windows: Vec::new(),
            completion: None,
            plans: &[],
            bus: None,
            mark: None,
            live: None,
            service: None,
            shield: None,
            one_processor: false,
            warm: false,
        }
    }
}

/// The measurements of a launch. Times are in seconds from the start of prefetching, or of the app
/// without a prefetcher.
#[derive(Clone, Debug, Default)]
pub struct MeasuredLaunch {
    /// The last of the main windows was mapped.
    pub window: Option<f64>,
    /// The completion block arrived.
    pub completion: Option<f64>,
    /// The app exited by itself.
    pub exit: Option<f64>,
    /// Reads of the app and of the prefetcher.
    pub reads: Metered,
    /// Processor time of the launch tree.
    pub cpu: CpuTime,
    /// Processor time and context switches, also of its prefetchers; `None` where the kernel does not tell.
    pub effort: Option<Effort>,
    /// What each of the plans did, as far as it is known.
    pub prefetched: Vec<Option<PrefetchReport>>,
    /// When the launch was over, CLOCK_MONOTONIC in nanoseconds.
    pub over_ns: u64,
    /// The system's counters at the start.
    pub before: Counters,
    /// The counters at the end, before the app was ended: that may read, too.
    pub after: Counters,
}

/// The user, or the system, wants the session to end.
#[derive(Debug, thiserror::Error)]
#[error("interrupted by signal {0}")]
pub struct Interrupted(pub i32);

impl Launcher {
    /// A launcher for apps in the image at `root`.
    ///
    /// # Errors
    /// When signals or orphans cannot be taken over.
    pub fn new(root: &Path, drive: &str, timeout: Duration) -> Result<Self> {
        let supervisor = Supervisor::new().context("cannot take over signals")?;
        let subreaper = Subreaper::new().context("cannot become a subreaper")?;
        Ok(Launcher {
            supervisor,
            subreaper,
            open_files: paralfetch::prefetch::raise_open_files(),
            root: root.to_owned(),
            drive: drive.to_owned(),
            timeout,
            aside: Vec::new(),
        })
    }

    /// Finds a program in the image.
    ///
    /// # Errors
    /// When it is not there.
    pub fn find(&self, argv: &[String]) -> Result<Command> {
        let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
        Command::find_for(&argv, Some(&self.root), None).with_context(|| {
            format!(
                "cannot launch {}: was the image built with it?",
                argv[0].to_string_lossy()
            )
        })
    }

    /// How apps are started.
    pub fn spawn(&self, command: &Command) -> Spawn {
        Spawn {
            stdio: Stdio::Null,
            new_session: true,
            open_files: Some(self.open_files),
            ..Spawn::new(command.clone())
        }
    }

    /// Empties every cache of the image's file system.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn empty_caches(&self) -> Result<()> {
        let root = File::open(&self.root)?;
        checkpoint_journal(root.as_fd()).context("cannot write the journal back")?;
        drop_caches()?;
        Ok(())
    }

    /// Launches and measures; when this returns, nothing of the launch runs any more.
    ///
    /// # Errors
    /// When the app cannot be started, ends before its launch is over, or takes too long;
    /// [`Interrupted`].
    pub fn launch(&mut self, request: Request<'_>) -> Result<MeasuredLaunch> {
        let block = request.completion.map(|found| found.on_disk);
        let mut meter = Meter::load()?;
        meter.begin(block)?;
        if let Some(service) = &request.service {
            meter.count_prefetcher(service.pidfd().as_fd())?;
        }
        if let Some(bus) = &request.bus {
            meter.count_started_by(bus.pidfd())?;
        }
        let mark = meter.start_mark();
        let mut spawn = self.spawn(request.command);
        let other = request.mark;
        spawn.before_exec = Some(Box::new(move || {
            mark.set();
            if let Some(other) = &other {
                other.set();
            }
        }));

        let service = request.service.as_ref().map(|service| service.pid());
        let aside: Vec<Pid> = service.iter().chain(&self.aside).copied().collect();
        let cpu_before = cpu_without(&aside)?;
        let before = Counters::now(&self.drive)?;
        let mut effort = EffortMeter::begin()?;
        let one_processor = match request.one_processor {
            true => Some(OneProcessor::begin()?),
            false => None,
        };
        let begun = monotonic_ns();
        let running = self.prefetch(request.plans)?;
        if let Some(effort) = &mut effort {
            effort.app_starts()?;
        }
        let started = self.supervisor.start(spawn)?;
        drop(one_processor);
        if let Some(shield) = request.shield {
            shield.launch()?;
        }
        let mut wait = Wait {
            windows: request
                .windows
                .into_iter()
                .map(|watch| (watch, None))
                .collect(),
            needs_completion: block.is_some(),
            begun,
            exit: None,
            live: request.live,
        };
        let waited = wait.until_over(&mut meter, &mut self.supervisor, self.timeout);
        let over_ns = monotonic_ns();
        let cpu = wait.exit.map_or_else(
            || Ok(cpu_without(&aside)? - cpu_before),
            |(_, exit)| {
                anyhow::Ok(CpuTime {
                    user: exit.usage.user.as_secs_f64(),
                    system: exit.usage.system.as_secs_f64(),
                })
            },
        )?;
        let effort = effort.map(|effort| effort.so_far(cpu)).transpose()?;
        let finish = |running| finish(running, request.warm);
        let prefetched: Result<Vec<_>> = running.into_iter().map(finish).collect();
        let (_, completed_ns) = meter.times_ns();
        let reads = meter.finish();
        let after = Counters::now(&self.drive)?;
        let learned = wait.live.take().map_or(Ok(()), LiveLearning::finish);
        let written = match request.service {
            Some(service) if waited.is_ok() => service.until_written(),
            _ => Ok(()),
        };
        self.end_tree(Some(started.pid))?;
        waited?;
        learned?;
        written?;
        let since = |ns: u64| ns.saturating_sub(begun) as f64 / 1e9;
        Ok(MeasuredLaunch {
            window: wait.window_ns().map(since),
            completion: (completed_ns > 0).then(|| since(completed_ns)),
            exit: wait.exit.map(|(ns, _)| since(ns)),
            reads,
            cpu,
            effort,
            prefetched: prefetched?,
            over_ns,
            before,
            after,
        })
    }

    /// Starts plans, and waits for the end of those for which the app is held.
    fn prefetch(&self, plans: &[&Plan]) -> Result<Vec<Running>> {
        let start = |plan: &&Plan| Running::start(plan, &self.root);
        let mut running: Vec<Running> = plans.iter().map(start).collect::<Result<_>>()?;
        for (prefetch, plan) in running.iter_mut().zip(plans) {
            if plan.method.held() {
                prefetch.hold()?;
            }
        }
        Ok(running)
    }

    /// Prefetches without launching anything; [`MeasuredLaunch::exit`] is when the last read had arrived.
    ///
    /// # Errors
    /// When prefetching cannot be started.
    pub fn prefetch_only(&self, plan: &Plan) -> Result<MeasuredLaunch> {
        let before = Counters::now(&self.drive)?;
        let mut running = Running::start(plan, &self.root)?;
        let seconds = running.hold()?.as_secs_f64();
        finish(running, false)?;
        let after = Counters::now(&self.drive)?;
        let bytes = after.read.saturating_sub(before.read);
        Ok(MeasuredLaunch {
            exit: Some(seconds),
            reads: Metered {
                prefetch: DeviceReads {
                    requests: after.requests.saturating_sub(before.requests),
                    bytes,
                },
                ..Metered::default()
            },
            before,
            after,
            ..MeasuredLaunch::default()
        })
    }

    /// Ends whatever of the app is still running; `leader` is its first process.
    ///
    /// # Errors
    /// When something withstands; [`Interrupted`].
    pub fn end_tree(&mut self, leader: Option<Pid>) -> Result<()> {
        self.subreaper.terminate(leader, GRACE)?;
        if self.supervisor.is_supervising() {
            self.supervisor.wait()?;
        }
        match self.supervisor.asked_to_end() {
            Some(signal) => Err(Interrupted(signal).into()),
            None => Ok(()),
        }
    }
}

/// Processor time of all processes that descend from us but these, which are no part of a
/// launch. An app in the background descends from us, too: only its use during the launch is counted.
fn cpu_without(aside: &[Pid]) -> Result<CpuTime> {
    let mut rest = cpu_of_descendants()?;
    for pid in aside {
        rest = rest - cpu_of(pid.as_raw_nonzero().get().unsigned_abs())?;
    }
    Ok(rest)
}

/// Ends a prefetch. One that prefetched nothing would make a cold launch under another name, unless the launch is meant
/// to be `warm`.
fn finish(running: Running, warm: bool) -> Result<Option<PrefetchReport>> {
    let Some(report) = running.finish()? else {
        return Ok(None);
    };
    if report.warm && !warm {
        bail!("the caches were not empty: nothing was prefetched");
    }
    match report.prevented() {
        Some(why) => bail!("nothing was prefetched: {why}"),
        None => Ok(Some(report)),
    }
}
