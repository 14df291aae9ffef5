//! Launching for real, and measuring it.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Rlimit};
use serde::Serialize;

use super::completion;
use super::results::{Results, Sample, Scenario};
use crate::drive::drop_caches;
use crate::kernel::{CompletionBlock, DRAIN_INTERVAL, Meter};
use crate::learn::own_elevators;
use crate::model::{App, LaunchLimits};
use crate::prefetch::{Prefetch, PrefetchOptions};
use crate::process::{
    AppStatus, Clocks, Command, EndDetector, LaunchLook, ReadSample, Spawn, Stdio, Subreaper,
    Supervisor, User, thread_states,
};
use crate::profile::Store;

/// A launch could not be measured.
#[derive(Debug)]
pub enum BenchError {
    /// The user pressed Ctrl-C, or the like: the signal.
    Interrupted(i32),
    /// Why, in one line.
    Failed(String),
}

impl<E: std::error::Error> From<E> for BenchError {
    fn from(error: E) -> Self {
        BenchError::Failed(error.to_string())
    }
}

fn failed<T>(why: impl Into<String>) -> Result<T, BenchError> {
    Err(BenchError::Failed(why.into()))
}

const NO_PROFILE: &str =
    "the profile could not be prefetched: was it removed in the middle of the benchmark?";

/// Time that an app has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);

/// What ends a measured launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchEnd {
    /// The app's exit
    #[default]
    Exit,
    /// The arrival of the completion block, the last that the app read before its disk fell quiet;
    /// the app is then ended
    Quiet,
}

/// A launch that was measured, and how far the benchmark is.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredLaunch {
    /// What was launched.
    pub scenario: Scenario,
    /// How long it took.
    pub seconds: f64,
    /// Launches so far.
    pub done: usize,
    /// Launches in all.
    pub of: usize,
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
    /// Whether what the app prints is left on standard error; otherwise nobody sees it.
    pub shows_output: bool,
    /// The exit status of the first launch that ended by itself, which the others are to end with, too.
    pub usual_status: Option<i32>,
    /// Says one line.
    pub tell: fn(&str),
}

impl AppLauncher<'_> {
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
            stdio: match self.shows_output {
                true => Stdio::OnError,
                false => Stdio::Null,
            },
            new_session: true,
            open_files: Some(self.open_files),
            ..Spawn::new(self.command.clone())
        }
    }

    /// Ends the processes of the app that still run; `leader` is its first.
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
        let started = match (self.supervisor.start(spawn), self.supervisor.asked_to_end()) {
            // Between two launches, too.
            (Err(_), Some(signal)) => return Err(BenchError::Interrupted(signal)),
            (started, _) => started?,
        };
        let waited = self.wait(awaited, begun);
        let seconds = begun.elapsed().as_secs_f64();
        let report = prefetch.map(Prefetch::finish);
        let counts = self.meter.finish();
        // The rest of the tree must be gone before the next launch, and is not part of this one.
        self.end_tree(Some(started.pid))?;
        waited?;
        match &report {
            Some(None) => return failed(NO_PROFILE),
            Some(Some(report)) => {
                if let Some(why) = report.prevented() {
                    return failed(format!("prefetching is not possible now: {why}"));
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
            slow_opens: report.flatten().and_then(|report| report.slow_opens),
        })
    }

    /// Waits until the launch is over.
    fn wait(&mut self, awaited: Awaited, begun: Instant) -> Result<(), BenchError> {
        let limit = self.limits.timeout;
        let mut end = None;
        loop {
            let left = match (awaited, limit.checked_sub(begun.elapsed())) {
                (Awaited::Quiet, _) => DRAIN_INTERVAL,
                (_, Some(left)) => left,
                (_, None) => {
                    let seconds = limit.as_secs();
                    return failed(match awaited {
                        Awaited::Exit => format!(
                            "the app did not end within {seconds} s: --until quiet measures apps that stay open, and \
                             --timeout allows more"
                        ),
                        Awaited::Completion | Awaited::Quiet => format!(
                            "the launch did not read its completion block within {seconds} s: launches of this app \
                             differ. Learn again (paralfetch learn), or allow more by --timeout"
                        ),
                    });
                }
            };
            wait_for_event([self.meter.wake_fd(), self.supervisor.signal_fd()], left)?;
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
            let Some(exit) = exit else {
                continue;
            };
            if awaited == Awaited::Completion {
                return failed(
                    "the app ended without reading its completion block: its launches differ; use \
                     --until exit",
                );
            }
            let hint = match self.shows_output {
                true => "",
                false => "; --verbose shows what it prints",
            };
            let usual = match awaited {
                Awaited::Exit => self.usual_status,
                // An app that is to stay open should not end at all.
                Awaited::Completion | Awaited::Quiet => Some(0),
            };
            let status = check_status(exit.status, usual);
            let status = status.map_err(|why| BenchError::Failed(format!("{why}{hint}")))?;
            if self.usual_status.is_none() && status != 0 {
                (self.tell)(&format!(
                    "the app ends with status {status}: launches that do are measured all the same{hint}"
                ));
            }
            self.usual_status = Some(status);
            return Ok(());
        }
    }

    /// Whether a launch is over whose end only its reads show. `end` is kept from call to call.
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

    /// Launches each scenario `runs` times, in turns, so that a drift of the machine affects all alike, and
    /// adds what it measures to `results`. `tell` is called after each launch.
    ///
    /// # Errors
    /// The first launch that could not be measured; `results` has those before.
    pub fn measure(
        &mut self,
        scenarios: &[Scenario],
        runs: usize,
        results: &mut Results,
        mut tell: impl FnMut(MeasuredLaunch),
    ) -> Result<(), BenchError> {
        let order = turn(scenarios).repeat(runs);
        for (done, &scenario) in (1..).zip(&order) {
            let sample = self.launch(scenario)?;
            results.push(scenario, sample);
            tell(MeasuredLaunch {
                scenario,
                seconds: sample.seconds,
                done,
                of: order.len(),
            });
        }
        Ok(())
    }

    /// Brings the caches into the scenario's state, launches once, and measures.
    fn launch(&mut self, scenario: Scenario) -> Result<Sample, BenchError> {
        let profile = match (self.end, scenario) {
            (LaunchEnd::Exit, Scenario::Cold | Scenario::Warm) => None,
            _ => self.store.load(self.app.key())?,
        };
        let block = match self.end {
            LaunchEnd::Exit => None,
            LaunchEnd::Quiet => {
                let Some(profile) = &profile else {
                    return failed(NO_PROFILE);
                };
                let block = completion::find(profile);
                if block.is_none() {
                    return failed(
                        "the profile has no completion block that a launch could be timed by: use \
                         --until exit",
                    );
                }
                block
            }
        };
        match scenario {
            Scenario::Warm => {
                if let Some(block) = &block
                    && !block.evict()?
                {
                    return failed(
                        "the completion block stays cached (another program uses it), and a warm \
                         launch cannot be timed by it: use --until exit",
                    );
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
                elevators: own_elevators(),
                ..PrefetchOptions::default()
            };
            let prefetch = Prefetch::start(load, options)?;
            Ok(Some(prefetch))
        })
    }
}

/// The exit status of a launch that may be measured: the usual one of this app, or any of a first launch. Many apps exit with
/// the same status, not zero, however well they have done; one that differs has done something else.
fn check_status(status: AppStatus, usual: Option<i32>) -> Result<i32, String> {
    let ended = match status {
        AppStatus::Code(code) if usual.is_none_or(|usual| usual == code) => return Ok(code),
        AppStatus::Code(code) => format!("status {code}"),
        AppStatus::Signal(signal) => format!("signal {signal}"),
    };
    let why = match usual {
        None | Some(0) => "only launches that succeed are worth measuring".to_owned(),
        Some(usual) => {
            format!("the first launch ended with status {usual}, and only like launches compare")
        }
    };
    Err(format!("the app ended with {ended}: {why}"))
}

/// The scenarios in the order in which they take turns: cold first, and warm last, after a launch of the
/// same app.
fn turn(scenarios: &[Scenario]) -> Vec<Scenario> {
    let mut order = scenarios.to_vec();
    order.sort();
    order.dedup();
    order
}

/// Waits until one of these is readable, or a signal arrives, or time is up.
fn wait_for_event(events: [BorrowedFd<'_>; 2], left: Duration) -> io::Result<()> {
    let mut fds = events.map(|event| PollFd::from_borrowed_fd(event, PollFlags::IN));
    let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_take_turns_cold_first_and_warm_last() {
        use Scenario::{Cold, Prefetch, Warm};
        assert_eq!(turn(&[Warm, Cold, Prefetch, Cold]), [Cold, Prefetch, Warm]);
    }

    #[test]
    fn launches_are_measured_that_end_as_the_first_did_and_no_others() {
        use AppStatus::{Code, Signal};
        for (status, usual, measured) in [
            (Code(0), None, Ok(0)),
            (Code(3), None, Ok(3)),
            (Code(3), Some(3), Ok(3)),
            (
                Code(3),
                Some(0),
                Err("status 3: only launches that succeed"),
            ),
            (
                Code(0),
                Some(3),
                Err("status 0: the first launch ended with status 3"),
            ),
            (Signal(9), None, Err("signal 9: only launches that succeed")),
            (Signal(3), Some(3), Err("signal 3: the first")),
        ] {
            let found = check_status(status, usual);
            let is_right = match (&found, measured) {
                (Err(why), Err(part)) => why.contains(part),
                (found, measured) => *found == measured.map_err(str::to_owned),
            };
            assert!(is_right, "{status:?}, {usual:?}: {found:?}");
        }
    }
}
