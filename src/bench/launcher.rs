//! Launching for real, and measuring it.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Rlimit};
use thiserror::Error;

use super::completion;
use super::interleave::Launcher;
use super::results::{Sample, Scenario};
use crate::drive::drop_caches;
use crate::kernel::{CompletionBlock, DRAIN_INTERVAL, Meter, TraceError};
use crate::model::{App, LaunchLimits, Profile};
use crate::prefetch::{Prefetch, PrefetchOptions};
use crate::process::{
    AppStatus, Clocks, Command, EndDetector, LaunchLook, ReadSample, Spawn, SpawnError, Stdio,
    Subreaper, Supervisor, User, thread_states,
};
use crate::profile::{Store, StoreError};

/// A launch could not be measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// Counting reads cannot be had.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The app could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The profile cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The profile has gone, or the drive does not answer.
    #[error("the profile could not be prefetched: was it removed in the middle of the benchmark?")]
    NoProfile,
    /// The launch did not end.
    #[error("the launch did not end within {} s; --timeout allows more", .0.as_secs())]
    Timeout(Duration),
    /// The app failed.
    #[error("the app ended with {0}: only launches that succeed are worth measuring")]
    Failed(String),
    /// There is nothing to time a launch by.
    #[error(
        "the profile has no completion block that a launch could be timed by: use --until exit"
    )]
    NoCompletionBlock,
    /// The app ended before it read the completion block.
    #[error(
        "the app ended without reading its completion block: its launches differ; use --until exit"
    )]
    NotCompleted,
    /// The completion block stays cached.
    #[error(
        "the completion block stays cached (another program uses it), and a warm launch cannot be \
         timed by it: use --until exit"
    )]
    NotEvicted,
    /// Prefetching was refused.
    #[error("prefetching is not possible now: {0}")]
    NoPrefetch(String),
    /// The user pressed Ctrl-C, or the like.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    /// A system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Time that an app has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);

/// What ends a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchEnd {
    /// The app's exit.
    Exit,
    /// The arrival of the completion block.
    Quiet,
}

/// What a launch that is being measured is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Exit,
    /// The completion block, by which the quiet of the learned launch is known at once.
    Completion,
    /// Quiet, or the time limit, of a launch of which no completion block is known.
    Quiet,
}

/// Launches one app over and over.
pub struct AppLauncher<'a> {
    /// What is launched.
    pub command: &'a Command,
    /// The app that it starts.
    pub app: &'a App,
    /// Where its profile is.
    pub store: &'a Store,
    /// What ends a launch.
    pub end: LaunchEnd,
    /// When a launch is over that has not ended as it should.
    pub limits: LaunchLimits,
    /// Counts what the launches read.
    pub meter: Meter,
    /// Signals to this process and the end of the app.
    pub supervisor: &'a mut Supervisor,
    /// Ends what a launch leaves running.
    pub subreaper: &'a Subreaper,
    /// The limit on open files that the app is to have, whatever ours is.
    pub open_files: Rlimit,
}

impl AppLauncher<'_> {
    fn load(&self) -> Result<Profile, BenchError> {
        self.store
            .load(self.app.key())?
            .ok_or(BenchError::NoProfile)
    }

    /// Launches once without measuring, so that first-run configuration is done and everything is
    /// cached.
    ///
    /// Unless launches end by exit, this one ends when it falls quiet, or by the time limit.
    ///
    /// # Errors
    /// As a measured launch.
    pub fn warm_up(&mut self) -> Result<(), BenchError> {
        let awaited = match self.end {
            LaunchEnd::Exit => Awaited::Exit,
            LaunchEnd::Quiet => Awaited::Quiet,
        };
        self.measured(awaited, None, |_| Ok(None)).map(drop)
    }

    /// How the app is started: in a session of its own, as the user who called us.
    pub fn spawn(&self) -> Spawn {
        Spawn {
            user: User::invoking(),
            stdio: Stdio::Null,
            new_session: true,
            open_files: Some(self.open_files),
            ..Spawn::new(self.command.clone())
        }
    }

    /// Ends whatever of the app is still running; `leader` is its first process.
    ///
    /// # Errors
    /// When a process is still there after SIGKILL.
    pub fn end_tree(&mut self, leader: Option<Pid>) -> io::Result<()> {
        self.subreaper.terminate(leader, GRACE)?;
        if self.supervisor.is_supervising() {
            self.supervisor.wait()?;
        }
        Ok(())
    }

    /// Starts the app and waits until the launch is over. `prepare` runs within the measured time: it
    /// starts the prefetch, if the scenario has one.
    fn measured(
        &mut self,
        awaited: Awaited,
        completion: Option<CompletionBlock>,
        prepare: impl FnOnce(&Self) -> Result<Option<Prefetch>, BenchError>,
    ) -> Result<Sample, BenchError> {
        self.meter.begin(completion)?;
        let mark = self.meter.start_mark();
        let mut spawn = self.spawn();
        spawn.before_exec = Some(Box::new(move || mark.set()));

        let begun = Instant::now();
        let prefetch = prepare(self)?;
        let started = self.supervisor.start(spawn)?;
        let waited = self.wait(awaited, begun);
        let seconds = begun.elapsed().as_secs_f64();
        let report = prefetch.map(Prefetch::finish);
        let counts = self.meter.finish();
        // The rest of the tree must be gone before the next launch, and is not part of this one.
        self.end_tree(Some(started.pid))?;
        waited?;
        match report {
            Some(None) => return Err(BenchError::NoProfile),
            Some(Some(report)) => {
                if let Some(why) = report.prevented() {
                    return Err(BenchError::NoPrefetch(why));
                }
            }
            None => {}
        }
        Ok(Sample {
            seconds,
            read_bytes: counts.app.bytes,
            read_requests: counts.app.requests,
            prefetch_bytes: counts.prefetch.bytes,
            prefetch_requests: counts.prefetch.requests,
        })
    }

    /// Waits until the launch is over.
    fn wait(&mut self, awaited: Awaited, begun: Instant) -> Result<(), BenchError> {
        let limit = self.limits.timeout;
        let mut end = None;
        loop {
            let left = match awaited {
                Awaited::Quiet => DRAIN_INTERVAL,
                Awaited::Exit | Awaited::Completion => limit
                    .checked_sub(begun.elapsed())
                    .ok_or(BenchError::Timeout(limit))?,
            };
            {
                let (wake, signals) = (self.meter.wake_fd(), self.supervisor.signal_fd());
                let mut fds = [
                    PollFd::new(&wake, PollFlags::IN),
                    PollFd::new(&signals, PollFlags::IN),
                ];
                let timeout = Timespec {
                    tv_sec: left.as_secs() as i64,
                    tv_nsec: left.subsec_nanos().into(),
                };
                match poll(&mut fds, Some(&timeout)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(io::Error::from(error).into()),
                }
            }
            if self.meter.completed()? && awaited == Awaited::Completion {
                return Ok(());
            }
            if awaited == Awaited::Quiet && self.is_over(&mut end)? {
                return Ok(());
            }
            let exit = self.supervisor.on_signals()?;
            if let Some(signal) = self.supervisor.asked_to_end() {
                return Err(BenchError::Interrupted(signal));
            }
            match exit {
                Some(_) if awaited == Awaited::Completion => return Err(BenchError::NotCompleted),
                Some(exit) => {
                    return match exit.status {
                        AppStatus::Code(0) => Ok(()),
                        AppStatus::Code(code) => Err(BenchError::Failed(format!("status {code}"))),
                        AppStatus::Signal(signal) => {
                            Err(BenchError::Failed(format!("signal {signal}")))
                        }
                    };
                }
                None => {}
            }
        }
    }

    /// Looks at a launch that only its reads show the end of; true if it is over. `end` is for the looks
    /// after this one.
    fn is_over(&self, end: &mut Option<EndDetector>) -> Result<bool, BenchError> {
        let now = Clocks::now();
        let (start_ns, _) = self.meter.times_ns();
        if start_ns == 0 {
            return Ok(false);
        }
        let end = end.get_or_insert_with(|| EndDetector::new(start_ns, now, self.limits));
        let look = LaunchLook {
            now,
            reads: ReadSample::Total(self.meter.requests()),
            is_prefetching: false,
            // The app's exit status matters, which the supervisor has.
            has_exited: false,
        };
        let threads = thread_states(self.subreaper.threads()?);
        Ok(end.look(look, threads).is_some())
    }
}

impl Launcher for AppLauncher<'_> {
    type Error = BenchError;

    fn launch(&mut self, scenario: Scenario) -> Result<Sample, BenchError> {
        let block = match self.end {
            LaunchEnd::Exit => None,
            LaunchEnd::Quiet => {
                let profile = self.load()?;
                Some(completion::find(&profile).ok_or(BenchError::NoCompletionBlock)?)
            }
        };
        match scenario {
            Scenario::Warm => {
                if let Some(block) = &block
                    && !block.evict()?
                {
                    return Err(BenchError::NotEvicted);
                }
            }
            Scenario::Cold | Scenario::Prefetch => drop_caches()?,
        }
        let left_out = block.as_ref().map(|block| block.span);
        let awaited = match block {
            None => Awaited::Exit,
            Some(_) => Awaited::Completion,
        };
        self.measured(awaited, block.map(|block| block.on_disk), |launcher| {
            if scenario != Scenario::Prefetch {
                return Ok(None);
            }
            let (store, app) = (launcher.store.clone(), launcher.app.clone());
            let load = move || store.load(app.key()).ok().flatten();
            let options = PrefetchOptions {
                left_out,
                ..PrefetchOptions::default()
            };
            Ok(Some(Prefetch::start(load, options)?))
        })
    }

    fn progress(&mut self, scenario: Scenario, sample: Sample, done: usize, of: usize) {
        let line = format!(
            "launch {done} of {of}: {:<8} {:.3} s",
            scenario.name(),
            sample.seconds
        );
        let mut err = io::stderr().lock();
        // On a terminal, each line replaces the one before. A failed write does not stop the benchmark.
        let _ = if err.is_terminal() {
            let end = if done == of { "\n" } else { "" };
            write!(err, "\r\x1b[K{line}{end}").and_then(|()| err.flush())
        } else {
            writeln!(err, "{line}")
        };
    }
}
